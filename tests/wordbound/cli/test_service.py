"""The client of commands: each way in which a service can fail is a line that says what to change."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.wordbound.cli.conftest import Run, StandInService, assert_refused, serving
from wordbound.cli.commands import NO_SERVICE, WRONG_INPUT, InputError, ServiceError
from wordbound.cli.service import MAX_TRIES, MAX_WAIT_S, Service

EN = ("--lang", "en", "--words", "1000")


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_where_no_service_is_the_line_says_how_to_start_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    monkeypatch.setenv("WORDBOUND_URL", url)
    message = f"wordbound write: no service answers at {url}: start one with `wordbound demo` or set WORDBOUND_URL\n"
    done = run("write", "Go", *EN)
    assert (done.exit_code, done.stderr) == (NO_SERVICE, message)


def test_a_wrong_key_says_which_variable_holds_it(
    stand_in: StandInService, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORDBOUND_API_KEY", "another")
    assert_refused(run("write", "Go", *EN), NO_SERVICE, "does not know this key: set WORDBOUND_API_KEY")


def test_an_address_may_end_with_v1(stand_in: StandInService, run: Run) -> None:
    assert run("write", "Go", *EN, "--url", f"{stand_in.url}/v1/").exit_code == 0


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://host", "http://"])
def test_a_wrong_address_is_wrong_use(url: str, run: Run) -> None:
    assert_refused(run("write", "Go", *EN, "--url", url or " "), WRONG_INPUT, "WORDBOUND_URL must be an address")


def test_only_on_this_machine_the_demos_key_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORDBOUND_API_KEY", raising=False)
    with pytest.raises(InputError, match=r"set WORDBOUND_API_KEY to a key of the service at https://words.example.com"):
        Service("https://words.example.com")
    with Service("http://localhost:8000") as service:
        assert service._client.headers["Authorization"] == "Bearer changeme"


def test_a_service_of_this_machine_is_not_asked_through_a_proxy(
    stand_in: StandInService, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    assert run("write", "Go", *EN).exit_code == 0


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel"])
def test_a_key_that_no_header_may_hold_is_wrong_use(key: str) -> None:
    with pytest.raises(InputError, match="plain letters"):
        Service("http://127.0.0.1:8000", key)


class Scripted:
    """A server that gives these answers one after the other, the last one for good; counts the requests."""

    def __init__(self) -> None:
        self.answers: list[Response] = []
        self.bodies: list[bytes] = []

    async def __call__(self, request: Request) -> Response:
        self.bodies.append(await request.body())
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
def url(scripted: Scripted) -> Iterator[str]:
    async def answer(request: Request) -> Response:
        return await scripted(request)

    yield from serving(Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])]))


def error(status: int, message: str = "It failed.", **headers: str) -> Response:
    stand_in: dict[str, Any] = {"error": {"message": message, "type": "server_error", "param": None, "code": None}}
    return JSONResponse(stand_in, status, headers=headers)


def test_a_busy_service_is_asked_again_when_it_says(scripted: Scripted, url: str, tmp_path: Path) -> None:
    waits: list[float] = []
    busy = (
        error(503, **{"Retry-After": "7"}),
        error(429, **{"Retry-After": "900"}),
        error(503, **{"Retry-After": "?"}),
    )
    scripted.answers = [*busy, JSONResponse({"id": "file-1"})]
    (tmp_path / "in.jsonl").write_bytes(b"{}\n" * 1000)
    with Service(url, "key", sleep=waits.append) as service:
        # Each try has the whole file.
        assert service.upload(tmp_path / "in.jsonl", lambda _: None) == {"id": "file-1"}
    assert waits == [7.0, MAX_WAIT_S, 1.0]
    assert {body.count(b"{}\n") for body in scripted.bodies} == {1000}


def test_a_service_that_stays_busy_is_given_up(scripted: Scripted, url: str) -> None:
    waits: list[float] = []
    scripted.answers = [error(503, "No capacity.")]
    with Service(url, "key", sleep=waits.append) as service, pytest.raises(ServiceError, match="busy: No capacity"):
        service.get("/v1/models")
    assert len(scripted.bodies) == MAX_TRIES == len(waits) + 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(400), InputError),
        (error(413), InputError),
        (error(403), ServiceError),
        (error(404), ServiceError),
        (error(500), ServiceError),
    ],
)
def test_a_wrong_request_is_told_apart_from_a_refusal(
    answer: Response, kind: type[Exception], scripted: Scripted, url: str
) -> None:
    scripted.answers = [answer]
    with Service(url, "key") as service, pytest.raises(kind, match="It failed"):
        service.post("/v1/chat/completions", {})


@pytest.mark.parametrize(
    "answer",
    [PlainTextResponse("not here", 404), PlainTextResponse("hello"), JSONResponse(["a"]), JSONResponse({"a": 1}, 500)],
)
def test_another_server_is_told_apart_from_the_service(answer: Response, scripted: Scripted, url: str) -> None:
    scripted.answers = [answer]
    with Service(url, "key") as service, pytest.raises(ServiceError, match=r"no wordbound service.*set WORDBOUND_URL"):
        service.get("/v1/models")


def test_a_stream_without_its_end_broke_off(scripted: Scripted, url: str) -> None:
    scripted.answers = [PlainTextResponse(f": a comment\n\ndata: {json.dumps({'choices': []})}\n\n")]
    with Service(url, "key") as service:
        events = service.events("/v1/chat/completions", {})
        assert next(events) == {"choices": []}
        with pytest.raises(ServiceError, match="broke off"):
            next(events)


def test_a_download_that_fails_leaves_no_file(scripted: Scripted, url: str, tmp_path: Path) -> None:
    scripted.answers = [error(404, "There is no such file.")]
    with Service(url, "key") as service, pytest.raises(ServiceError):
        service.download("file-1", tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_closes_the_connection_broke_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close() -> None:
            connection, _ = listener.accept()
            connection.recv(100)
            connection.close()

        thread = threading.Thread(target=close)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Service(url, "key") as service, pytest.raises(ServiceError, match="broke off"):
            service.get("/v1/models")
        thread.join()
