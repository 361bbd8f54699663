"""The next words of a list, against all of its forms one by one."""

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import pytest

from tests.vocab.toys import toy_speller, toy_tokenizer, word_list
from vocab.automaton.tokenizer import Speller
from vocab.decoding.next_words import NextWord, NextWordSearch, Row, WordTokens, ends_word
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges
from vocab.text.reader import TextReader

WORDS = ("the", "cat", "cats", "category", "in", "in front of", "don't", "well", "well-known", "Ana", "mat", "é", "Mr.")
PIECES = (" the", " cat", "cat", " ca", "egory", " in", " front", "'t", " mat", "s", " m", " An", "The", " well", "-k")


class World:
    """A list, a tokenizer, and a model that knows each prefix by its hash."""

    def __init__(
        self,
        *,
        n_words: int = 99,
        case: str = "sentence",
        changes: ListChanges = NO_CHANGES,
        words: Sequence[str] = WORDS,
        pieces: Sequence[str] = PIECES,
        lang: str = "en",
    ) -> None:
        facts = toy_tokenizer(pieces)
        self.speller: Speller = toy_speller(facts)
        self.tokens = WordTokens(facts.token_bytes)
        options = ListOptions(case=case)  # type: ignore[arg-type]
        self.n_words = n_words
        self.states = ListStates.of(word_list(words, lang), options, self.speller, n_words, changes, has_places=True)
        self.reader = TextReader(word_list(words, lang), options, n_words, changes=changes)
        self.num_rows = 0

    def row(self, prefix: Sequence[int]) -> Row:
        seed = hashlib.sha256(repr(tuple(prefix)).encode()).digest()
        logits = np.random.default_rng(list(seed)).normal(0, 3, len(self.tokens.token_bytes) + 2)
        # A model has more numbers than its tokenizer has tokens.
        row: Row = (logits - np.log(np.exp(logits).sum())).astype(np.float32)
        return row

    def search(self, text: str, *, top: int = 20, max_rows: int = 1000, at_once: int = 4) -> list[NextWord]:
        place = self.reader.after(text).place
        search = NextWordSearch(self.states, self.n_words, self.tokens, place, top=top, max_rows=max_rows)
        while prefixes := search.prefixes(at_once):
            assert len(prefixes) <= at_once
            self.num_rows += len(prefixes)
            for prefix in prefixes:
                search.add(prefix, self.row(prefix))
        return search.words

    def one(self, written: str, *, is_whole: bool = False, also: str = "") -> float:
        """The log-probability of one word, spelled as the tokenizer does: the words of the list are not looked at."""
        [tokens] = self.speller.spell([written])
        assert tokens is not None
        log_p = sum(float(self.row(tokens[:end])[token]) for end, token in enumerate(tokens))
        shares = np.exp(self.row(tokens).astype(float))
        ends = [
            share
            for token, share in zip(self.tokens.token_bytes, shares, strict=False)
            if (token.startswith(also.encode()) if also else ends_word(token))
        ]
        return log_p if is_whole else log_p + math.log(sum(ends))


def assert_alike(found: Sequence[NextWord], expected: dict[str, float]) -> None:
    ranked = sorted(expected, key=lambda word: -expected[word])
    assert [word.text for word in found] == ranked[: len(found)]
    assert [word.log_p for word in found] == pytest.approx([expected[word.text] for word in found], abs=1e-5)


PLAIN = ("the", "cat", "cats", "category", "in", "don't", "well", "well-known", "Ana", "mat", "é", "don’t")


def test_words_within_a_sentence_are_as_listed_and_each_has_its_own_probability() -> None:
    world = World()
    expected = {word: world.one(" " + word) for word in PLAIN} | {"Mr.": world.one(" Mr", also=".")}
    found = world.search("the")
    assert len(found) == len(expected)
    assert_alike(found, expected)
    assert 0 < sum(math.exp(word.log_p) for word in found) < 1


def test_where_a_sentence_starts_words_may_have_capitals() -> None:
    world = World()
    found = {word.text: word.log_p for word in world.search("the cat.")}
    assert {"The", "the", "Don't", "É", "Ana"} <= found.keys()
    assert found["The"] == pytest.approx(world.one(" The"), abs=1e-5)
    assert {word.text for word in world.search("the cat.\n")} == found.keys()
    assert dict(world.search("the cat.\n"))["The"] == pytest.approx(world.one("The"), abs=1e-5)


@pytest.mark.parametrize("at_once", [1, 3, 50])
@pytest.mark.parametrize("top", [1, 2, 5])
def test_the_best_are_found_without_a_look_at_all(top: int, at_once: int) -> None:
    world = World()
    everything = world.search("the")
    num_all, world.num_rows = world.num_rows, 0
    assert world.search("the", top=top, at_once=at_once) == everything[:top]
    assert top > 1 or at_once > 1 or world.num_rows < num_all / 2


def test_where_the_rows_are_used_up_the_words_found_are_the_likeliest_all_the_same() -> None:
    world = World()
    everything = world.search("the")
    found = [world.search("the", max_rows=most) for most in range(1, 30)]
    assert all(words == everything[: len(words)] for words in found)
    assert max(map(len, found)) > 0 and len(found[0]) == 0


def test_words_beyond_n_and_those_left_out_are_not_found_and_added_ones_are() -> None:
    world = World(n_words=2, changes=ListChanges(("dog", "mat"), ("cat",)))
    expected = {word: world.one(" " + word) for word in ("the", "dog", "mat")}
    assert_alike(world.search("the"), expected)


def test_an_elision_is_whole_with_its_apostrophe() -> None:
    words = ("l'", "qu'", "un", "homme")
    world = World(words=words, pieces=(" qu'", " l", " un"), lang="fr")
    found = {word.text: word.log_p for word in world.search("homme")}
    assert found["qu'"] == pytest.approx(world.one(" qu'", is_whole=True), abs=1e-5)
    assert found["l'"] == pytest.approx(world.one(" l", also="'"), abs=1e-5)
    assert {word.text for word in world.search("homme l'")} == {"un", "homme"}


def test_a_word_with_a_mark_at_its_end_is_not_the_word_without_it_and_one_at_its_beginning_is_not_found() -> None:
    world = World(words=("Mr", "Mr.", ".net", "x"), pieces=(" Mr",))
    found = {word.text: math.exp(word.log_p) for word in world.search("x")}
    assert found.keys() == {"Mr", "Mr.", "x"}
    together = math.exp(world.one(" Mr"))
    assert found["Mr"] + found["Mr."] == pytest.approx(together, rel=1e-5)


def test_a_word_that_cannot_end_is_not_found() -> None:
    world = World(words=("a",), pieces=())
    place = world.reader.after("a").place
    search = NextWordSearch(world.states, 1, world.tokens, place, top=1, max_rows=9)
    going_on = np.where(world.tokens.ends, -np.inf, -1.0).astype(np.float32)
    while prefixes := search.prefixes(9):
        for prefix in prefixes:
            search.add(prefix, going_on if prefix[1:] else world.row(prefix))
    assert search.words == []


@pytest.mark.parametrize(
    ("token", "ends"),
    [
        (b"", True), (b" the", True), (b".", True), (b"\n", True), ("\N{RIGHT DOUBLE QUOTATION MARK}".encode(), True),
        (b"s", False), (b"'s", False), (b"-", False), ("’t".encode(), False), ("é".encode(), False), (b"7", False),
        (b"\xe2\x80", True), (b"\xc2", True), (b"\xc3", False), (b"\xcc", False), (b"\xf0\x9f", True), (b"\xa9", False),
        ("\N{COMBINING ACUTE ACCENT}".encode(), False), (b"\xffab", False),
    ],
)  # fmt: skip
def test_a_token_ends_a_word_by_what_it_begins_with(token: bytes, ends: bool) -> None:
    assert ends_word(token) is ends
