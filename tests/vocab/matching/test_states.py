import numpy as np
import pytest

from tests.vocab.toys import STOP, tokens_of, toy_automaton
from vocab.matching.masks import NO_BUDGET, MaskRows
from vocab.matching.states import ListStates

AUTOMATON, TOKENIZER = toy_automaton(["sol", "mar", "abcd"], ["sol", " mar"])
STATES = ListStates(AUTOMATON, MaskRows(AUTOMATON), 2)
STOPS = np.asarray([STOP], dtype=np.int32)


def token(text: bytes) -> int:
    return TOKENIZER.token_bytes.index(text)


def mask(states: ListStates, state: int, budget: int = NO_BUDGET) -> set[int]:
    row = np.full(9, -1, dtype=np.int32)
    states.fill(row, state, budget, STOPS)
    return tokens_of(row)


def test_a_mask_has_exactly_the_tokens_that_lead_somewhere() -> None:
    sol = STATES.target(STATES.start, token(b"sol"), NO_BUDGET)
    for state in (STATES.start, sol):
        for budget in (NO_BUDGET, 0, 1, 2, 99):
            leading = {i for i in range(1, len(TOKENIZER)) if STATES.target(state, i, budget) >= 0}
            assert mask(STATES, state, budget) - {STOP} == leading


def test_stop_tokens_are_in_the_mask_of_complete_texts_only() -> None:
    sol = STATES.target(STATES.start, token(b"sol"), NO_BUDGET)
    assert STATES.can_stop(sol)
    assert STOP in mask(STATES, sol)
    assert not STATES.can_stop(STATES.start)
    assert STOP not in mask(STATES, STATES.start)


def test_a_stop_token_that_words_are_spelled_with_is_kept_out_of_words() -> None:
    row, stops = np.zeros(9, dtype=np.int32), np.asarray([token(b"sol")], dtype=np.int32)
    STATES.fill(row, STATES.start, NO_BUDGET, stops)
    assert token(b"sol") not in tokens_of(row)


def test_a_stop_token_without_a_bit_is_passed_over() -> None:
    row, stops = np.zeros(9, dtype=np.int32), np.asarray([9 * 32, 2**31 - 1], dtype=np.int32)
    sol = STATES.target(STATES.start, token(b"sol"), NO_BUDGET)
    STATES.fill(row, sol, NO_BUDGET, stops)
    assert tokens_of(row) == mask(STATES, sol) - {STOP}


def test_n_is_that_of_the_states() -> None:
    assert STATES.target(STATES.start, token(b"a"), NO_BUDGET) == -1
    assert ListStates(AUTOMATON, MaskRows(AUTOMATON), 3).target(STATES.start, token(b"a"), NO_BUDGET) >= 0
    assert ListStates(AUTOMATON, MaskRows(AUTOMATON), 10**12).n_words == 3


def test_the_shortest_text_has_as_many_tokens_as_its_word() -> None:
    assert STATES.fewest_tokens() == 1
    plain, _ = toy_automaton(["abcd", "b"])
    assert ListStates(plain, MaskRows(plain), 1).fewest_tokens() == 4


def test_a_mask_shorter_than_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer bits"):
        STATES.fill(np.zeros(4, dtype=np.int32), STATES.start, NO_BUDGET, STOPS)
