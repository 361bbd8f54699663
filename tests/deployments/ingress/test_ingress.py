"""The way of a chat to the graph and back: what reaches the replica, and what the front does where one is full, dies,
starts, or is not there."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import openai
import pytest
from ray import serve
from ray.exceptions import ActorDiedError
from ray.serve.exceptions import ReplicaUnavailableError

from deployments.contract import BEGUN, ENGINE_DEAD, ENGINE_START_S, Decoding, ReplicaRequest, ResolvedVocabulary
from deployments.errors import ApiError, EngineError
from deployments.ingress.replicas import Backend
from deployments.protocol.decoding import DEFAULT_SAMPLING
from deployments.settings.service import Settings
from deployments.settings.types import Autoscaling
from tests.deployments.front import (
    CHAT,
    COMPLETIONS,
    KEY,
    KEY_SETTINGS,
    KEYS,
    LIMITS,
    MODEL,
    Front,
    assert_error,
    chat_body,
    client_of,
    completion_body,
    refusal_of,
)
from tests.deployments.handles import Handle
from tests.deployments.stand_in import CONTEXT_LENGTH, FEWEST_TOKENS
from vocab.options import ListOptions
from vocab.text.changes import PromptWord

VOCABULARY: dict[str, Any] = {"vocab_lang": "en", "vocab_n_words": 1000}


def test_the_front_is_ready_when_the_graph_is_and_healthy_in_any_case(front: Front) -> None:
    with front.client(key=None) as client:
        assert client.get("/ready").json() == {"status": "ok"}
        front.backend.ready = False
        response = client.get("/ready")
        assert (response.status_code, response.json()) == (503, {"status": "unavailable"})
        assert response.headers["retry-after"] == "1"
        # Nothing is mended by a new process of the front.
        assert client.get("/health").json() == {"status": "ok"}


class Replies:
    """A replica whose answers are these items, and stall after them, or end with None; ``others`` are those of later
    answers."""

    def __init__(self, *items: Any, others: tuple[Any, ...] | None = None) -> None:
        self._items = items
        self._others = items if others is None else others
        self.num_asked = self.num_contexts_asked = 0

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        self.num_asked += 1
        for item in self._items if self.num_asked == 1 else self._others:
            if isinstance(item, Exception) and not isinstance(item, ApiError):
                raise item
            if item is None:
                return
            yield item
        await asyncio.sleep(3600)

    async def context_length(self) -> int:
        self.num_contexts_asked += 1
        return 2048


def over(replies: Replies, **settings: Any) -> tuple[Handle, httpx2.AsyncClient]:
    """A handle of the replica, and a client of the front over it."""
    handle: Any = Handle(replies)
    return handle, client_of(
        Backend(handle, handle, Settings(secret_token=KEY, **settings)), key=KEY, keys=KEY_SETTINGS
    )


async def test_a_whole_answer_is_read_to_its_end_unless_that_fails_or_does_not_come() -> None:
    whole: dict[str, Any] = {"choices": []}
    for items, num_cancelled in (((whole, None), 0), ((whole, RuntimeError("late")), 0), ((whole,), 1)):
        handle, client = over(Replies(BEGUN, *items))
        async with client:
            assert (await client.post(CHAT, json=chat_body())).json() == whole
        assert handle.num_cancelled == num_cancelled, items


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for before a request is sent to another replica."""
    monkeypatch.setattr("deployments.ingress.replicas._RETRIES_S", (0.0, 0.0))


async def test_a_key_that_was_refused_is_refused_by_the_front_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    handle, client = over(Replies(EngineError(503, "Full.", code="overloaded", retry_after_s=17)))
    async with client:
        refused = [await client.post(CHAT, json=chat_body()) for _ in range(2)]
        assert [(refusal_of(one), one.headers["retry-after"]) for one in refused] == [
            ((503, None, "overloaded"), "17")
        ] * 2
        assert handle.num_calls == 1
        await client.post(CHAT, json=chat_body(), headers={"X-API-Key": KEYS["other"]})
        monkeypatch.setattr("deployments.ingress.replicas._FULL_S", 0.0)
        await client.post(CHAT, json=chat_body())
        assert handle.num_calls == 3


@pytest.mark.fault(41)
@pytest.mark.usefixtures("at_once")
async def test_what_had_not_begun_at_a_replica_that_died_is_sent_to_another() -> None:
    dead = EngineError(503, "Its engine has ended.", code=ENGINE_DEAD)
    for fault in (dead, ActorDiedError(), ReplicaUnavailableError("It ends.")):
        handle, client = over(Replies(fault, others=(BEGUN, {"choices": []})))
        async with client:
            assert (await client.post(CHAT, json=chat_body())).json() == {"choices": []}
        assert handle.num_calls == 2, fault


@pytest.mark.usefixtures("at_once")
async def test_what_had_begun_is_not_sent_again_and_where_all_die_a_request_is_sent_three_times() -> None:
    # What has begun may be what the engine died of.
    begun = Replies(BEGUN, ActorDiedError(), others=(BEGUN, {"choices": []}))
    for replies, num_calls in ((begun, 1), (Replies(ActorDiedError()), 3)):
        handle, client = over(replies)
        async with client:
            assert_error(await client.post(CHAT, json=chat_body()), 503, code="overloaded")
        assert handle.num_calls == num_calls


async def test_all_who_wait_are_told_by_one_task_when_there_is_no_replica_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    num_looks = 0

    def has_no_replica(_: Any) -> bool:
        nonlocal num_looks
        num_looks += 1
        return num_looks == 3

    monkeypatch.setattr("deployments.ingress.replicas.has_no_replica", has_no_replica)
    monkeypatch.setattr("deployments.single_flight._CHECK_S", 0.05)
    handle, client = over(Replies())
    async with client:
        answers = await asyncio.gather(*(client.post(CHAT, json=chat_body()) for _ in range(10)))
    assert {(refusal_of(one), one.headers["retry-after"]) for one in answers} == {
        ((503, None, "overloaded"), str(ENGINE_START_S))
    }
    assert (num_looks, handle.num_calls) == (3, 10)


async def test_a_request_that_starts_the_first_replica_is_told_to_come_back_where_that_takes_longer_than_it_may_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deployments.ingress.replicas.has_no_replica", lambda _: True)
    _, client = over(Replies(), autoscaling=Autoscaling(min_replicas=0), max_queue_s=0.01)
    async with client:
        answer = await client.post(CHAT, json=chat_body())
    assert "The model is being started" in assert_error(answer, 503, code="overloaded")["message"]
    assert answer.headers["retry-after"] == str(ENGINE_START_S)


@pytest.mark.fault(64)
def test_a_service_is_ready_by_what_is_known_of_its_replicas_and_the_controller_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "status", None)
    for num_replicas, num_lists, at_least_one, perhaps_none in (
        (1, 1, True, True),
        # A request starts one.
        (0, 1, False, True),
        # Without lists there is no answer.
        (1, 0, False, False),
        (0, 0, False, False),
    ):
        replica: Any = Handle(None)
        vocabulary: Any = Handle(None)
        for handle, number in ((replica, num_replicas), (vocabulary, num_lists)):
            if not number:
                handle.replicas.clear()
        for min_replicas, is_ready in ((1, at_least_one), (0, perhaps_none)):
            settings = Settings(secret_token="a-key", autoscaling=Autoscaling(min_replicas=min_replicas))
            assert Backend(replica, vocabulary, settings).is_ready() == is_ready, (num_replicas, num_lists)


async def test_a_replica_is_asked_once_for_its_context_and_only_where_one_runs() -> None:
    async def lengths(client: httpx2.AsyncClient) -> list[int | None]:
        return [(await client.get(f"/v1/models/{MODEL}")).json().get("max_model_len") for _ in range(2)]

    replies = Replies()
    handle, client = over(replies)
    handle.replicas.clear()
    async with client:
        assert await lengths(client) == [None, None]
        handle.replicas["one"] = replies
        assert await lengths(client) == [2048, 2048]
    assert replies.num_contexts_asked == 1
    _, client = over(replies, engine_kwargs={"max_model_len": 99})
    async with client:
        assert await lengths(client) == [99, 99]


def test_models_are_listed_in_openais_shape_and_say_how_much_they_read(front: Front) -> None:
    models = front.get("/v1/models").json()
    assert models["object"] == "list"
    assert [(model["id"], model["object"]) for model in models["data"]] == [(MODEL, "model")]
    card = front.get(f"/v1/models/{MODEL}").json()
    assert card == models["data"][0]
    assert (card["max_model_len"], card["max_input_tokens"], card["max_output_tokens"]) == (CONTEXT_LENGTH, 1024, 1024)
    front.backend.ready = False
    assert "max_model_len" not in front.get("/v1/models").json()["data"][0]


def test_a_chat_reaches_the_replica_in_its_keys_name_and_names_no_part_of_the_cache(front: Front) -> None:
    for key in (KEY, *KEYS.values()):
        with front.client(key) as client:
            body = chat_body(temperature=0.5, user="u", cache_salt="mine")
            assert client.post(CHAT, json=body).status_code == 200
    assert [call.caller.owner for call in front.backend.calls] == ["default", *KEYS]
    for call in front.backend.calls:
        assert call.vocabulary is None
        assert call.body == chat_body(temperature=0.5, max_tokens=LIMITS.max_new_tokens)


def test_a_completion_reaches_the_replica_with_its_own_defaults(front: Front) -> None:
    body = completion_body([1, 2], cache_salt="mine", **VOCABULARY)
    assert front.post(COMPLETIONS, body).status_code == 200
    [call] = front.backend.calls
    assert call.body == completion_body([1, 2], max_tokens=16, temperature=0.3, min_p=0.1, presence_penalty=1.0)
    assert call.vocabulary is not None and call.vocabulary.n_words == 1000


def test_a_text_becomes_tokens_and_tokens_text(front: Front) -> None:
    result = front.post("/tokenize", {"prompt": "Hé", "return_token_strs": True}).json()
    assert result == {"count": 2, "max_model_len": CONTEXT_LENGTH, "tokens": [72, 233], "token_strs": ["H", "é"]}
    assert front.post("/detokenize", {"tokens": result["tokens"], "model": MODEL}).json() == {"prompt": "Hé"}
    messages = chat_body()["messages"]
    assert front.post("/tokenize", {"messages": messages}).json()["count"] == len(messages[0]["content"])
    assert [call.caller.owner for call in front.backend.calls] == ["default"] * 3


def test_a_vocabulary_and_how_the_text_is_chosen_reach_the_replica_beside_the_body(front: Front) -> None:
    assert front.chat(**VOCABULARY, max_tokens=FEWEST_TOKENS).status_code == 200
    vocab = {"lang": "en", "n_words": 5, "layout": "lines", "numbers": True, "extra_words": ["Ana"]}
    front.chat(vocab=vocab, max_tokens=FEWEST_TOKENS)
    assert front.chat(vocab={"words": [f"palabra{index}" for index in range(50_000)]}).status_code == 200
    # Asked for in the name of the key.
    assert front.backend.owners[-3:] == ["default"] * 3
    front.chat(num_beams=4, length_penalty=0.8, n=2)
    plain, changed, _, beams = front.backend.calls
    assert beams.decoding == Decoding(num_beams=4, length_penalty=0.8)
    assert beams.body == chat_body(n=2, max_tokens=LIMITS.max_new_tokens)
    assert plain.vocabulary == ResolvedVocabulary(digest="d" * 64, lang="en", n_words=1000, fewest_tokens=FEWEST_TOKENS)
    assert plain.body == chat_body(max_tokens=FEWEST_TOKENS) | dict(DEFAULT_SAMPLING)
    assert changed.vocabulary is not None
    assert changed.vocabulary.options == ListOptions(layout="lines", numbers=True, end="sentence")
    assert changed.vocabulary.digests == ("d" * 64, "c" * 64)


def test_words_of_the_last_message_are_asked_for_in_chats_and_generate(front: Front) -> None:
    vocab = {"lang": "en", "n_words": 1000, "prompt_words": True}
    messages = [{"role": "user", "content": "A map."}]
    assert front.chat(vocab=vocab, messages=messages, n=2).status_code == 200
    assert front.chat(vocab=vocab, messages=messages, stream=True).status_code == 200
    assert front.post("/generate", {"prompt": "A map.", "vocab": vocab, "max_new_tokens": 9}).status_code == 200
    found = [call.vocabulary.prompt_words for call in front.backend.calls if call.vocabulary is not None]
    assert found == [(PromptWord("A map.", 1755),)] * 3


def test_the_openai_package_understands_the_errors(front: Front) -> None:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{front.port}/v1", api_key=KEY, max_retries=0) as client:
        with pytest.raises(openai.BadRequestError, match="'suffix' is not supported here"):
            client.completions.create(model=MODEL, prompt="Once", suffix="upon a time")
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            client.completions.create(model="gpt-4o", prompt="Once")
        wish = "please fail later"
        messages: Any = [{"role": "user", "content": wish}]
        for stream in (
            client.chat.completions.create(model=MODEL, messages=messages, stream=True),
            client.completions.create(model=MODEL, prompt=wish, stream=True),
        ):
            with stream, pytest.raises(openai.APIError, match="The server failed"):
                list(stream)
        client.api_key = "wrong"
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
