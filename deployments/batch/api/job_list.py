"""Turn the simple route's list of chat requests into the lines of a batch, with the parameters of the query.

Reads the list item by item, so that a file of 200 MB does not become gigabytes of objects. An item that is no chat
request becomes a line at fault, and the others are answered.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from deployments.errors import BadRequestError
from deployments.protocol.batches import ENDPOINT
from deployments.protocol.strict_json import JsonError, loads
from deployments.settings.limits import Limits

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[][{},]', re.DOTALL)
"""A string, whose group is empty where it has no end, or a mark of the structure. Never looks at a byte twice."""

_BLANKS: Final = re.compile(rb"[ \t\n\r]*+")


def to_lines(
    content: bytes, parameters: Mapping[str, Any], *, limits: Limits, model_id: str, max_lines: int
) -> Iterator[bytes]:
    """Turn a job's JSON list into the lines of a batch, one for each item, named ``"0"``, ``"1"``, …

    Each has its line break.

    Takes 25 ms for a megabyte of prose, and half a second for the worst. An item longer than
    ``limits.max_body_bytes`` becomes a line that is too long, and has no content.

    Args:
        content: A JSON list of chat requests.
        parameters: Of ``protocol.batches.read_parameters``; they override an item's own.
        model_id: The model of an item that names none.

    Raises:
        BadRequestError: It is not a JSON list, has no item or too many. Raised after the lines before the fault.
    """
    for index, (start, item) in enumerate(_items(content)):
        if index == max_lines:
            raise BadRequestError(f"The list has more than {max_lines} items. Send it in parts.", "file")
        if len(item) > limits.max_body_bytes:
            yield b"0" * (limits.max_body_bytes + 1) + b"\n"
            continue
        try:
            request = loads(item, limits.max_json_depth)
        except JsonError as error:
            where = f"Item {index + 1} of the list, which begins at byte {start},"
            raise BadRequestError(f"{where} is not valid JSON: {error}.", "file") from None
        if isinstance(request, dict):
            request = _request(request, parameters, model_id)
        line = {"custom_id": str(index), "method": "POST", "url": ENDPOINT, "body": request}
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
    """Return an item's ``vocab`` with the list and N of the query in place of its own."""
    changed = dict(vocab)
    if "vocab_lang" in parameters:
        changed["lang"] = parameters["vocab_lang"]
        changed.pop("words", None)
    if "vocab_n_words" in parameters:
        changed["n_words"] = parameters["vocab_n_words"]
    return changed


def _items(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each item of the outermost JSON list and the byte where it starts; items are not parsed."""
    start = _BLANKS.match(content).end()  # type: ignore[union-attr]
    if content[start : start + 1] != b"[":
        raise _no_list("it does not begin with '['")
    depth, start, num_items = 1, start + 1, 0
    for token in _TOKEN.finditer(content, start):
        mark = token[0]
        if token[1] == b"":
            raise _no_list(f"the string that begins at byte {token.start()} has no end")
        depth += (mark in (b"[", b"{")) - (mark in (b"]", b"}"))
        if depth == 0:
            break
        if depth == 1 and mark == b",":
            yield start, content[start : token.start()].strip(b" \t\n\r")
            start, num_items = token.end(), num_items + 1
    else:
        raise _no_list("it has no end")
    if mark != b"]" or not _BLANKS.fullmatch(content, token.end()):
        raise _no_list(f"something else than ']' ends it, or something follows it, at byte {token.start()}")
    last = content[start : token.start()].strip(b" \t\n\r")
    if not last and not num_items:
        raise BadRequestError("The list has no items; it must have at least one chat request.", "file")
    yield start, last


def _no_list(cause: str) -> BadRequestError:
    return BadRequestError(f"The file must be a JSON list of chat requests: {cause}.", "file")
