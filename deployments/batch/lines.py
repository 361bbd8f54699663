"""Read the lines of a batch's input file: each becomes a request, or the fault that keeps it from being one.

One line is in memory at a time; every line of the file gives exactly one item, in order. A body is checked like that
of a request and passed on unchanged; the replica checks it again.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, BinaryIO, Final

from deployments.errors import ApiError, printable
from deployments.protocol.generation.reader import ChatRequestReader
from deployments.protocol.strict_json import JsonError, loads, raw_lines
from deployments.settings.limits import Limits

MAX_CUSTOM_ID_CHARS: Final = 512

_MEMBERS: Final = ("custom_id", "method", "url", "body")

_MAX_DEPTH: Final = 200
"""The limit of ``strict_json``."""


@dataclass(frozen=True)
class Line:
    """A line whose request would be accepted; ``number`` is from 1, and ``custom_id`` unique in the file."""

    number: int
    custom_id: str
    body: dict[str, Any]
    num_bytes: int = field(default=0, compare=False)

    def to_request(self) -> str:
        """Return the body of the request as compact JSON."""
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class LineFault:
    """A line that cannot be answered, and why.

    Attributes:
        number: Its line in the file, from 1.
        custom_id: None where it has none, or repeats an earlier line's, so that each name gets one result.
        message: Begins with the line's number, names the cause, and what to change.
        param: The member or field at fault, if any.
    """

    number: int
    custom_id: str | None
    code: str
    message: str
    param: str | None = None


def read_lines(
    stream: BinaryIO, *, reader: ChatRequestReader, limits: Limits, endpoint: str
) -> Iterator[Line | LineFault]:
    """Yield the request or the fault of each line of a batch's file.

    A line break at the end of the file begins no line.

    Holds 100 bytes for each line read, for the names that were used. Takes 0.04 ms for a line of 1 KB. A line longer
    than ``limits.max_body_bytes`` is skipped to its end.

    Raises:
        OSError: The stream cannot be read.
    """
    checker = _Checker(reader, limits, endpoint)
    for line in raw_lines(stream, limits.max_body_bytes):
        yield checker.check(line.number, line.text)


class _Fault(Exception):  # noqa: N818 - becomes a LineFault with the number of its line
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


class _Checker:
    """Checks the lines of one file, in order."""

    def __init__(self, reader: ChatRequestReader, limits: Limits, endpoint: str) -> None:
        self._reader = reader
        self._limits = limits
        self._endpoint = endpoint
        self._line_of: dict[bytes, int] = {}

    def check(self, number: int, text: bytes | None) -> Line | LineFault:
        """Check a line; return it, or its fault. ``text`` is None for one that was too long to keep."""
        custom_id: str | None = None
        try:
            members = self._parse(text)
            name = _custom_id(members)
            self._take(name, number)
            custom_id = name
            return Line(number, name, self._body(members), len(text or b""))
        except _Fault as fault:
            return LineFault(number, custom_id, fault.code, f"Line {number}: {fault}", fault.param)

    def _parse(self, text: bytes | None) -> dict[str, Any]:
        """Parse a line as a JSON object; raise ``_Fault`` where it is none."""
        if text is None:
            raise _Fault("line_too_long", f"it has more than {self._limits.max_body_bytes} bytes. Make it shorter.")
        if not text.strip():
            raise _Fault("blank_line", "it is blank. Leave it out.")
        try:
            value = loads(text, min(self._limits.max_json_depth + 1, _MAX_DEPTH))
        except JsonError as error:
            if not _is_utf8(text):
                raise _Fault("invalid_json_line", "it is not valid UTF-8. Save the file as UTF-8.") from None
            # jiter counts lines within this text, which is one line.
            reason = str(error).replace("at line 1 column", "at column")
            raise _Fault("invalid_json_line", f"it is not valid JSON: {reason}.") from None
        if not isinstance(value, dict):
            raise _Fault("invalid_line", f"it must be a JSON object with the members {', '.join(_MEMBERS)}.")
        return value

    def _take(self, custom_id: str, number: int) -> None:
        """Take a line's ``custom_id``; raise ``_Fault`` where an earlier line has it."""
        # A digest: a name may have 2 KB, and there may be 100,000 of them.
        key = blake2b(custom_id.encode(), digest_size=16).digest()
        first = self._line_of.setdefault(key, number)
        if first != number:
            raise _Fault(
                "duplicate_custom_id",
                f"its 'custom_id' is that of line {first}, whose result has it. Give each line one of its own.",
                "custom_id",
            )

    def _body(self, members: dict[str, Any]) -> dict[str, Any]:
        """Check the members of a line and return its request."""
        for name in members:
            if name not in _MEMBERS:
                shown = printable(name)
                raise _Fault("invalid_line", f"unknown member '{shown}'. It has {', '.join(_MEMBERS)}.", shown)
        if members.get("method") != "POST":
            raise _Fault("invalid_method", "'method' must be 'POST'.", "method")
        if members.get("url") != self._endpoint:
            raise _Fault("invalid_url", f"'url' must be '{self._endpoint}', the batch's endpoint.", "url")
        body = members.get("body")
        if not isinstance(body, dict):
            raise _Fault("invalid_body", "'body' must be an object, the request.", "body")
        if body.get("stream"):
            raise _Fault("invalid_request", "'stream' cannot be true in a batch. Leave it out.", "stream")
        try:
            self._reader.read(body)
        except ApiError as error:
            raise _Fault(error.code or "invalid_request", error.message, error.param) from None
        return body


def _custom_id(members: dict[str, Any]) -> str:
    """Return the ``custom_id`` of a line; raise ``_Fault`` where it has none, or a bad one."""
    value = members.get("custom_id")
    if value is None:
        raise _Fault("missing_custom_id", "it has no 'custom_id'. Give each line one of its own.", "custom_id")
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_CUSTOM_ID_CHARS:
        raise _Fault(
            "invalid_custom_id",
            f"'custom_id' must be a string of at least 1 and at most {MAX_CUSTOM_ID_CHARS} characters.",
            "custom_id",
        )
    return value


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
