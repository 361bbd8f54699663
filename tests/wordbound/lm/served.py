"""A service whose model is the mock one, for the backends that ask a service."""

import asyncio
import base64
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import numpy as np
import uvicorn

from deployments.contract import ReplicaRequest, RowsRequest, TokensRequest, prompts_of
from deployments.errors import EngineError
from deployments.ingress.app import create_app
from deployments.settings.service import Settings
from tests.deployments.front import KEY, MODEL, wait_until
from tests.deployments.stand_in import StandIn
from wordbound.lm.mock_lm import MockAsyncLM

V = 50
REFUSAL = EngineError(400, "Too much.", param="prompt")


def full(retry_after_s: int | None = None) -> EngineError:
    return EngineError(503, "Full.", code="overloaded", retry_after_s=retry_after_s)


STALL = 49
"""A prefix that ends with it has no end."""


class Served(StandIn):
    """Answers with the rows of ``model``, after the errors that a test put into ``errors``."""

    def __init__(self) -> None:
        super().__init__()
        self.model = MockAsyncLM(None, vocab_size=V)
        self.errors: list[EngineError] = []
        self.bodies: list[dict[str, Any]] = []
        self.num_open = 0

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        match request:
            case RowsRequest(body) if "token_ids" in body:
                items = self._token_logprobs(body)
            case RowsRequest(body):
                items = self._logprobs(body)
            case TokensRequest(body) if body:
                items = self._convert(body)
            case _:
                items = self._tokens()
        async with aclosing(items):
            async for item in items:
                yield item

    async def _logprobs(self, body: dict[str, Any]) -> AsyncGenerator[Any]:
        self.bodies.append(body)
        self.num_open += 1
        try:
            if self.errors:
                yield self.errors.pop(0)
                return
            prefixes = [tuple(prompt) for prompt in prompts_of(body)]
            if any(ids[-1] == STALL for ids in prefixes):
                await asyncio.sleep(3600)
            yield {"shape": [len(prefixes), V], "vocab_size": V, "prompt_tokens": sum(map(len, prefixes))}
            for ids in prefixes:
                yield self.model.compute_rows_sync([ids], None).numpy().astype(body["dtype"])
        finally:
            self.num_open -= 1

    async def _token_logprobs(self, body: dict[str, Any]) -> AsyncGenerator[Any]:
        self.bodies.append(body)
        if self.errors:
            yield self.errors.pop(0)
            return
        scores = self.model.token_logprobs_sync(body["prompt"], body["token_ids"])
        yield {"logprobs": scores.tolist(), "prompt_tokens": len(body["prompt"]) + len(body["token_ids"])}

    async def _tokens(self) -> AsyncGenerator[Any]:
        spelled = [base64.b64encode(bytes([number + 65])).decode() for number in range(V)]
        yield {"vocab_size": V, "tokens": spelled, "special_ids": [48, 49], "eos_token_ids": [49]}

    async def _convert(self, body: dict[str, Any]) -> AsyncGenerator[Any]:
        if "tokens" in body:
            yield {"prompt": "".join(chr(token + 65) for token in body["tokens"])}
        else:
            tokens = [ord(character) - 65 for character in body["prompt"]]
            yield {"count": len(tokens), "max_model_len": 4096, "tokens": tokens, "token_strs": None}


@contextmanager
def serving(backend: Served) -> Iterator[str]:
    """Yields the address of the service."""
    app = create_app(Settings(model_id=MODEL, secret_token=KEY), backend)
    server = uvicorn.Server(uvicorn.Config(app, port=0, ws="none", lifespan="off", log_config=None))
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),), daemon=True)
    thread.start()
    wait_until(lambda: server.started, timeout_s=10)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)


def exactly(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
