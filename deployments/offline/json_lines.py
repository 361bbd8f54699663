"""The lines of a JSON Lines file as bytes, none of them longer than is wanted in memory. It knows nothing of JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line.

    Attributes:
        number: In the file, from 1.
        start: Its first byte.
        text: Without the line break; None where the line is too long.
    """

    number: int
    start: int
    text: bytes | None


def raw_lines(stream: BinaryIO, max_bytes: int, *, start: int = 0, number: int = 1) -> Iterator[RawLine]:
    """The lines from byte ``start`` on, which is the start of line ``number``. A break at the end makes no line."""
    stream.seek(start)
    while head := stream.readline(max_bytes + 2):
        size, tail = len(head), head
        while not tail.endswith(b"\n") and (tail := stream.readline(2**20)):
            size += len(tail)
        text = head.removesuffix(b"\n").removesuffix(b"\r")
        yield RawLine(number, start, text if size == len(head) and len(text) <= max_bytes else None)
        start += size
        number += 1
