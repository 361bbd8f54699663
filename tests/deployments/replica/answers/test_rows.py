"""Rows of an engine that says what a test wants, and vLLM's own reading of prompts."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from ray.serve.llm.deployment import LLMServer
from transformers import AutoTokenizer
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import SamplingParams
from vllm.v1.outputs import LogprobsTensors

from deployments.contract import Caller
from deployments.errors import ApiError, EngineError
from deployments.fair_semaphore import FairSemaphore
from deployments.replica.answers import rows
from deployments.replica.answers.rows import LEAST_LOGPROB, ROWS_AT_ONCE, RowAnswerer
from deployments.replica.engine.loaded_adapters import EngineAdapters, LoadedAdapters
from deployments.settings.service import Settings
from vocab.automaton.tokenizer import TokenizerFacts

NUM_TOKENS = 600
"""Of the model; its tokenizer has fewer."""

ALICE = Caller("alice", "req-1")


class Engine:
    """Answers with the row of the last token of a prompt: minus the distance of each token to it."""

    errored = False

    def __init__(self) -> None:
        self.prompts: list[Any] = []
        self.under_way = self.most_under_way = self.num_aborted = 0
        self.has_rows = True
        self.is_full = asyncio.Event()
        self.stalls_at: int | None = None
        self.fails_at: int | None = None
        self.finish_reason = "length"
        self.model_config = SimpleNamespace(
            get_vocab_size=lambda: NUM_TOKENS,
            max_model_len=64,
            try_get_generation_config=lambda: {"eos_token_id": [7, 8]},
        )

    async def generate(
        self, prompt: Any, params: SamplingParams, request_id: str, *, lora_request: None, priority: int
    ) -> AsyncIterator[RequestOutput]:
        assert priority == 1, "chats would wait for rows"
        self.prompts.append(prompt)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        if self.under_way == 3:
            self.is_full.set()
        try:
            tokens = prompt["prompt_token_ids"]
            await asyncio.sleep(3600 if tokens[-1] == self.stalls_at else 0)
            if tokens[-1] == self.fails_at:
                raise RuntimeError("the secret reason")
            yield self._output(tokens, params, request_id)
        except (asyncio.CancelledError, GeneratorExit):
            self.num_aborted += 1
            raise
        finally:
            self.under_way -= 1

    def _output(self, tokens: list[int], params: SamplingParams, request_id: str) -> RequestOutput:
        assert params.max_tokens == 1
        result: Any = None
        if params.prompt_logprobs is not None:
            assert not params.extra_args, "both travel in one place"
            result = [None, *({token: SimpleNamespace(logprob=score(token))} for token in tokens[1:])]
        elif self.has_rows:
            assert params.extra_args
            nothing = torch.zeros(1, dtype=torch.int32)
            result = [LogprobsTensors(nothing, row(tokens[-1])[None], nothing)]
        drawn = CompletionOutput(0, "", [0], None, None, finish_reason=self.finish_reason)
        return RequestOutput(request_id, None, tokens, result, [drawn], finished=True)


def row(token: int) -> torch.Tensor:
    return -(torch.arange(NUM_TOKENS) - token).abs().float()


def score(token: int) -> float:
    return float("-inf") if token == 3 else -float(token)


class World:
    """An answerer around the engine, with settings."""

    def __init__(self, tokenizer: Any, **settings: Any) -> None:
        self.engine = Engine()
        self.share = FairSemaphore(40)
        server = cast("LLMServer", SimpleNamespace(engine=SimpleNamespace(_engine_client=self.engine)))
        facts = TokenizerFacts.from_token_bytes([bytes([number % 256]) for number in range(500)], [0, 2])
        made = Settings.load({"secret_token": "k", "limits": {"max_input_tokens": 32}, **settings}, {})
        adapters = LoadedAdapters(server, EngineAdapters(made.model_id, {}))
        self.rows = RowAnswerer(server, made, tokenizer, facts, self.share, adapters)

    def refusal(self, body: dict[str, Any]) -> EngineError:
        with pytest.raises(EngineError) as error:
            self.rows.check(body)
        return error.value

    async def one(self, answer: AsyncIterator[Any]) -> dict[str, Any]:
        [result] = [item async for item in answer]
        assert isinstance(result, dict)
        return result

    async def logprobs(self, prompt: Any, width: int = 4, **fields: Any) -> list[Any]:
        body = {"prompt": prompt, "dtype": "float32", **fields}
        return [item async for item in self.rows.logprobs(body, ALICE, width)]


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(smollm2_path)


@pytest.fixture
def world(tokenizer: Any) -> World:
    return World(tokenizer)


def many(number: int) -> list[list[int]]:
    return [[1, token] for token in range(number)]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
async def test_rows_come_in_the_order_of_the_prompts_and_a_few_are_in_the_engine_at_once(
    world: World, dtype: str
) -> None:
    first, *groups = await world.logprobs(many(70), dtype=dtype)
    assert first == described(70)
    assert [len(group) for group in groups] == [ROWS_AT_ONCE, ROWS_AT_ONCE, 6]
    assert {group.dtype for group in groups} == {np.dtype(dtype)}
    expected = np.stack([row(token).numpy() for token in range(70)]).astype(dtype)
    np.testing.assert_array_equal(np.concatenate(groups), expected)
    assert (world.engine.most_under_way, world.engine.under_way) == (4, 0)


async def test_one_prompt_may_come_as_a_list_of_one(world: World) -> None:
    for prompt in ([1, 5], [[1, 5]]):
        first, group = await world.logprobs(prompt)
        assert first["shape"] == [1, NUM_TOKENS]
        np.testing.assert_array_equal(group[0], row(5).numpy())


async def test_the_likeliest_tokens_are_in_order_and_no_number_is_infinite(world: World) -> None:
    first, (tokens, logprobs) = await world.logprobs([[1, 0], [1, 9]], top_logprobs=2)
    assert first["shape"] == [2, 2]
    assert (tokens[0].tolist(), logprobs[0].tolist()) == ([0, 1], [0, -1])
    assert (tokens[1][0], logprobs[1][0], logprobs.dtype, tokens.dtype) == (9, 0, np.float32, np.int32)


async def test_rows_and_scores_are_for_other_tools_too(world: World) -> None:
    found = await world.rows.rows([[1, 2], [5], [7]], 0, ALICE, 2)
    assert [row.tolist() for row in found] == [row(token).tolist() for token in (2, 5, 7)]
    assert world.engine.most_under_way == 2
    assert await world.rows.scores([([1], [2, 3]), ([4, 5], [6])], "s", ALICE, 2) == [[-2.0, LEAST_LOGPROB], [-6.0]]


async def test_keys_do_not_share_what_the_engine_keeps_of_prompts(world: World) -> None:
    await world.logprobs([1, 2])
    async for _ in world.rows.logprobs({"prompt": [1, 2], "dtype": "float32"}, Caller("bob", "req-2"), 1):
        pass
    alices, bobs = (prompt["cache_salt"] for prompt in world.engine.prompts)
    assert alices != bobs


async def test_given_tokens_are_scored_by_one_reading(world: World) -> None:
    body = {"prompt": [1, 2], "token_ids": [5, 3, 4]}
    result = await world.one(world.rows.token_logprobs(body, ALICE))
    assert result == {"logprobs": [-5, LEAST_LOGPROB, -4], "prompt_tokens": 5}
    assert [prompt["prompt_token_ids"] for prompt in world.engine.prompts] == [[1, 2, 5, 3, 4]]


@pytest.mark.parametrize("field", ["stalls_at", "fails_at"])
async def test_rows_that_nobody_wants_any_more_leave_the_engine(world: World, field: str) -> None:
    setattr(world.engine, field, 50)
    if field == "fails_at":
        *_, last = await world.logprobs(many(200), width=20)
        assert (last.status, last.code) == (500, "engine_error")
        assert "secret" not in last.message
    else:
        answer = world.rows.logprobs({"prompt": many(200), "dtype": "float32"}, ALICE, 20)
        assert await anext(answer) == described(200)
        assert len(cast("Any", await anext(answer))) == ROWS_AT_ONCE
        await answer.aclose()
    assert world.engine.under_way == 0
    assert len(world.engine.prompts) <= 200


def described(number: int) -> dict[str, Any]:
    return {"shape": [number, NUM_TOKENS], "vocab_size": NUM_TOKENS, "prompt_tokens": 2 * number}


async def test_a_request_that_waits_is_aborted_with_its_caller(world: World) -> None:
    world.engine.stalls_at = 1
    waiting = asyncio.create_task(world.logprobs([[1, 1]] * 8, width=3))
    await world.engine.is_full.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (world.engine.under_way, world.engine.num_aborted, len(world.engine.prompts)) == (0, 3, 3)


@pytest.mark.parametrize(("finish_reason", "has_rows", "status"), [("length", False, 501), ("error", True, 500)])
async def test_an_engine_without_rows_is_told(world: World, finish_reason: str, has_rows: bool, status: int) -> None:
    world.engine.has_rows, world.engine.finish_reason = has_rows, finish_reason
    _, error = await world.logprobs([1])
    assert error.status == status
    assert error.code == ("rows_unavailable" if status == 501 else "engine_error")


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("prompt", {"prompt": [NUM_TOKENS]}),
        ("prompt", {"prompt": [[1], [2, NUM_TOKENS]]}),
        ("prompt", {"prompt": [1] * 33}),
        ("prompt", {"prompt": [[1], [1] * 33]}),
        ("top_logprobs", {"prompt": [1], "top_logprobs": NUM_TOKENS + 1}),
        ("token_ids", {"prompt": [1], "token_ids": [2, NUM_TOKENS]}),
        ("prompt", {"prompt": [NUM_TOKENS], "token_ids": [2]}),
    ],
)
async def test_what_the_model_does_not_have_is_refused_by_its_name(
    world: World, param: str, fields: dict[str, Any]
) -> None:
    refusal = world.refusal({"dtype": "float32", **fields})
    assert (refusal.status, refusal.param) == (400, param)
    assert (refusal.code == "context_length_exceeded") is ("longer than 32 tokens" in refusal.message)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 436), ("float16", 873)])
async def test_a_refusal_of_too_many_rows_says_how_many_fit(tokenizer: Any, dtype: str, most: int) -> None:
    limits = {"max_rows_bytes": 2**20, "max_input_tokens": 32}
    world = World(tokenizer, limits=limits)
    world.rows.check({"prompt": [[1]] * most, "dtype": dtype})
    refusal = world.refusal({"prompt": [[1]] * (most + 1), "dtype": dtype})
    assert (refusal.param, refusal.status) == ("prompt", 400)
    assert f"at most {most} prompts" in refusal.message
    world.rows.check({"prompt": [[1]] * 64, "dtype": dtype, "top_logprobs": 512})
    assert world.refusal({"prompt": [[1]] * 64, "dtype": dtype, "top_logprobs": 513}).param == "top_logprobs"


async def test_a_prompt_whose_scores_take_too_much_memory_is_refused(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MAX_SCORED_BYTES", 2**20)
    world = World(tokenizer)
    for num_prompt, is_refused in ((32, False), (2, False)):
        body = {"prompt": [1] * num_prompt, "token_ids": [2] * 31}
        [result] = [item async for item in world.rows.token_logprobs(body, ALICE)]
        assert isinstance(result, ApiError) is is_refused
    [result] = [item async for item in world.rows.token_logprobs({"prompt": [1] * 32, "token_ids": [2] * 32}, ALICE)]
    assert isinstance(result, ApiError)
    assert (result.param, result.code) == ("token_ids", "context_length_exceeded")


async def test_the_table_has_the_bytes_of_every_token_of_the_model(world: World, tokenizer: Any) -> None:
    result = await world.one(world.rows.tokens())
    tokens = [base64.b64decode(token) for token in result["tokens"]]
    assert result["vocab_size"] == len(tokens) == NUM_TOKENS
    assert tokens[65] == b"A"
    assert tokens[500:] == [b""] * 100
    for special in result["special_ids"]:
        assert tokens[special].decode() == tokenizer.convert_ids_to_tokens(special)
    assert result["eos_token_ids"] == sorted({7, 8, tokenizer.eos_token_id})


async def test_nothing_is_held_while_what_was_made_is_read(world: World) -> None:
    answer = world.rows.logprobs({"prompt": many(200), "dtype": "float32"}, ALICE, 20)
    await anext(answer)
    for _ in range(3):
        await anext(answer)
        assert (world.share.num_taken, world.engine.under_way) == (0, 0)
    await answer.aclose()


async def test_keys_take_turns_between_the_rows_of_one_request(world: World) -> None:
    world.rows._semaphore = share = FairSemaphore(4)
    order = list[int]()

    async def other() -> None:
        async with share.take(4, "bob"):
            order.append(len(world.engine.prompts))

    rows = asyncio.create_task(world.logprobs(many(40)))
    while not world.engine.prompts:  # noqa: ASYNC110 - until the first turn
        await asyncio.sleep(0)
    await asyncio.gather(other(), rows)
    assert order == [4]
    assert world.engine.most_under_way == 4
