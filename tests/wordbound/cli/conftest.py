"""The service that commands ask: its real front on a loopback port, over an engine that answers as told."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from typer.testing import CliRunner, Result

from deployments.contract import ChatBody, Decoding, ReplicaRequest, WordToolRequest
from deployments.errors import ApiError
from tests.deployments.batch.direct import DirectBatches
from tests.deployments.batch.world import FEW
from tests.deployments.front import KEY, MODEL, app_with_batches, wait_until
from tests.deployments.stand_in import Call, StandIn
from wordbound.cli import app

PIECES = ("The ", "dog ", "was ", "happy.")
BLOCK = {"lang": "en", "n_words": 1000, "num_words": 4, "num_distinct_words": 4, "max_rank": 943}


@dataclass
class ScriptedBackend(StandIn):
    """Tells ``pieces`` with ``block``; what a message wishes for fails as ``StandIn`` has it.

    ``told`` has what a word tool tells: the events of a stream, the whole answer the last, and ``end`` after them.
    """

    pieces: Sequence[str] = PIECES
    block: dict[str, Any] = field(default_factory=lambda: dict(BLOCK))
    reason: str = "stop"
    told: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    end: str = "data: [DONE]\n\n"

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        if isinstance(request, WordToolRequest):
            async for event in self._use_tool(request):
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

    async def _use_tool(self, request: WordToolRequest) -> AsyncGenerator[Any]:
        self.calls.append(Call({**request.body, "tool": request.tool}, request.vocabulary, Decoding(), request.caller))
        events = self.told[request.tool]
        if not request.body.get("stream"):
            yield events[-1]
            return
        for event in events:
            yield _event(event)
        yield self.end


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
    for url in serving(app_with_batches(backend, batches, FEW)):
        monkeypatch.setenv("WORDBOUND_URL", url)
        monkeypatch.setenv("WORDBOUND_API_KEY", KEY)
        yield StandInService(url, backend, batches)


def run(*arguments: str | Path, text: str | bytes | None = None) -> Result:
    """Runs a command as a shell does."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=text, prog_name="wordbound")


def assert_refused(done: Result, status: int, *messages: str) -> None:
    """An error of one line, and nothing else."""
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (status, "", 1), done.output
    assert done.stderr.startswith("wordbound ")
    assert [message for message in messages if message not in done.stderr] == [], done.stderr
