"""Load or compile all machine code, so that no request waits for it: 0.7 s with numba's cache on disk."""

import fcntl
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from vocab.artefacts.artefact import words_from_bytes, words_to_bytes
from vocab.automaton.dictionary_trie import ReferenceWords, build_segmented, build_segmented_overlay
from vocab.automaton.frame import frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.overlay import build_overlay
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import Speller, byte_speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import WordList
from vocab.matching.controls import Controls, NewWords, RequiredWord
from vocab.matching.list_kinds import control
from vocab.matching.matcher import Matcher
from vocab.matching.segmented import counting
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.segmented.text import SegmentedText
from vocab.matching.states import ListStates
from vocab.matching.structure.tokens import StructureTokens
from vocab.matching.text_states import TextStates
from vocab.options import DEFAULT_OPTIONS
from vocab.text.changes import ListChanges
from vocab.text.reader import TextReader
from vocab.text.words import Dictionary

_STOP = 0


def warm_up() -> None:
    """Load the machine code of compile, load, mask and step for all kinds of lists, or make it, which takes 65 s.

    For every process of a service at its start. Every kernel runs here once, with the types of arguments that it has
    everywhere. One process makes it, and the others wait to load it.
    """
    speller = byte_speller(_STOP)
    with (Path(tempfile.gettempdir()) / f"wordbound-warm-up-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _use_words(speller)
        _use_segments(speller)
        _use_readers()


def _use_words(speller: Speller) -> None:
    """Compile a list of a few words, store, load and change it, and follow a text in it."""
    listed = WordList("fr", ("l'", "l'un", "un", "a", "a b", "b", "c"), "inline")
    words = words_from_bytes(words_to_bytes(build_words(listed, speller)))
    tokens = FrameTokens.of(speller.facts)
    for overlay in (None, build_overlay(words, ListChanges(("d",), ("c",)), speller)):
        frame = frame_for(words, overlay, DEFAULT_OPTIONS, tokens)
        for max_tokens in (None, 4):
            states = ListStates(words, frame, listed.num_ranks, overlay)
            _write(states, max_tokens, "a b", speller)
    # What the first JSON in listed words needs, while other lists wait for it.
    StructureTokens(speller.facts)
    states.frame_state(states.start[0])


def _use_segments(speller: Speller) -> None:
    """Do the same with a language written without spaces, its words cut in both ways, and with an author's controls."""
    listed = WordList("zh", ("一", "一二", "三"), "inline")
    words = words_from_bytes(words_to_bytes(build_segmented(listed, speller, ReferenceWords(("四五",), ""))))
    overlay = build_segmented_overlay(words, ListChanges(("六",), ("三",)), speller)
    # Forced towards the first word, of which a byte is written.
    controls = Controls(NewWords(3, 1), (RequiredWord((1,)),), 4, 0, 2, num_tokens=9)
    for segmentation in ("longest", "any"):
        options = replace(DEFAULT_OPTIONS, segmentation=segmentation)
        states = SegmentedStates(SegmentedText(words, overlay, options, TokenTrie.of(speller.facts)), 2)
        for max_tokens in (None, 12):
            _write(states, max_tokens, "一六", speller)
        if segmentation == "longest":
            _write(control(states, controls), 9, "一。", speller)
            # What no text here comes to.
            empty = np.zeros(1, dtype=np.int32)
            counting.measure_ends(states.table, empty, 0, empty.copy())


def _use_readers() -> None:
    """Read a text in each kind of language, with changes to its list."""
    changes = ListChanges(("d",), ("c",))
    TextReader(WordList("fr", ("l'", "a", "c"), "inline"), DEFAULT_OPTIONS, 2, changes=changes).coverage("l'a, d")
    chinese = WordList("zh", ("一", "一二"), "inline")
    reader = TextReader(chinese, DEFAULT_OPTIONS, 2, reference=Dictionary(("二三",))).after("一。")
    reader.whole_prefix_length("一二", "三")


def _write(states: TextStates, max_tokens: int | None, text: str, speller: Speller) -> None:
    matcher = Matcher(states, (_STOP,), max_tokens, min_tokens=1)
    row = np.zeros((len(speller.facts) + 31) // 32, dtype=np.int32)
    for byte in text.encode():
        matcher.fill_bitmask(row)
        matcher.accept_token(speller.facts.token_bytes.index(bytes([byte])))
        states.tokens_to_end(matcher.state)
