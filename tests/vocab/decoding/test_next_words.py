"""The next words: of a list against all of its forms, of a text without spaces against all texts of a few tokens."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.vocab.toys import STOP, toy_speller, toy_tokenizer, word_list
from vocab.automaton.dictionary_trie import ReferenceWords
from vocab.automaton.tokenizer import Speller, TokenizerFacts
from vocab.decoding.next_words import NextSegmentSearch, NextWord, NextWordSearch, Row, WordTokens, ends_word
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.states import ListStates
from vocab.options import ListOptions, Segmentation
from vocab.text.changes import NO_CHANGES, ListChanges
from vocab.text.reader import TextReader

WORDS = ("the", "cat", "cats", "category", "in", "in front of", "don't", "well", "well-known", "Ana", "mat", "é", "Mr.")
PIECES = (" the", " cat", "cat", " ca", "egory", " in", " front", "'t", " mat", "s", " m", " An", "The", " well", "-k")


def random_row(prefix: Sequence[int], num_tokens: int, *, spread: float = 3, num_coming: int | None = None) -> Row:
    """Of a model that knows each prefix by its hash, and of which only the first tokens ever come."""
    seed = hashlib.sha256(repr(tuple(prefix)).encode()).digest()
    logits = np.random.default_rng(list(seed)).normal(0, spread, num_tokens)
    if num_coming is not None:
        logits[num_coming:] = -np.inf
    row: Row = (logits - np.log(np.exp(logits).sum())).astype(np.float32)
    return row


def run(
    search: NextWordSearch | NextSegmentSearch, row: Callable[[tuple[int, ...]], Row], at_once: int = 4
) -> tuple[list[NextWord], int]:
    """The words that a search finds, and how many rows it asked for."""
    num_rows = 0
    while prefixes := search.prefixes(at_once):
        assert len(prefixes) <= at_once
        num_rows += len(prefixes)
        for prefix in prefixes:
            search.add(prefix, row(prefix))
    return search.words, num_rows


class World:
    """A list, a tokenizer, and a model with more numbers than the tokenizer has tokens."""

    def __init__(
        self,
        *,
        n_words: int = 99,
        changes: ListChanges = NO_CHANGES,
        words: Sequence[str] = WORDS,
        pieces: Sequence[str] = PIECES,
        lang: str = "en",
    ) -> None:
        facts = toy_tokenizer(pieces)
        self.speller: Speller = toy_speller(facts)
        self.tokens = WordTokens(facts.token_bytes)
        self.n_words, listed, options = n_words, word_list(words, lang), ListOptions(case="sentence")
        self.states = ListStates.of(listed, options, self.speller, n_words, changes, has_places=True)
        self.reader = TextReader(listed, options, n_words, changes=changes)
        self.num_rows = 0

    def row(self, prefix: Sequence[int]) -> Row:
        return random_row(prefix, len(self.tokens.token_bytes) + 2)

    def begun(self, text: str, *, top: int = 20, max_rows: int = 1000) -> NextWordSearch:
        place = self.reader.after(text).place
        return NextWordSearch(self.states, self.n_words, self.tokens, place, top=top, max_rows=max_rows)

    def search(self, text: str, *, top: int = 20, max_rows: int = 1000, at_once: int = 4) -> list[NextWord]:
        words, self.num_rows = run(self.begun(text, top=top, max_rows=max_rows), self.row, at_once)
        return words

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


def test_the_best_are_found_without_a_look_at_all_and_those_found_with_few_rows_are_the_best() -> None:
    world = World()
    everything = world.search("the")
    num_all = world.num_rows
    for top in (1, 2, 5):
        for at_once in (1, 3, 50):
            assert world.search("the", top=top, at_once=at_once) == everything[:top]
            assert top > 1 or at_once > 1 or world.num_rows < num_all / 2
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
    going_on = np.where(world.tokens.ends, -np.inf, -1.0).astype(np.float32)
    assert run(world.begun("a"), lambda prefix: going_on if prefix[1:] else world.row(prefix))[0] == []


def test_a_token_ends_a_word_by_what_it_begins_with() -> None:
    for token in ("", " the", ".", "\n", "\N{RIGHT DOUBLE QUOTATION MARK}", b"\xe2\x80", b"\xc2", b"\xf0\x9f"):
        assert ends_word(token if isinstance(token, bytes) else token.encode()), token
    for token in ("s", "'s", "-", "’t", "é", "7", "\N{COMBINING ACUTE ACCENT}", b"\xc3", b"\xcc", b"\xa9", b"\xffab"):
        assert not ends_word(token if isinstance(token, bytes) else token.encode()), token


# Texts without spaces.

KNOWN = ("中", "中国", "中国人民", "国", "AB", "大")
LISTED = ("中国", "大", "中", "AB", "国")
SEGMENTS = [piece.encode() for piece in ("中", "中国", "国大", "人", "A", "B", "BA", "大。", "。")]
CUT = [b"\xe4\xb8", b"\xad", b"\xad\xe5", b"\x9b\xbd"]
NUM_COMING = 1 + len(SEGMENTS) + len(CUT)
DEPTH = 5


class UnspacedWorld:
    """A list of Chinese words within a dictionary, and a model of which only the first tokens ever come."""

    def __init__(self, segmentation: Segmentation, n_words: int) -> None:
        rest = [bytes([byte]) for byte in range(256) if byte != 0xAD]
        self.facts = TokenizerFacts.from_token_bytes([b"<stop>", *SEGMENTS, *CUT, *rest], [STOP])
        self.listed, self.is_any = LISTED[:n_words], segmentation == "any"
        reference, options = ReferenceWords(KNOWN, ""), ListOptions(segmentation=segmentation)
        speller = toy_speller(self.facts)
        self.states = SegmentedStates.of(word_list(LISTED, "zh"), options, speller, n_words, reference=reference)

    def row(self, prefix: Sequence[int]) -> Row:
        return random_row(prefix, len(self.facts.token_bytes), spread=2, num_coming=NUM_COMING)

    def first_word(self, text: bytes, *, is_end: bool) -> str | None:
        """The first word of a text where nothing that follows can change it; "" where it begins with none."""
        written = text.decode(errors="ignore")
        if not is_end and len(written.encode()) < len(text) and len(written) == 0:
            return None
        known = self.listed if self.is_any else KNOWN
        if not is_end and any(word.startswith(written) for word in known):
            return None
        word = next((written[:end] for end in range(len(written), 0, -1) if written[:end] in known), "")
        following = written[len(word) : len(word) + 1]
        if word[-1:] in ("A", "B") and following in ("A", "B") and following:
            return ""
        return word if word in self.listed else ""

    def expected(self) -> dict[str, float]:
        found: dict[str, float] = defaultdict(float)
        todo: list[tuple[tuple[int, ...], bytes, float]] = [((), b"", 1.0)]
        while todo:
            prefix, text, share = todo.pop()
            row = np.exp(self.row(prefix).astype(float))
            for token in range(NUM_COMING):
                spelled = b"" if token == STOP else self.facts.token_bytes[token]
                longer, part = text + spelled, share * row[token]
                # No text ends within a character.
                if not _is_beginning(longer) or (token == STOP and text != text.decode(errors="ignore").encode()):
                    continue
                word = self.first_word(longer, is_end=token == STOP)
                if word:
                    found[word] += part
                elif word is None and len(prefix) < DEPTH:
                    todo.append(((*prefix, token), longer, part))
        return found


def _is_beginning(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True


@pytest.mark.parametrize(("segmentation", "n_words"), [("longest", 5), ("longest", 2), ("any", 5), ("any", 2)])
def test_words_without_spaces_are_found_with_their_probabilities(segmentation: Segmentation, n_words: int) -> None:
    world = UnspacedWorld(segmentation, n_words)
    found, _ = run(NextSegmentSearch(world.states, None, top=5, max_rows=3000), world.row)
    expected = world.expected()
    assert set(expected) == {word.text for word in found}
    for word in found:
        assert math.exp(word.log_p) == pytest.approx(expected[word.text], rel=0.01)
    assert [word.log_p for word in found] == sorted((word.log_p for word in found), reverse=True)
    first, num_rows = run(NextSegmentSearch(world.states, None, top=1, max_rows=40), world.row, at_once=2)
    assert num_rows <= 40
    assert segmentation == "any" or [word.text for word in first] == [found[0].text]
