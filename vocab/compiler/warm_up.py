"""Load or compile the machine code of compile, load, mask and step, so that no request waits for it.

With numba's cache on disk this takes a fraction of a second, without it a minute.
"""

from dataclasses import replace
from functools import cache

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.artefacts.artefact import words_from_bytes, words_to_bytes
from vocab.automaton.dictionary_trie import ReferenceWords, build_segmented, build_segmented_overlay
from vocab.automaton.frame import frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.overlay import build_overlay
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import Speller, byte_speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import WordList
from vocab.matching.controls import Controls, NewWords
from vocab.matching.matcher import Matcher
from vocab.matching.segmented.controlled import control
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.segmented.text import SegmentedText
from vocab.matching.states import ListStates
from vocab.matching.structure.tokens import StructureTokens
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
            states = ListStates(words, frame, listed.num_ranks, overlay)
            _write(Matcher(states, (_STOP,), max_tokens, min_tokens=1), b"a b", speller, row)
    # What the first JSON in listed words needs, while other lists wait for it.
    StructureTokens(speller.facts)
    states.frame_state(states.start[0])


@cache
def warm_up_segmented() -> None:
    """Do the same with a list of a language written without spaces, of both meanings, and with an author's controls.

    Apart from ``warm_up``, for most services have no such list: without numba's cache it takes 20 s.
    """
    speller = byte_speller(_STOP)
    row = np.zeros((len(speller.facts) + 31) // 32, dtype=np.int32)
    listed = WordList("zh", ("一", "一二", "三"), "inline")
    words = words_from_bytes(words_to_bytes(build_segmented(listed, speller, ReferenceWords(("四五",), ""))))
    controls = Controls(NewWords(3, 1), (), 4, 0, 2)
    for segmentation in ("longest", "any"):
        options = replace(DEFAULT_OPTIONS, segmentation=segmentation)
        overlay = build_segmented_overlay(words, ListChanges(("六",), ("三",)), speller)
        states = SegmentedStates(SegmentedText(words, overlay, options, TokenTrie.of(speller.facts)), 2)
        for max_tokens in (None, 12):
            _write(Matcher(states, (_STOP,), max_tokens, min_tokens=1), "一六".encode(), speller, row)
        if segmentation == "longest":
            _write(Matcher(control(states, controls), (_STOP,)), "一六。".encode(), speller, row)


def _write(matcher: Matcher, text: bytes, speller: Speller, row: Int32Array) -> None:
    for byte in text:
        matcher.fill_bitmask(row)
        matcher.accept_token(speller.facts.token_bytes.index(bytes([byte])))
