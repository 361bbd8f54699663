"""What an author asks of texts without spaces, on random walks of whole characters."""

import random
from itertools import pairwise

import pytest

from tests.vocab.matching.segmented.test_states import row_of, tokens_of
from vocab.automaton.dictionary_trie import ReferenceWords, build_segmented
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import Speller, TokenizerFacts
from vocab.lists.wordlists import WordList
from vocab.matching.controls import Controls, NewWords, RequiredWord
from vocab.matching.matcher import Matcher
from vocab.matching.segmented.controlled import SegmentedControls
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.segmented.text import SegmentedText
from vocab.options import ListOptions
from vocab.text.reader import TextReader
from vocab.text.segmented.segmenter import Dictionary

CHARS = "一二三四五六七八九十，。“”"
WORDS = ("一", "二", "三", "四五", "一二", "三四", "六", "七八", "八", "九十", "十")
DICTIONARY = (*WORDS, "二三", "六七")
LIST = WordList("zh", WORDS, "file")
OPTIONS = ListOptions(end="sentence")
N_WORDS = 7
"""The other four words of the list may be new."""


def states() -> tuple[SegmentedStates, TokenizerFacts]:
    tokens = [char.encode() for char in CHARS] + [
        "一二".encode(),
        "三四。".encode(),
        "四五六".encode(),
        "。一".encode(),
    ]
    tokens += [bytes([byte]) for byte in range(0x80, 0xC0)]
    facts = TokenizerFacts.from_token_bytes([*tokens, b""])
    speller = Speller(
        lambda texts: [[max(CHARS.find(char), 0) for char in text] for text in texts], facts, "characters"
    )
    words = build_segmented(LIST, speller, ReferenceWords(DICTIONARY, ""))
    return SegmentedStates(SegmentedText(words, None, OPTIONS, TokenTrie.of(facts)), N_WORDS), facts


def write(controls: Controls, seed: int) -> str:
    """Write a text within the controls, with random tokens."""
    rng = random.Random(seed)
    own, facts = states()
    stop = len(facts) - 1
    matcher, row, written = Matcher(SegmentedControls(own, controls), (stop,), controls.num_tokens), row_of(own), b""
    while not matcher.is_terminated and matcher.num_tokens < controls.num_tokens:
        matcher.fill_bitmask(row)
        token = rng.choice(tokens_of(row))
        assert matcher.accept_token(token)
        written += facts.token_bytes[token]
    return written.decode()


def words_of(text: str) -> list[list[int]]:
    """Return the ranks of a text's words, by sentence."""
    reader = TextReader(LIST, OPTIONS, len(WORDS), reference=Dictionary(DICTIONARY))
    sentences: list[list[int]] = []
    for word in reader.words(text):
        if word.starts_sentence:
            sentences.append([])
        sentences[-1].append(word.number)
    return sentences


@pytest.mark.parametrize("seed", range(40))
def test_sentences_are_as_many_and_as_short_as_asked(seed: int) -> None:
    sentences = words_of(write(Controls(None, (), 5, 2, 4, 80), seed))
    assert 2 <= len(sentences) <= 4
    assert max(map(len, sentences)) <= 5


@pytest.mark.parametrize("seed", range(40))
def test_required_words_come(seed: int) -> None:
    asked = (RequiredWord((2,), 2), RequiredWord((4,)))
    ranks = [rank for sentence in words_of(write(Controls(None, asked, 8, 0, 5, 60), seed)) for rank in sentence]
    assert ranks.count(2) >= 2
    assert 4 in ranks


@pytest.mark.parametrize("seed", range(40))
def test_new_words_keep_their_distance_and_number(seed: int) -> None:
    text = write(Controls(NewWords(len(WORDS), 4, 2), (), 9, 0, 6, 80), seed)
    ranks = [rank for sentence in words_of(text) for rank in sentence]
    first = {rank: ranks.index(rank) for rank in set(ranks) if rank > N_WORDS}
    places = sorted(first.values())
    assert len(places) <= 2
    assert all(after - before >= 4 for before, after in pairwise(places))
