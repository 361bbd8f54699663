"""The EBNF, read by xgrammar, allows exactly what the slow recogniser allows."""

import re
from dataclasses import dataclass
from functools import cache

import pytest
import xgrammar
from hypothesis import given
from hypothesis import strategies as st

from tests.changed_worlds import ALL_WORLDS
from tests.choices import PLAIN, TELLING_CHOICES, Choice, choice_id, choices
from tests.recogniser import Case, End, Layout, Punctuation, Recogniser
from tests.worlds import World
from vocab.errors import EmptyWordListError
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.grammar import write_ebnf

BYTES = xgrammar.TokenizerInfo(
    [bytes([byte]) for byte in range(256)], vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[0]
)


def ebnf_of(world: World, choice: Choice) -> str:
    word_list = WordList(world.lang, world.words, "file", world.ranks)
    changes = ListChanges(world.extra_words, world.exclude_words)
    return write_ebnf(word_list, ListOptions(**choice), world.n_words, changes)


@dataclass(frozen=True)
class Pair:
    """xgrammar's matcher of our EBNF, None where no text is possible, and the recogniser of the same list."""

    matcher: xgrammar.GrammarMatcher | None
    recogniser: Recogniser

    def assert_they_agree_on(self, text: str) -> None:
        is_prefix = is_complete = False
        if self.matcher is not None:
            self.matcher.reset()
            is_prefix = text == "" or self.matcher.accept_string(text)
            is_complete = is_prefix and self.matcher.is_completed()
        assert (is_prefix, is_complete) == (self.recogniser.is_prefix(text), self.recogniser.is_text(text)), repr(text)


def pair_of(world: World, choice: Choice) -> Pair:
    return _pair(world, **choice)


@cache
def _pair(
    world: World, case: Case, layout: Layout, numbers: bool, punctuation: Punctuation, end: End, possessive: bool
) -> Pair:
    choice = Choice(case=case, layout=layout, numbers=numbers, punctuation=punctuation, end=end, possessive=possessive)
    try:
        compiled = xgrammar.GrammarCompiler(BYTES, max_threads=1).compile_grammar(ebnf_of(world, choice))
    except EmptyWordListError:
        return Pair(None, world.judge(choice))
    return Pair(xgrammar.GrammarMatcher(compiled), world.judge(choice))


@pytest.mark.parametrize("choice", TELLING_CHOICES, ids=choice_id)
@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
def test_it_agrees_with_the_recogniser_on_hand_picked_texts(world: World, choice: Choice) -> None:
    pair = pair_of(world, choice)
    for text in world.hand_picked_texts():
        pair.assert_they_agree_on(text)


@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
@given(data=st.data(), choice=choices())
def test_it_agrees_with_the_recogniser_on_random_texts(world: World, data: st.DataObject, choice: Choice) -> None:
    pair_of(world, choice).assert_they_agree_on(data.draw(world.likely_texts()))


def test_a_list_of_elisions_alone_has_no_text() -> None:
    with pytest.raises(EmptyWordListError, match="the first 2 words of 'fr'"):
        write_ebnf(WordList("fr", ("l'", "d’", "eau"), "file"), ListOptions(), 2)


def test_every_line_is_a_rule_so_vllm_does_not_take_it_for_lark() -> None:
    ebnf = write_ebnf(WordList("en", ("#tag", "// x", 'a"b', "root: x"), "file"), ListOptions(), 4)
    assert all(" ::= " in line for line in ebnf.splitlines())
    assert ebnf.startswith("root ::= ")


def test_vllm_passes_it_on_as_it_is() -> None:
    utils = pytest.importorskip("vllm.v1.structured_output.utils")
    ebnf = write_ebnf(WordList("en", ("#tag", "// x", 'a"b', "root: x"), "file"), ListOptions(), 4)
    assert not utils.grammar_is_likely_lark(ebnf)


def test_xgrammar_reads_the_string_rightly_and_the_parsed_grammar_wrongly() -> None:
    """xgrammar 0.2.8 rejects the "í" of "difícil" after ``Grammar.from_ebnf``: the reason why strings are passed."""
    ebnf = write_ebnf(load_word_list("es", None), ListOptions(), 1000)
    compiler = xgrammar.GrammarCompiler(BYTES, max_threads=1)
    from_string = xgrammar.GrammarMatcher(compiler.compile_grammar(ebnf))
    assert from_string.accept_string("es difícil")
    assert from_string.is_completed()
    parsed = xgrammar.GrammarMatcher(compiler.compile_grammar(xgrammar.Grammar.from_ebnf(ebnf)))
    assert not parsed.accept_string("es difícil")


def test_its_case_is_that_of_the_whole_list() -> None:
    """Made from the first words alone, but with the case of the whole list: London stands behind them."""
    world = World("whole list", "en", ("the", "cat", "a", "London"), 3, (), extra_words=("dog",))
    pair = pair_of(world, PLAIN)
    for text in ("The cat. A cat", "the Cat", "London", "the A", "A. The", "Dog", "the Dog"):
        pair.assert_they_agree_on(text)
    words = WordList("en", world.words, "file")
    assert "start-word" in write_ebnf(words, ListOptions(), 3)
    assert "start-word" in write_ebnf(words, ListOptions(), 3, ListChanges((), ("London",)))
    small = WordList("en", words.words[:3], "file")
    assert "start-word" not in write_ebnf(small, ListOptions(), 3)
    assert "start-word" in write_ebnf(small, ListOptions(), 3, ListChanges(("dog",)))


def test_numbers_alone_make_texts() -> None:
    ebnf = write_ebnf(WordList("fr", ("l'", "un"), "file"), ListOptions(numbers=True), 1)
    assert "elision" not in ebnf
    assert "word" not in ebnf


def test_a_list_of_which_nothing_is_left_has_no_text() -> None:
    word_list = WordList("en", ("a", "b"), "file")
    with pytest.raises(EmptyWordListError, match="the first 1 words of 'en'"):
        write_ebnf(word_list, ListOptions(), 1, ListChanges((), ("A",)))
    assert '"b"' in write_ebnf(word_list, ListOptions(), 2, ListChanges((), ("A",)))


@pytest.mark.parametrize("choice", TELLING_CHOICES, ids=choice_id)
def test_every_rule_that_is_named_is_there_and_every_rule_that_is_there_is_named(choice: Choice) -> None:
    ebnf = ebnf_of(World("three", "fr", ("l'", "a", "b", "C"), 4, ()), choice)
    defined = [line.split(" ::= ")[0] for line in ebnf.splitlines()]
    bodies = re.sub(
        r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]', "", " ".join(line.split(" ::= ")[1] for line in ebnf.splitlines())
    )
    assert len(set(defined)) == len(defined)
    assert set(re.findall(r"[a-z][a-z0-9-]*", bodies)) | {"root"} == set(defined)
