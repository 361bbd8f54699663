"""A list with changes against the list built anew."""

import random
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from tests.vocab.toys import tokens_of, toy_speller, toy_tokenizer, toy_words
from vocab.automaton.compiled_list import Root
from vocab.automaton.frame import frame_for
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.overlay import build_overlay, overlay_digest
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import WordList, load_word_list
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.states import ListStates
from vocab.matching.text_states import NO_TOKENS
from vocab.options import Case, ListOptions
from vocab.text.changes import ListChanges, entries_left_out

EXTRA = ("zyxwv", "Schrödinger", "in front of", "Mr.", '"ouf"', ".net")
STEPS = 40
WALKS = 15


@pytest.mark.parametrize("case", ["any", "sentence"])
@pytest.mark.parametrize("lang", ["en", "fr"])
def test_masks_equal_those_of_a_list_built_anew(smollm2_path: Path, lang: str, case: Case) -> None:
    speller = Speller.from_tokenizer(AutoTokenizer.from_pretrained(smollm2_path))
    draw = random.Random(2)
    listed = load_word_list(lang, None).up_to(1000)
    left_out = entries_left_out(listed, tuple(word for word in listed.words if draw.random() < 0.05))
    # An added word has its capital where a sentence starts, whatever the list's words have: so also in the other list.
    extra = tuple(word for word in EXTRA if case == "sentence" or word[0].isupper() or not word[0].isalpha())
    words = build_words(listed, speller)
    changed = build_overlay(words, ListChanges(extra, left_out), speller)
    anew = WordList(lang, extra + tuple(word for word in listed.words if word not in left_out), "file")
    options = ListOptions(case=case, possessive=True)
    tokens = FrameTokens.of(speller.facts)
    ours = ListStates(words, frame_for(words, changed, options, tokens), 1000, changed)
    theirs = ListStates.of(anew, options, speller, 10**6)
    rows = np.zeros((2, (len(speller.facts) + 31) // 32), dtype=np.int32)
    for walk in range(WALKS):
        states = [ours.start, theirs.start]
        for step in range(STEPS):
            budget = NO_BUDGET if walk % 2 else STEPS - step
            for row, side, state in zip(rows, (ours, theirs), states, strict=True):
                side.fill(row, state, budget, NO_TOKENS)
            np.testing.assert_array_equal(rows[0], rows[1])
            assert ours.can_stop(states[0]) == theirs.can_stop(states[1])
            token = draw.choice(sorted(tokens_of(rows[0])))
            states = [side.target(state, token, budget) for side, state in zip((ours, theirs), states, strict=True)]


def test_only_paths_of_changed_forms_are_copied_and_the_trie_stays_as_it_is() -> None:
    words = toy_words([f"w{number}" for number in range(1000)])
    before = {name: array.tobytes() for name, array in vars(words).items() if isinstance(array, np.ndarray)}
    overlay = build_overlay(words, ListChanges(("w5x", "(x)"), ("w7",)), toy_speller(toy_tokenizer([])))
    assert before == {name: array.tobytes() for name, array in vars(words).items() if isinstance(array, np.ndarray)}
    # Four forms each: bare and behind a blank, with and without a capital.
    assert overlay.num_nodes <= 3 * 4 * len(" w5x") + len(words.roots) + 8
    assert tuple(overlay.roots)[: len(words.roots)] == tuple(words.roots)
    assert Root("", "(", ")", 0) in overlay.roots


def test_the_digest_names_list_and_changes() -> None:
    digests = {
        overlay_digest(base, ListChanges(extra, left_out))
        for base in ("a", "b")
        for extra, left_out in ((("x",), ()), ((), ("x",)), (("x", "y"), ()), (("x",), ("y",)))
    }
    assert len(digests) == 8
