"""Read and write the lines of OpenAI's batch files.

Each line of an input file has a request, or the error that keeps it from being one. A body is checked like that of a
request and passed on unchanged; the replica checks it again. The record of a result is a line of the output or error
file, for both kinds of batch; the simple route's list is made of these.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any, BinaryIO, Final, Literal, TypeAlias

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

ENGINE_FAILED: Final = "engine_failed"

UNANSWERED: Final[Mapping[Unanswered, ApiError]] = {
    "expired": ApiError(
        "This request could not be executed before the completion window expired.", code="batch_expired"
    ),
    "cancelled": ApiError("This request was not executed, for the batch was cancelled.", code="batch_cancelled"),
    "failed": ApiError("This request was not executed, for others of the batch ended the engine.", code="batch_failed"),
}
"""The errors of lines that their batch left unanswered when it ended."""

_NOT_THE_CALLERS: Final = frozenset({ENGINE_FAILED, *(error.code for error in UNANSWERED.values())})

_UNUSUAL_BREAKS: Final = {character: f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}
"""In JSON these stand inside strings only; other line breaks are control characters, which it escapes."""


@dataclass(frozen=True)
class Line:
    """A line of a batch's file.

    Attributes:
        number: Its line in the file, from 1.
        custom_id: None where it has none, or repeats an earlier line's, so that each name gets one result.
        body: Its request; empty where there is a fault.
        fault: Why it cannot be answered. The message names the cause, and what to change.
    """

    number: int
    custom_id: str | None
    body: dict[str, Any]
    fault: ApiError | None = None


def read_lines(stream: BinaryIO, *, reader: ChatRequestReader, limits: Limits, endpoint: str) -> Iterator[Line]:
    """Yield each line of a batch's file with its request, or its fault.

    A line break at the end of the file begins no line.

    Holds 100 bytes for each line read, for the names that were used. Takes 0.04 ms for a line of 1 KB. A line longer
    than ``limits.max_body_bytes`` is skipped to its end.

    Raises:
        OSError: The stream cannot be read.
    """
    line_of: dict[bytes, int] = {}
    for line in raw_lines(stream, limits.max_body_bytes):
        custom_id: str | None = None
        body: dict[str, Any] = {}
        fault: ApiError | None = None
        try:
            members = parse_line(line.text, limits)
            custom_id = _take_name(members, line.number, line_of)
            body = _check_body(members, reader, endpoint)
        except ApiError as error:
            error.code = error.code or "invalid_request"
            fault = error.with_traceback(None)
        yield Line(line.number, custom_id, body, fault)


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


def _take_name(members: Mapping[str, Any], number: int, line_of: dict[bytes, int]) -> str:
    """Return the ``custom_id`` of a line, and note in ``line_of`` that it is taken."""
    name = members.get("custom_id")
    if name is None:
        raise BadRequestError("it has no 'custom_id'. Give each line one of its own.", "custom_id", "missing_custom_id")
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_CUSTOM_ID_CHARS:
        raise BadRequestError(
            f"'custom_id' must be a string of at least 1 and at most {MAX_CUSTOM_ID_CHARS} characters.",
            "custom_id",
            "invalid_custom_id",
        )
    # A digest: a name may have 2 KB, and there may be 100,000 of them.
    first = line_of.setdefault(blake2b(name.encode(), digest_size=16).digest(), number)
    if first != number:
        raise BadRequestError(
            f"its 'custom_id' is that of line {first}, whose result has it. Give each line one of its own.",
            "custom_id",
            "duplicate_custom_id",
        )
    return name


def _check_body(members: Mapping[str, Any], reader: ChatRequestReader, endpoint: str) -> dict[str, Any]:
    """Return the request of a line that would be accepted."""
    for name in members:
        if name not in _MEMBERS:
            shown = printable(name)
            raise BadRequestError(f"unknown member '{shown}'. It has {', '.join(_MEMBERS)}.", shown, "invalid_line")
    if members.get("method") != "POST":
        raise BadRequestError("'method' must be 'POST'.", "method", "invalid_method")
    if members.get("url") != endpoint:
        raise BadRequestError(f"'url' must be '{endpoint}', the batch's endpoint.", "url", "invalid_url")
    body = members.get("body")
    if not isinstance(body, dict):
        raise BadRequestError("'body' must be an object, the request.", "body", "invalid_body")
    if body.get("stream"):
        raise BadRequestError("'stream' cannot be true in a batch. Leave it out.", "stream", "invalid_request")
    reader.read(body)
    return body


def line_id(batch_id: str, line: int) -> str:
    """Return the id of a line's result, the same each time it is made."""
    return f"batch_req_{sha256(f'{batch_id}/{line}'.encode()).hexdigest()[:32]}"


def result_of(batch: Batch, line: Line, answer: LineAnswer, *, is_response: bool = True) -> LineResult:
    """Return the result of a line: a replica's answer, or an error that comes in its place."""
    name = line_id(batch.id, line.number)
    status, body = status_and_body(answer)
    error = None
    if isinstance(answer, ApiError):
        told = body["error"]
        message = f"Line {line.number}: {told['message']}"
        error = {"code": told["code"], "message": message, "line": line.number, "param": told["param"]}
    record = output_line(name, line.custom_id, name, (status, body) if is_response else None, error)
    return LineResult(line=line.number, is_error=error is not None, record=to_json(record))


def engine_failure(batch: Batch, line: Line, num_attempts: int) -> ApiError:
    """Return the error of a line whose attempts are used up: the engine failed on it, or died, each time."""
    times = "once" if num_attempts == 1 else f"{num_attempts} times, the last with no other of the batch beside it"
    message = (
        f"the engine failed on this request {times}. Change the request, or ask the operator, who finds "
        f"{line_id(batch.id, line.number)} in the log."
    )
    return ApiError(message, code=ENGINE_FAILED)


def job_list(results: Iterable[LineResult], name: str | None = None) -> Iterator[bytes]:
    """Yield the results of the simple route, a JSON list with one element for each line, element by element.

    Where there is a ``name``, the id of an answer is that with the element's number.
    """
    separator = b"["
    for number, result in enumerate(results):
        element = _job_result(json.loads(result.record))
        if name is not None and "error" not in element:
            element["id"] = f"{name}-{number}"
        yield separator + to_json(element).encode()
        separator = b",\n"
    yield b"[]" if separator == b"[" else b"]"


def _job_result(record: Mapping[str, Any]) -> dict[str, Any]:
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


def to_lines(
    content: bytes, parameters: Mapping[str, Any], *, model_id: str, max_lines: int, ignored: Collection[str] = ()
) -> Iterator[bytes]:
    """Turn a job's JSON list into the lines of a batch, one for each item, named ``"0"``, ``"1"``, …

    Each has its line break.

    Args:
        content: A JSON list of chat requests.
        parameters: Of ``protocol.batches.read_parameters``; they override an item's own.
        model_id: The model of an item that names none.
        ignored: Members that are taken out of each item.

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
        body = request
        if isinstance(request, dict):
            own = {name: value for name, value in request.items() if name not in ignored}
            body = _request(own, parameters, model_id)
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
        vocab = changed["vocab"] = dict(request["vocab"])
        if "vocab_lang" in parameters:
            vocab["lang"] = changed.pop("vocab_lang")
            vocab.pop("words", None)
        if "vocab_n_words" in parameters:
            vocab["n_words"] = changed.pop("vocab_n_words")
    return changed
