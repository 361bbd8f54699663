"""Load or compile the machine code of compile, load, mask and step, so that no request waits for it.

With numba's cache on disk this takes a fraction of a second, without it a minute.
"""

import numpy as np

from vocab.artefacts.artefact import words_from_bytes, words_to_bytes
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.overlay import build_overlay
from vocab.automaton.tokenizer import byte_speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import WordList
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates, frame_for
from vocab.options import DEFAULT_OPTIONS
from vocab.text.changes import ListChanges

_STOP = 0


def warm_up() -> None:
    """Compile a list of a few words, store, load and change it, and follow a text in it, to have machine code ready."""
    speller = byte_speller(_STOP)
    listed = WordList("fr", ("l'", "l'un", "un", "a", "a b", "b", "c"), "inline")
    words = words_from_bytes(words_to_bytes(build_words(listed, speller)))
    tokens, row = FrameTokens.of(speller.facts), np.zeros((len(speller.facts) + 31) // 32, dtype=np.int32)
    for overlay in (None, build_overlay(words, ListChanges(("d",), ("c",)), speller)):
        frame = frame_for(words, overlay, DEFAULT_OPTIONS, tokens)
        for max_tokens in (None, 4):
            matcher = Matcher(ListStates(words, frame, listed.num_ranks, overlay), (_STOP,), max_tokens, min_tokens=1)
            for byte in b"a b":
                matcher.fill_bitmask(row)
                matcher.accept_token(speller.facts.token_bytes.index(bytes([byte])))
