import asyncio
from typing import Any

import pytest
from uvicorn.config import HTTP_PROTOCOLS, Config

from deployments.ingress.connections.header_limits import LimitedHttpToolsProtocol
from deployments.ingress.connections.proxy_callback import (
    CALLBACK,
    CALLBACK_VARIABLE,
    ProxyGuard,
    check_guarded,
    middlewares,
)


def headers_behind(*headers: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """What the guard leaves of a request's headers."""
    seen: list[tuple[bytes, bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])

    async def nothing(*_: Any) -> Any:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "path": "/health", "headers": list(headers)}
    asyncio.run(ProxyGuard(app)(scope, nothing, nothing))
    return seen


@pytest.mark.parametrize(
    "name",
    [
        b"x-request-id", b"x-request-timeout-seconds", b"x-request-disconnect-disabled", b"x-session-id",
        b"x_session_id", b"serve_multiplexed_model_id", b"serve-multiplexed-model-id", b"Serve_Multiplexed-Model_Id",
        b"X-Session_ID", b"x-serve-router-replica", b"x_serve_router_replica",
    ],
)  # fmt: skip
def test_drops_what_serve_would_act_on(name: bytes) -> None:
    assert headers_behind((b"host", b"a"), (name, b"1")) == [(b"host", b"a")]


def test_keeps_all_others() -> None:
    others = [(b"host", b"a"), (b"authorization", b"Bearer k"), (b"x-session", b"1"), (b"serve", b"1")]
    assert headers_behind(*others) == others


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
    assert config.http_protocol_class is LimitedHttpToolsProtocol


@pytest.mark.parametrize("environment", [{}, {CALLBACK_VARIABLE: ""}, {CALLBACK_VARIABLE: "other:middlewares"}])
def test_an_ingress_does_not_start_without_the_guard(environment: dict[str, str]) -> None:
    with pytest.raises(RuntimeError, match=f"set {CALLBACK_VARIABLE}={CALLBACK} on every node before Ray starts"):
        check_guarded(environment)
    check_guarded({CALLBACK_VARIABLE: CALLBACK})
