"""The record of a line, and the files made of a batch's records.

A record is a line of OpenAI's output or error file, for both kinds of batch; the simple route's list is made of
these.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

from deployments.batch.api.objects import BATCH_CANCELLED, BATCH_EXPIRED, BATCH_FAILED
from deployments.batch.lines import Line, LineFault
from deployments.batch.state.records import BatchRecord, LineResult

Unanswered: TypeAlias = Literal["expired", "cancelled", "failed"]

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


def line_id(batch_id: str, line: int) -> str:
    """Return the id of a line's result, the same each time it is made."""
    return f"batch_req_{sha256(f'{batch_id}/{line}'.encode()).hexdigest()[:32]}"


def answer_result(batch: BatchRecord, line: Line, status: int, body: str) -> LineResult:
    """Return the result of a line with an answer: 200 and a chat completion, or another status and OpenAI's error."""
    value = json.loads(body)
    if status == 200:
        return _result(batch, line.number, line.custom_id, (status, value), None)
    given = value.get("error") if isinstance(value, dict) else None
    error = given if isinstance(given, dict) else {"message": "The engine failed.", "code": "engine_error"}
    shown = _error(error.get("code"), f"Line {line.number}: {error['message']}", line.number, error.get("param"))
    return _result(batch, line.number, line.custom_id, (status, {"error": error}), shown)


def fault_result(batch: BatchRecord, fault: LineFault) -> LineResult:
    """Return the result of a line with a fault, which was never sent to an engine."""
    error = _error(fault.code, fault.message, fault.number, fault.param)
    return _result(batch, fault.number, fault.custom_id, None, error)


def failure_result(batch: BatchRecord, line: Line, num_attempts: int) -> LineResult:
    """Return the result of a line whose attempts are used up: the engine failed on it, or died, each time."""
    times = "once" if num_attempts == 1 else f"{num_attempts} times, the last with no other of the batch beside it"
    message = (
        f"Line {line.number}: the engine failed on this request {times}. Change the request, or ask the operator, who "
        f"finds {line_id(batch.id, line.number)} in the log."
    )
    return _result(batch, line.number, line.custom_id, None, _error(ENGINE_FAILED, message, line.number))


def unanswered_result(batch: BatchRecord, number: int, custom_id: str | None, why: Unanswered) -> LineResult:
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
    batch: BatchRecord,
    number: int,
    custom_id: str | None,
    response: tuple[int, dict[str, Any]] | None,
    error: dict[str, Any] | None,
) -> LineResult:
    """Build the result of a line, with its record in OpenAI's format; ``response`` is a status and a body."""
    name = line_id(batch.id, number)
    shown = response and {"status_code": response[0], "request_id": name, "body": response[1]}
    record = {"id": name, "custom_id": custom_id, "response": shown, "error": error}
    return LineResult(line=number, is_error=error is not None, record=to_json(record))


def _error(code: str | None, message: str, line: int, param: str | None = None) -> dict[str, Any]:
    return {"code": code, "message": message, "line": line, "param": param}


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join bytes into pieces of at least ``_PIECE_BYTES``, the last one shorter."""
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
