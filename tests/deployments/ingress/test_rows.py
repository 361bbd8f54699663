"""The routes of next-token rows, over a real connection and a stand-in for the replica."""

import base64
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import numpy as np
import pytest

from deployments.contract import ReplicaRequest
from tests.deployments.front import KEY, MODEL, Front, assert_error, client_of, wait_until
from tests.deployments.stand_in import NUM_TOKENS, StandIn, row

LOGPROBS = "/v1/logprobs"
SCORES = "/v1/token_logprobs"
TOKENS = "/v1/tokens"


def rows_of(answer: httpx2.Response) -> Any:
    shape = [int(number) for number in answer.headers["x-wordbound-shape"].split(",")]
    return np.frombuffer(answer.content, answer.headers["x-wordbound-dtype"]).reshape(shape)


@pytest.mark.parametrize("dtype", [None, "float32", "float16"])
@pytest.mark.parametrize("prompt", ["abc", [1, 2, 3], ["abc"], [[1, 2], [3], [4], [5], [6, 7]]])
def test_rows_are_bytes_in_the_order_of_the_prompts(front: Front, prompt: Any, dtype: str | None) -> None:
    answer = front.post(LOGPROBS, {"model": MODEL, "prompt": prompt, "dtype": dtype})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-wordbound-dtype"] == (dtype or "float32")
    assert answer.headers["x-request-id"].startswith("req-")
    num_rows = 5 if isinstance(prompt[0], list) else 1
    assert rows_of(answer).tolist() == [row(number) for number in range(num_rows)]
    assert int(answer.headers["x-wordbound-prompt-tokens"]) == (7 if num_rows == 5 else 3)
    [call] = front.backend.calls
    wait_until(lambda: call.is_closed)


def test_the_likeliest_tokens_and_the_scores_of_given_ones_are_json(front: Front) -> None:
    result = front.post(LOGPROBS, {"prompt": [[1, 2], [3], [4]], "top_logprobs": NUM_TOKENS}).json()
    assert (result["object"], result["model"]) == ("list", MODEL)
    assert result["usage"] == {"prompt_tokens": 4, "completion_tokens": 0, "total_tokens": 4}
    assert [one["index"] for one in result["data"]] == [0, 1, 2]
    assert result["data"][0]["token_ids"] == list(range(NUM_TOKENS))
    assert result["data"][2]["token_ids"][-1] == NUM_TOKENS - 1
    assert result["data"][2]["logprobs"] == sorted(row(2), reverse=True)
    one = front.post(LOGPROBS, {"prompt": "abc", "top_logprobs": 1}).json()
    assert one["data"] == [{"object": "logprobs", "index": 0, "token_ids": [0], "logprobs": [0.0]}]
    usage = {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}
    scored = front.post(SCORES, {"model": MODEL, "prompt": "abc", "token_ids": [5, 1]}).json()
    assert scored == {"object": "token_logprobs", "model": MODEL, "logprobs": [-5.0, -1.0], "usage": usage}


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


class Large(StandIn):
    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        yield {"shape": [2**20, 2**20], "prompt_tokens": 1}


async def test_rows_that_cannot_be_held_are_refused_before_they_come() -> None:
    async with client_of(Large(), key=KEY) as client:
        assert_error(await client.post(LOGPROBS, json={"prompt": "a"}), 503, code="overloaded")


@pytest.mark.parametrize("wish", ["please fail", "please refuse", "please stall"])
def test_rows_that_fail_later_are_cut_off_and_those_of_a_client_that_left_are_ended(front: Front, wish: str) -> None:
    for more in ({}, {"top_logprobs": 2}):
        fault = httpx2.ReadTimeout if wish == "please stall" else httpx2.RemoteProtocolError
        with front.client() as client, pytest.raises(fault):
            client.post(LOGPROBS, json={"prompt": ["a", "b", wish], **more}, timeout=1)
    wait_until(lambda: all(call.is_closed for call in front.backend.calls))
