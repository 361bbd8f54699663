"""A client of the HTTP front under test, and the checks that hold for every answer of it."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import httpx2
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message

from deployments.batch.api import add_batch_routes
from deployments.ingress.app import Mount, create_app
from deployments.ingress.replicas import Backend
from deployments.page.bundle import Bundle
from deployments.protocol.reader import ServedModel
from deployments.settings.batch import BatchSettings
from deployments.settings.keys import Key, digest_of
from deployments.settings.limits import BatchLimits, Limits
from deployments.settings.service import Settings
from tests.deployments.batch.direct import DirectBatches
from tests.deployments.stand_in import StandIn

KEY = "a-key-of-the-tests-7c1f"
KEYS = {"other": "a-key-of-another-52aa"}
"""The other keys of the service, by name."""
KEY_SETTINGS = {name: Key(sha256=digest_of(key.encode())) for name, key in KEYS.items()}
MODEL = "stand-in"
LIMITS = Limits(max_body_s=2, max_file_s_per_minute=3_600)
SERVED = ServedModel(MODEL, LIMITS)
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def completion_body(prompt: Any = "Once upon a time, ", **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": prompt, **fields}


def chat_body(text: str = "Tell me a story.", **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


def app_of(
    backend: Backend | None = None, *, mounts: Sequence[Mount] = (), page: Bundle | None = None, **settings: Any
) -> FastAPI:
    """An application with these settings, over a stand-in where no backend is given."""
    given: dict[str, Any] = {"model_id": MODEL, "secret_token": KEY, "limits": LIMITS, **settings}
    return create_app(Settings(**given), backend or StandIn(), mounts, page)


def app_with_batches(backend: Backend, batches: DirectBatches, limits: BatchLimits) -> FastAPI:
    """An application with several keys, and the routes of batches within ``limits``."""
    batch = BatchSettings(limits=limits)
    settings = Settings(model_id=MODEL, secret_token=KEY, keys=KEY_SETTINGS, limits=LIMITS, batch=batch)
    return create_app(settings, backend, [partial(add_batch_routes, settings=settings, batches=batches)])


def client_of(
    backend: Backend | None = None,
    *,
    key: str | None = None,
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    **options: Any,
) -> httpx2.AsyncClient:
    """A client of an application of its own in this process (``app_of``); it sends ``key`` if there is one.

    ``around`` gives the application another layer.
    """
    transport = httpx2.ASGITransport(around(app_of(backend, **options)))
    headers = {} if key is None else {"X-API-Key": key}
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


@dataclass
class Front:
    """The application under a real server, on a loopback port."""

    port: int
    backend: StandIn
    batches: DirectBatches

    @contextmanager
    def client(self, key: str | None = KEY) -> Iterator[httpx2.Client]:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        with httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=60) as client:
            yield client

    def get(self, path: str, **options: Any) -> httpx2.Response:
        with self.client() as client:
            return client.get(path, **options)

    def chat(self, body: dict[str, Any] | bytes | None = None, **fields: Any) -> httpx2.Response:
        """Posts a body as it is, or a chat with these fields."""
        content = (
            body if isinstance(body, bytes) else json.dumps(chat_body(**fields) if body is None else body).encode()
        )
        with self.client() as client:
            return client.post(CHAT, content=content, headers={"Content-Type": "application/json"})

    def post(self, path: str, body: Any) -> httpx2.Response:
        with self.client() as client:
            return client.post(path, json=body)

    def send_raw(self, request: bytes, *, timeout_s: float = 10) -> tuple[int, bytes]:
        """Sends bytes as they are; gives back the status (0 for none) and all that came, until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s) as connection:
            received = b""
            # The server may answer and close before it has read everything.
            with suppress(OSError):
                connection.sendall(request)
            with suppress(ConnectionError):
                while chunk := connection.recv(65536):
                    received += chunk
        return (int(received.split(b" ", 2)[1]) if received.startswith(b"HTTP/") else 0), received


def raw_request(target: str = "/v1/models", *headers: bytes, method: str = "GET", key: str | None = KEY) -> bytes:
    """A request of one's own making; a Host is added unless ``headers`` has one."""
    lines = [f"{method} {target} HTTP/1.1".encode()]
    if not any(header.lower().startswith(b"host:") for header in headers):
        lines.append(b"Host: localhost")
    if key is not None:
        lines.append(f"X-API-Key: {key}".encode())
    return b"\r\n".join([*lines, *headers, b"Connection: close", b"", b""])


Refusal: TypeAlias = tuple[int, str | None, str | None]
"""The status of an answer and, where it is an error, its field and its code."""


def refusal_of(response: httpx2.Response) -> Refusal:
    """What an answer refuses; an error is in OpenAI's envelope, within its size, with the server's request id."""
    if response.status_code < 400:
        return response.status_code, None, None
    assert len(response.content) <= 4096
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req-")
    assert response.json().keys() == {"error"}
    error: dict[str, Any] = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == ("server_error" if response.status_code >= 500 else "invalid_request_error")
    assert error["message"]
    return response.status_code, error["param"], error["code"]


def assert_error(
    response: httpx2.Response, status: int, *, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    assert refusal_of(response) == (status, param, code), response.text[:500]
    error: dict[str, Any] = response.json()["error"]
    return error


class Exchange:
    """A request to an application in this process, whose client takes the body of its answer once it ``reads``."""

    def __init__(self, app: ASGIApp, path: str, body: dict[str, Any], key: str = KEY, **headers: str) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.reads = asyncio.Event()
        self.num_asked = 0
        """How often the application has asked for more of the body."""
        sent = {"host": "localhost", "x-api-key": key, "content-type": "application/json", **headers}
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "http_version": "1.1",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        }
        self._body: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        self.num_asked += 1
        if not self._body:
            await asyncio.sleep(3600)
        return self._body.pop()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status.set_result(message["status"])
        else:
            await self.reads.wait()

    async def read(self) -> int:
        """Read the whole answer; return its status."""
        self.reads.set()
        async with asyncio.timeout(60):
            await self.task
        return self.status.result()


@contextmanager
def running(app: ASGIApp, http: Any) -> Iterator[int]:
    """Run an application under a real server with this HTTP parser, and yield its port."""
    config = uvicorn.Config(app, interface="asgi3", port=0, http=http, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),), daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(timeout=60)
    assert not thread.is_alive()


def wait_until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
