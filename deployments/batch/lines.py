"""Read and write the lines of OpenAI's batch files.

Each line of an input file becomes a request, or the fault that keeps it from being one. A body is checked like that of
a request and passed on unchanged; the replica checks it again. The record of a result is a line of the output or error
file, for both kinds of batch; the simple route's list is made of these.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any, BinaryIO, Final, Literal, NamedTuple, TypeAlias

from deployments.batch.models import Batch, LineResult
from deployments.contract import LineAnswer, status_and_body
from deployments.errors import ApiError, BadRequestError, printable
from deployments.protocol.batches import ENDPOINT
from deployments.protocol.reader import ChatRequestReader
from deployments.protocol.strict_json import JsonError, loads, raw_lines
from deployments.settings.limits import MAX_JSON_DEPTH, Limits

MAX_CUSTOM_ID_CHARS: Final = 512

_MEMBERS: Final = ("custom_id", "method", "url", "body")

Unanswered: TypeAlias = Literal["expired", "cancelled", "failed"]

BATCH_EXPIRED: Final = "batch_expired"
BATCH_CANCELLED: Final = "batch_cancelled"
BATCH_FAILED: Final = "batch_failed"
ENGINE_FAILED: Final = "engine_failed"
_NOT_THE_CALLERS: Final = (BATCH_EXPIRED, BATCH_CANCELLED, BATCH_FAILED, ENGINE_FAILED)

_UNANSWERED: Final[Mapping[Unanswered, tuple[str, str]]] = {
    "expired": (BATCH_EXPIRED, "This request could not be executed before the completion window expired."),
    "cancelled": (BATCH_CANCELLED, "This request was not executed, for the batch was cancelled."),
    "failed": (BATCH_FAILED, "This request was not executed, for others of the batch ended the engine."),
}

_UNUSUAL_BREAKS: Final = {character: f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}
"""In JSON these stand inside strings only; other line breaks are control characters, which it escapes."""

_PIECE_BYTES: Final = 256 * 1024

_READ_LINES: Final = 64
_READ_BYTES: Final = 256 * 1024
"""Bounds the lines of a batch that are read ahead."""

MAX_LINES_READ: Final = 10_000
"""Lines that are passed over at once: those of which the store is asked whether they have a result."""


class Place(NamedTuple):
    """A line of a file: its number, from 1, and its first byte."""

    number: int = 1
    start: int = 0


@dataclass(frozen=True)
class Line:
    """A line whose request would be accepted; ``number`` is from 1, and ``custom_id`` unique in the file."""

    number: int
    custom_id: str
    body: dict[str, Any]


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


def next_lines(
    stream: BinaryIO, limits: Limits, place: Place, is_wanted: Callable[[int], bool]
) -> tuple[list[Line], Place | None]:
    """Read the next lines of a batch's file, all of which were checked before and are without faults.

    Args:
        place: Where to begin.
        is_wanted: Says of a line's number whether it is to be returned.

    Returns:
        As many lines as may be in memory, of the next ``MAX_LINES_READ``, and where others begin; None at the end.

    Raises:
        OSError: The stream cannot be read.
    """
    some: list[Line] = []
    num_bytes = 0
    for line in raw_lines(stream, limits.max_body_bytes, start=place.start, number=place.number):
        num_read = line.number - place.number
        if len(some) >= _READ_LINES or num_bytes >= _READ_BYTES or num_read >= MAX_LINES_READ:
            return some, Place(line.number, line.start)
        if line.text is not None and is_wanted(line.number):
            members = json.loads(line.text)
            some.append(Line(line.number, members["custom_id"], members["body"]))
            num_bytes += len(line.text)
    return some, None


def parse_line(text: bytes | None, limits: Limits) -> dict[str, Any]:
    """Parse a JSON line as an object. ``text`` is None for one that was too long to keep.

    Raises:
        BadRequestError: It is none; the message names the cause, and the code says which.
    """
    if text is None:
        most = limits.max_body_bytes
        raise BadRequestError(f"it has more than {most} bytes. Make it shorter.", code="line_too_long")
    if not text.strip():
        raise BadRequestError("it is blank. Leave it out.", code="blank_line")
    try:
        value = loads(text, MAX_JSON_DEPTH + 1)
    except JsonError as error:
        try:
            text.decode()
        except UnicodeDecodeError:
            message = "it is not valid UTF-8. Save the file as UTF-8."
            raise BadRequestError(message, code="invalid_json_line") from None
        # jiter counts lines within this text, which is one line.
        reason = str(error).replace("at line 1 column", "at column")
        raise BadRequestError(f"it is not valid JSON: {reason}.", code="invalid_json_line") from None
    if not isinstance(value, dict):
        raise BadRequestError("it must be a JSON object, such as a request.", code="invalid_line")
    return value


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
            members = parse_line(text, self._limits)
            name = _custom_id(members)
            self._take(name, number)
            custom_id = name
            return Line(number, name, self._body(members))
        except ApiError as fault:
            message = f"Line {number}: {fault.message}"
            return LineFault(number, custom_id, fault.code or "invalid_request", message, fault.param)

    def _take(self, custom_id: str, number: int) -> None:
        # A digest: a name may have 2 KB, and there may be 100,000 of them.
        key = blake2b(custom_id.encode(), digest_size=16).digest()
        first = self._line_of.setdefault(key, number)
        if first != number:
            raise BadRequestError(
                f"its 'custom_id' is that of line {first}, whose result has it. Give each line one of its own.",
                "custom_id",
                "duplicate_custom_id",
            )

    def _body(self, members: dict[str, Any]) -> dict[str, Any]:
        for name in members:
            if name not in _MEMBERS:
                shown = printable(name)
                raise BadRequestError(f"unknown member '{shown}'. It has {', '.join(_MEMBERS)}.", shown, "invalid_line")
        if members.get("method") != "POST":
            raise BadRequestError("'method' must be 'POST'.", "method", "invalid_method")
        if members.get("url") != self._endpoint:
            raise BadRequestError(f"'url' must be '{self._endpoint}', the batch's endpoint.", "url", "invalid_url")
        body = members.get("body")
        if not isinstance(body, dict):
            raise BadRequestError("'body' must be an object, the request.", "body", "invalid_body")
        if body.get("stream"):
            raise BadRequestError("'stream' cannot be true in a batch. Leave it out.", "stream", "invalid_request")
        self._reader.read(body)
        return body


def _custom_id(members: dict[str, Any]) -> str:
    value = members.get("custom_id")
    if value is None:
        raise BadRequestError("it has no 'custom_id'. Give each line one of its own.", "custom_id", "missing_custom_id")
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_CUSTOM_ID_CHARS:
        raise BadRequestError(
            f"'custom_id' must be a string of at least 1 and at most {MAX_CUSTOM_ID_CHARS} characters.",
            "custom_id",
            "invalid_custom_id",
        )
    return value


def line_id(batch_id: str, line: int) -> str:
    """Return the id of a line's result, the same each time it is made."""
    return f"batch_req_{sha256(f'{batch_id}/{line}'.encode()).hexdigest()[:32]}"


def answer_result(batch: Batch, line: Line, answer: LineAnswer) -> LineResult:
    """Return the result of a line with an answer: a chat completion, or an error."""
    status, body = status_and_body(answer)
    shown = None
    if isinstance(answer, ApiError):
        error = body["error"]
        shown = _error(error["code"], f"Line {line.number}: {error['message']}", line.number, error["param"])
    return _result(batch, line.number, line.custom_id, (status, body), shown)


def fault_result(batch: Batch, fault: LineFault) -> LineResult:
    """Return the result of a line with a fault, which was never sent to an engine."""
    error = _error(fault.code, fault.message, fault.number, fault.param)
    return _result(batch, fault.number, fault.custom_id, None, error)


def failure_result(batch: Batch, line: Line, num_attempts: int) -> LineResult:
    """Return the result of a line whose attempts are used up: the engine failed on it, or died, each time."""
    times = "once" if num_attempts == 1 else f"{num_attempts} times, the last with no other of the batch beside it"
    message = (
        f"Line {line.number}: the engine failed on this request {times}. Change the request, or ask the operator, who "
        f"finds {line_id(batch.id, line.number)} in the log."
    )
    return _result(batch, line.number, line.custom_id, None, _error(ENGINE_FAILED, message, line.number))


def unanswered_result(batch: Batch, number: int, custom_id: str | None, why: Unanswered) -> LineResult:
    """Return the result of a line that its batch left unanswered when it ended."""
    code, message = _UNANSWERED[why]
    return _result(batch, number, custom_id, None, _error(code, f"Line {number}: {message}", number))


def file_lines(results: Iterable[LineResult], *, errors: bool) -> Iterator[bytes]:
    """Yield the lines of the output file, or of the error file, in pieces."""
    return _pieces(result.record.encode() + b"\n" for result in results if result.is_error == errors)


def job_list(results: Iterable[LineResult]) -> Iterator[bytes]:
    """Yield the results of the simple route: a JSON list with one element for each line, in pieces."""

    def elements() -> Iterator[bytes]:
        separator = b"["
        for result in results:
            yield separator + to_json(job_result(json.loads(result.record))).encode()
            separator = b",\n"
        yield b"[]" if separator == b"[" else b"]"

    return _pieces(elements())


def job_result(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return an element of a job's results, from a line of an output or error file: a chat completion or an error."""
    response, error = record["response"], record["error"]
    if response is not None:
        body: dict[str, Any] = response["body"]
        return body
    kind = "server_error" if error["code"] in _NOT_THE_CALLERS else "invalid_request_error"
    # The line is known from its position in the list.
    message = error["message"].removeprefix(f"Line {error['line']}: ")
    message = message[:1].upper() + message[1:]
    return {"error": {"message": message, "type": kind, "param": error["param"], "code": error["code"]}}


def to_json(value: Mapping[str, Any]) -> str:
    """Return compact JSON, without anything that clients may take for a line break (``str.splitlines`` has ten)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character, escaped in _UNUSUAL_BREAKS.items():
        text = text.replace(character, escaped)
    return text


def _result(
    batch: Batch,
    number: int,
    custom_id: str | None,
    response: tuple[int, dict[str, Any]] | None,
    error: dict[str, Any] | None,
) -> LineResult:
    name = line_id(batch.id, number)
    record = output_line(name, custom_id, name, response, error)
    return LineResult(line=number, is_error=error is not None, record=to_json(record))


def output_line(
    name: str,
    custom_id: str | None,
    request_id: str,
    response: tuple[int, dict[str, Any]] | None,
    error: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return a line of OpenAI's output or error file; ``response`` is a status and a body, None for no answer."""
    shown = response and {"status_code": response[0], "request_id": request_id, "body": response[1]}
    return {"id": name, "custom_id": custom_id, "response": shown, "error": error}


def _error(code: str | None, message: str, line: int, param: str | None = None) -> dict[str, Any]:
    return {"code": code, "message": message, "line": line, "param": param}


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def to_lines(content: bytes, parameters: Mapping[str, Any], *, model_id: str, max_lines: int) -> Iterator[bytes]:
    """Turn a job's JSON list into the lines of a batch, one for each item, named ``"0"``, ``"1"``, …

    Each has its line break.

    Args:
        content: A JSON list of chat requests.
        parameters: Of ``protocol.batches.read_parameters``; they override an item's own.
        model_id: The model of an item that names none.

    Raises:
        BadRequestError: It is not a JSON list, has no item or too many. Raised before the first line.
    """
    try:
        requests = loads(content, MAX_JSON_DEPTH + 1)
    except JsonError as error:
        raise BadRequestError(f"The file must be a JSON list of chat requests: {error}.", "file") from None
    if not isinstance(requests, list):
        raise BadRequestError("The file must be a JSON list of chat requests.", "file")
    if not requests:
        raise BadRequestError("The list has no items; it must have at least one chat request.", "file")
    if len(requests) > max_lines:
        raise BadRequestError(f"The list has more than {max_lines} items. Send it in parts.", "file")
    for index, request in enumerate(requests):
        body = _request(request, parameters, model_id) if isinstance(request, dict) else request
        line = {"custom_id": str(index), "method": "POST", "url": ENDPOINT, "body": body}
        yield json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _request(request: dict[str, Any], parameters: Mapping[str, Any], model_id: str) -> dict[str, Any]:
    """Return an item's chat request with the parameters of the query, which override its own."""
    changed = {**request, **parameters}
    if "max_tokens" in parameters:
        changed.pop("max_completion_tokens", None)
    if changed.get("model") is None:
        changed["model"] = model_id
    if isinstance(request.get("vocab"), dict):
        changed["vocab"] = _vocab(request["vocab"], parameters)
        for name in ("vocab_lang", "vocab_n_words"):
            if name in parameters:
                changed.pop(name)
    return changed


def _vocab(vocab: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(vocab)
    if "vocab_lang" in parameters:
        changed["lang"] = parameters["vocab_lang"]
        changed.pop("words", None)
    if "vocab_n_words" in parameters:
        changed["n_words"] = parameters["vocab_n_words"]
    return changed
