"""The routes of next-token rows, and how rows become an answer: bytes, a piece at a time, or JSON.

Rows come from a replica as arrays in Ray's object store, where they lie until the client has taken them; a piece of
them at a time is copied out of it.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import numpy as np
from fastapi import Request, Response
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from deployments.contract import RowsItem, RowsRequest, TokensRequest
from deployments.errors import ApiError, error_of, to_api_error
from deployments.ingress.body import read_checked
from deployments.ingress.connections.budgets import Backlog, release_slot
from deployments.ingress.connections.reader import PART_BYTES, ReadTooSlowly
from deployments.ingress.key_limits import num_prompt_tokens, take_tokens
from deployments.ingress.replicas import Backend
from deployments.ingress.route import Places, Routes
from deployments.ingress.stream import api_errors, caller_of, owner_of, unless_client_leaves
from deployments.protocol.openapi import BINARY, BYTES
from deployments.protocol.reader import ServedModel
from deployments.protocol.tokens import LogprobsRequest, TokenLogprobsRequest, read_logprobs, read_token_logprobs
from deployments.rates import Rates
from deployments.settings.service import Settings
from deployments.single_flight import SingleFlight
from vocab.answers import LogprobsList, TokenLogprobs, TokenTable

logger = logging.getLogger("ray.serve.wordbound")

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
            rows = backend.answer(RowsRequest(body, caller_of(request)))
            answer = _hold_rows(rows, backlog, request.state.owner, body)
            try:
                described, first = await unless_client_leaves(request.receive, _first_items(answer, request))
            except BaseException:
                await answer.aclose()
                raise
            model_id = body.get("model", settings.model_id)
            return RowStream(described, first, answer, body, model_id, request.state.request_id)

    @routes.add(
        "POST", "/v1/token_logprobs", body=TokenLogprobsRequest, answer=TokenLogprobs, part="chat", places=places
    )
    async def create_token_logprobs(request: Request) -> Response:
        """The log-probability of each of some tokens after the prompt and the tokens before it, by one reading."""
        body = await read(request, read_token_logprobs)
        with api_errors(request):
            answer = backend.answer(RowsRequest(body, caller_of(request)))
            result = await unless_client_leaves(request.receive, _only_item(answer, request))
            return JSONResponse(
                {
                    "object": "token_logprobs",
                    "model": body.get("model", settings.model_id),
                    "logprobs": result["logprobs"],
                    "usage": _usage(result["prompt_tokens"]),
                }
            )

    @routes.add("GET", "/v1/tokens", answer=TokenTable, part="chat")
    async def get_tokens(request: Request) -> Response:
        """The bytes of every token of the model, in base64, in the order of the columns of rows."""

        async def make_table() -> tuple[bytes, str]:
            table = await _only_item(backend.answer(TokensRequest({}, caller_of(request))), request)
            body = await asyncio.to_thread(_dump, {"object": "tokens", "model": settings.model_id, **table})
            return body, f'"{hashlib.sha256(body).hexdigest()}"'

        with api_errors(request):
            # The same for as long as the application runs.
            body, tag = await unless_client_leaves(request.receive, tables.get("tokens", make_table))
        headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)


class RowStream(Response):
    """An answer of rows, as bytes or as JSON, in pieces until its end or until the client leaves.

    One that fails is cut off, which its length or its JSON shows.

    Args:
        described: The replica's first item.
        first: Its first array, or pair of arrays.
        rest: The items after that.
        body: The request.
        model_id: The model of an answer in JSON.
    """

    def __init__(
        self,
        described: dict[str, Any],
        first: Any,
        rest: AsyncGenerator[RowsItem],
        body: dict[str, Any],
        model_id: str,
        request_id: str,
    ) -> None:
        self._described, self._first, self._rest = described, first, rest
        self._model_id, self._request_id = model_id, request_id
        self._num_bytes = _num_bytes(described, body)
        self._is_json = "top_logprobs" in body
        headers: dict[str, str] = {}
        if not self._is_json:
            num_prompts, num_columns = described["shape"]
            headers = {
                "Content-Length": str(self._num_bytes),
                SHAPE: f"{num_prompts},{num_columns}",
                DTYPE: body["dtype"],
                PROMPT_TOKENS: str(described["prompt_tokens"]),
            }
        super().__init__(media_type="application/json" if self._is_json else BYTES, headers=headers)
        if self._is_json:
            del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The replica makes the rest without waiting for the client, and all of it is held.
        release_slot(scope)
        parts = self._as_json() if self._is_json else self._as_bytes()
        async with aclosing(self._rest), aclosing(parts):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await unless_client_leaves(receive, self._send(parts, scope, send))

    async def _send(self, parts: AsyncGenerator[Any], scope: Scope, send: Send) -> None:
        """Send the parts in pieces of at most ``PART_BYTES``, of which short ones are joined."""
        piece = b""
        try:
            async for part in parts:
                start = 0
                if len(piece) + len(part) <= PART_BYTES:
                    piece, start = piece + part, len(part)
                while start < len(part):
                    if piece:
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                    end = start + PART_BYTES
                    piece = bytes(part[start:end])
                    start = end
        except ReadTooSlowly:
            raise
        except Exception as exception:
            error = to_api_error(exception, self._request_id)
            logger.warning("%s of %s broke off: %s", self._request_id, owner_of(scope), error.message)
            raise
        await send({"type": "http.response.body", "body": piece, "more_body": False})

    async def _as_bytes(self) -> AsyncGenerator[memoryview]:
        async for array in self._items():
            yield array.view(np.uint8).reshape(-1).data

    async def _as_json(self) -> AsyncGenerator[bytes]:
        """Yield the likeliest tokens of each prompt, in parts."""
        yield _dump({"object": "list", "model": self._model_id})[:-1] + b',"data":['
        index = 0
        async for tokens, logprobs in self._items():
            for row in range(len(tokens)):
                start = b"," if index else b""
                yield start + b'{"object":"logprobs","index":%d,"token_ids":[' % index
                async for part in _numbers(tokens[row]):
                    yield part
                yield b'],"logprobs":['
                async for part in _numbers(logprobs[row]):
                    yield part
                yield b"]}"
                index += 1
        yield b'],"usage":' + _dump(_usage(self._described["prompt_tokens"])) + b"}"

    async def _items(self) -> AsyncGenerator[Any]:
        """Yield the replica's arrays until all rows have come; raise an error item."""
        num_left = self._described["shape"][0]
        item, self._first = self._first, None
        while num_left:
            if item is None or isinstance(item, dict | ApiError):
                raise error_of(item, self._request_id)
            num_left -= len(item[0] if isinstance(item, tuple) else item)
            yield item
            # Before the next is waited for, so that one is held at a time.
            item = None
            item = await anext(self._rest, None) if num_left else None


async def _hold_rows(
    answer: AsyncGenerator[RowsItem], backlog: Backlog, owner: str, body: dict[str, Any]
) -> AsyncGenerator[RowsItem]:
    """Yield the items of an answer, counting its rows' bytes in ``backlog`` until this is closed."""
    async with aclosing(answer):
        async for first in answer:
            num_bytes = _num_bytes(first, body) if isinstance(first, dict) else 0
            with backlog.hold(num_bytes, owner):
                yield first
                async for item in answer:
                    yield item


async def _first_items(answer: AsyncGenerator[RowsItem], request: Request) -> tuple[dict[str, Any], Any]:
    """Return an answer's dict that describes the rows, and its first array; raise an error item."""
    described = await anext(answer, None)
    if not isinstance(described, dict):
        raise error_of(described, request.state.request_id)
    first = await anext(answer, None)
    if first is None or isinstance(first, dict | ApiError):
        raise error_of(first, request.state.request_id)
    return described, first


async def _only_item(answer: AsyncGenerator[RowsItem], request: Request) -> dict[str, Any]:
    async with aclosing(answer):
        item = await anext(answer, None)
    if not isinstance(item, dict):
        raise error_of(item, request.state.request_id)
    return item


async def _numbers(array: Any) -> AsyncGenerator[bytes]:
    """Yield an array's numbers as JSON in parts, and let other tasks run after each."""
    for start in range(0, len(array), _ENTRIES_AT_ONCE):
        part = _dump(array[start : start + _ENTRIES_AT_ONCE].tolist())[1:-1]
        yield part if start == 0 else b"," + part
        await asyncio.sleep(0)


def _num_bytes(described: dict[str, Any], body: dict[str, Any]) -> int:
    num_prompts, num_columns = described["shape"]
    # The likeliest tokens are pairs of 4 bytes each.
    return int(num_prompts * num_columns * (8 if "top_logprobs" in body else np.dtype(body["dtype"]).itemsize))


def _usage(num_tokens: int) -> dict[str, int]:
    return {"prompt_tokens": num_tokens, "completion_tokens": 0, "total_tokens": num_tokens}


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
