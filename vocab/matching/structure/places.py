"""Where a JSON answer is: places of its schema's graph, and threads, as tuples of integers."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from vocab.matching.text_states import State

MAX_PLACES: Final = 4096
"""Of one thread; more are dropped, which forbids answers and allows none."""

AROUND: Final = 0
"""Of a thread around the strings; one within a string has the number of its kind, and one more."""

Stack: TypeAlias = tuple[int, ...]
"""What is open, the innermost last: a node to go on at, or below 0 a repeat and how often its rule has begun."""


class Place(NamedTuple):
    """A node of the graph, and what is open around it."""

    node: int
    stack: Stack


Places: TypeAlias = tuple[int, ...]
"""Places in one tuple: of each its node, the length of its stack, and that."""


class Thread(NamedTuple):
    """One way to read what was written.

    Attributes:
        kind: ``AROUND``, or 1 and the number of the kind of the string it is in.
        places: Where it is, or where the string ends.
        readings: Within a string the state of its text, of its ``ListStates`` or ``ControlledStates``.
    """

    kind: int
    places: Places
    readings: State = ()


def merge(threads: Iterable[Thread]) -> tuple[Thread, ...]:
    """Join threads that are around the strings, and leave out those that are there already."""
    merged = dict.fromkeys(threads)
    around = [thread for thread in merged if thread.kind == AROUND]
    if len(around) < 2:
        return tuple(merged)
    joined = pack([place for thread in around for place in unpack(thread.places)])
    return (Thread(AROUND, joined), *(thread for thread in merged if thread.kind != AROUND))


def write_frame(repeat: int, count: int) -> int:
    return -1 - (repeat << 32 | count)


def read_frame(frame: int) -> tuple[int, int]:
    """Return the repeat of a frame, and how often its rule has begun."""
    return (-1 - frame) >> 32, (-1 - frame) & 0xFFFFFFFF


def pack(places: Iterable[Place]) -> Places:
    """Join places into one tuple, ascending."""
    packed: list[int] = []
    for node, stack in sorted(set(places))[:MAX_PLACES]:
        packed += (node, len(stack), *stack)
    return tuple(packed)


def unpack(places: Places) -> Iterator[Place]:
    """Yield the places of a tuple."""
    at = 0
    while at < len(places):
        node, depth = places[at : at + 2]
        yield Place(node, places[at + 2 : at + 2 + depth])
        at += 2 + depth


def pack_threads(threads: Iterable[Thread]) -> State:
    """Join threads into one state."""
    packed: list[int] = []
    for kind, places, readings in threads:
        packed += (kind, len(places), len(readings), *places, *readings)
    return tuple(packed)


def unpack_threads(state: State) -> Iterator[Thread]:
    """Yield the threads of a state."""
    at = 0
    while at < len(state):
        kind, num_places, num_readings = state[at : at + 3]
        at += 3
        end = at + num_places + num_readings
        yield Thread(kind, state[at : at + num_places], state[at + num_places : end])
        at = end
