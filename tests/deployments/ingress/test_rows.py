"""The routes of next-token rows, over a real connection and a stand-in for the replica."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.contract import ReplicaRequest
from deployments.ingress.connections.send_ahead import MANY_BYTES
from deployments.settings.keys import Key, digest_of
from deployments.settings.limits import MAX_ROWS
from tests.deployments.front import KEY, LIMITS, MODEL, Front, assert_error, client_of, wait_until
from tests.deployments.stand_in import LEAST, NUM_TOKENS, StandIn, row

LOGPROBS = "/v1/logprobs"
SCORES = "/v1/token_logprobs"
TOKENS = "/v1/tokens"


def rows_of(answer: httpx.Response) -> Any:
    shape = [int(number) for number in answer.headers["x-wordbound-shape"].split(",")]
    return np.frombuffer(answer.content, answer.headers["x-wordbound-dtype"]).reshape(shape)


@pytest.mark.parametrize("dtype", [None, "float32", "float16"])
@pytest.mark.parametrize("prompt", ["abc", [1, 2, 3], ["abc"], [[1, 2], [3], [4], [5], [6, 7]]])
def test_rows_are_bytes_in_the_order_of_the_prompts(front: Front, prompt: Any, dtype: str | None) -> None:
    answer = front.post(LOGPROBS, {"model": MODEL, "prompt": prompt, "dtype": dtype})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-wordbound-dtype"] == dtype or "float32"
    assert answer.headers["x-request-id"].startswith("req-")
    num_rows = 5 if isinstance(prompt[0], list) else 1
    assert rows_of(answer).tolist() == [row(number) for number in range(num_rows)]
    assert int(answer.headers["x-wordbound-prompt-tokens"]) == (7 if num_rows == 5 else 3)
    [call] = front.backend.calls
    wait_until(lambda: call.is_closed)


def test_the_likeliest_tokens_are_json(front: Front) -> None:
    result = front.post(LOGPROBS, {"prompt": [[1, 2], [3], [4]], "top_logprobs": NUM_TOKENS}).json()
    assert (result["object"], result["model"]) == ("list", MODEL)
    assert result["usage"] == {"prompt_tokens": 4, "completion_tokens": 0, "total_tokens": 4}
    assert [one["index"] for one in result["data"]] == [0, 1, 2]
    assert result["data"][0]["token_ids"] == list(range(NUM_TOKENS))
    assert result["data"][2]["token_ids"][-1] == NUM_TOKENS - 1
    assert result["data"][2]["logprobs"] == sorted(row(2), reverse=True)
    one = front.post(LOGPROBS, {"prompt": "abc", "top_logprobs": 1}).json()
    assert one["data"] == [{"object": "logprobs", "index": 0, "token_ids": [0], "logprobs": [0.0]}]


def test_given_tokens_are_scored(front: Front) -> None:
    result = front.post(SCORES, {"prompt": "abc", "token_ids": [5, 1]}).json()
    assert result == {
        "object": "token_logprobs",
        "model": MODEL,
        "logprobs": [-5.0, -1.0],
        "usage": {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5},
    }


def test_the_models_tokens_are_fetched_once_and_not_sent_to_who_has_them(front: Front) -> None:
    answer = front.get(TOKENS)
    result = answer.json()
    assert [base64.b64decode(token) for token in result["tokens"]] == [bytes([65 + i]) for i in range(NUM_TOKENS)]
    assert (result["object"], result["model"], result["vocab_size"]) == ("tokens", MODEL, NUM_TOKENS)
    assert (result["special_ids"], result["eos_token_ids"]) == ([9], [9])
    again = front.get(TOKENS, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert front.get(TOKENS, headers={"If-None-Match": '"other"'}).json() == result
    assert len(front.backend.calls) <= 1


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (LOGPROBS, {}, "prompt"),
        (LOGPROBS, {"prompt": []}, "prompt"),
        (LOGPROBS, {"prompt": [[]]}, "prompt"),
        (LOGPROBS, {"prompt": [True]}, "prompt"),
        (LOGPROBS, {"prompt": "a", "vocab": {"lang": "en"}}, "vocab"),
        (LOGPROBS, {"prompt": "a", "stream": True}, "stream"),
        (LOGPROBS, {"prompt": "a", "top_logprobs": 0}, "top_logprobs"),
        (LOGPROBS, {"prompt": "a", "dtype": "float64"}, "dtype"),
        (LOGPROBS, {"prompt": [[1]] * (MAX_ROWS + 1)}, "prompt"),
        (SCORES, {"prompt": "a"}, "token_ids"),
        (SCORES, {"prompt": "a", "token_ids": []}, "token_ids"),
        (SCORES, {"prompt": "a", "token_ids": [1] * (LIMITS.max_new_tokens + 1)}, "token_ids"),
        (SCORES, {"prompt": [[1]], "token_ids": [1]}, "prompt"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name_and_goes_no_further(
    front: Front, path: str, body: Any, param: str
) -> None:
    assert_error(front.post(path, body), 400, param=param)
    assert not front.backend.calls


@pytest.mark.parametrize("path", [LOGPROBS, SCORES])
def test_the_routes_are_as_others_are(front: Front, path: str) -> None:
    extra = {"token_ids": [1]} if path == SCORES else {}
    with front.client(key=None) as client:
        assert_error(client.post(path, json={"prompt": "a"}), 401, code="invalid_api_key")
        assert_error(client.get(TOKENS), 401, code="invalid_api_key")
    assert_error(front.post(path, {"prompt": "a", "model": "b", **extra}), 404, param="model", code="model_not_found")
    assert_error(front.post(path, {"prompt": "a" * 2**20, **extra}), 413)
    assert_error(front.post(path, {"prompt": [[1]] * 10**6, **extra}), 413)
    assert_error(front.get(path), 405)
    assert_error(front.post(TOKENS, {}), 405)
    refused = front.post(path, {"prompt": "please refuse", **extra})
    assert_error(refused, 400, param="prompt", code="context_length_exceeded")
    assert_error(front.post(path, {"prompt": "please fail", **extra}), 500, code="internal_error")
    busy = front.post(path, {"prompt": "please be busy", **extra})
    assert_error(busy, 503, code="overloaded")
    assert busy.headers["retry-after"]


class Long(StandIn):
    """Gives short rows and then a long one."""

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        yield {"shape": [101, 0], "vocab_size": 0, "prompt_tokens": 1}
        for _ in range(100):
            yield np.zeros((1, 150), np.float16)
        yield np.ones((1, MANY_BYTES), np.float16)


async def test_short_parts_are_one_message_and_long_ones_are_pieces() -> None:
    sent = list[Message]()

    def noted(app: ASGIApp) -> ASGIApp:
        async def note(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_noted(message: Message) -> None:
                sent.append(message)
                await send(message)

            await app(scope, receive, send_noted)

        return note

    async with client_of(Long(), key=KEY, around=noted) as client:
        await client.post(LOGPROBS, json={"prompt": "a", "dtype": "float16"})
    bodies = [message["body"] for message in sent[1:]]
    assert [len(body) for body in bodies] == [30_000, MANY_BYTES, MANY_BYTES]
    assert [message["more_body"] for message in sent[1:]] == [True, True, False]


@pytest.mark.parametrize("wish", ["please fail", "please refuse"])
def test_rows_that_fail_later_are_cut_off(front: Front, wish: str) -> None:
    for more in ({}, {"top_logprobs": 2}):
        with pytest.raises(httpx.RemoteProtocolError):
            front.post(LOGPROBS, {"prompt": ["a", "b", wish], **more})
    wait_until(lambda: all(call.is_closed for call in front.backend.calls))


@pytest.mark.parametrize("prompt", [["please stall"], ["a", "b", "please stall"]], ids=["at once", "later"])
def test_a_client_that_goes_away_ends_the_work(front: Front, prompt: list[str]) -> None:
    body = json.dumps({"prompt": prompt})
    with front.client() as client, pytest.raises(httpx.ReadTimeout):
        client.post(LOGPROBS, content=body, headers={"Content-Type": "application/json"}, timeout=1)
    [call] = front.backend.calls
    wait_until(lambda: call.is_closed)


class Large(StandIn):
    """Says that its rows are more than all that an ingress may hold."""

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        yield {"shape": [2**20, 2**20], "vocab_size": 2**20, "prompt_tokens": 1}
        await asyncio.sleep(3600)


async def test_rows_that_cannot_be_held_are_refused_before_they_come() -> None:
    async with client_of(Large(), key=KEY) as client:
        assert_error(await client.post(LOGPROBS, json={"prompt": "a"}), 503, code="overloaded")


async def test_the_prompts_of_rows_count_towards_the_tokens_of_a_key() -> None:
    keys = {"few": Key(sha256=digest_of(b"few"), tokens_per_minute=10)}
    async with client_of(key="few", keys=keys) as client:
        assert_error(await client.post(LOGPROBS, json={"prompt": [list(range(10)), [3]]}), 400, param="prompt")
        scored = await client.post(SCORES, json={"prompt": [1, 2], "token_ids": [3]})
        assert scored.headers["x-ratelimit-remaining-tokens"] == "7"
        assert (await client.post(LOGPROBS, json={"prompt": [[1, 2], [3, 4, 5]]})).status_code == 200
        refused = await client.post(LOGPROBS, json={"prompt": [1, 2, 3]})
        assert (refused.status_code, refused.json()["error"]["type"]) == (429, "tokens")
        assert refused.headers["retry-after"]


async def test_a_web_page_may_read_what_describes_the_rows() -> None:
    page = "https://page.example.com"
    async with client_of(key=KEY, cors_origins=(page,)) as client:
        answer = await client.post(LOGPROBS, json={"prompt": "a"}, headers={"Origin": page})
    exposed = answer.headers["access-control-expose-headers"].lower()
    assert {"x-wordbound-shape", "x-wordbound-dtype", "x-wordbound-prompt-tokens"} <= set(exposed.split(", "))
    assert min(map(min, rows_of(answer))) == LEAST
