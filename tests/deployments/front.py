"""A client of the HTTP front under test, and the checks that hold for every answer of it."""

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.types import ASGIApp

from deployments.ingress.app import Mount, create_app
from deployments.settings.keys import Key, digest_of
from deployments.settings.limits import Limits
from deployments.settings.service import Settings
from tests.deployments.batch.direct import DirectBatches
from tests.deployments.stand_in import StandIn

KEY = "a-key-of-the-tests-7c1f"
KEYS = {"other": "a-key-of-another-52aa"}
"""The other keys of the service, by name."""
KEY_SETTINGS = {name: Key(sha256=digest_of(key.encode())) for name, key in KEYS.items()}
MODEL = "stand-in"
LIMITS = Limits(max_body_s=2)
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def completion_body(prompt: Any = "Once upon a time, ", **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": prompt, **fields}


def chat_body(text: str = "Tell me a story.", **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


def client_of(
    backend: StandIn | None = None,
    *,
    key: str | None = None,
    mounts: Sequence[Mount] = (),
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    **settings: Any,
) -> httpx.AsyncClient:
    """A client of an application of its own in this process, with these settings; it sends ``key`` if there is one.

    ``around`` gives the application another layer.
    """
    given: dict[str, Any] = {"model_id": MODEL, "secret_token": KEY, "limits": LIMITS, **settings}
    transport = httpx.ASGITransport(around(create_app(Settings(**given), backend or StandIn(), mounts)))
    headers = {} if key is None else {"X-API-Key": key}
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


@dataclass
class Front:
    """The application under a real server, on a loopback port."""

    port: int
    backend: StandIn
    batches: DirectBatches

    @contextmanager
    def client(self, key: str | None = KEY) -> Iterator[httpx.Client]:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=60) as client:
            yield client

    def get(self, path: str, **options: Any) -> httpx.Response:
        with self.client() as client:
            return client.get(path, **options)

    def chat(self, body: dict[str, Any] | bytes | None = None, **fields: Any) -> httpx.Response:
        """Posts a body as it is, or a chat with these fields."""
        content = (
            body if isinstance(body, bytes) else json.dumps(chat_body(**fields) if body is None else body).encode()
        )
        with self.client() as client:
            return client.post(CHAT, content=content, headers={"Content-Type": "application/json"})

    def post(self, path: str, body: Any) -> httpx.Response:
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


def assert_error(
    response: httpx.Response, status: int, *, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """An error in OpenAI's envelope, within its size, with the server's request id."""
    assert response.status_code == status, response.text[:500]
    assert len(response.content) <= 4096
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req-")
    assert response.json().keys() == {"error"}
    error: dict[str, Any] = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == ("server_error" if status >= 500 else "invalid_request_error")
    assert error["message"]
    assert error["param"] == param
    assert error["code"] == code
    return error


def wait_until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
