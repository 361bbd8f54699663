"""The columns in which rows travel to an engine and back, and what is made of them for whoever asked.

Small tasks on any node use this, so it imports neither Ray nor the engine.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from deployments.errors import BadRequestError
from deployments.offline.config import OfflineConfig
from deployments.offline.rows import to_request

REQUEST: Final = "wordbound_request"
"""The column with the request: JSON, ``{"id", "body"}``, or an answer that is there already: ``{"answer"}``."""

ANSWER: Final = "wordbound_answer"
"""The column with the answer: JSON, ``{"status", "body"}``; the body an answer, or OpenAI's error, as JSON text."""


def request_of(row: Mapping[str, Any], config: OfflineConfig, request_id: str) -> str:
    """What ``REQUEST`` holds for a row of a table."""
    try:
        request = {"id": request_id, "body": to_request(row, config, is_table=True).body}
    except BadRequestError as error:
        request = refused(error)
    return json.dumps(request, ensure_ascii=False)


def refused(error: BadRequestError) -> dict[str, Any]:
    """What ``REQUEST`` holds, before it is JSON, for a row that is no request."""
    return {"answer": {"status": error.status, "body": error.to_json().decode()}}


def with_result(row: dict[str, Any]) -> dict[str, Any]:
    """The row with four columns in the place of ``ANSWER``; see ``pipeline.answer``."""
    made = json.loads(row.pop(ANSWER))
    status, body = made["status"], made["body"]
    if status != 200:
        return row | {"answer": None, "completion": None, "error": body, "status": status}
    text = json.loads(body)["choices"][0]["message"].get("content")
    return row | {"answer": text, "completion": body, "error": None, "status": status}
