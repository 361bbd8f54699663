"""The next words of texts without spaces, against all texts of a few tokens one by one."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from tests.vocab.toys import STOP, toy_speller
from vocab.automaton.dictionary_trie import ReferenceWords
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.decoding.next_segments import NextSegmentSearch
from vocab.decoding.next_words import Row
from vocab.lists.wordlists import WordList
from vocab.matching.segmented.states import SegmentedStates
from vocab.options import ListOptions, Segmentation

KNOWN = ("中", "中国", "中国人民", "国", "AB", "大")
LISTED = ("中国", "大", "中", "AB", "国")
PIECES = ("中", "中国", "国大", "人", "A", "B", "大。", "。")
CUT = (b"\xe4\xb8", b"\xad", b"\xad\xe5", b"\x9b\xbd")
DEPTH = 5


class World:
    def __init__(self, segmentation: Segmentation, n_words: int) -> None:
        self.facts = TokenizerFacts.from_token_bytes([b"<stop>", *(piece.encode() for piece in PIECES), *CUT], [STOP])
        singles = TokenizerFacts.from_token_bytes(
            [b"<stop>", *self.facts.token_bytes[1:], *(bytes([byte]) for byte in range(256) if byte != 0xAD)], [STOP]
        )
        options = ListOptions(segmentation=segmentation)
        self.listed, self.is_any = LISTED[:n_words], segmentation == "any"
        listed = WordList("zh", LISTED, "file")
        reference = ReferenceWords(KNOWN, "")
        self.states = SegmentedStates.of(listed, options, toy_speller(singles), n_words, reference=reference)
        self.facts = singles

    def row(self, prefix: Sequence[int]) -> Row:
        """A model of which only the first tokens ever come."""
        seed = hashlib.sha256(repr(tuple(prefix)).encode()).digest()
        logits = np.random.default_rng(list(seed)).normal(0, 2, len(self.facts.token_bytes))
        logits[1 + len(PIECES) + len(CUT) :] = -np.inf
        row: Row = (logits - np.log(np.exp(logits).sum())).astype(np.float32)
        return row

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
        num = 1 + len(PIECES) + len(CUT)
        todo: list[tuple[tuple[int, ...], bytes, float]] = [((), b"", 1.0)]
        while todo:
            prefix, text, share = todo.pop()
            row = np.exp(self.row(prefix).astype(float))
            for token in range(num):
                spelled = b"" if token == STOP else self.facts.token_bytes[token]
                longer, part = text + spelled, share * row[token]
                if not _is_beginning(longer):
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
def test_the_likeliest_words_are_found_with_their_probabilities(segmentation: Segmentation, n_words: int) -> None:
    world = World(segmentation, n_words)
    search = NextSegmentSearch(world.states, None, top=5, max_rows=3000)
    while prefixes := search.prefixes(4):
        for prefix in prefixes:
            search.add(prefix, world.row(prefix))
    expected = world.expected()
    assert set(expected) == {word.text for word in search.words}
    for word in search.words:
        assert math.exp(word.log_p) == pytest.approx(expected[word.text], rel=0.03)
    assert [word.log_p for word in search.words] == sorted((word.log_p for word in search.words), reverse=True)


def test_few_rows_find_the_likeliest_word() -> None:
    world = World("longest", 5)
    expected = world.expected()
    search = NextSegmentSearch(world.states, None, top=1, max_rows=40)
    num_rows = 0
    while prefixes := search.prefixes(2):
        num_rows += len(prefixes)
        for prefix in prefixes:
            search.add(prefix, world.row(prefix))
    assert num_rows <= 40
    assert [word.text for word in search.words] == [max(expected, key=expected.__getitem__)]
