"""The service that commands ask: its real front on a loopback port, over an engine that answers as told."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from typer.testing import CliRunner, Result

from deployments.batch.api import add_batch_routes
from deployments.contract import (
    ChatBody,
    Decoding,
    ReplicaRequest,
    WordToolRequest,
)
from deployments.errors import ApiError
from deployments.ingress.app import create_app
from deployments.settings.batch import BatchSettings
from deployments.settings.service import Settings
from tests.deployments.batch.direct import DirectBatches
from tests.deployments.batch.world import FEW
from tests.deployments.front import KEY, LIMITS, MODEL, wait_until
from tests.deployments.stand_in import Call, StandIn
from wordbound.cli import app

PIECES = ("The ", "dog ", "was ", "happy.")
BLOCK = {"lang": "en", "n_words": 1000, "num_words": 4, "num_distinct_words": 4, "max_rank": 943}


@dataclass
class ScriptedBackend(StandIn):
    """Tells ``pieces`` with ``block``; what a message wishes for fails as ``StandIn`` has it."""

    pieces: Sequence[str] = PIECES
    block: dict[str, Any] = field(default_factory=lambda: dict(BLOCK))
    reason: str = "stop"

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        if isinstance(request, WordToolRequest):
            async for event in self._rewrite(request):
                yield event
            return
        async for item in super().answer(request):
            if isinstance(item, ApiError):
                yield item
                return
            if request.body["messages"][-1]["content"] in ("please fail later", "please stall later"):
                yield item
                continue
            break
        else:
            return
        whole = {"id": "c", "object": "chat.completion", "created": 0, "model": MODEL}
        if not request.body.get("stream"):
            message = {"role": "assistant", "content": "".join(self.pieces)}
            choice = {"index": 0, "message": message, "finish_reason": self.reason, "logprobs": None}
            yield {**whole, "choices": [choice], "vocab": self.block}
            return
        for number, piece in enumerate(self.pieces):
            is_last = number == len(self.pieces) - 1
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": self.reason if is_last else None}
            yield _event({**whole, "choices": [choice], **({"vocab": self.block} if is_last else {})})
        yield "data: [DONE]\n\n"

    async def _rewrite(self, request: WordToolRequest) -> AsyncGenerator[str]:
        """Rewrites every text alike."""
        self.calls.append(Call({**request.body, "tool": request.tool}, request.vocabulary, Decoding(), request.caller))
        for piece in self.pieces:
            yield _event({"text": piece})
        coverage = {"before": 0.5, "after": 1.0}
        yield _event({"text": "".join(self.pieces), "changes": [], "names": [], "coverage": coverage})
        yield "data: [DONE]\n\n"


def _event(chunk: dict[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


@dataclass
class StandInService:
    """A running front, and what it was asked."""

    url: str
    backend: ScriptedBackend
    batches: DirectBatches

    @property
    def body(self) -> ChatBody:
        """Of the last chat."""
        return self.backend.calls[-1].body


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serving(application: Any) -> Iterator[str]:
    """Serves an application; yields its address."""
    config = uvicorn.Config(application, port=0, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),), daemon=True)
    thread.start()
    wait_until(lambda: server.started, timeout_s=10)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)
    assert not thread.is_alive()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInService]:
    """The service that the environment names."""
    backend, batches = ScriptedBackend(), DirectBatches()
    settings = Settings(model_id=MODEL, secret_token=KEY, limits=LIMITS, batch=BatchSettings(limits=FEW))
    front: FastAPI = create_app(settings, backend, [partial(add_batch_routes, settings=settings, batches=batches)])
    for url in serving(front):
        monkeypatch.setenv("WORDBOUND_URL", url)
        monkeypatch.setenv("WORDBOUND_API_KEY", KEY)
        yield StandInService(url, backend, batches)


class Scripted:
    """A service of a few routes: what the last request of each asked, and the events that it is answered with."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.end = "data: [DONE]\n\n"

    async def stream(self, request: Request) -> Response:
        self.asked[request.url.path] = await request.json()
        lines = [f"data: {json.dumps(event)}\n\n" for event in self.events]
        return PlainTextResponse("".join([*lines, self.end]), media_type="text/event-stream")

    async def print(self, request: Request) -> Response:
        body = self.asked[request.url.path] = await request.json()
        return PlainTextResponse(f"a worksheet as {body['format']}\n")


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """The service that the environment names, with word tools and worksheets alone."""
    made = Scripted()
    routes = [
        Route("/v1/vocabularies/{tool}", made.stream, methods=["POST"]),
        Route("/v1/documents/worksheet", made.print, methods=["POST"]),
    ]
    for url in serving(Starlette(routes=routes)):
        monkeypatch.setenv("WORDBOUND_URL", url)
        yield made


Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Runs a command as a shell does."""

    def run(*arguments: str | Path, text: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=text, prog_name="wordbound")

    return run


def assert_refused(done: Result, status: int, *messages: str) -> None:
    """An error of one line, and nothing else."""
    assert done.exit_code == status, done.output
    assert done.stdout == ""
    assert done.stderr.startswith("wordbound ")
    assert done.stderr.count("\n") == 1, done.stderr
    for message in messages:
        assert message in done.stderr
