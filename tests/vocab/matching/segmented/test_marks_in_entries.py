"""A character that is a mark of the language is no part of a word, though an entry has it."""

import random

import numpy as np
import pytest

from vocab.automaton.dictionary_trie import ReferenceWords, build_segmented
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import byte_speller
from vocab.lists.wordlists import WordList
from vocab.matching.matcher import Matcher
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.segmented.text import SegmentedText
from vocab.options import ListOptions

STOP = 0


@pytest.mark.parametrize("seed", range(10))
def test_a_sign_of_repetition_only_repeats(seed: int) -> None:
    speller, rng = byte_speller(STOP), random.Random(seed)
    words = build_segmented(WordList("th", ("ๆ", "กาน", "กานๆน"), "cleaned"), speller, ReferenceWords((), ""))
    states = SegmentedStates(SegmentedText(words, None, ListOptions(), TokenTrie.of(speller.facts)), 3)
    assert states.fewest_tokens() == len("กาน".encode())
    row = np.zeros((len(speller.facts) + 31) // 32, dtype=np.int32)
    for max_tokens in range(9, 30):
        matcher, written = Matcher(states, (STOP,), max_tokens), b""
        while not matcher.is_terminated and matcher.num_tokens < max_tokens:
            matcher.fill_bitmask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            token = int(rng.choice(allowed))
            assert matcher.accept_token(token)
            written += speller.facts.token_bytes[token]
        assert not {"ๆๆ", "กานๆน"} & {written.decode()[at : at + size] for at in range(30) for size in (2, 5)}
        assert written.decode().startswith(("กาน", "“", "("))
