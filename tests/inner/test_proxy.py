"""What Serve's HTTP servers are kept from taking of a client."""

import json
from typing import Any

import pytest

from deployments.process_setup import (
    CALLBACK,
    CALLBACK_VARIABLE,
    DIRECT_VARIABLE,
    KEY_HEADER,
    KEY_VARIABLE,
    check_guarded,
)
from deployments.proxy import Guard, middlewares


class Serve:
    """Notes the headers that reach it, and answers with a second request id, as Serve does."""

    def __init__(self) -> None:
        self.seen: list[list[tuple[bytes, bytes]]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(scope["headers"])
        headers = [(b"x-request-id", b"req-ours"), (b"a", b"1"), (b"x-request-id", b"serves")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})


async def ask(app: Any, *headers: tuple[bytes, bytes], path: str = "/health") -> tuple[int, list[Any], bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    await Guard(app)({"type": "http", "path": path, "headers": list(headers)}, receive, send)
    [start, *rest] = sent
    return start["status"], start["headers"], b"".join(message["body"] for message in rest)


@pytest.mark.fault(56)
async def test_drops_what_serve_would_act_on() -> None:
    others = [(b"host", b"a"), (b"authorization", b"Bearer k"), (b"x-session", b"1"), (b"serve", b"1")]
    for name in (
        b"x-request-id", b"x-request-timeout-seconds", b"x-request-disconnect-disabled", b"x-session-id",
        b"x_session_id", b"serve_multiplexed_model_id", b"serve-multiplexed-model-id", b"Serve_Multiplexed-Model_Id",
        b"X-Session_ID", b"x-serve-router-replica", b"x_serve_router_replica", b"traceparent", b"tracestate",
    ):  # fmt: skip
        serve = Serve()
        await ask(serve, *others, (name, b"1"))
        assert serve.seen == [others], name


async def test_an_ingress_that_listens_itself_reads_bodies_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECT_VARIABLE, "1")
    serve = Serve()
    await ask(serve, (b"host", b"a"), (b"X-Request-Disconnect-Disabled", b"?0"))
    assert serve.seen == [[(b"host", b"a"), (b"x-request-disconnect-disabled", b"?1")]]


async def test_an_answer_has_one_request_id_and_serves_routes_are_nowhere() -> None:
    assert (await ask(Serve()))[1] == [(b"x-request-id", b"req-ours"), (b"a", b"1")]
    # The target of ``OPTIONS *`` too.
    for path in ("/-/routes", "*"):
        serve = Serve()
        status, _, body = await ask(serve, path=path)
        assert (status, serve.seen) == (404, [])
        assert json.loads(body)["error"]["type"] == "invalid_request_error"


async def test_what_goes_around_the_front_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "the key")
    name = KEY_HEADER.encode()
    for headers in ([], [(name, b"other")], [(name, b"the key")] * 2, [(name.replace(b"-", b"_"), b"the key")]):
        serve = Serve()
        assert (await ask(serve, *headers, path="/-/healthz"))[0] == 403
        assert serve.seen == []
    serve = Serve()
    assert (await ask(serve, (name, b"the key")))[0] == 200
    assert serve.seen == [[]]


async def test_a_websocket_is_refused_before_serve_looks_at_its_headers() -> None:
    sent: list[Any] = []

    async def app(*_: Any) -> Any:
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message["type"])

    headers = [(b"serve_multiplexed_model_id", b"1")]
    await Guard(app)({"type": "websocket", "path": "/health", "headers": headers}, app, send)
    assert sent == ["websocket.close"]


@pytest.mark.fault(56)
def test_an_ingress_does_not_start_without_the_guard() -> None:
    environments: list[dict[str, str]] = [{}, {CALLBACK_VARIABLE: ""}, {CALLBACK_VARIABLE: "other:middlewares"}]
    for environment in environments:
        with pytest.raises(RuntimeError, match=f"{CALLBACK_VARIABLE}: {CALLBACK}"):
            check_guarded(environment)
    check_guarded({CALLBACK_VARIABLE: CALLBACK})
    classes: list[Any] = [one.cls for one in middlewares()]
    assert classes
    assert all(one is Guard for one in classes)
