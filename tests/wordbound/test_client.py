"""The clients of a service: what is sent again and when, what each failure raises, and that they ask what it knows."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, get_args

import httpx2
import numpy as np
import pytest
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import wordbound
from deployments.protocol import answers
from deployments.protocol.documents import DocumentRequest, Exercise, GlossaryEntry, WorksheetRequest
from deployments.protocol.tokens import LogprobsRequest, TokenLogprobsRequest
from deployments.protocol.vocabulary import ListMembers
from deployments.protocol.word_tools import (
    WORD_PARAMETERS,
    CheckRequest,
    ExercisesRequest,
    NextWordsRequest,
    RewriteRequest,
    SwapRequest,
)
from tests.wordbound.cli.conftest import serving
from wordbound import AsyncClient, AwayError, Client, RefusedError, ServiceError, routes

EN: routes.Vocab = {"lang": "en", "n_words": 1000}


class Scripted:
    """A server that gives these answers one after the other, the last one for good; None breaks the connection."""

    def __init__(self) -> None:
        self.answers: list[Response | None] = []
        self.asked: list[tuple[str, bytes]] = []

    async def __call__(self, request: Request) -> Response:
        self.asked.append((request.url.path, await request.body()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise ConnectionAbortedError
        return answer


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
def url(scripted: Scripted) -> Iterator[str]:
    async def answer(request: Request) -> Response:
        return await scripted(request)

    yield from serving(Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])]))


class Asker:
    """Calls a method of a client of either kind, and notes how long it waits."""

    def __init__(self, url: str, *, is_async: bool) -> None:
        self.url = url
        self.waits: list[float] = []
        self._is_async = is_async

    def __call__(self, method: str, *args: Any, transport: Any = None, **kwargs: Any) -> Any:
        return asyncio.run(self._ask(method, args, kwargs, transport))

    async def _ask(self, method: str, args: Any, kwargs: Any, transport: Any) -> Any:
        if not self._is_async:
            with Client(self.url, "key", sleep=self.waits.append, transport=transport) as client:
                found = getattr(client, method)(*args, **kwargs)
                return list(found) if isinstance(found, Iterator) else found

        async def sleep(wait_s: float) -> None:
            self.waits.append(wait_s)

        async with AsyncClient(self.url, "key", sleep=sleep, transport=transport) as awaited:
            found = getattr(awaited, method)(*args, **kwargs)
            return [one async for one in found] if isinstance(found, AsyncIterator) else await found


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def ask(url: str, request: pytest.FixtureRequest) -> Asker:
    return Asker(url, is_async=request.param)


def error(status: int, message: str = "It failed.", **headers: str) -> Response:
    fault = {"message": message, "type": "server_error", "param": "text", "code": "some_code"}
    return JSONResponse({"error": fault}, status, headers=headers)


def test_a_busy_service_is_asked_again_when_it_says(scripted: Scripted, ask: Asker) -> None:
    report = {"num_words": 1}
    scripted.answers = [error(503, **{"Retry-After": "7"}), error(429, **{"Retry-After": "?"}), JSONResponse(report)]
    assert ask("check", "Go.", EN) == report
    assert ask.waits == [7.0, 1.0]
    assert [(path, json.loads(body)) for path, body in scripted.asked] == [
        ("/v1/vocabularies/check", {"text": "Go.", "vocab": EN})
    ] * 3


def test_a_service_that_stays_busy_or_asks_for_more_than_a_minute_is_given_up(scripted: Scripted, ask: Asker) -> None:
    scripted.answers = [error(503, "No capacity.", **{"Retry-After": "1"})]
    with pytest.raises(AwayError, match=r"busy: No capacity\."):
        ask("vocabularies")
    assert ask.waits == [1.0, 1.0]
    scripted.answers = [error(429, **{"Retry-After": "61"})]
    with pytest.raises(AwayError) as caught:
        ask("vocabularies")
    assert len(ask.waits) == 2
    assert caught.value.status == 429


class Breaking(httpx2.MockTransport):
    """A network whose requests fail with these errors, one after the other, and then are answered."""

    def __init__(self, *errors: httpx2.TransportError) -> None:
        self.errors = list(errors)
        super().__init__(self._answer)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if self.errors:
            raise self.errors.pop(0)
        return httpx2.Response(200, json={"object": "list"})


def test_only_what_reads_is_sent_again_when_its_connection_breaks(ask: Asker) -> None:
    broken = httpx2.ReadError("reset"), httpx2.RemoteProtocolError("Server disconnected")
    assert ask("next_words", "Go", EN, transport=Breaking(*broken)) == {"object": "list"}
    with pytest.raises(AwayError, match=r"broke off \(ReadError: reset\)"):
        ask("next_words", "Go", EN, transport=Breaking(*broken[:1] * 3))
    with pytest.raises(AwayError, match="broke off"):
        ask("post", "/v1/batches", {}, transport=Breaking(broken[0]))
    with pytest.raises(AwayError, match="no service answers"):
        ask("tokens", transport=Breaking(httpx2.ConnectError("refused")))
    assert ask.waits == []
    assert Client.logprobs(None, [[1]]).is_safe and Client.token_logprobs(None, [1], [2]).is_safe
    with pytest.raises(AwayError, match="did not answer within 660 s: give a larger timeout"):
        ask("tokens", transport=Breaking(httpx2.ReadTimeout("")))


def test_an_error_has_what_the_service_says_or_tells_another_server_apart(scripted: Scripted, ask: Asker) -> None:
    kinds = {400: RefusedError, 404: RefusedError, 413: RefusedError, 403: ServiceError, 500: ServiceError}
    for status, kind in kinds.items():
        scripted.answers = [error(status, "It\nfailed.", **{"x-request-id": "req-1"})]
        with pytest.raises(ServiceError) as caught:
            ask("rewrite", "Go.", EN)
        found = caught.value
        assert (type(found), isinstance(found, ValueError)) == (kind, kind is RefusedError)
        assert (str(found), found.status, found.code, found.param) == ("It failed.", status, "some_code", "text")
        assert found.request_id == "req-1"
    for answer in (PlainTextResponse("no", 404), PlainTextResponse("hello"), JSONResponse([]), JSONResponse({}, 500)):
        scripted.answers = [answer]
        for method, arguments in (("document_text", (b"text",)), ("logprobs", ([1],))):
            with pytest.raises(ServiceError, match=r"no wordbound service.*set WORDBOUND_URL"):
                ask(method, *arguments)


def test_a_stream_yields_its_events_to_the_end_mark(scripted: Scripted, ask: Asker) -> None:
    told = ': a comment\n\ndata: {"text": "A "}\n\n'
    scripted.answers = [PlainTextResponse(f"{told}data: [DONE]\n\ndata: later")]
    assert ask("events", "/v1/vocabularies/rewrite", {"text": "Go."}) == [{"text": "A "}]
    assert json.loads(scripted.asked[-1][1]) == {"text": "Go.", "stream": True}
    for rest, message in (
        ("", "broke off: try again"),
        ('data: {"error": {"message": "It failed."}}\n\n', "broke off: It failed"),
        ("data: <html>\n\n", "no wordbound service"),
    ):
        scripted.answers = [PlainTextResponse(told + rest)]
        with pytest.raises(ServiceError, match=message):
            ask("events", "/v1/vocabularies/rewrite", {})


def test_rows_arrive_as_float32(scripted: Scripted, ask: Asker) -> None:
    rows = np.array([[-1.5, -2], [-3, -np.inf], [0, -1]], "<f2")
    headers = {"x-wordbound-shape": "3,2", "x-wordbound-dtype": "float16"}
    scripted.answers = [Response(rows.tobytes(), headers=headers)]
    found = ask("logprobs", [[1], [2], [3]], dtype="float16")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, rows)


def test_a_wrong_address_or_key_is_a_value_error_and_only_on_this_machine_the_demos_key_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for url in (" ", "127.0.0.1:8000", "ftp://host", "http://", "http://host:many"):
        with pytest.raises(ValueError, match="WORDBOUND_URL must be an address"):
            Client(url)
    for key in ("two\nlines", "schlüssel"):
        with pytest.raises(ValueError, match="plain letters"):
            Client("http://127.0.0.1:8000", key)
    monkeypatch.delenv("WORDBOUND_API_KEY", raising=False)
    with pytest.raises(ValueError, match=r"set WORDBOUND_API_KEY to a key of the service at https://words.example.com"):
        Client("https://words.example.com")
    with Client("http://localhost:8000/v1/") as client:
        assert client._http.headers["Authorization"] == "Bearer changeme"
        assert client.url == "http://localhost:8000"


def names_of(model: type[BaseModel], *left_out: str) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()} - {*left_out}


VOCABULARY = ("vocab_lang", "vocab_n_words")
"""Short for a ``vocab``, which the clients have."""


def test_a_method_has_the_fields_of_the_service() -> None:
    methods: list[tuple[Callable[..., Any], set[str]]] = [
        (Client.words, {"list_id", *WORD_PARAMETERS}),
        # Of other formats than JSON there are answers of other types.
        (Client.check, names_of(CheckRequest, *VOCABULARY, "format")),
        (Client.next_words, names_of(NextWordsRequest, *VOCABULARY)),
        (Client.swap, names_of(SwapRequest, *VOCABULARY)),
        (Client.rewrite, names_of(RewriteRequest, *VOCABULARY, "stream")),
        (Client.exercises, names_of(ExercisesRequest, *VOCABULARY, "stream")),
        (Client.worksheet, names_of(WorksheetRequest)),
        (Client.document, names_of(DocumentRequest)),
        (Client.logprobs, names_of(LogprobsRequest, "top_logprobs")),
        (Client.top_logprobs, names_of(LogprobsRequest, "dtype")),
        (Client.token_logprobs, names_of(TokenLogprobsRequest)),
    ]
    for method, fields in methods:
        assert inspect.signature(method).parameters.keys() - {"self"} == fields
        for client in (Client(api_key="key"), AsyncClient(api_key="key")):
            bound: Callable[..., Awaitable[Any]] = getattr(client, method.__name__)
            assert inspect.signature(bound).parameters.keys() == fields
            assert bound.__doc__ == method.__doc__


def test_what_a_client_sends_has_the_members_of_the_service() -> None:
    assert routes.Vocab.__annotations__.keys() == names_of(ListMembers) | {"adapter", "prompt_words"}
    assert routes.GlossaryEntry.__annotations__.keys() == names_of(GlossaryEntry)
    assert routes.Exercises.__annotations__.keys() == names_of(answers.Exercises)
    kinds = get_args(get_args(Exercise)[0])
    assert routes.Exercise.__annotations__.keys() == set.union(*map(names_of, kinds))


def test_the_package_has_what_it_names() -> None:
    for name in wordbound.__all__:
        assert getattr(wordbound, name)
    with pytest.raises(AttributeError, match="no attribute 'Klient'"):
        _ = wordbound.Klient
