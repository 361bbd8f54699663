"""Texts that go back out of corners, over the made-up engine: its masks leave little, so that every word is one."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.outputs import CompletionOutput
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

from deployments.contract import Decoding
from tests.checker import SENTENCE_END
from tests.deployments.replica.toy_engine import ToyEngine
from tests.inner.search.test_text_engine import (
    BUDGET,
    PROMPT,
    World,
    assert_listed,
    cost_of,
    log_p_of,
    outputs_of,
    search_for,
)
from vocab.options import ListOptions

RESCUE = Decoding(rescue=0.15)
NO_CORNER = Decoding(rescue=1e-300)
STREAM = RequestOutputKind.DELTA


@pytest.fixture(scope="module")
def world(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(smollm2_path, tmp_path_factory.mktemp("artefacts"))


async def answered(
    world: World, decoding: Decoding = RESCUE, engine: ToyEngine | None = None, **fields: Any
) -> list[list[CompletionOutput]]:
    """The parts of each text, one where the answer is no stream."""
    engine = engine or world.engine()
    params, search = search_for(world, decoding, **fields)
    answers = await outputs_of(world.client(engine).generate(PROMPT, params, "r", search))
    assert [answer.finished for answer in answers] == [False] * (len(answers) - 1) + [True]
    assert engine.num_running == 0
    parts: list[list[CompletionOutput]] = [[] for _ in range(params.n)]
    for answer in answers:
        for output in answer.outputs:
            parts[output.index].append(output)
    for of_text in parts:
        assert [part.finish_reason is None for part in of_text] == [True] * (len(of_text) - 1) + [False]
    return parts


def texts_of(parts: list[list[CompletionOutput]]) -> list[str]:
    return ["".join(part.text for part in of_text) for of_text in parts]


def tokens_of(parts: list[list[CompletionOutput]]) -> list[list[int]]:
    return [[token for part in of_text for token in part.token_ids] for of_text in parts]


async def test_words_are_written_again_and_the_rest_is_not(world: World) -> None:
    engine = world.engine()
    await answered(world, engine=engine, seed=1)
    prompts = [prompt[len(PROMPT["prompt_token_ids"]) :] for prompt, *_ in engine.requests]
    assert len(prompts) > 3
    for before, after in pairwise(prompts):
        # All but the token that begins the word stays.
        assert len(after) >= len(before)
        assert before[:-1] == after[: len(before[:-1])]


async def test_a_text_without_corners_is_that_of_no_rescue(world: World) -> None:
    engine = world.engine()
    for fields in ({}, {"n": 2}, {"output_kind": STREAM}):
        rescued, plain = await answered(world, NO_CORNER, engine, seed=5, **fields), Decoding(score=True)
        assert tokens_of(rescued)[:1] == tokens_of(await answered(world, plain, seed=5))
    assert len(engine.requests) == 4


@settings(max_examples=settings().max_examples // 4)
@given(seed=st.integers(0, 2**63 - 1), n=st.integers(1, 3))
async def test_equal_seeds_give_equal_texts_streamed_or_whole(world: World, seed: int, n: int) -> None:
    whole = await answered(world, seed=seed, n=n)
    streamed = await answered(world, seed=seed, n=n, output_kind=STREAM)
    assert texts_of(whole) == texts_of(streamed)
    assert tokens_of(whole) == tokens_of(streamed)
    for one in whole:
        assert world.tokenizer.decode(one[0].token_ids, skip_special_tokens=True) == one[0].text
        assert_listed(one[0].text)
    assert n == 1 or len(set(texts_of(whole))) > 1


async def test_a_stream_sends_words_as_they_can_no_longer_be_taken_back(world: World) -> None:
    [parts] = await answered(world, seed=3, output_kind=STREAM, max_tokens=40)
    assert len(parts) > 5
    for part in parts[:-1]:
        assert_listed(part.text)


async def test_the_cost_is_every_token_that_the_engine_wrote(world: World) -> None:
    engine = world.engine()
    params, search = search_for(world, RESCUE, seed=2, n=2)
    written = world.client(engine).generate(PROMPT, params, "r", search)
    [answer] = await outputs_of(written)
    cost = cost_of(written)
    # One more was under way in each request that was ended.
    num_ended = len(engine.requests) - 2
    assert num_ended > 2
    assert engine.num_given <= cost.num_tokens <= engine.num_given + num_ended
    assert cost.num_tokens > sum(len(output.token_ids) for output in answer.outputs)
    assert cost.score.num_tokens == len(answer.outputs[0].token_ids)


async def test_logprobs_are_those_of_the_text_that_stays(world: World) -> None:
    for kind in (STREAM, RequestOutputKind.FINAL_ONLY):
        engine = world.engine()
        [parts] = await answered(world, engine=engine, seed=6, logprobs=2, output_kind=kind)
        [tokens] = tokens_of([parts])
        entries = [entry for part in parts for entry in part.logprobs or ()]
        own = [entry[token].logprob for entry, token in zip(entries, tokens, strict=True)]
        assert sum(own) == pytest.approx(log_p_of(engine, tokens), abs=1e-6)
        assert all(len(entry) <= 3 for entry in entries)


async def test_every_budget_ends_with_a_whole_sentence(world: World) -> None:
    options = ListOptions(punctuation="full", end="sentence")
    for budget in range(2, BUDGET + 1):
        grammar = replace(world.reference, options=options, max_tokens=budget).to_ebnf()
        params, search = search_for(world, RESCUE, max_tokens=budget, seed=budget)
        params.structured_outputs = StructuredOutputsParams(grammar=grammar)
        [answer] = await outputs_of(world.client(world.engine()).generate(PROMPT, params, "r", search))
        [choice] = answer.outputs
        assert len(choice.token_ids) <= budget
        assert SENTENCE_END.search(choice.text)
        assert_listed(choice.text)


async def test_a_stop_string_ends_the_text_and_the_engines_work(world: World) -> None:
    engine = world.engine()
    stop = ["cat", "sat", "mat", "on"]
    [parts] = await answered(world, engine=engine, seed=3, stop=stop, max_tokens=40, output_kind=STREAM)
    assert (parts[-1].finish_reason, parts[-1].stop_reason in stop) == ("stop", True)
    assert not any(word in text for text in texts_of([parts]) for word in stop)
    assert all(not params.stop for _, params, *_ in engine.requests)


async def test_temperature_0_goes_back_too(world: World) -> None:
    engines = [world.engine(), world.engine()]
    first, second = [texts_of(await answered(world, engine=engine, temperature=0.0)) for engine in engines]
    assert first == second
    assert len(engines[0].requests) > 2
