"""The front as a client meets it: routes, and the way of a chat request to the graph and back."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from ray import serve
from ray.exceptions import ActorDiedError
from ray.serve.exceptions import ReplicaUnavailableError

from deployments.contract import BEGUN, ENGINE_DEAD, ENGINE_START_S, Caller, Decoding, ResolvedVocabulary, TextRequest
from deployments.errors import ApiError, EngineError, OverloadedError
from deployments.ingress.replicas import HandleBackend
from deployments.protocol.decoding import CANDIDATE_SAMPLING, DEFAULT_SAMPLING
from deployments.settings.service import Settings
from deployments.settings.types import Autoscaling
from tests.deployments.front import CHAT, KEY, KEYS, LIMITS, MODEL, Front, assert_error, chat_body
from tests.deployments.handles import Handle
from tests.deployments.stand_in import FEWEST_TOKENS, WORDS
from vocab.options import ListOptions

VOCABULARY: dict[str, Any] = {"vocab_lang": "en", "vocab_n_words": 1000}


def passed_on(**fields: Any) -> dict[str, Any]:
    """The body that reaches the replica."""
    return chat_body(**fields)


def test_the_front_is_ready_when_the_graph_is_and_healthy_in_any_case(front: Front) -> None:
    with front.client(key=None) as client:
        assert client.get("/ready").json() == {"status": "ok"}
        front.backend.ready = False
        response = client.get("/ready")
        assert (response.status_code, response.json()) == (503, {"status": "unavailable"})
        assert response.headers["retry-after"] == "1"
        # Nothing is mended by a new process of the front.
        assert client.get("/health").json() == {"status": "ok"}


async def test_a_controller_that_hangs_is_asked_once_and_its_last_answer_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deployments.ingress.replicas._READY_FOR_S", 0.0)
    monkeypatch.setattr("deployments.ingress.replicas._STATUS_TIMEOUT_S", 0.05)
    answers_again = threading.Event()
    num_asked = 0
    running = SimpleNamespace(replica_states={"RUNNING": 1})
    deployments = {"Replica": running, "Vocabulary": running}

    def status() -> Any:
        nonlocal num_asked
        num_asked += 1
        if num_asked == 2:
            answers_again.wait(30)
        return SimpleNamespace(applications={"app": SimpleNamespace(deployments=deployments)})

    monkeypatch.setattr(serve, "status", status)
    handles: Any = [
        SimpleNamespace(app_name="app", deployment_name=name, options=lambda **_: None) for name in deployments
    ]
    backend = HandleBackend(handles[0], handles[1], Settings(secret_token="a-key"))
    assert await backend.is_ready()
    num_threads = threading.active_count()
    try:
        for _ in range(10):
            assert await backend.is_ready()
        assert await asyncio.gather(*(backend.is_ready() for _ in range(10))) == [True] * 10
        assert num_asked == 2
        assert threading.active_count() <= num_threads + 1
    finally:
        answers_again.set()
    deployments.pop("Vocabulary")
    deadline = time.monotonic() + 60
    while await backend.is_ready():
        assert time.monotonic() < deadline


class Replies:
    """A replica whose answers are these items, or stall where there are none."""

    def __init__(self, *items: Any, of_others: tuple[Any, ...] | None = None) -> None:
        self._items = items
        self._of_others = items if of_others is None else of_others
        self.num_asked = 0

    async def answer(self, request: TextRequest) -> AsyncGenerator[Any]:
        self.num_asked += 1
        for item in self._items if self.num_asked == 1 else self._of_others:
            if isinstance(item, Exception) and not isinstance(item, ApiError):
                raise item
            yield item
        await asyncio.sleep(3600)


def handle_of(*items: Any, of_others: tuple[Any, ...] | None = None) -> Any:
    return Handle(Replies(*items, of_others=of_others))


async def first_item(backend: HandleBackend, owner: str) -> Any:
    answer = backend.answer(TextRequest(chat_body(), None, Decoding(), Caller(owner, "req-1")))
    try:
        return await anext(answer)
    finally:
        await answer.aclose()


async def test_a_key_that_was_refused_is_refused_by_the_front_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = EngineError(503, "Full.", code="overloaded", retry_after_s=17)
    replies = handle_of(refusal)
    backend = HandleBackend(replies, replies, Settings(secret_token="a-key"))
    backend.check_room("alice")
    assert await first_item(backend, "alice") == refusal
    with pytest.raises(OverloadedError) as error:
        backend.check_room("alice")
    assert dict(error.value.headers) == {"Retry-After": "17"}
    backend.check_room("bob")
    monkeypatch.setattr("deployments.ingress.replicas._FULL_S", 0.0)
    backend.check_room("alice")


@pytest.mark.parametrize(
    "fault",
    [
        EngineError(503, "Its engine has ended.", code=ENGINE_DEAD),
        ActorDiedError(),
        ReplicaUnavailableError("It ends."),
    ],
)
async def test_what_had_not_begun_at_a_replica_that_died_is_sent_to_another(
    fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.ingress.replicas._RETRIES_S", (0.0, 0.0))
    replies = handle_of(fault, of_others=(BEGUN, {"choices": []}))
    backend = HandleBackend(replies, replies, Settings(secret_token="a-key"))
    assert await first_item(backend, "alice") == {"choices": []}
    assert replies.num_calls == 2


async def test_what_had_begun_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be what the engine died of."""
    monkeypatch.setattr("deployments.ingress.replicas._RETRIES_S", (0.0, 0.0))
    replies = handle_of(BEGUN, ActorDiedError(), of_others=(BEGUN, {"choices": []}))
    backend = HandleBackend(replies, replies, Settings(secret_token="a-key"))
    with pytest.raises(ActorDiedError):
        await first_item(backend, "alice")
    assert replies.num_calls == 1


async def test_where_all_replicas_die_a_request_is_sent_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deployments.ingress.replicas._RETRIES_S", (0.0, 0.0))
    replies = handle_of(ActorDiedError())
    backend = HandleBackend(replies, replies, Settings(secret_token="a-key"))
    with pytest.raises(ActorDiedError):
        await first_item(backend, "alice")
    assert replies.num_calls == 3


async def test_all_who_wait_are_told_by_one_task_when_there_is_no_replica_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    num_looks = 0

    def has_no_replica(_: Any) -> bool:
        nonlocal num_looks
        num_looks += 1
        return num_looks == 3

    monkeypatch.setattr("deployments.ingress.replicas.has_no_replica", has_no_replica)
    monkeypatch.setattr("deployments.handles._CHECK_S", 0.01)
    replies = handle_of()
    backend = HandleBackend(replies, replies, Settings(secret_token="a-key"))
    result = await asyncio.gather(*(first_item(backend, "alice") for _ in range(50)), return_exceptions=True)
    assert {type(error) for error in result} == {OverloadedError}
    assert (num_looks, replies.num_calls) == (3, 50)


async def test_a_request_that_starts_the_first_replica_is_told_to_come_back_where_that_takes_longer_than_it_may_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deployments.ingress.replicas.has_no_replica", lambda _: True)
    replies = handle_of()
    scaling = Autoscaling(min_replicas=0)
    backend = HandleBackend(replies, replies, Settings(secret_token="a-key", autoscaling=scaling, max_queue_s=0.01))
    with pytest.raises(OverloadedError, match="The model is being started") as error:
        await first_item(backend, "alice")
    assert dict(error.value.headers) == {"Retry-After": str(ENGINE_START_S)}


@pytest.mark.parametrize(
    ("num_replicas", "at_least_one", "perhaps_none"),
    [
        ({"RUNNING": 1}, True, True),
        # The controller died and is back.
        ({"RECOVERING": 1}, True, True),
        ({}, False, True),
        ({"STOPPING": 1}, False, True),
        ({"STARTING": 1}, False, False),
        ({"STARTING": 1, "STOPPING": 1}, False, False),
    ],
)
async def test_a_service_without_replicas_is_ready_where_a_request_starts_one(
    monkeypatch: pytest.MonkeyPatch, num_replicas: dict[str, int], at_least_one: bool, perhaps_none: bool
) -> None:
    deployments = {
        "Replica": SimpleNamespace(replica_states=num_replicas),
        "Vocabulary": SimpleNamespace(replica_states={"RUNNING": 1}),
    }
    monkeypatch.setattr(
        serve, "status", lambda: SimpleNamespace(applications={"app": SimpleNamespace(deployments=deployments)})
    )
    handles: Any = [
        SimpleNamespace(app_name="app", deployment_name=name, options=lambda **_: None) for name in deployments
    ]
    for min_replicas, is_ready in ((1, at_least_one), (0, perhaps_none)):
        scaling = Autoscaling(min_replicas=min_replicas)
        backend = HandleBackend(handles[0], handles[1], Settings(secret_token="a-key", autoscaling=scaling))
        assert await backend.is_ready() == is_ready
    # Without lists there is no answer.
    deployments["Vocabulary"] = SimpleNamespace(replica_states={})
    assert not await HandleBackend(
        handles[0], handles[1], Settings(secret_token="a-key", autoscaling=Autoscaling(min_replicas=0))
    ).is_ready()


async def test_a_replica_is_asked_once_for_its_context_and_only_where_one_runs() -> None:
    num_asked = 0

    async def ask() -> int:
        nonlocal num_asked
        num_asked += 1
        return 2048

    replies = handle_of()
    replies.replica.context_length = ask
    backend = HandleBackend(replies, replies, Settings(secret_token="a-key"))
    is_ready = False

    async def ready() -> bool:
        return is_ready

    backend.is_ready = ready  # type: ignore[method-assign]
    assert await backend.context_length() is None
    is_ready = True
    assert [await backend.context_length(), await backend.context_length(), num_asked] == [2048, 2048, 1]
    known = HandleBackend(replies, replies, Settings(secret_token="a-key", engine_kwargs={"max_model_len": 99}))
    assert await known.context_length() == 99


def test_models_are_listed_in_openais_shape(front: Front) -> None:
    models = front.get("/v1/models").json()
    assert models["object"] == "list"
    assert [(model["id"], model["object"]) for model in models["data"]] == [(MODEL, "model")]
    assert front.get(f"/v1/models/{MODEL}").json() == models["data"][0]


@pytest.mark.parametrize("name", ["other", MODEL.upper(), f"{MODEL}/", "..%2f..%2fetc%2fpasswd", "x" * 10_000])
def test_a_model_that_is_not_served_is_not_found(front: Front, name: str) -> None:
    error = assert_error(front.get(f"/v1/models/{name}"), 404, param="model", code="model_not_found")
    assert len(error["message"]) < 200


def test_a_free_request_reaches_the_replica_without_a_vocabulary(front: Front) -> None:
    front.chat(temperature=0.5, user="u")
    call = front.backend.calls[0]
    assert call.vocabulary is None
    assert call.body == passed_on(temperature=0.5, max_tokens=LIMITS.max_new_tokens)


def test_a_chat_reaches_the_replica_in_its_keys_name_and_names_no_part_of_the_cache(
    front: Front,
) -> None:
    for key in (KEY, *KEYS.values()):
        with front.client(key) as client:
            assert client.post(CHAT, json=chat_body(cache_salt="mine")).status_code == 200
    assert [call.caller.owner for call in front.backend.calls] == ["default", *KEYS]
    assert not any("cache_salt" in call.body for call in front.backend.calls)


def test_a_vocabulary_reaches_the_replica_resolved_and_beside_the_body(front: Front) -> None:
    assert front.chat(**VOCABULARY, max_tokens=FEWEST_TOKENS).status_code == 200
    call = front.backend.calls[0]
    assert call.vocabulary == ResolvedVocabulary(digest="d" * 64, lang="en", n_words=1000, fewest_tokens=FEWEST_TOKENS)
    assert call.body == passed_on(max_tokens=FEWEST_TOKENS) | dict(DEFAULT_SAMPLING)


def test_a_vocabulary_is_asked_for_in_the_name_of_the_key(front: Front) -> None:
    front.chat(vocab_lang="es", vocab_n_words=500)
    assert front.backend.owners[-1] == "default"


def test_options_and_changes_reach_the_replica_with_the_list(front: Front) -> None:
    vocab = {"lang": "en", "n_words": 5, "layout": "lines", "numbers": True, "extra_words": ["Ana"]}
    front.chat(vocab=vocab, max_tokens=FEWEST_TOKENS)
    [call] = front.backend.calls
    assert call.vocabulary is not None
    assert call.vocabulary.options == ListOptions(layout="lines", numbers=True, end="sentence")
    assert call.vocabulary.digests == ("d" * 64, "c" * 64)


def test_how_the_text_is_chosen_reaches_the_replica_beside_the_body(front: Front) -> None:
    front.chat(num_beams=4, length_penalty=0.8, n=2)
    front.chat(vocab={"lang": "en", "search": {"width": 4}, "score": True}, max_tokens=FEWEST_TOKENS)
    beams, sentences = front.backend.calls
    assert beams.decoding == Decoding(num_beams=4, length_penalty=0.8)
    assert beams.body == passed_on(n=2, max_tokens=LIMITS.max_new_tokens)
    assert sentences.decoding == Decoding(search_width=4, score=True, hint=True)
    assert sentences.body == passed_on(max_tokens=FEWEST_TOKENS) | dict(CANDIDATE_SAMPLING)


def test_a_budget_that_no_text_fits_is_refused_and_the_least_named(front: Front) -> None:
    response = front.chat(**VOCABULARY, max_tokens=FEWEST_TOKENS - 1)
    assert f"at least {FEWEST_TOKENS}" in assert_error(response, 400, param="max_tokens")["message"]
    assert not front.backend.calls


@pytest.mark.parametrize("lang", ["xx", "xx-remote"])
def test_an_unknown_language_is_refused_and_the_known_ones_named(front: Front, lang: str) -> None:
    response = front.chat(vocab_lang=lang, vocab_n_words=10)
    assert "Known: en, es." in assert_error(response, 400, param="vocab_lang", code="invalid_vocabulary")["message"]


def test_an_error_names_the_field_that_named_the_list(front: Front) -> None:
    assert_error(front.chat(vocab={"lang": "xx"}), 400, param="vocab.lang", code="invalid_vocabulary")
    inline = front.chat(vocab={"lang": "xx", "words": ["a"]})
    assert_error(inline, 400, param="vocab.words", code="invalid_vocabulary")


def test_a_list_of_fifty_thousand_words_reaches_the_vocabulary(front: Front) -> None:
    assert front.chat(vocab={"words": [f"palabra{index}" for index in range(50_000)]}).status_code == 200
    too_many = front.chat(vocab={"words": [f"w{index}" for index in range(50_001)]})
    assert "at most 50000 items" in assert_error(too_many, 400, param="vocab.words")["message"]


def test_each_failure_of_a_vocabulary_has_its_status(front: Front) -> None:
    assert_error(front.chat(vocab_lang="tight", vocab_n_words=10), 400, param="max_tokens")
    broken = front.chat(vocab_lang="broken", vocab_n_words=10)
    assert_error(broken, 500, code="internal_error")
    assert "secret" not in broken.text
    assert_error(front.chat(vocab_lang="busy", vocab_n_words=10), 503, code="overloaded")
    assert "fewer words" in assert_error(front.chat(vocab={"lang": "slow"}), 503, code="overloaded")["message"]
    assert_error(front.chat(vocab={"lang": "twisted"}), 400, param="vocab", code="invalid_vocabulary")
    assert front.chat().status_code == 200


HOSTILE: list[dict[str, Any]] = [
    {"n": 10**40},
    {"temperature": 1e308},
    {"messages": []},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]},
    {"chat_template": "{{ x }}"},
    {"vocab_lang": "../../etc/passwd", "vocab_n_words": 0},
    {"vocab_lang": "a\x01b", "vocab_n_words": 10},
    {"vocab": {"words": ["\x01" * 9] * 10_000}},
    {"vocab": {f"member_{index}": "x" for index in range(10_000)}},
    {f"unknown_{index}": index for index in range(10_000)},
    {"num_beams": 10**9},
    {"num_beams": 4, "length_penalty": float("nan")},
    {"num_beams": 4, "best_of": 4},
    {"vocab": {"lang": "en", "search": {f"member_{index}": "x" for index in range(10_000)}}},
]


@pytest.mark.parametrize("fields", HOSTILE, ids=[str(fields)[:30] for fields in HOSTILE])
def test_a_bad_request_gets_one_short_answer_and_never_reaches_the_graph(front: Front, fields: dict[str, Any]) -> None:
    response = front.chat({**chat_body(), **fields})
    assert response.status_code == 400
    assert len(response.content) <= 4096
    assert response.json()["error"]["param"] or "not valid JSON" in response.json()["error"]["message"]
    assert not front.backend.calls


def test_the_openai_package_is_served_and_understands_the_errors(front: Front) -> None:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{front.port}/v1", api_key=KEY, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == [MODEL]
        assert client.models.retrieve(MODEL).id == MODEL
        messages: Any = [{"role": "user", "content": "Tell me a story."}]
        answer = client.chat.completions.create(model=MODEL, messages=messages, extra_body=VOCABULARY)
        assert answer.choices[0].message.content == "".join(WORDS)
        with client.chat.completions.create(model=MODEL, messages=messages, stream=True) as stream:
            assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "".join(WORDS)
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            client.chat.completions.create(model="gpt-4o", messages=messages)
        messages[0]["content"] = "please fail later"
        broken = client.chat.completions.create(model=MODEL, messages=messages, stream=True)
        with broken, pytest.raises(openai.APIError, match="The server failed"):
            list(broken)


def test_the_openai_package_understands_a_wrong_key(front: Front) -> None:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{front.port}/v1", api_key="wrong", max_retries=0)
    with client, pytest.raises(openai.AuthenticationError):
        client.models.list()


def test_requests_at_once_do_not_disturb_one_another(front: Front) -> None:
    with front.client() as client, client.stream("POST", CHAT, json=chat_body("please stall later", stream=True)):
        assert front.chat().status_code == 200
        assert front.chat(text="please fail").status_code == 500
        assert front.chat(stream=True).text.endswith("[DONE]\n\n")
