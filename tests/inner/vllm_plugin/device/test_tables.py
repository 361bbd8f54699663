"""Tables of lists: which there are, and when their memory is free again."""

import gc
from itertools import product

import pytest
import torch

from tests.vocab.toys import toy_states
from vocab.matching.states import ListStates

pytest.importorskip("triton", reason="masks on the device need Triton, which is not installed")

from vocab.vllm_plugin.device.tables import NoRoomError, Table, Tables

BYTES = 64 * 1024
CPU = torch.device("cpu")


def states(*words: str) -> ListStates:
    made, _ = toy_states(words)
    return made


def used(tables: Tables) -> int:
    gc.collect()
    return tables.num_bytes


def test_a_list_has_one_table_for_each_n() -> None:
    tables, whole = Tables(CPU, BYTES), states("sol", "mar", "solar")
    table = tables.of(whole)
    of_whole = used(tables)
    assert tables.of(whole) is table
    assert used(tables) == of_whole
    one = ListStates(whole.words, whole.frame, 1)
    other = tables.of(one)
    assert other.address != table.address
    assert used(tables) == of_whole + other.num_bytes


def test_memory_is_free_again_when_the_list_is_gone_and_no_text_has_its_table() -> None:
    tables = Tables(CPU, BYTES)
    listed = states("sol")
    table = tables.of(listed)
    size = used(tables)
    del listed
    assert used(tables) == size > 0
    del table
    assert used(tables) == 0


def test_where_there_is_no_room_tables_go_that_no_text_has_and_a_list_is_refused_when_all_are_in_use() -> None:
    tables, lists = Tables(CPU, BYTES), [states(f"w{number}") for number in range(40)]
    # Nobody holds these: the lists after them get their room.
    assert all(tables.of(listed).num_bytes * len(lists) > BYTES for listed in lists)
    assert 0 < used(tables) <= BYTES
    held = list[Table]()
    with pytest.raises(NoRoomError, match="no room for 1 words"):
        # One by one, for all that came before the one without room stay.
        for listed in lists:
            held += [tables.of(listed)]
    assert 1 < len(held) < len(lists)
    # What is in use stays as it is.
    assert all(tables.of(listed) is table for listed, table in zip(lists, held, strict=False))
    held.clear()
    tables.of(states(*map("".join, product("abcdefg", repeat=3))))


def test_the_list_that_was_asked_for_longest_ago_goes_first() -> None:
    lists = [states("sol"), states("mar"), states("luz")]
    size = Tables(CPU, BYTES).of(lists[0]).num_bytes
    tables = Tables(CPU, 2 * size)
    first = tables.of(lists[0]).address
    tables.of(lists[1])
    tables.of(lists[0])
    tables.of(lists[2])
    assert tables.of(lists[0]).address == first
    assert {table.states() for table in tables._all} == {lists[0], lists[2]}


def test_a_list_that_would_never_fit_is_refused() -> None:
    tables, small = Tables(CPU, BYTES), states("sol")
    kept = tables.of(small).address
    for _ in range(2):
        with pytest.raises(NoRoomError):
            tables.of(states(*map("".join, product("abcdefghijkl", repeat=3))))
    # It costs no other its place.
    assert tables.of(small).address == kept
