import numpy as np

from vocab.automaton.readings import FULL, MAX_READINGS, add_reading, settle


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, dtype=np.int32)


def test_a_node_keeps_its_least_owed_rank() -> None:
    nodes, owed = ints(0, 0), ints(0, 0)
    count = add_reading(nodes, owed, 0, 7, 30)
    count = add_reading(nodes, owed, count, 7, 10)
    assert (count, nodes[0], owed[0]) == (1, 7, 10)


def test_a_set_that_is_full_says_so_and_stays_full() -> None:
    nodes, owed = ints(*range(MAX_READINGS)), ints(*[0] * MAX_READINGS)
    assert add_reading(nodes, owed, MAX_READINGS, 5, 0) == MAX_READINGS
    assert add_reading(nodes, owed, MAX_READINGS, MAX_READINGS, 0) == FULL
    assert add_reading(nodes, owed, FULL, 5, 0) == FULL


def test_a_token_asks_for_its_best_reading_and_pays_what_that_covers() -> None:
    nodes, owed = ints(9, 4, 2), ints(40, 10, 3)
    smallest = ints(0, 0, 25, 0, 12, 0, 0, 0, 0, 0)
    assert settle(nodes, owed, 3, smallest) == 12
    assert nodes.tolist() == [2, 4, 9]
    assert owed.tolist() == [0, 0, 40]
