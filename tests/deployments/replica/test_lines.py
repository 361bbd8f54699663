"""Lines of batches: answered whole, refused, or told that the engine is dead."""

import asyncio
from typing import Any

import pytest

from deployments.errors import ApiError, EngineDiedError, EngineError, NotStartedError, OverloadedError
from deployments.replica.answers import batch_line
from tests.deployments.replica.toy_engine import Said
from tests.deployments.replica.world import WORDS, ReplicaWorld
from vocab.errors import CompileError, CompileTimeoutError, UnknownLanguageError

LISTED = {"vocab_lang": "en", "vocab_n_words": len(WORDS)}


async def test_a_line_is_answered_whole_after_interactive_requests(world: ReplicaWorld) -> None:
    world.engine.said = [Said(("The cat", " sat."))]
    answer = await world.line(**LISTED)
    assert isinstance(answer, dict)
    assert answer["choices"][0]["message"]["content"] == "The cat sat."
    assert answer["vocab"]["n_words"] == len(WORDS)
    [(_, _, request_id, options)] = world.engine.requests
    assert ("line" in request_id, options["priority"]) == (True, 1)
    assert world.engine.num_running == 0


TOOLS = [
    {"type": "function", "function": {"name": kind, "parameters": {"$defs": {"a": {"type": kind}}}}}
    for kind in ("string", "integer")
]
REFUSED: list[tuple[dict[str, Any], Exception | None, int, str | None]] = [
    ({"vocab_lang": "xx", "vocab_n_words": 9}, UnknownLanguageError("There is none."), 400, "vocab_lang"),
    ({"vocab": {"lang": "xx"}}, UnknownLanguageError("There is none."), 400, "vocab.lang"),
    ({**LISTED, "max_tokens": 1}, None, 400, "max_tokens"),
    ({"vocab_lang": "en", "vocab_n_words": 5}, CompileTimeoutError("the secret reason"), 503, None),
    ({"vocab_lang": "en", "vocab_n_words": 6}, CompileError("the secret reason"), 500, None),
    ({"temperature": 7}, None, 400, "temperature"),
    ({"messages": [{"role": "user", "content": "a " * 3000}]}, None, 400, "messages"),
    ({"tools": TOOLS, "tool_choice": "required"}, None, 400, "tools"),
    ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}}, None, 400, "tools"),
    ({"stream": True}, None, 500, None),
]


async def test_what_cannot_be_answered_is_an_error_with_its_status(world: ReplicaWorld) -> None:
    faults = []
    for fields, failure, status, param in REFUSED:
        world.lists.failure = failure
        error = await world.line(**fields)
        assert isinstance(error, ApiError)
        if (error.status, error.param) != (status, param) or not error.message or "secret" in error.message:
            faults.append((fields, error))
    assert not faults


async def test_lines_in_a_row_ask_once_for_their_list(world: ReplicaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    # However slow the machine is.
    monkeypatch.setattr("deployments.vocabulary.client.RESOLVED_FOR_S", 3600.0)
    for _ in range(3):
        for words in (11, 12):
            assert isinstance(await world.line(vocab_lang="en", vocab_n_words=words), dict)
    assert [spec.n_words for spec in world.lists.asked] == [11, 12]


@pytest.mark.fault(60)
async def test_a_dead_engine_is_given_nothing_and_no_line_is_blamed(
    world: ReplicaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_line, "_REPLACED_WAIT_S", 0.0)
    # Nor for a list that nobody can be asked for.
    world.lists.failure = OverloadedError("The word lists cannot be reached now.")
    assert isinstance(await world.line(vocab_lang="en", vocab_n_words=7), NotStartedError)
    world.engine.errored = True
    assert isinstance(await world.line(), NotStartedError)
    assert not world.engine.requests


async def test_an_engine_that_dies_of_a_line_is_told_from_one_that_fails_on_it(world: ReplicaWorld) -> None:
    def die(_: list[int]) -> Any:
        world.engine.errored = True
        raise RuntimeError("It failed.")

    world.engine.table = die
    assert isinstance(await world.line(), EngineDiedError)
    world.reset()
    world.engine.failure = RuntimeError("It failed.")
    answer = await world.line()
    assert isinstance(answer, EngineError)
    assert not isinstance(answer, EngineDiedError)


async def test_no_more_sequences_run_than_the_share_has_places(small: ReplicaWorld) -> None:
    small.engine.said = [Said(("a", "b"))]
    asked: list[dict[str, Any]] = [{}, {"n": 3}, {"n": 4}, {"n": 8}] * 10
    answers = await asyncio.gather(*(small.line(**fields) for fields in asked))
    assert all(isinstance(answer, dict) for answer in answers)
    assert small.engine.num_sequences == 0
    assert 4 <= small.engine.most_sequences <= 8, "only a line that is wider than the share may exceed it, alone"
