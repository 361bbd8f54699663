"""The routes of next-token rows, and how rows become an answer: bytes, a piece at a time, or JSON.

Rows come from a replica as arrays in Ray's object store, where they lie until the client has taken them; a piece of
them at a time is copied out of it.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import numpy as np
from fastapi import Request, Response

from deployments.contract import RowsItem, RowsRequest, TokensRequest, usage
from deployments.errors import ApiError, error_of
from deployments.ingress.body import read_checked
from deployments.ingress.connections.budgets import Backlog
from deployments.ingress.connections.reader import PART_BYTES
from deployments.ingress.key_limits import num_prompt_tokens, take_tokens
from deployments.ingress.replicas import Backend
from deployments.ingress.route import Places, Routes
from deployments.ingress.stream import PieceStream, api_errors, caller_of, respond, unless_client_leaves
from deployments.protocol.openapi import BINARY, BYTES
from deployments.protocol.reader import ServedModel
from deployments.protocol.tokens import LogprobsRequest, TokenLogprobsRequest, read_logprobs, read_token_logprobs
from deployments.rates import Rates
from deployments.settings.service import Settings
from deployments.single_flight import SingleFlight
from vocab.answers import LogprobsList, TokenLogprobs, TokenTable

SHAPE: Final = "x-wordbound-shape"
DTYPE: Final = "x-wordbound-dtype"
PROMPT_TOKENS: Final = "x-wordbound-prompt-tokens"
ROW_HEADERS: Final = (SHAPE, DTYPE, PROMPT_TOKENS)
"""Of an answer that is rows."""

_ENTRIES_AT_ONCE: Final = 4096
"""Log-probabilities that are written as JSON before others on this process may go on: 3 ms."""

_FEWER: Final = ("Send fewer or shorter prompts.", "prompt")


def add_rows(
    routes: Routes, settings: Settings, backend: Backend, rates: Rates, backlog: Backlog, places: Places
) -> None:
    """Add the routes of next-token rows, log-probabilities of tokens, and the token table."""
    served = ServedModel.of(settings)
    tables = SingleFlight(1)

    async def read(request: Request, reader: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        backend.check_room(request.state.owner)
        body = await read_checked(request, settings.limits, partial(reader, served=served))
        cost = num_prompt_tokens(body) + len(body.get("token_ids", ()))
        await take_tokens(rates, request.scope, settings, cost, _FEWER)
        return body

    @routes.add(
        "POST",
        "/v1/logprobs",
        body=LogprobsRequest,
        answer={"application/json": LogprobsList, BYTES: BINARY},
        part="chat",
        places=places,
    )
    async def create_logprobs(request: Request) -> Response:
        """The log-probability of every token of the model after each prompt, or of the likeliest."""
        body = await read(request, read_logprobs)
        with api_errors(request):
            rows = _rows(backend.answer(RowsRequest(body, caller_of(request))), backlog, request, body)
            streaming = _stream(rows, body, body.get("model", settings.model_id), request.state.request_id)
            try:
                return await unless_client_leaves(request.receive, streaming)
            except BaseException:
                await rows.aclose()
                raise

    @routes.add(
        "POST", "/v1/token_logprobs", body=TokenLogprobsRequest, answer=TokenLogprobs, part="chat", places=places
    )
    async def create_token_logprobs(request: Request) -> Response:
        """The log-probability of each of some tokens after the prompt and the tokens before it, by one reading."""
        body = await read(request, read_token_logprobs)
        with api_errors(request):
            answer = backend.answer(RowsRequest(body, caller_of(request)))
            return await respond(request, answer, is_stream=False, backlog=backlog)

    @routes.add("GET", "/v1/tokens", answer=TokenTable, part="chat")
    async def get_tokens(request: Request) -> Response:
        """The bytes of every token of the model, in base64, in the order of the columns of rows."""

        async def make_table() -> tuple[bytes, str]:
            async with aclosing(backend.answer(TokensRequest({}, caller_of(request)))) as answer:
                table = await anext(answer, None)
            if not isinstance(table, dict):
                raise error_of(table, request.state.request_id)
            body = await asyncio.to_thread(_dump, {"object": "tokens", "model": settings.model_id, **table})
            return body, f'"{hashlib.sha256(body).hexdigest()}"'

        with api_errors(request):
            # The same for as long as the application runs.
            body, tag = await unless_client_leaves(request.receive, tables.get("tokens", make_table))
        headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)


async def _stream(rows: AsyncGenerator[Any], body: dict[str, Any], model_id: str, request_id: str) -> PieceStream:
    """Return the response with the rows of ``_rows``, as bytes or as JSON, once the first part of it is there."""
    described = await anext(rows)
    if "top_logprobs" in body:
        parts = _as_json(rows, model_id, described["prompt_tokens"])
        return PieceStream(await anext(parts), parts, request_id, "application/json", {})
    parts, shape = _as_bytes(rows), described["shape"]
    headers = {
        "Content-Length": str(_num_bytes(described, body)),
        SHAPE: f"{shape[0]},{shape[1]}",
        DTYPE: body["dtype"],
        PROMPT_TOKENS: str(described["prompt_tokens"]),
    }
    return PieceStream(await anext(parts), parts, request_id, BYTES, headers)


async def _as_bytes(arrays: AsyncGenerator[Any]) -> AsyncGenerator[bytes]:
    async with aclosing(arrays):
        async for array in arrays:
            values = array.view(np.uint8).reshape(-1).data
            for start in range(0, len(values), PART_BYTES):
                yield bytes(values[start : start + PART_BYTES])


async def _as_json(arrays: AsyncGenerator[Any], model_id: str, num_prompt_tokens: int) -> AsyncGenerator[bytes]:
    """Yield the likeliest tokens of each prompt, a part for each."""
    before = _dump({"object": "list", "model": model_id})[:-1] + b',"data":['
    index = 0
    async with aclosing(arrays):
        async for tokens, logprobs in arrays:
            for row in range(len(tokens)):
                numbers = await _numbers(tokens[row]), await _numbers(logprobs[row])
                yield before + b'{"object":"logprobs","index":%d,"token_ids":%s,"logprobs":%s}' % (index, *numbers)
                before, index = b",", index + 1
    yield b'],"usage":' + _dump(usage(num_prompt_tokens, 0)) + b"}"


async def _rows(
    answer: AsyncGenerator[RowsItem], backlog: Backlog, request: Request, body: dict[str, Any]
) -> AsyncGenerator[Any]:
    """Yield what describes the rows of an answer, then its arrays until all rows have come; raise an error item.

    The bytes of the rows count in ``backlog`` until this is closed.
    """
    async with aclosing(answer):
        described = await anext(answer, None)
        if not isinstance(described, dict):
            raise error_of(described, request.state.request_id)
        with backlog.hold(_num_bytes(described, body), request.state.owner):
            yield described
            num_left = described["shape"][0]
            while num_left:
                item = await anext(answer, None)
                if item is None or isinstance(item, dict | ApiError):
                    raise error_of(item, request.state.request_id)
                num_left -= len(item[0] if isinstance(item, tuple) else item)
                yield item
                del item


async def _numbers(array: Any) -> bytes:
    """Return an array's numbers as JSON, written in parts, and let other tasks run after each."""
    parts: list[bytes] = []
    for start in range(0, len(array), _ENTRIES_AT_ONCE):
        parts.append(_dump(array[start : start + _ENTRIES_AT_ONCE].tolist())[1:-1])
        await asyncio.sleep(0)
    return b"[" + b",".join(parts) + b"]"


def _num_bytes(described: dict[str, Any], body: dict[str, Any]) -> int:
    num_prompts, num_columns = described["shape"]
    # The likeliest tokens are pairs of 4 bytes each.
    return int(num_prompts * num_columns * (8 if "top_logprobs" in body else np.dtype(body["dtype"]).itemsize))


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
