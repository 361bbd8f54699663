"""Make the chat request of a row.

A row has one of three shapes: a line of OpenAI's batches (``custom_id``, ``body``), a bare chat request
(``messages`` and the rest), or anything that ``offline.columns`` maps to a request. Values may be those of JSON,
Arrow or NumPy. Imports neither Ray nor the engine: small tasks on any node use it.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from deployments.batch.lines import MAX_CUSTOM_ID_CHARS
from deployments.contract import LineAnswer, status_and_body
from deployments.errors import BadRequestError
from deployments.offline.config import OfflineConfig
from deployments.protocol.batches import ENDPOINT
from deployments.protocol.strict_json import JsonError, loads

REQUEST: Final = "wordbound_request"
"""The column with the request: JSON, ``{"id", "body"}``, or ``{"answer"}`` for a row that is answered already."""


def to_request(row: Mapping[str, Any], config: OfflineConfig, request_id: str, *, is_table: bool) -> str:
    """Return the value of ``REQUEST`` for a row: its chat request, with the run's defaults.

    Args:
        is_table: In tables a missing member is null or not a number; in JSON a null may mean something.

    Raises:
        BadRequestError: The row holds no request, or one that is too long.
    """
    try:
        body = _map_columns(row, config.offline.columns) if config.offline.columns else _request_body(row)
        if is_table:
            body = _without_nulls(body)
        body = {"model": config.settings.model_id, **_merge_defaults(config.offline.request, body)}
        if body.get("stream"):
            raise BadRequestError("'stream' must be false: a row is answered whole.", "stream")
        text = json.dumps(body, ensure_ascii=False, allow_nan=False)
        if len(text.encode()) > (most := config.settings.limits.max_body_bytes):
            raise BadRequestError(f"The request is longer than {most} bytes.")
    except (TypeError, ValueError) as error:
        raise BadRequestError(f"The row cannot be written as JSON: {error}.") from None
    return f'{{"id": {json.dumps(request_id)}, "body": {text}}}'


def custom_id_of(row: Mapping[str, Any], config: OfflineConfig) -> str | None:
    """Return the ``custom_id`` of a row, if any.

    Raises:
        BadRequestError: It is no name.
    """
    given = row.get(config.offline.columns.get("custom_id", "custom_id"))
    if given is None:
        return None
    try:
        value = _plain(given)
    except TypeError:
        value = None
    name = str(value) if isinstance(value, (str, int)) else ""
    if not 1 <= len(name) <= MAX_CUSTOM_ID_CHARS:
        raise BadRequestError(f"'custom_id' must be a string of 1 to {MAX_CUSTOM_ID_CHARS} characters.", "custom_id")
    return name


def request_of(row: Mapping[str, Any], config: OfflineConfig, request_id: str) -> str:
    """Return the value of ``REQUEST`` for a row of a table: its request, or its error."""
    try:
        custom_id_of(row, config)
        return to_request(row, config, request_id, is_table=True)
    except BadRequestError as error:
        return refused_request(error)


def refused_request(error: BadRequestError) -> str:
    """Return the value of ``REQUEST`` for a row whose request has an error."""
    return json.dumps({"answer": answer_of(error)}, ensure_ascii=False)


def answer_of(answer: LineAnswer) -> dict[str, Any]:
    """Return the answer to a row as it goes from task to task: ``{"status", "body"}``."""
    status, body = status_and_body(answer)
    return {"status": status, "body": body}


def _request_body(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chat request in a row: its ``body``, or the row itself where it has ``messages``."""
    if row.get("body") is not None:
        for name, expected in (("method", "POST"), ("url", ENDPOINT)):
            if row.get(name) is not None and row[name] != expected:
                raise BadRequestError(f"'{name}' must be '{expected}'.", name)
        body = _plain(row["body"])
        if isinstance(body, str):
            try:
                body = loads(body.encode())
            except JsonError as error:
                raise BadRequestError(f"'body' is not valid JSON: {error}.", "body") from None
        if not isinstance(body, dict):
            raise BadRequestError("'body' must be a JSON object.", "body")
        return body
    if row.get("messages") is not None:
        return {name: _plain(value) for name, value in row.items() if name != "custom_id"}
    raise BadRequestError(
        "The row has neither 'body' nor 'messages': give a chat request, or name the column of the prompt in the "
        "configuration (offline.columns.prompt)."
    )


def _map_columns(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for target, column in columns.items():
        if target in ("prompt", "system", "custom_id") or (value := _plain(row.get(column))) is None:
            continue
        if target.startswith("vocab."):
            body.setdefault("vocab", {})[target.removeprefix("vocab.")] = value
        else:
            body[target] = value
    if "messages" in columns:
        return body
    messages = [
        {"role": role, "content": _plain(text)}
        for role, target in (("system", "system"), ("user", "prompt"))
        if (text := row.get(columns.get(target, ""))) is not None
    ]
    if not messages or messages[-1]["role"] != "user":
        raise BadRequestError(f"The column {columns['prompt']!r} has no prompt here.", "prompt")
    return {**body, "messages": messages}


def _merge_defaults(defaults: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body over the defaults, less defaults that it sets under another name."""
    defaults = dict(defaults)
    if body.get("max_completion_tokens") is not None:
        defaults.pop("max_tokens", None)
    if isinstance(body.get("vocab"), dict) and isinstance(defaults.get("vocab"), dict):
        return {**defaults, **body, "vocab": {**defaults["vocab"], **body["vocab"]}}
    if body.get("vocab") is not None or any(name.startswith("vocab_") for name in body):
        flat = {name: value for name, value in defaults.items() if name.startswith("vocab_") and "vocab" not in body}
        defaults = {name: value for name, value in defaults.items() if not name.startswith("vocab")} | flat
    return {**defaults, **body}


def _plain(value: Any) -> Any:
    """Convert a value of JSON, Arrow or NumPy to plain JSON types."""
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(member) for member in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    raise TypeError(f"a value of type {type(value).__name__} cannot be part of a request")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if not _is_missing(member)}
    return [_without_nulls(member) for member in value] if isinstance(value, list) else value


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
