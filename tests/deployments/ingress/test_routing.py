"""Rows 4, 5, 6, 9 of the faults: Host, paths, headers, methods."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.errors import OverloadedError, TooManyRequestsError
from deployments.ingress.connections.budgets import release_slot
from deployments.ingress.route import Places, Routes, TakePlaces
from deployments.settings.limits import MAX_HEADER_BYTES, MAX_HEADERS
from tests.deployments.front import CHAT, MODEL, Front, assert_error, raw_request

BAD_HOSTS = [b"a/b", b"a?b", b"a#b", b"u@a", b"a\\b", b"a b", b"", b"a:b", b"a:1:2", b"[::1", b"a,b", "é".encode()]
GOOD_HOSTS = [b"localhost", b"127.0.0.1:8000", b"example.org", b"[::1]:8000", b"my_service.internal:80"]
UNKNOWN_TARGETS = [
    "/",
    "//v1/models",
    "/v1//models",
    "/v1/../metrics",
    "/v1/./models",
    "/%2e%2e/v1/models",
    "/v1/%6dodels",
    "/%68ealth",
    "/V1/models",
    "/v1/Models",
    "/v1/models;a",
    "/health/",
    "/health/x",
    "/v1/chat/completions/",
    "/v1/chat",
    "/invocations",
    "/pause",
    "/metrics",
    "/docs/",
    "/docs/index.html",
    "/docs/NOTICE",
    "/redoc",
    "/v1/embeddings",
    "/v1/models%2F",
    "/favicon.ico",
]


@pytest.mark.parametrize("host", BAD_HOSTS)
@pytest.mark.parametrize("target", ["/v1/models", "/health"])
def test_a_host_that_is_none_is_refused(front: Front, host: bytes, target: str) -> None:
    status, _ = front.send_raw(raw_request(target, b"Host: " + host))
    assert status == 400


def test_two_hosts_are_refused(front: Front) -> None:
    status, _ = front.send_raw(raw_request("/v1/models", b"Host: localhost", b"Host: localhost"))
    assert status == 400


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_a_host_with_or_without_a_port_is_served(front: Front, host: bytes) -> None:
    status, _ = front.send_raw(raw_request("/v1/models", b"Host: " + host))
    assert status == 200


@pytest.mark.parametrize("target", UNKNOWN_TARGETS)
def test_a_path_that_is_not_listed_is_unauthorized_without_the_key_and_not_found_with_it(
    front: Front, target: str
) -> None:
    assert front.send_raw(raw_request(target, key=None))[0] == 401
    status, answer = front.send_raw(raw_request(target))
    assert status == 404
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("target", ["/v1/models/", "/v1/models/../models", "/v1/models/%0a", "/v1/models/%2e%2e/x"])
def test_what_lies_below_models_is_a_name_and_never_a_path(front: Front, target: str) -> None:
    assert front.send_raw(raw_request(target))[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "POST"),
        ("PUT", CHAT, "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", f"/v1/models/{MODEL}", "GET"),
        ("POST", "/health", "GET"),
        ("OPTIONS", CHAT, "POST"),
        ("PATCH", "/v1/models", "GET"),
    ],
)
def test_a_wrong_method_is_refused_and_the_right_one_named(front: Front, method: str, path: str, allowed: str) -> None:
    with front.client() as client:
        response = client.request(method, path)
    assert_error(response, 405)
    assert response.headers["allow"] == allowed


def test_a_wrong_method_without_the_key_is_unauthorized(front: Front) -> None:
    with front.client(key=None) as client:
        assert_error(client.get(CHAT), 401, code="invalid_api_key")


def test_an_answer_to_head_has_no_body(front: Front) -> None:
    status, answer = front.send_raw(raw_request("/v1/models", method="HEAD"))
    assert status == 405
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "headers",
    [
        [b"X-Long: " + b"x" * (MAX_HEADER_BYTES + 1)],
        [b"X-Long: " + b"x" * 2**20],
        [b"X-%d: x" % index for index in range(MAX_HEADERS + 1)],
        [b"X-%d: x" % index for index in range(10_000)],
    ],
    ids=["64 KiB", "1 MiB", "101 headers", "10,000 headers"],
)
def test_headers_beyond_the_limits_are_refused(front: Front, headers: list[bytes]) -> None:
    assert front.send_raw(raw_request("/v1/models", *headers))[0] in (400, 431)
    assert front.get("/v1/models").status_code == 200


@pytest.mark.parametrize("request_line", [b"GET", b"\x16\x03\x01\x02", b"GET /\x00 HTTP/1.1"])
def test_what_is_not_http_is_refused(front: Front, request_line: bytes) -> None:
    assert front.send_raw(request_line + b"\r\nHost: localhost\r\n\r\n")[0] in (0, 400, 401)
    assert front.get("/v1/models").status_code == 200


def limit_places(app: ASGIApp, num_places: int, *paths: str) -> tuple[TakePlaces, Callable[..., Scope]]:
    """Return ``app`` behind places that some paths share, and what makes the scope of a request."""

    async def nothing() -> Response:
        return Response()

    routes, places = Routes(FastAPI()), Places(num_places)
    for path in paths:
        routes.add("GET", path, part=None, places=places)(nothing)
    routes.add("GET", "/health", part=None)(nothing)

    def scope_of(path: bytes, owner: str = "alice") -> Scope:
        scope = {"type": "http", "method": "GET", "path": path.decode(), "raw_path": path, "state": {"owner": owner}}
        routes.match(scope)
        return scope

    return TakePlaces(app, routes=routes), scope_of


async def test_a_place_is_free_when_the_answer_has_been_made_and_before_it_is_read() -> None:
    reads = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        if scope["raw_path"] == b"/rows":
            release_slot(scope)
            await reads.wait()
        await send({"type": "http.response.body", "body": b"x"})

    async def nothing() -> Any: ...

    async def slow_client(message: Any) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            await reads.wait()

    async def ask(path: bytes) -> None:
        await limited(scope_of(path), nothing, slow_client)

    limited, scope_of = limit_places(app, 1, "/check", "/rows")
    tasks = []
    for path in (b"/check", b"/rows", b"/check"):
        tasks.append(asyncio.create_task(ask(path)))
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in tasks)
    reads.set()
    await asyncio.gather(*tasks)
    release_slot({})


async def test_no_more_requests_to_some_paths_at_once_than_configured() -> None:
    leave = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["raw_path"] in (b"/chat", b"/complete"):
            await leave.wait()

    async def ask(path: bytes, owner: str = "alice") -> None:
        async def nothing(*_: Any) -> Any: ...

        await limited(scope_of(path, owner), nothing, nothing)

    limited, scope_of = limit_places(app, 4, "/chat", "/complete")
    tasks = [asyncio.create_task(ask(b"/chat")) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequestsError):
        await ask(b"/chat")
    tasks.append(asyncio.create_task(ask(b"/complete", "bob")))
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError):
        await ask(b"/chat", "carol")
    await ask(b"/health")
    leave.set()
    await asyncio.gather(*tasks)
    await ask(b"/chat")
