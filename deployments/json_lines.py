"""Read the lines of a JSON Lines file as bytes, with bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

_CHUNK_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line: its number from 1, its first byte, and its text without the line break, None where it is too long."""

    number: int
    start: int
    text: bytes | None


def raw_lines(stream: BinaryIO, max_bytes: int, *, start: int = 0, number: int = 1) -> Iterator[RawLine]:
    """Yield a file's lines from byte ``start`` on, where line ``number`` begins.

    A line break at the end makes no line.

    Holds 256 KiB of the file and ``max_bytes`` of a line. Does not use the stream's ``readline``: that of fsspec's
    files takes no limit.

    Raises:
        OSError: The stream cannot be read.
    """
    stream.seek(start)
    buffer, num_bytes = bytearray(), 0
    while chunk := stream.read(_CHUNK_BYTES):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield RawLine(number, start, _text(buffer, end, num_bytes + len(end), max_bytes))
            number, start = number + 1, start + num_bytes + len(end) + 1
            buffer.clear()
            num_bytes = 0
        num_bytes += len(rest)
        if num_bytes <= max_bytes + 1:
            buffer += rest
        else:
            buffer.clear()
    if num_bytes:
        yield RawLine(number, start, _text(buffer, b"", num_bytes, max_bytes))


def _text(buffer: bytearray, end: bytes, num_bytes: int, max_bytes: int) -> bytes | None:
    """Return a line's text without its break; None where it exceeds ``max_bytes``."""
    if num_bytes > max_bytes + 1:
        return None
    text = bytes(buffer + end).removesuffix(b"\r")
    return text if len(text) <= max_bytes else None
