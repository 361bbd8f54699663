"""A list without some words, made from the compiled list, against the compile of the shorter list."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.choices import Choice, choices
from tests.recogniser import recogniser
from tests.vocab.automaton.test_oracle import loaded, trie_of
from tests.vocab.toys import can_spell, matcher_of, tokens_of, toy_automaton, toy_tokenizer
from vocab.arrays.tensors import write_tensors
from vocab.automaton.automaton import TokenAutomaton, compile_automaton
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import ArtefactError
from vocab.exclusion.exclusion import Exclusion, exclude, exclusion_digest
from vocab.lists.wordlists import WordList, load_word_list
from vocab.matching.masks import NO_BUDGET, MaskRows
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.changes import entries_left_out
from vocab.text.forms import resolve_case


def without(
    automaton: TokenAutomaton, words: Sequence[str], tokenizer: TokenizerFacts, trie: TokenTrie | None = None
) -> TokenAutomaton | None:
    entries = entries_left_out(automaton.word_list, tuple(words))
    exclusion = exclude(automaton, entries, tokenizer, trie or TokenTrie.of(tokenizer))
    return None if exclusion is None else exclusion.apply(automaton)


def compiled_without(
    listed: WordList,
    words: Sequence[str],
    options: ListOptions,
    tokenizer: TokenizerFacts,
    trie: TokenTrie | None = None,
) -> TokenAutomaton:
    """The shorter list, compiled with the case and the ranks of the whole one."""
    entries = entries_left_out(listed, tuple(words))
    kept = [(rank, word) for rank, word in listed.ranked() if word not in entries]
    shorter = replace(listed, words=tuple(word for _, word in kept), ranks=tuple(rank for rank, _ in kept))
    return compile_automaton(shorter, replace(options, case=resolve_case(listed, options)), tokenizer, trie)


def assert_same_masks(
    ours: TokenAutomaton,
    theirs: TokenAutomaton,
    n_words: int,
    walk: random.Random,
    tokenizer: TokenizerFacts,
    *,
    budgets: Sequence[int] = (NO_BUDGET, 0, 1, 2, 3, 5, 8),
    num_steps: int = 14,
    likely: Sequence[bytes] = (),
) -> None:
    """Walks through both side by side and compares the rows of every state on the way."""
    rows = [np.empty((len(tokenizer) + 31) // 32, dtype=np.int32) for _ in range(2)]
    spaces = [ListStates(automaton, MaskRows(automaton), n_words) for automaton in (ours, theirs)]
    assert spaces[0].fewest_tokens() == spaces[1].fewest_tokens()
    states = [space.start for space in spaces]
    for _ in range(num_steps):
        assert spaces[0].can_stop(states[0]) == spaces[1].can_stop(states[1])
        for budget in (*budgets[1:], budgets[0]):
            for space, state, row in zip(spaces, states, rows, strict=True):
                space.fill(row, state, budget)
            np.testing.assert_array_equal(rows[0], rows[1])
        allowed = sorted(tokens_of(rows[0]))
        if not allowed:
            break
        chosen = [token for token in allowed if tokenizer.token_bytes[token].strip() in likely]
        token = walk.choice(chosen if chosen and walk.random() < 0.7 else allowed)
        states = [space.target(state, token, NO_BUDGET) for space, state in zip(spaces, states, strict=True)]
        assert min(states) >= 0


PIECES = (
    " a", " b", "ab", "a b", ". A", "a.", '."', "a. b", " ", " — ", '"a', "b'", "'s", "’s", "'s.", " B", "ba ", "ba. ",
    "a'b", "-a", "é", "É", "’", "—", "—a", "a—b",
)  # fmt: skip
WORDS = st.lists(
    st.one_of(
        st.text("abé'-", min_size=1, max_size=4),
        st.text("ab", min_size=1, max_size=3),
        st.sampled_from(
            ["a b", "b c", "l'", "l'a", "A", "Ab", "aB", "ß", "—", "-", "a.", "b.", "3", "ª", "ab's", "o'b"]
        ),
    ),
    min_size=1,
    max_size=7,
    unique=True,
)


@settings(max_examples=settings().max_examples * 3 // 2)
@given(
    words=WORDS,
    lang=st.sampled_from(["en", "es", "fr", "tr"]),
    choice=choices(),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_masks_equal_those_of_the_shorter_list_compiled(
    words: list[str], lang: str, choice: Choice, seed: int, data: st.DataObject
) -> None:
    options = ListOptions(**choice)
    pieces = data.draw(st.lists(st.sampled_from(PIECES), unique=True))
    automaton, tokenizer = toy_automaton(words, pieces, lang=lang, options=options)
    excluded = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=2, unique=True))
    n_words = data.draw(st.integers(1, len(words)))
    ours = without(automaton, excluded, tokenizer)
    event("compiled anew" if ours is None else "exact")
    if ours is None:
        return
    if len(entries_left_out(automaton.word_list, tuple(excluded))) == len(words):
        assert (ours.fewest_tokens(n_words) is None) != options.numbers
        return
    theirs = compiled_without(automaton.word_list, excluded, options, tokenizer)
    walk = random.Random(seed)
    for _ in range(3):
        assert_same_masks(ours, theirs, n_words, walk, tokenizer)


SPANISH = ("el", "sol", "los", "solo", "so", "mar", "Martín", "y", "o", "d'oro", "¿qué?", "por favor")


@pytest.mark.parametrize("pieces", [(), (" sol", "sol.", "so", "lo", " so", " Sol", ". S", "los ", ' "sol"')])
def test_an_excluded_word_is_gone_in_every_form_and_all_else_is_there(pieces: tuple[str, ...]) -> None:
    automaton, tokenizer = toy_automaton(SPANISH, pieces)
    ours = without(automaton, ["SOL", "martín"], tokenizer)
    assert ours is not None
    judge = recogniser(SPANISH, 12, "es", exclude_words=("sol", "martín"))
    matcher = matcher_of(ours, 12)
    texts = (
        "sol",
        "Sol",
        "el sol.",
        "el Sol",
        "solo",
        "so",
        "los",
        "Martín",
        "el mar",
        "por favor",
        "(sol) y",
        "y—sol",
    )
    for text in (*texts, "d'oro", "¿qué?", "Martín", "sol y mar", "y «Sol»", "o sol", "o. Solo"):
        assert can_spell(matcher, tokenizer, text) == judge.is_text(text), text
        assert judge.is_text(text) == ("sol" not in text.lower().replace("solo", "") and "Martín" not in text), text


@pytest.mark.parametrize(
    ("lang", "words", "excluded"),
    [
        ("en", ("he", "he's", "she"), "he's"),
        ("en", ("in", "front", "in front of", "of"), "front"),
        ("en", ("in", "front", "in front of", "of"), "in front of"),
        ("en", ("etc", "etc.", "and"), "etc"),
        ("fr", ("un", "quelqu'un", "l'"), "un"),
        ("fr", ("un", "quelqu'un", "l'"), "l'"),
        ("es", ("-", "a"), "-"),
    ],
)
def test_a_word_that_is_part_of_other_entries_needs_a_compile(lang: str, words: tuple[str, ...], excluded: str) -> None:
    automaton, tokenizer = toy_automaton(words, lang=lang)
    assert without(automaton, [excluded], tokenizer) is None


@pytest.mark.parametrize(
    ("lang", "words", "excluded"),
    [
        ("en", ("don", "don't", "o'clock", "clock", "s"), ["don", "clock", "s"]),
        ("en", ("don", "don't", "cat"), ["don’t"]),
        ("fr", ("un", "l'", "quelqu'un", "l", "homme"), ["homme", "l"]),
        ("es", ("un", "l'un", "a-un"), ["un"]),
        ("ar", ("في", "فين", "من"), ["في"]),
        ("hi", ("यह", "यहा", "घर"), ["यह"]),
        ("tr", ("ılık", "ilik", "ıl"), ["Ilık"]),
    ],
)
def test_apostrophes_hyphens_and_letters_like_the_beginning_of_a_mark_do_not_stand_in_the_way(
    lang: str, words: tuple[str, ...], excluded: list[str]
) -> None:
    automaton, tokenizer = toy_automaton(words, [" l'", "'", "’"], lang=lang)
    ours = without(automaton, excluded, tokenizer)
    assert ours is not None
    theirs = compiled_without(automaton.word_list, excluded, ListOptions(), tokenizer)
    for seed in range(40):
        assert_same_masks(ours, theirs, len(words), random.Random(seed), tokenizer)


def test_an_entry_with_the_possessive_may_go_together_with_its_word() -> None:
    automaton, tokenizer = toy_automaton(("dog", "dog's", "dogs"), lang="en")
    exclusion = exclude(automaton, ("dog", "dog's"), tokenizer, TokenTrie.of(tokenizer))
    assert exclusion is not None
    matcher = matcher_of(exclusion.apply(automaton), 3)
    assert not any(can_spell(matcher, tokenizer, text) for text in ("dog", "dog's", "Dog’s", "dogs dog's", "dog."))
    assert can_spell(matcher, tokenizer, "dogs. Dogs's")


def test_words_between_which_all_ways_lead_are_measured_anew() -> None:
    """Without its most frequent words, nothing is left of the first ranks: every place between words is further off."""
    listed = load_word_list("fi", None).up_to(60)
    tokenizer = toy_tokenizer([f" {word}" for word in listed.words[::2]])
    automaton = compile_automaton(listed, ListOptions(), tokenizer)
    excluded = listed.words[:30]
    ours = without(automaton, excluded, tokenizer)
    assert ours is not None
    assert ours.fewest_tokens(30) is None
    theirs = compiled_without(listed, excluded, ListOptions(), tokenizer)
    for seed in range(10):
        assert_same_masks(ours, theirs, 60, random.Random(seed), tokenizer)
        assert_same_masks(ours, theirs, 20, random.Random(seed), tokenizer)


def test_numbers_may_be_written_like_entries() -> None:
    words = ("3", "4x", "a")
    automaton, tokenizer = toy_automaton(words, options=ListOptions(numbers=True))
    assert without(automaton, ["3"], tokenizer) is None
    automaton, tokenizer = toy_automaton(words)
    ours = without(automaton, ["3"], tokenizer)
    assert ours is not None
    assert not can_spell(matcher_of(ours, 3), tokenizer, "3 a")
    assert can_spell(matcher_of(ours, 3), tokenizer, "4x a")


def test_words_of_one_rank_go_together_and_the_other_ranks_stay() -> None:
    listed = WordList("en", ("the", "see", "saw", "Saw", "cat"), "file", (1, 2, 2, 3, 4))
    tokenizer = toy_tokenizer([])
    automaton = compile_automaton(listed, ListOptions(), tokenizer)
    # "Saw" has a form of another lemma's that stays.
    assert without(automaton, ["see"], tokenizer) is None
    ours = without(automaton, ["THE"], tokenizer)
    assert ours is not None
    assert ours.fewest_tokens(1) is None
    assert can_spell(matcher_of(ours, 2), tokenizer, "see saw")
    assert not can_spell(matcher_of(ours, 3), tokenizer, "cat")


def test_the_differences_are_small_and_come_back_from_their_bytes() -> None:
    automaton, tokenizer = toy_automaton(SPANISH)
    exclusion = exclude(automaton, ("sol",), tokenizer, TokenTrie.of(tokenizer))
    assert exclusion is not None
    assert len(exclusion.ends) == len(exclusion.links) == 2
    assert exclusion.digest == exclusion_digest(automaton.digest, ("sol",))
    back = Exclusion.from_bytes(exclusion.to_bytes())
    assert (back.base_digest, back.entries, back.digest) == (automaton.digest, ("sol",), exclusion.digest)
    ours, theirs = exclusion.apply(automaton), back.apply(automaton)
    assert ours.digest == exclusion.digest
    assert_same_masks(ours, theirs, 12, random.Random(1), tokenizer)
    assert ours.edges.targets is automaton.edges.targets


def test_no_words_to_exclude_change_nothing() -> None:
    automaton, tokenizer = toy_automaton(SPANISH)
    ours = without(automaton, ["unlisted"], tokenizer)
    assert ours is not None
    assert_same_masks(ours, automaton, 12, random.Random(1), tokenizer)
    assert ours.distances is automaton.distances


def test_a_state_that_other_words_share_needs_a_compile() -> None:
    """No compiled list has such a state; were there one, excluding a word would take others along."""
    automaton, tokenizer = toy_automaton(("sol", "zar"))
    edges = automaton.edges
    root = slice(edges.edge_start[0], edges.edge_start[1])
    targets = edges.targets.copy()
    own = targets[root]
    own[:] = own[edges.tokens[root] == tokenizer.token_bytes.index(b"s")]
    shared = replace(automaton, edges=replace(edges, targets=targets))
    assert exclude(shared, ("sol",), tokenizer, TokenTrie.of(tokenizer)) is None


def test_differences_of_another_list_or_damaged_ones_are_refused() -> None:
    automaton, tokenizer = toy_automaton(SPANISH)
    other, _ = toy_automaton(SPANISH[1:])
    exclusion = exclude(automaton, ("sol",), tokenizer, TokenTrie.of(tokenizer))
    assert exclusion is not None
    with pytest.raises(ArtefactError, match="another list"):
        exclusion.apply(other)
    with pytest.raises(ArtefactError, match="another list"):
        replace(exclusion, edges=exclusion.edges + 10**6).apply(automaton)
    with pytest.raises(ArtefactError, match="holds no excluded words"):
        Exclusion.from_bytes(write_tensors({}, {"format": 1}))
    with pytest.raises(ArtefactError, match="format 0"):
        Exclusion.from_bytes(write_tensors({}, {"format": 0}))
    with pytest.raises(ArtefactError, match="differs"):
        Exclusion.from_bytes(exclusion.to_bytes()[:-1] + b"\x07")
    with pytest.raises(ArtefactError, match="another tokenizer"):
        exclude(automaton, ("sol",), toy_tokenizer(["x"]), TokenTrie.of(tokenizer))


@pytest.mark.parametrize(("lang", "excluded"), [("es", (3, 40, 99, 150)), ("en", (4, 60, 130)), ("ar", (2, 30, 77))])
@pytest.mark.parametrize("tokenizer_fixture", ["smollm2_path", "gemma_tokenizer_path"])
def test_real_tokenizers_have_the_masks_of_the_shorter_list(
    tokenizer_fixture: str, lang: str, excluded: tuple[int, ...], request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(tokenizer_fixture)
    (facts, _), trie = loaded(path), trie_of(path)
    listed = load_word_list(lang, None).up_to(300)
    automaton = compile_automaton(listed, ListOptions(), facts, trie)
    words = [listed.words[rank] for rank in excluded]
    ours = without(automaton, words, facts, trie)
    assert ours is not None
    theirs = compiled_without(listed, words, ListOptions(), facts, trie)
    walk = random.Random(5)
    likely = [form.encode()[:length] for word in words for form in (word, word.title()) for length in range(1, 12)]
    for _ in range(25):
        assert_same_masks(ours, theirs, walk.choice([40, 300]), walk, facts, budgets=(NO_BUDGET, 1, 2), likely=likely)


def test_no_way_of_spelling_an_excluded_word_is_left(smollm2_path: Path) -> None:
    facts, _ = loaded(smollm2_path)
    automaton = compile_automaton(load_word_list("es", None).up_to(2000), ListOptions(), facts)
    ours = without(automaton, ["casa", "tiempo", "señor"], facts)
    assert ours is not None
    before, after = (ListStates(each, MaskRows(each), 2000) for each in (automaton, ours))
    for text in ("casa", "Casa", " casa.", "tiempo", " Tiempo,", "señor", " la señor"):
        assert _ways_to_a_whole_text(before, facts, text.encode()) > 0, text
        assert _ways_to_a_whole_text(after, facts, text.encode()) == 0, text
    for text in ("casas", " tiempos.", "señora", " la"):
        assert _ways_to_a_whole_text(before, facts, text.encode()) == _ways_to_a_whole_text(after, facts, text.encode())


def _ways_to_a_whole_text(states: ListStates, facts: TokenizerFacts, text: bytes) -> int:
    """How many ways of spelling a text in tokens end where it may stop."""
    ids = {token: i for i, token in enumerate(facts.token_bytes) if token}
    ways = [(states.start, 0)]
    complete = 0
    while ways:
        state, place = ways.pop()
        complete += place == len(text) and states.can_stop(state)
        for end in range(place + 1, len(text) + 1):
            token = ids.get(text[place:end])
            if token is not None and (target := states.target(state, token, NO_BUDGET)) >= 0:
                ways.append((target, end))
    return complete
