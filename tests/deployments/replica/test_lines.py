"""Lines of batches: answered whole, refused, or told that the engine is dead."""

import asyncio
import json
from typing import Any

import pytest

from deployments.contract import ENGINE_DIED, NOT_STARTED
from deployments.errors import OverloadedError
from deployments.replica.answers import batch_line
from tests.deployments.replica.world import WORDS, ReplicaWorld, Said
from vocab.errors import CompileError, CompileTimeoutError, UnknownLanguageError

LISTED = {"vocab_lang": "en", "vocab_n_words": len(WORDS)}


async def test_a_line_is_answered_whole_after_interactive_requests(world: ReplicaWorld) -> None:
    world.engine.said = [Said(("The cat", " sat."))]
    answer = await world.line(**LISTED)
    assert answer["status"] == 200
    assert json.loads(answer["body"])["choices"][0]["message"]["content"] == "The cat sat."
    assert json.loads(answer["body"])["vocab"]["n_words"] == len(WORDS)
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
    ({"stream": True}, None, 500, None),
]


async def test_what_cannot_be_answered_is_an_error_with_its_status(world: ReplicaWorld) -> None:
    faults = []
    for fields, failure, status, param in REFUSED:
        world.lists.failure = failure
        answer = await world.line(**fields)
        error = json.loads(answer["body"])["error"]
        if (answer["status"], error["param"]) != (status, param) or not error["message"] or "secret" in str(error):
            faults.append((fields, answer))
    assert not faults


async def test_lines_in_a_row_ask_once_for_their_list_and_later_ones_again(
    world: ReplicaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        for words in (11, 12):
            assert (await world.line(vocab_lang="en", vocab_n_words=words))["status"] == 200
    assert [spec.n_words for spec in world.lists.asked] == [11, 12]
    monkeypatch.setattr(batch_line, "_RESOLVED_FOR_S", 0.0)
    await asyncio.gather(*(world.line(vocab_lang="en", vocab_n_words=11) for _ in range(4)))
    assert {spec.n_words for spec in world.lists.asked[2:]} == {11}


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_line, "_REPLACED_WAIT_S", 0.0)


@pytest.mark.usefixtures("_at_once")
async def test_a_dead_engine_is_given_nothing_and_no_line_is_blamed(world: ReplicaWorld) -> None:
    world.engine.errored = True
    assert (await world.line())["status"] == NOT_STARTED
    assert not world.engine.requests


@pytest.mark.usefixtures("_at_once")
async def test_a_list_that_nobody_can_be_asked_for_is_no_fault_of_the_line(world: ReplicaWorld) -> None:
    world.lists.failure = OverloadedError("The word lists cannot be reached now.")
    assert (await world.line(vocab_lang="en", vocab_n_words=7))["status"] == NOT_STARTED
    assert not world.engine.requests


async def test_an_engine_that_dies_of_a_line_is_told_from_one_that_fails_on_it(world: ReplicaWorld) -> None:
    def die(_: list[int]) -> Any:
        world.engine.errored = True
        raise RuntimeError("It failed.")

    world.engine.table = die
    assert (await world.line())["status"] == ENGINE_DIED
    world.reset()
    world.engine.failure = RuntimeError("It failed.")
    assert (await world.line())["status"] == 500


async def test_no_more_sequences_run_than_the_share_has_places(small: ReplicaWorld) -> None:
    small.engine.said = [Said(("a", "b"))]
    asked: list[dict[str, Any]] = [{}, {"n": 3}, {"n": 4}, {"n": 8}] * 10
    answers = await asyncio.gather(*(small.line(**fields) for fields in asked))
    assert {answer["status"] for answer in answers} == {200}
    assert small.engine.num_sequences == 0
    assert 4 <= small.engine.most_sequences <= 8, "only a line that is wider than the share may exceed it, alone"
