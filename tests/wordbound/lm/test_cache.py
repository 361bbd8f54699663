"""Caches of rows and of prefixes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wordbound.lm.cache import OutputCache, TokenTrie

ROW = torch.zeros(4)


@given(st.integers(0, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40))
def test_the_rows_used_last_are_kept(maxsize: int, uses: list[tuple[bool, int]]) -> None:
    cache, used = OutputCache(maxsize), list[int]()
    for is_set, key in uses:
        if is_set:
            cache[key] = torch.tensor([float(key)])
        elif key in cache:
            assert cache[key].item() == key
        if is_set or key in used:
            used = [*(other for other in used if other != key), key][-maxsize:] if maxsize else []
        assert [other for other in range(7) if other in cache] == sorted(used)
        assert len(cache) == len(used)


def test_setting_a_row_again_drops_no_other() -> None:
    cache = OutputCache(2)
    cache["a"], cache["b"] = ROW, ROW
    cache["a"] = ROW + 1
    assert ("a" in cache, "b" in cache) == (True, True)
    assert torch.equal(cache["a"], ROW + 1)


def test_a_row_of_a_batch_does_not_keep_the_batch() -> None:
    cache, batch = OutputCache(1), torch.zeros(32, 4)
    cache["a"] = batch[3]
    assert cache["a"].untyped_storage().nbytes() == ROW.nbytes


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="maxsize must be 0 or more"):
        OutputCache(-1)


def test_rows_come_back_from_the_cpu_to_their_device() -> None:
    cache = OutputCache(1, move_to_cpu=True)
    cache["a"] = ROW
    assert cache["a"].device == ROW.device


def test_a_cache_that_is_cleared_is_empty() -> None:
    cache = OutputCache(1)
    cache["a"] = ROW
    cache.clear()
    assert len(cache) == 0


def test_a_tree_says_its_prefixes_and_which_have_states() -> None:
    root = TokenTrie()
    root.add_token(1).past_key_values = object()
    root.get_token(1).add_token(2)
    root.add_token(3)
    assert repr(root) == "[1: *[2: []], 3: []]"


def test_prefixes_may_be_longer_than_the_stack_is_deep() -> None:
    root = last = TokenTrie()
    for token in range(5000):
        last = last.add_token(token)
    last.past_key_values = object()
    assert "4999: *[]" in repr(root)
    assert root.get_token(0).add_token(1) is root.get_token(0).get_token(1)
    assert not root.has_token(1)
    with pytest.raises(KeyError):
        root.get_token(1)
