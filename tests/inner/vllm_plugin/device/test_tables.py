"""Lists in the arena: what they share, and when their memory is free again."""

import gc
from itertools import product

import pytest
import torch

from tests.vocab.toys import toy_states
from vocab.matching.states import ListStates

pytest.importorskip("triton", reason="masks on the device need Triton, which is not installed")

from vocab.vllm_plugin.device.tables import Arena, ArenaFullError, Table

BYTES = 64 * 1024
CPU = torch.device("cpu")


def states(*words: str) -> ListStates:
    made, _ = toy_states(words)
    return made


def used(arena: Arena) -> int:
    gc.collect()
    return BYTES - arena.num_bytes_free


def test_every_n_of_a_list_shares_its_arrays_and_has_one_table() -> None:
    arena, whole = Arena(CPU, BYTES), states("sol", "mar", "solar")
    table = arena.table(whole)
    of_whole = used(arena)
    assert arena.table(whole) is table
    assert used(arena) == of_whole
    one = ListStates(whole.words, whole.frame, 1)
    other = arena.table(one)
    assert other.place != table.place
    assert 0 < used(arena) - of_whole < of_whole


def test_memory_is_free_again_when_the_list_is_gone_and_no_text_has_its_table() -> None:
    arena = Arena(CPU, BYTES)
    listed = states("sol")
    table = arena.table(listed)
    size = used(arena)
    del listed
    assert used(arena) == size
    del table
    assert used(arena) == 0
    assert arena.table(states("mar")).place < BYTES // 4


def test_a_full_arena_lets_go_of_what_no_text_has_and_refuses_when_all_is_in_use() -> None:
    arena, lists = Arena(CPU, BYTES), [states(f"w{number}") for number in range(40)]
    # Nobody holds these: the lists after them get their room.
    assert len({arena.table(listed).place for listed in lists}) < len(lists)
    held = list[Table]()
    with pytest.raises(ArenaFullError, match="no room for 1 words"):
        # One by one, for all that came before the one without room stay.
        for listed in lists:
            held += [arena.table(listed)]
    assert 1 < len(held) < len(lists)
    # What is in use stays as it is.
    assert all(arena.table(listed) is table for listed, table in zip(lists, held, strict=False))
    assert len({table.place for table in held}) == len(held)
    held.clear()
    # Memory of several is one again.
    arena.table(states(*map("".join, product("abcdefg", repeat=3))))


def test_a_list_that_would_not_fit_into_an_empty_arena_is_refused() -> None:
    with pytest.raises(ArenaFullError):
        Arena(CPU, 1024).table(states("sol"))
