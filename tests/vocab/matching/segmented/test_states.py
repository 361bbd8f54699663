"""The states of texts without spaces against a slow reference, on random dictionaries and tokens."""

import random

import numpy as np
import pytest

from tests.vocab.matching.segmented.worlds import World
from vocab import marks
from vocab.arrays.byte_trie import Int32Array
from vocab.errors import TokenBudgetError
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.matcher import Matcher
from vocab.matching.segmented.states import SegmentedStates

NUM_STEPS = 5


@pytest.fixture(autouse=True)
def few_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give Chinese few marks: with all of them the reference would search for minutes."""
    monkeypatch.setitem(marks._UNSPACED, "zh", marks.UnspacedMarks(("（）",), "。", "", "，"))


def tokens_of(row: Int32Array) -> list[int]:
    return [int(token) for token in np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))]


def row_of(states: SegmentedStates) -> Int32Array:
    return np.zeros((states.words.num_tokens + 31) // 32, dtype=np.int32)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5, 6, 8, 9, 10])
def test_masks_steps_and_ends_are_those_of_the_reference(seed: int) -> None:
    world, rng = World.of(seed), random.Random(seed)
    states, facts = world.states()
    row, state, written = row_of(states), states.start, b""
    assert (states.fewest_tokens() is not None) == world.goes_on(b"")
    for _ in range(NUM_STEPS):
        states.fill(row, state, NO_BUDGET)
        allowed = tokens_of(row)
        assert allowed == [
            token for token, one in enumerate(facts.token_bytes) if one and world.goes_on(written + one)
        ], written
        for token in rng.sample(range(len(facts)), 40):
            assert bool(states.target(state, token, NO_BUDGET)) == (token in allowed)
        if not allowed:
            break
        several = [token for token in allowed if token >= 256]
        token = rng.choice(several if several and rng.random() < 0.6 else allowed)
        state, written = states.target(state, token, NO_BUDGET), written + facts.token_bytes[token]
        states.check(state)
        assert states.can_stop(state) == world.is_text(written.decode(errors="replace"))


@pytest.mark.parametrize("lacks_bytes", [False, True], ids=["all bytes", "some bytes lacking"])
@pytest.mark.parametrize("seed", range(40))
def test_a_text_ends_whole_within_any_budget(seed: int, lacks_bytes: bool) -> None:
    world, rng = World.of(seed), random.Random(seed)
    lacking = frozenset(rng.sample(range(0x80, 0xC0), 20)) if lacks_bytes else frozenset()
    states, facts = world.states(lacking=lacking)
    fewest, stop = states.fewest_tokens(), len(facts) - 1
    if fewest is None:
        with pytest.raises(TokenBudgetError):
            Matcher(states, (stop,), 50)
        return
    row = row_of(states)
    for max_tokens in (*range(fewest, fewest + 5), 30):
        matcher, written = Matcher(states, (stop,), max_tokens), b""
        while not matcher.is_terminated and matcher.num_tokens < max_tokens:
            matcher.fill_bitmask(row)
            token = rng.choice(tokens_of(row))
            assert matcher.accept_token(token)
            written += facts.token_bytes[token]
        assert world.is_text(written.decode()), (max_tokens, written)
        matcher.rollback(matcher.num_tokens // 2)
        matcher.fill_bitmask(row)
        assert matcher.accept_token(rng.choice(tokens_of(row)))


def test_a_state_of_another_list_is_refused() -> None:
    states, _ = World.of(0).states()
    for state in ((-1,), (1 << 60,), (0xFF,), (0xE4B8, 0), (0xE4B8AD,), tuple(range(40))):
        with pytest.raises(ValueError, match="read"):
            states.check(state)
    states.check((0xE4B8,))


def test_a_text_goes_on_at_a_place_of_the_gap_automaton() -> None:
    states, _ = World.of(0).states()
    assert states.begin(None) == states.start
    with pytest.raises(ValueError, match="place 9999"):
        states.begin(9999)
