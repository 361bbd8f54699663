"""How much an artefact grows with its list, in things that can be counted: states, edges and bytes."""

from pathlib import Path

import pytest

from tests.vocab.toys import can_spell, matcher_of, toy_tokenizer, word_list
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton import product
from vocab.automaton.automaton import TokenAutomaton, compile_automaton
from vocab.errors import CompileError
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text import spelled_forms, text_automaton

TOKENIZER = toy_tokenizer(
    piece for word in load_word_list("es", None).words[:3000] for piece in (word, " " + word, word[-3:])
)
"""10,000 tokens, most of them whole words, and many endings."""


def compiled(words: WordList) -> TokenAutomaton:
    return compile_automaton(words, ListOptions(), TOKENIZER)


@pytest.mark.parametrize("num_words", [10, 10_000, 100_000])
def test_states_edges_and_bytes_grow_with_the_words_and_no_faster(num_words: int, tmp_path: Path) -> None:
    automaton = compiled(load_word_list("es", None).up_to(num_words))
    num_states, num_edges = len(automaton.edges.links), len(automaton.edges.tokens)
    assert num_states < 500 + 9 * num_words
    assert num_edges < 50_000 + 65 * num_words
    num_bytes = ArtefactFolder(tmp_path).save(automaton).stat().st_size
    # Four bytes for each of an edge's three numbers, and for each of a state's eight or so.
    assert num_bytes < 20_000 + 12 * num_edges + 50 * num_states


def test_a_prefix_that_all_words_share_is_kept_once() -> None:
    words = load_word_list("es", None).words[:10_000]
    plain, prefixed = compiled(word_list(words)), compiled(word_list(["z" * 1000 + word for word in words]))
    assert len(prefixed.edges.links) < len(plain.edges.links) + 5_000
    assert len(prefixed.edges.tokens) < len(plain.edges.tokens) + 5_000
    assert can_spell(matcher_of(prefixed, 1), TOKENIZER, "z" * 1000 + words[0])


def test_a_list_with_too_many_beginnings_is_refused_before_its_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_automaton, "MAX_NODES", 20_000)
    assert compiled(load_word_list("es", None).up_to(1000))
    with pytest.raises(CompileError, match="more than 20000 different beginnings"):
        compiled(load_word_list("es", None).up_to(20_000))


def test_a_list_with_too_many_edges_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "MAX_EDGES", 100_000)
    with pytest.raises(CompileError, match="more than 100000 token edges"):
        compiled(load_word_list("es", None).up_to(20_000))


def test_a_list_of_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelled_forms, "MAX_BYTES", 5_000)
    with pytest.raises(CompileError, match="more than 5000 bytes"):
        compiled(load_word_list("es", None).up_to(1000))


def test_the_same_list_gives_the_same_file(tmp_path: Path) -> None:
    words = WordList("fr", (*load_word_list("fr", None).words[:2000], "l'un", "pomme de terre"), "file")
    first, second = (ArtefactFolder(tmp_path / name).save(compiled(words)).read_bytes() for name in ("first", "second"))
    assert first == second
