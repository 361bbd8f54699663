import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from uvicorn.config import HTTP_PROTOCOLS, Config

from deployments.ingress.connections.header_limits import HeaderLimitProtocol
from deployments.ingress.connections.proxy_callback import ProxyGuard, check_guarded, middlewares
from deployments.process_setup import CALLBACK, CALLBACK_VARIABLE


def headers_after(*headers: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """What the guard leaves of a request's headers, without the id that it gives itself."""
    seen: list[tuple[bytes, bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])

    async def nothing(*_: Any) -> Any:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "path": "/health", "headers": list(headers)}
    asyncio.run(ProxyGuard(app)(scope, nothing, nothing))
    own_id = [value for name, value in seen if name == b"x-request-id"]
    assert len(own_id) == 1 and len(own_id[0]) == 32
    return [header for header in seen if header[0] != b"x-request-id"]


def test_drops_what_serve_would_act_on() -> None:
    others = [(b"host", b"a"), (b"authorization", b"Bearer k"), (b"x-session", b"1"), (b"serve", b"1")]
    assert headers_after(*others) == others
    for name in (
        b"x-request-id", b"x-request-timeout-seconds", b"x-request-disconnect-disabled", b"x-session-id",
        b"x_session_id", b"serve_multiplexed_model_id", b"serve-multiplexed-model-id", b"Serve_Multiplexed-Model_Id",
        b"X-Session_ID", b"x-serve-router-replica", b"x_serve_router_replica",
    ):  # fmt: skip
        assert headers_after(*others, (name, b"1")) == others, name


async def test_a_websocket_is_refused_before_serve_looks_at_its_headers() -> None:
    sent: list[Any] = []

    async def app(*_: Any) -> Any:
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message["type"])

    headers = [(b"serve_multiplexed_model_id", b"1")]
    await ProxyGuard(app)({"type": "websocket", "path": "/health", "headers": headers}, app, send)
    assert sent == ["websocket.close"]


def test_servers_that_start_afterwards_limit_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HTTP_PROTOCOLS, "auto", HTTP_PROTOCOLS["auto"])
    assert len(middlewares()) == 1
    config = Config(lambda: None)
    config.load()
    assert config.http_protocol_class is HeaderLimitProtocol


def test_an_ingress_does_not_start_without_the_guard() -> None:
    environments: list[dict[str, str]] = [{}, {CALLBACK_VARIABLE: ""}, {CALLBACK_VARIABLE: "other:middlewares"}]
    for environment in environments:
        with pytest.raises(RuntimeError, match=f"{CALLBACK_VARIABLE}: {CALLBACK}"):
            check_guarded(environment)
    check_guarded({CALLBACK_VARIABLE: CALLBACK})


class Proxy:
    """Stands in for Serve's proxy, whose requests have waited since its last ingress died."""

    def __init__(self, *, is_with_ingress: bool) -> None:
        self._is_with_ingress = is_with_ingress
        self._pending: list[Any] = []
        router = SimpleNamespace(curr_replicas={}, _pending_requests_to_fulfill=self._pending)
        handle = SimpleNamespace(
            _router=SimpleNamespace(_asyncio_router=SimpleNamespace(request_router=router)),
            running_replicas_populated=lambda: True,
        )
        self.proxy_router = SimpleNamespace(handles={"ingress": handle})
        self.is_cancelled = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not self._is_with_ingress:
            metadata = SimpleNamespace(request_id=dict(scope["headers"])[b"x-request-id"].decode())
            self._pending.append(SimpleNamespace(metadata=metadata, future=asyncio.Future()))
        try:
            await asyncio.sleep(1 if self._is_with_ingress else 60)
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})


@pytest.mark.parametrize("is_with_ingress", [False, True])
async def test_only_a_request_that_waits_for_an_ingress_is_refused_where_none_is_left(is_with_ingress: bool) -> None:
    sent: list[Any] = []

    async def nothing() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    proxy = Proxy(is_with_ingress=is_with_ingress)
    scope = {"type": "http", "path": "/ready", "headers": [(b"host", b"a")]}
    await asyncio.wait_for(ProxyGuard(proxy)(scope, nothing, send), 30)
    assert proxy.is_cancelled != is_with_ingress
    assert sent[0]["status"] == (200 if is_with_ingress else 503)
    assert (b"retry-after" in dict(sent[0]["headers"])) != is_with_ingress


NO_APPLICATION = b"Path '/ready' not found. Ping http://.../-/routes for available routes."


async def answer_of(
    *messages: tuple[int, bytes, bytes] | bytes, path: str = "/ready"
) -> tuple[int, dict[bytes, bytes], bytes, bool]:
    """Status, headers, body and whether it is complete, of what an application sends: a status with its type and the
    first part of a body, then parts; an empty one ends it."""
    sent: list[Any] = []

    async def app(_: Any, __: Any, send: Any) -> None:
        for message in messages:
            if isinstance(message, tuple):
                status, kind, body = message
                await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
                await send({"type": "http.response.body", "body": body, "more_body": True})
            else:
                await send({"type": "http.response.body", "body": message, "more_body": bool(message)})

    async def receive() -> Any:
        await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        sent.append(message)

    await ProxyGuard(app)({"type": "http", "path": path, "headers": []}, receive, send)
    assert [message["type"] for message in sent].count("http.response.start") == 1
    body = b"".join(message["body"] for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), body, not sent[-1].get("more_body", False)


def assert_to_be_sent_again(answer: tuple[int, dict[bytes, bytes], bytes, bool]) -> None:
    status, headers, body, is_complete = answer
    assert (status, headers[b"content-type"], is_complete) == (503, b"application/json", True)
    assert int(headers[b"retry-after"]) > 0
    assert headers[b"x-request-id"].startswith(b"req-")
    assert json.loads(body)["error"]["code"] == "overloaded"


async def test_where_serve_has_no_application_or_no_ingress_answered_the_same_request_may_work_later() -> None:
    assert_to_be_sent_again(await answer_of((404, b"text/plain; charset=utf-8", NO_APPLICATION), b""))
    assert_to_be_sent_again(await answer_of())


async def test_a_target_that_is_no_path_is_not_found_while_the_service_runs() -> None:
    # That of ``OPTIONS *``, for which Serve never has an application.
    answer = await answer_of((404, b"text/plain; charset=utf-8", NO_APPLICATION), b"", path="*")
    assert (answer[0], json.loads(answer[2])["error"]["message"]) == (404, "There is nothing at this path.")


async def test_what_an_application_says_stays() -> None:
    for status, kind, body in (
        (404, b"text/plain", b"Another application has nothing here."),
        (404, b"application/json", NO_APPLICATION),
        (200, b"text/plain", NO_APPLICATION),
    ):
        answer = await answer_of((status, kind, body), b" More.", b"")
        assert answer == (status, {b"content-type": kind}, body + b" More.", True)


async def test_a_stream_whose_ingress_died_ends_with_an_error() -> None:
    status, _, body, is_complete = await answer_of((200, b"text/event-stream; charset=utf-8", b"data: {}\n\n"))
    assert (status, is_complete) == (200, True)
    first, error, rest = body.split(b"\n\n")
    assert (first, rest) == (b"data: {}", b"")
    assert json.loads(error.removeprefix(b"data: "))["error"]["code"] == "overloaded"
    # Any other answer is left without its end.
    answer = await answer_of((200, b"application/json", b"{"))
    assert answer == (200, {b"content-type": b"application/json"}, b"{", False)
