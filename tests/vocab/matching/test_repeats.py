import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.vocab.toys import tokens_of
from vocab.matching.repeats import Repeats

TOKENS = st.lists(st.integers(0, 5), max_size=30)


def completes_a_run(tokens: list[int], size: int, token: int) -> bool:
    runs = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return tuple([*tokens, token][-size:]) in runs if len(tokens) >= size - 1 else False


@given(TOKENS, st.integers(1, 4), st.integers(0, 30))
def test_no_run_comes_twice(tokens: list[int], size: int, num_back: int) -> None:
    repeats = Repeats(size, tokens)
    num_back = min(num_back, len(tokens))
    repeats.rollback(num_back)
    rest = tokens[: len(tokens) - num_back]
    assert set(repeats.next_tokens()) == {token for token in range(6) if completes_a_run(rest, size, token)}


def test_a_mask_loses_what_would_repeat() -> None:
    mask = np.full(2, -1, dtype=np.int32)
    Repeats(2, [31, 63, 31, 5, 31]).clear(mask)
    assert set(range(64)) - tokens_of(mask) == {63, 5}


def test_a_mask_is_never_emptied() -> None:
    mask = np.asarray([0b100, 0], dtype=np.int32)
    Repeats(1, [2, 3]).clear(mask)
    assert tokens_of(mask) == {2}
