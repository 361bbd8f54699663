"""What is recorded of a line, and how the records of a batch become its files.

Both kinds of batch record the line of an output or error file; the simple route's list of results is made of these.
Knows the records and the objects, not where they are kept.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

from deployments.batch.api.objects import (
    ENGINE_FAILED,
    answer_line,
    cancelled_line,
    expired_line,
    fault_line,
    job_result,
    line_id,
    refused_line,
    to_json,
)
from deployments.batch.state.records import BatchRecord, LineResult
from deployments.batch.worker.lines import Line, LineFault

Unanswered: TypeAlias = Literal["expired", "cancelled"]

_PIECE_BYTES: Final = 256 * 1024


def answered(batch: BatchRecord, line: Line, status: int, body: str) -> LineResult:
    """The result of a line that has an answer: 200 and a chat completion, or another status and OpenAI's error."""
    name, value = line_id(batch.id, line.number), json.loads(body)
    if status == 200:
        record = answer_line(name, line.custom_id, status_code=status, request_id=name, body=value)
    else:
        record = refused_line(
            name, line.custom_id, line=line.number, status_code=status, request_id=name, body=_without_line(value)
        )
    return LineResult(line=line.number, is_error=status != 200, record=to_json(record))


def faulty(batch: BatchRecord, fault: LineFault) -> LineResult:
    record = fault_line(
        line_id(batch.id, fault.number),
        fault.custom_id,
        line=fault.number,
        code=fault.code,
        message=fault.message,
        param=fault.param,
    )
    return LineResult(line=fault.number, is_error=True, record=to_json(record))


def given_up(batch: BatchRecord, line: Line, num_attempts: int) -> LineResult:
    """The result of a line on which the engine failed, or at whose work it died, each time."""
    name = line_id(batch.id, line.number)
    times = "once" if num_attempts == 1 else f"{num_attempts} times, the last with no other of the batch beside it"
    message = (
        f"Line {line.number}: the engine failed on this request {times}. Change the request, or ask the operator, who "
        f"finds {name} in the log."
    )
    record = fault_line(name, line.custom_id, line=line.number, code=ENGINE_FAILED, message=message)
    return LineResult(line=line.number, is_error=True, record=to_json(record))


def unanswered(batch: BatchRecord, number: int, custom_id: str | None, why: Unanswered) -> LineResult:
    make = expired_line if why == "expired" else cancelled_line
    return LineResult(line=number, is_error=True, record=to_json(make(line_id(batch.id, number), custom_id, number)))


def file_lines(results: Iterable[LineResult], *, errors: bool) -> Iterator[bytes]:
    """The output file, or the error file, in pieces."""
    return _pieces(result.record.encode() + b"\n" for result in results if result.is_error == errors)


def job_list(results: Iterable[LineResult]) -> Iterator[bytes]:
    """The results of the simple route: a JSON list with one element for each line, in pieces."""

    def elements() -> Iterator[bytes]:
        separator = b"["
        for result in results:
            yield separator + to_json(job_result(json.loads(result.record))).encode()
            separator = b",\n"
        yield b"[]" if separator == b"[" else b"]"

    return _pieces(elements())


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _without_line(body: Any) -> dict[str, Any]:
    """OpenAI's envelope, whatever the replica gave."""
    error = body.get("error") if isinstance(body, dict) else None
    return {"error": error if isinstance(error, dict) else {"message": "The engine failed.", "code": "engine_error"}}
