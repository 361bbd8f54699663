"""What the clients of two older servers send and see, at the front: with ``compatibility`` and without it."""

import json
from typing import Any

import httpx2
import pytest

from deployments.contract import Decoding
from deployments.settings.keys import Key, digest_of
from tests.deployments.front import CHAT, KEY, LIMITS, MODEL, assert_error, chat_body, client_of
from tests.deployments.stand_in import WORDS, StandIn

WORDLIST, SERVING = "wordlist-server", "llm-serving"
STEPS = LIMITS.model_copy(update={"max_new_tokens": 512, "allowed_new_tokens": (64, 128, 256, 512)})
LISTED: dict[str, Any] = {"vocab_lang": "es", "vocab_n_words": 3000}
PROMPT = "Tell me a story."

BEAMS = Decoding(num_beams=10, adapter=None)
CHATS: list[tuple[dict[str, Any], int, Decoding]] = [
    # As documented, and what each field becomes.
    ({}, 512, Decoding(num_beams=10)),
    (LISTED, 512, BEAMS),
    ({**LISTED, "max_tokens": 64}, 64, BEAMS),
    ({**LISTED, "max_tokens": 100}, 128, BEAMS),
    ({**LISTED, "max_tokens": 600}, 512, BEAMS),
    ({**LISTED, "max_completion_tokens": 1}, 64, BEAMS),
    ({**LISTED, "num_beams": 4, "length_penalty": 2.0}, 512, Decoding(num_beams=4, length_penalty=2.0, adapter=None)),
    ({**LISTED, "length_penalty": 0.5}, 512, Decoding(num_beams=10, length_penalty=0.5, adapter=None)),
    ({**LISTED, "num_beams": 1, "length_penalty": 2.0}, 512, Decoding(adapter=None)),
    # Beams are not drawn: whoever asks for sampling, a stream or another search has it.
    ({**LISTED, "temperature": 0.7}, 512, Decoding(adapter=None)),
    ({**LISTED, "temperature": 1}, 512, BEAMS),
    ({**LISTED, "stop": ["x"]}, 512, Decoding(adapter=None)),
    ({**LISTED, "best_of": 2}, 512, Decoding(best_of=2, adapter=None)),
    ({"vocab": {"lang": "es", "n_words": 9}}, 512, Decoding(num_beams=10)),
    ({"tools": [{"type": "function", "function": {"name": "look"}}]}, 512, Decoding()),
]
"""Fields of a chat to the wordlist server's clients' service, and the tokens and decoding of its request."""


async def ask(path: str = CHAT, body: dict[str, Any] | None = None, **settings: Any) -> tuple[httpx2.Response, StandIn]:
    backend = StandIn()
    async with client_of(backend, key=KEY, **settings) as client:
        return await client.post(path, json=chat_body() if body is None else body), backend


@pytest.mark.parametrize(("fields", "max_tokens", "decoding"), CHATS)
async def test_a_chat_of_the_wordlist_server_has_its_defaults_and_next_allowed_number(
    fields: dict[str, Any], max_tokens: int, decoding: Decoding
) -> None:
    answer, backend = await ask(body=chat_body(**fields), compatibility=WORDLIST, limits=STEPS)
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() >= {"id", "object", "created", "model", "choices", "usage"}
    [call] = backend.calls
    assert (call.body["max_tokens"], call.decoding) == (max_tokens, decoding)


@pytest.mark.parametrize("fields", [{"max_tokens": 100}, {"max_tokens": 600}, {"num_beams": 1, "length_penalty": 2.0}])
async def test_without_compatibility_these_are_refused(fields: dict[str, Any]) -> None:
    answer, _ = await ask(body=chat_body(**LISTED, **fields), limits=STEPS)
    assert_error(answer, 400, param=[*fields][-1])


async def test_without_compatibility_a_chat_is_drawn_with_a_hint_by_whichever_adapter_fits() -> None:
    _, backend = await ask(body=chat_body(**LISTED), limits=STEPS)
    [call] = backend.calls
    assert (call.body["max_tokens"], call.decoding) == (512, Decoding(hint=True))


@pytest.mark.parametrize("max_tokens", [0, -1, True, "100", 1.5])
async def test_what_is_no_number_of_tokens_is_refused_as_before(max_tokens: Any) -> None:
    answer, _ = await ask(body=chat_body(max_tokens=max_tokens), compatibility=WORDLIST, limits=STEPS)
    assert_error(answer, 400, param="max_tokens")


@pytest.mark.parametrize(
    "settings",
    [
        {"mask_engine": "xgrammar"},
        {"engine_kwargs": {"reasoning_parser": "r"}},
        {"engine_kwargs": {"speculative_config": {}}},
    ],
)
async def test_an_engine_that_has_no_beams_is_not_asked_for_them(settings: dict[str, Any]) -> None:
    answer, backend = await ask(body=chat_body(**LISTED), compatibility=WORDLIST, limits=STEPS, **settings)
    assert (answer.status_code, backend.calls[0].decoding.num_beams) == (200, 1)


async def test_the_wordlist_server_refuses_a_key_with_403_and_names_an_owner_of_its_model() -> None:
    for compatibility, status, owner in (
        (WORDLIST, 403, "owner"),
        (SERVING, 401, "wordbound"),
        ("none", 401, "wordbound"),
    ):
        async with client_of(compatibility=compatibility) as client:
            for headers in ({}, {"X-API-Key": "x"}, {"Authorization": "Bearer x"}):
                refused = await client.get("/v1/models", headers=headers)
                assert_error(refused, status, code="invalid_api_key")
                assert ("www-authenticate" in refused.headers) == (status == 401)
            assert (await client.get("/nothing")).status_code == status
            [card] = (await client.get(f"/v1/models?token={KEY}")).json()["data"]
            assert (card["id"], card["object"], card["owned_by"]) == (MODEL, "model", owner)


async def test_generate_of_llm_serving_gives_the_prompt_with_the_text() -> None:
    text = "".join(WORDS)
    fields = {"top_k": 5, "top_p": 0.9, "repetition_penalty": 1.1, "seed": 7}
    answer, backend = await ask("/generate", {"prompt": PROMPT, **fields}, compatibility=SERVING)
    assert answer.json().items() >= {"generated_text": PROMPT + text, "token_count": 3}.items()
    assert backend.calls[0].body.items() >= {"max_tokens": 50, "temperature": 1.0, **fields}.items()
    answer, backend = await ask("/generate", {"prompt": PROMPT, "max_new_tokens": 9999}, compatibility=SERVING)
    assert backend.calls[0].body["max_tokens"] == LIMITS.max_new_tokens
    answer, _ = await ask("/generate", {"prompt": PROMPT, "stream": True}, compatibility=SERVING)
    *pieces, last, done = [event.removeprefix("data: ") for event in answer.text.split("\n\n") if event]
    assert "".join(json.loads(piece)["text"] for piece in pieces) == text
    assert (json.loads(last)["generated_text"], done) == (PROMPT + text, "[DONE]")


async def test_a_text_of_a_list_never_begins_with_the_prompt() -> None:
    answer, backend = await ask("/generate", {"prompt": PROMPT, **LISTED}, compatibility=SERVING)
    assert answer.json()["generated_text"] == "".join(WORDS)
    assert backend.calls[0].body["temperature"] != 1.0


async def test_without_compatibility_generate_gives_the_text_alone_as_long_as_the_service_allows() -> None:
    answer, backend = await ask("/generate", {"prompt": PROMPT, "seed": 7})
    assert answer.json()["generated_text"] == "".join(WORDS)
    body = backend.calls[0].body
    assert (body["max_tokens"], body["seed"], "temperature" in body) == (LIMITS.max_new_tokens, 7, False)


async def test_a_chat_of_llm_serving_has_its_defaults_and_any_name_of_a_model_by_a_setting() -> None:
    body = {**chat_body(), "model": "llm", "presence_penalty": 0.5}
    answer, backend = await ask(body=body, compatibility=SERVING, any_model=True)
    assert answer.status_code == 200, answer.text
    expected = {"model": MODEL, "max_tokens": 50, "temperature": 1.0, "presence_penalty": 0.5}
    assert backend.calls[0].body.items() >= expected.items()
    answer, _ = await ask(body=body, compatibility=SERVING)
    assert_error(answer, 404, param="model", code="model_not_found")
    for path, other in (("/tokenize", {"prompt": "x"}), ("/v1/completions", {"prompt": "x"})):
        answer, backend = await ask(path, {"model": "llm", **other}, any_model=True)
        assert answer.status_code == 200, answer.text
        assert backend.calls[0].body.get("model", MODEL) == MODEL


async def test_metrics_are_on_the_services_port_by_a_setting_with_the_key_or_open() -> None:
    for value, without_key, with_key in (("none", 401, 404), ("key", 401, 200), ("open", 200, 200)):
        async with client_of(serve_metrics=value) as client:
            assert (await client.get("/metrics")).status_code == without_key
            answer = await client.get("/metrics", headers={"X-API-Key": KEY})
            assert answer.status_code == with_key
            if with_key == 200:
                assert answer.text == "ray_wordbound_requests_total 1.0\n"
                assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            # The path is one of ours as it is written, and for reading.
            assert (await client.get("/metrics/")).status_code in (401, 404)
            assert (await client.post("/metrics", headers={"X-API-Key": KEY})).status_code in (404, 405)


@pytest.mark.fault(82)
async def test_without_a_key_a_request_is_of_the_default_key_and_comes_to_loopback_from_no_foreign_page() -> None:
    keys = {"guest": Key(sha256=digest_of(b"of a guest"))}
    async with client_of(keyless=True, keys=keys) as client:
        assert (await client.post(CHAT, json=chat_body())).status_code == 200
        assert (await client.get("/v1/models", headers={"X-API-Key": "wrong"})).status_code == 200
        evil = await client.post(CHAT, json=chat_body(), headers={"Host": "evil.test"})
        assert "needs no key" in assert_error(evil, 403, code="host_not_allowed")["message"]
        page = await client.post(CHAT, json=chat_body(), headers={"Origin": "https://evil.test"})
        assert "cors_origins" in assert_error(page, 403, code="origin_not_allowed")["message"]
    for compatibility in (WORDLIST, SERVING):
        async with client_of(key="changeme", compatibility=compatibility, secret_token="changeme", demo=True) as client:
            evil = await client.post(CHAT, json=chat_body(), headers={"Host": "evil.test"})
            assert_error(evil, 403, code="host_not_allowed")
            page = await client.post(CHAT, json=chat_body(), headers={"Origin": "null"})
            assert_error(page, 403, code="origin_not_allowed")
