from types import SimpleNamespace
from typing import Any

import pytest

from vocab.vllm_plugin.wrap import wrap


def plus_one(original: Any, number: int) -> int:
    return int(original(number)) + 1


def times_ten(original: Any, number: int) -> int:
    return int(original(number)) * 10


def test_a_wrapper_is_put_around_once() -> None:
    owner = SimpleNamespace(double=lambda number: 2 * number)
    wrap(owner, "double", plus_one)
    wrap(owner, "double", plus_one)
    assert owner.double(3) == 7


def test_another_wrapper_goes_around_the_first() -> None:
    owner = SimpleNamespace(double=lambda number: 2 * number)
    for wrapper in (plus_one, times_ten, plus_one):
        wrap(owner, "double", wrapper)
    assert owner.double(3) == 70


def test_what_is_not_there_cannot_be_wrapped() -> None:
    with pytest.raises(AttributeError, match="triple"):
        wrap(SimpleNamespace(), "triple", plus_one)
