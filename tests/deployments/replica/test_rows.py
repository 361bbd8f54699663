"""Rows of an engine that says what a test wants, and vLLM's own reading of prompts."""

import asyncio
import base64
from typing import Any

import numpy as np
import pytest

from deployments.contract import BEGUN, Caller, RowsRequest, TokensRequest
from deployments.errors import ApiError
from deployments.replica.answers import rows
from deployments.replica.answers.rows import LEAST_LOGPROB, ROWS_AT_ONCE
from tests.deployments.replica.world import ReplicaWorld, refusal

NUM_TOKENS = 49_152
ALICE = Caller("alice", "req-1")


def row(token: int) -> Any:
    """Minus the distance of each token to one."""
    values = -np.abs(np.arange(NUM_TOKENS) - token).astype(np.float64)
    values[3] = -np.inf
    return values


@pytest.fixture
def engine(world: ReplicaWorld) -> ReplicaWorld:
    """A replica whose engine has a row for the last token of a prompt."""
    world.engine.table = lambda tokens: row(tokens[-1])
    return world


def asked(prompt: Any, owner: str = "alice", **fields: Any) -> RowsRequest:
    return RowsRequest({"prompt": prompt, "dtype": "float32", **fields}, Caller(owner, "req-1"))


def many(number: int) -> list[list[int]]:
    return [[1, 10 + token] for token in range(number)]


def described(number: int) -> dict[str, Any]:
    return {"shape": [number, NUM_TOKENS], "prompt_tokens": 2 * number}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
async def test_rows_come_in_the_order_of_the_prompts_and_some_are_in_the_engine_at_once(
    engine: ReplicaWorld, dtype: str
) -> None:
    first, *groups = await engine.items(asked(many(70), dtype=dtype))
    assert first == described(70)
    assert [len(group) for group in groups] == [ROWS_AT_ONCE, ROWS_AT_ONCE, 6]
    assert {group.dtype for group in groups} == {np.dtype(dtype)}
    for number, found in enumerate(np.concatenate(groups)):
        np.testing.assert_array_equal(found, row(10 + number).astype(np.float32).astype(dtype))
    assert (engine.engine.most_sequences, engine.engine.num_sequences) == (ROWS_AT_ONCE, 0)
    assert {options["priority"] for *_, options in engine.engine.requests} == {1}, "chats would wait for rows"


async def test_one_prompt_may_come_as_a_list_of_one_or_as_text_and_keys_share_nothing(engine: ReplicaWorld) -> None:
    text = engine.tokenizer.decode([1000])
    for prompt, last, owner in (([1, 5], 5, "alice"), ([[1, 5]], 5, "bob"), (text, 1000, "bob")):
        first, group = await engine.items(asked(prompt, owner))
        assert first["shape"] == [1, NUM_TOKENS]
        np.testing.assert_array_equal(group[0], row(last).astype(np.float32))
    assert len(engine.engine.salts) == 2


async def test_the_likeliest_tokens_are_in_order(engine: ReplicaWorld) -> None:
    first, (tokens, logprobs) = await engine.items(asked([[1, 0], [1, 9]], top_logprobs=2))
    assert first["shape"] == [2, 2]
    assert (tokens[0].tolist(), logprobs[0].tolist()) == ([0, 1], [0, -1])
    assert (tokens[1][0], logprobs[1][0], logprobs.dtype, tokens.dtype) == (9, 0, np.float32, np.int32)


async def test_given_tokens_are_scored_by_one_reading_and_no_number_is_infinite(engine: ReplicaWorld) -> None:
    [result] = await engine.items(asked([1, 2], token_ids=[5, 3, 4]))
    assert (result["object"], result["logprobs"]) == ("token_logprobs", [-3, LEAST_LOGPROB, -1])
    assert result["usage"] == {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}
    [(tokens, params, *_)] = engine.engine.requests
    assert (tokens, params.extra_args) == ([1, 2, 5, 3, 4], None), "both travel in one place"


async def test_nothing_is_held_while_what_was_made_is_read_and_a_reader_that_leaves_ends_the_rest(
    engine: ReplicaWorld,
) -> None:
    answer = engine.replica.answer(asked(many(200)))
    assert [await anext(answer) for _ in range(2)] == [BEGUN, described(200)]
    for _ in range(2):
        assert len(await anext(answer)) == ROWS_AT_ONCE  # type: ignore[arg-type]
        [held] = (await engine.replica.record_autoscaling_stats()).values()
        assert (held, engine.engine.num_running) == (0, 0)
    engine.engine.stalls = True
    waiting = asyncio.ensure_future(anext(answer))
    while engine.engine.num_running < ROWS_AT_ONCE:  # noqa: ASYNC110 - until they are in the engine
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert engine.engine.num_running == 0
    assert len(engine.engine.requests) == 3 * ROWS_AT_ONCE


async def test_a_failure_ends_all_rows_and_tells_nothing(engine: ReplicaWorld) -> None:
    def fail(tokens: list[int]) -> Any:
        if tokens[-1] == 50:
            raise RuntimeError("the secret reason")
        return row(tokens[-1])

    engine.engine.table = fail
    *_, last = await engine.items(asked(many(100)))
    assert (last.status, last.code, "secret" in last.message) == (500, "engine_error", False)
    assert engine.engine.num_running == 0
    assert len(engine.engine.requests) == 2 * ROWS_AT_ONCE


@pytest.mark.parametrize(
    ("has_rows", "finish_reason", "status", "code"),
    [(False, None, 501, "rows_unavailable"), (True, "error", 500, "engine_error")],
)
async def test_an_engine_without_rows_is_told(
    engine: ReplicaWorld, has_rows: bool, finish_reason: str | None, status: int, code: str
) -> None:
    engine.engine.has_rows, engine.engine.finish_reason = has_rows, finish_reason
    _, error = await engine.items(asked([1]))
    assert (error.status, error.code) == (status, code)


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("prompt", {"prompt": [NUM_TOKENS]}),
    ("prompt", {"prompt": [[1], [2, NUM_TOKENS]]}),
    ("prompt", {"prompt": [1] * 61}),
    ("prompt", {"prompt": [[1], [1] * 61]}),
    ("prompt", {"prompt": "a " * 70}),
    ("top_logprobs", {"prompt": [1], "top_logprobs": NUM_TOKENS + 1}),
    ("token_ids", {"prompt": [1], "token_ids": [2, NUM_TOKENS]}),
    ("prompt", {"prompt": [NUM_TOKENS], "token_ids": [2]}),
    ("top_logprobs", {"prompt": [[1]] * 20, "top_logprobs": 6600}),
]


async def test_what_the_model_does_not_have_and_too_long_a_prompt_are_refused_by_their_names(
    small: ReplicaWorld,
) -> None:
    faults = []
    for param, fields in REFUSED:
        error = (await small.items(asked(**fields)))[-1]
        is_long = "longer than 60 tokens" in error.message
        if (error.status, error.param, error.code == "context_length_exceeded") != (400, param, is_long):
            faults.append((fields, error))
    assert not faults
    assert not small.engine.requests


async def test_a_refusal_of_too_many_rows_says_how_many_fit(small: ReplicaWorld) -> None:
    small.engine.table = lambda tokens: row(tokens[-1])
    for dtype, most in (("float32", 21), ("float16", 42)):
        assert not isinstance((await small.items(asked([[1]] * most, dtype=dtype)))[-1], ApiError)
        error = refusal(await small.items(asked([[1]] * (most + 1), dtype=dtype)))
        assert (error.param, error.status) == ("prompt", 400)
        assert f"at most {most} prompts" in error.message
    assert small.engine.most_sequences <= 4, "keys take turns between the rows of one request"


async def test_a_prompt_whose_scores_take_too_much_memory_is_refused(
    engine: ReplicaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MAX_SCORED_BYTES", 10 * 4 * NUM_TOKENS)
    assert "logprobs" in (await engine.items(asked([1] * 5, token_ids=[2] * 5)))[0]
    error = refusal(await engine.items(asked([1] * 5, token_ids=[2] * 6)))
    assert (error.param, error.code) == ("token_ids", "context_length_exceeded")


async def test_the_table_has_the_bytes_of_every_token_of_the_model(world: ReplicaWorld) -> None:
    [result] = await world.items(TokensRequest({}, ALICE))
    tokens = [base64.b64decode(token) for token in result["tokens"]]
    assert result["vocab_size"] == len(tokens) == NUM_TOKENS
    [letter] = world.tokenizer.encode("A")
    assert tokens[letter] == b"A"
    for special in result["special_ids"]:
        assert tokens[special].decode() == world.tokenizer.convert_ids_to_tokens(special)
    assert world.tokenizer.eos_token_id in result["eos_token_ids"]
