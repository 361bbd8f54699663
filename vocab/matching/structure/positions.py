"""Where a JSON answer is: positions of its schema's graph, and threads, as tuples of integers."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from vocab.matching.text_states import State

MAX_POSITIONS: Final = 4096
"""Of one thread; more are dropped, which forbids answers and allows none."""

OUTSIDE: Final = 0
"""Of a thread outside the strings; one within a string has the number of its kind, and one more."""

Stack: TypeAlias = tuple[int, ...]
"""What is open, the innermost last: a node to go on at, or below 0 a repeat and how often its rule has begun."""


class Position(NamedTuple):
    """A node of the graph, and what is open around it."""

    node: int
    stack: Stack


Positions: TypeAlias = tuple[int, ...]
"""Positions in one tuple: of each its node, the length of its stack, and that."""


class Thread(NamedTuple):
    """One way to read what was written.

    Attributes:
        kind: ``OUTSIDE``, or 1 and the number of the kind of the string it is in.
        positions: Where it is, or where the string ends.
        readings: Within a string the state of its text, of its ``ListStates`` or ``ControlledStates``.
    """

    kind: int
    positions: Positions
    readings: State = ()


def merge(threads: Iterable[Thread]) -> tuple[Thread, ...]:
    """Join threads that are outside the strings, and leave out those that are there already."""
    merged = dict.fromkeys(threads)
    outside = [thread for thread in merged if thread.kind == OUTSIDE]
    if len(outside) < 2:
        return tuple(merged)
    joined = pack([position for thread in outside for position in unpack(thread.positions)])
    return (Thread(OUTSIDE, joined), *(thread for thread in merged if thread.kind != OUTSIDE))


def write_frame(repeat: int, count: int) -> int:
    return -1 - (repeat << 32 | count)


def read_frame(frame: int) -> tuple[int, int]:
    """Return the repeat of a frame, and how often its rule has begun."""
    return (-1 - frame) >> 32, (-1 - frame) & 0xFFFFFFFF


def pack(positions: Iterable[Position]) -> Positions:
    """Join positions into one tuple, ascending."""
    packed: list[int] = []
    for node, stack in sorted(set(positions))[:MAX_POSITIONS]:
        packed += (node, len(stack), *stack)
    return tuple(packed)


def unpack(positions: Positions) -> Iterator[Position]:
    """Yield the positions of a tuple."""
    at = 0
    while at < len(positions):
        node, depth = positions[at : at + 2]
        yield Position(node, positions[at + 2 : at + 2 + depth])
        at += 2 + depth


def pack_threads(threads: Iterable[Thread]) -> State:
    """Join threads into one state."""
    packed: list[int] = []
    for kind, positions, readings in threads:
        packed += (kind, len(positions), len(readings), *positions, *readings)
    return tuple(packed)


def unpack_threads(state: State) -> Iterator[Thread]:
    """Yield the threads of a state."""
    at = 0
    while at < len(state):
        kind, num_positions, num_readings = state[at : at + 3]
        at += 3
        end = at + num_positions + num_readings
        yield Thread(kind, state[at : at + num_positions], state[at + num_positions : end])
        at = end
