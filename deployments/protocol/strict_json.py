"""Read a JSON text exactly as RFC 8259 defines it.

No NaN, no Infinity and no number that becomes one, no repeated name in an object, no byte order mark, no bytes that
are not UTF-8, no half of a surrogate pair, no NUL character, no nesting beyond a limit. An error says where the
fault is, and never repeats the text.

The lines of a JSON Lines file are read as bytes, with bounded memory.
"""

import io
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

import jiter

from deployments.settings.limits import MAX_JSON_DEPTH

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_ESCAPED_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*(\\u0000)")
"""An escaped NUL, and not an escaped backslash followed by the letters u0000."""

_MAY_OVERFLOW: Final = re.compile(rb"\d[eE]\+?0*[1-9]\d\d|\d{309}")
"""No number becomes infinite without one of these in the text: 64-bit floats end at 1.8e308."""

_JITER_ERROR: Final = re.compile(r"(.*) (at line \d+ column \d+)", re.DOTALL)

_PLAIN_WORDS: Final = {
    "Detected duplicate key": "a name is used twice in one object",
    "recursion limit exceeded": "it is nested too deeply",
    "invalid unicode code point": "a string is not valid UTF-8",
    "lone leading surrogate in hex escape": "half of a surrogate pair",
    "unexpected end of hex escape": "half of a surrogate pair or a broken \\u escape",
    "control character": "a control character inside a string, which has to be escaped",
    "EOF while parsing": "it ends too early",
    "number out of range": "a number has too many digits",
}
"""How jiter's messages begin, and ours. Others are passed on; they repeat nothing of the text."""


MAX_DEPTH: Final = 200
"""Levels that jiter reads."""


class JsonError(ValueError):
    """The text is not strict JSON; ``str()`` says why and where."""


def loads(text: bytes, max_depth: int = MAX_JSON_DEPTH) -> Any:
    """Parse a JSON text in UTF-8, nested at most ``max_depth`` levels deep, which may be ``MAX_DEPTH``.

    Takes some 40 ms for a megabyte of the worst text, 2 ms for a megabyte of prose, and no stack beyond a fixed
    depth.

    Raises:
        JsonError: It is not strict JSON.
    """
    if text.startswith(_BYTE_ORDER_MARK):
        raise JsonError("it starts with a byte order mark, at line 1 column 1")
    try:
        value = jiter.from_json(text, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as error:
        raise JsonError(_plain(str(error))) from None
    # The escape is rare, and a search for its letters is much faster than the expression.
    if b"\\u0000" in text and (match := _ESCAPED_NUL.search(text)):
        raise JsonError(f"a string holds the NUL character, {_position(text, match.start(1))}")
    if text.count(b"[") + text.count(b"{") > max_depth or _MAY_OVERFLOW.search(text):
        _check_depth_and_numbers(value, max_depth)
    return value


def _check_depth_and_numbers(value: Any, max_depth: int) -> None:
    level = [value]
    for depth in range(max_depth + 1):
        children: list[Any] = []
        for item in level:
            if isinstance(item, float) and math.isinf(item):
                raise JsonError("a number is too large for a 64-bit float")
            if isinstance(item, dict | list):
                if depth == max_depth:
                    raise JsonError(f"it is nested more than {max_depth} levels deep")
                children.extend(item.values() if isinstance(item, dict) else item)
        level = children


def _plain(message: str) -> str:
    """Translate jiter's message into ours, with its position."""
    match = _JITER_ERROR.fullmatch(message)
    reason, position = match.groups() if match else (message, "")
    for beginning, words in _PLAIN_WORDS.items():
        if reason.startswith(beginning):
            reason = words
    return f"{reason}, {position}" if position else reason


def _position(text: bytes, offset: int) -> str:
    line_start = text.rfind(b"\n", 0, offset) + 1
    line = text.count(b"\n", 0, offset) + 1
    return f"at line {line} column {offset - line_start + 1}"


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

    Holds 256 KiB of the file and ``max_bytes`` of a line.

    Raises:
        OSError: The stream cannot be read.
    """
    stream.seek(start)
    # The ``readline`` of fsspec's files takes no limit.
    reader = io.BufferedReader(cast("io.RawIOBase", stream), _CHUNK_BYTES)
    try:
        while line := reader.readline(max_bytes + len(b"\r\n")):
            num_bytes, part = len(line), line
            while not part.endswith(b"\n") and (part := reader.readline(_CHUNK_BYTES)):
                num_bytes += len(part)
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            yield RawLine(number, start, text if len(text) <= max_bytes else None)
            number, start = number + 1, start + num_bytes
    finally:
        # Else it would close the stream; one that is closed already cannot be detached.
        with suppress(ValueError):
            reader.detach()
