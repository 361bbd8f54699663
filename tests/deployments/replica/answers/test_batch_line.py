"""Lines around an engine that answers, refuses, fails or is dead."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from deployments.contract import (
    Caller,
    ChatBody,
    LineAnswer,
    LineRequest,
    ReplicaRequest,
    ResolvedVocabulary,
    TextRequest,
    VocabularySpec,
)
from deployments.errors import ApiError, EngineDiedError, EngineError, NotStartedError, OverloadedError
from deployments.fair_semaphore import FairSemaphore
from deployments.protocol.reader import ChatRequestReader
from deployments.replica.answers.batch_line import BatchLineAnswerer
from deployments.settings.limits import Limits
from tests.deployments.stand_in import StandIn

MODEL = "stand-in"


class Engine(StandIn):
    dead = False

    def is_dead(self) -> bool:
        return self.dead

    async def check(self, body: ChatBody, *, in_list: bool) -> None:
        if "structured_outputs" in body:
            raise EngineError(400, "Too large.", param="structured_outputs.json")


class SlowEngine(Engine):
    """Counts how many lines it is at work on."""

    running = most = 0

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        assert isinstance(request, TextRequest)
        width = request.num_sequences
        self.running += width
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= width
        yield {"choices": []}

    async def resolve(self, spec: VocabularySpec, owner: str = "") -> ResolvedVocabulary:
        raise AssertionError(spec)


class Line:
    def __init__(self, engine: Engine, *, num_places: int = 4) -> None:
        self.slept: list[float] = []
        self.now = 0.0
        reader = ChatRequestReader(MODEL, Limits())
        self._lines = BatchLineAnswerer(
            engine, reader, FairSemaphore(num_places), clock=lambda: self.now, sleep=self._sleep
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def ask(self, text: str = "Hello", **fields: Any) -> LineAnswer:
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}
        return await self._lines.answer(LineRequest(body, "alice", "line-7"))


async def test_a_line_is_answered_whole() -> None:
    engine = Engine()
    answer = await Line(engine).ask(vocab_lang="en", vocab_n_words=500, max_tokens=20)
    assert isinstance(answer, dict)
    assert answer["choices"][0]["message"]["content"] == "one two three"
    [call] = engine.calls
    assert call.vocabulary is not None
    assert (call.vocabulary.lang, call.vocabulary.n_words) == ("en", 500)
    assert call.caller == Caller("alice", "line-7")
    assert call.is_closed


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"vocab_lang": "xx", "vocab_n_words": 9}, 400, "vocab_lang"),
        ({"vocab": {"lang": "xx"}}, 400, "vocab.lang"),
        ({"vocab_lang": "en", "vocab_n_words": 9, "max_tokens": 2}, 400, "max_tokens"),
        ({"vocab_lang": "slow", "vocab_n_words": 9}, 503, None),
        ({"vocab_lang": "broken", "vocab_n_words": 9}, 500, None),
        ({"temperature": 7}, 400, "temperature"),
        ({"text": "please refuse"}, 400, None),
        ({"structured_outputs": {"json": {"type": "string"}}}, 400, "structured_outputs.json"),
        ({"text": "please fail"}, 500, None),
        ({"text": "please say nothing"}, 500, None),
        ({"stream": True}, 500, None),
    ],
)
async def test_what_cannot_be_answered_is_an_error_with_its_status(
    fields: dict[str, Any], status: int, param: str | None
) -> None:
    answer = await Line(Engine()).ask(**fields)
    assert isinstance(answer, ApiError)
    assert (answer.status, answer.param) == (status, param)
    assert answer.message


async def test_lines_in_a_row_ask_once_for_their_list_and_later_ones_again() -> None:
    engine = Engine()
    asked: list[VocabularySpec] = []
    resolve = engine.resolve

    async def counted(spec: VocabularySpec, owner: str = "") -> ResolvedVocabulary:
        asked.append(spec)
        return await resolve(spec)

    engine.resolve = counted  # type: ignore[method-assign]
    line = Line(engine)
    for number in range(6):
        line.now += 2.0 if number % 3 == 2 else 0.1
        for words in (500, 700):
            answer = await line.ask(vocab_lang="en", vocab_n_words=words, max_tokens=20)
            assert isinstance(answer, dict)
    assert [spec.n_words for spec in asked] == [500, 700]
    line.now += 5.0
    await asyncio.gather(*(line.ask(vocab_lang="en", vocab_n_words=500, max_tokens=20) for _ in range(4)))
    assert [spec.n_words for spec in asked] == [500, 700, 500]


async def test_a_dead_engine_is_given_nothing_and_no_line_is_blamed() -> None:
    engine = Engine()
    engine.dead = True
    line = Line(engine)
    assert isinstance(await line.ask(), NotStartedError)
    assert line.slept == [2.0]
    assert not engine.calls


async def test_a_list_that_nobody_can_be_asked_for_is_no_fault_of_the_line() -> None:
    class EngineWithoutLists(Engine):
        async def resolve(self, spec: VocabularySpec, owner: str = "") -> ResolvedVocabulary:
            raise OverloadedError("The word lists cannot be reached now.")

    engine = EngineWithoutLists()
    line = Line(engine)
    assert isinstance(await line.ask(vocab_lang="en", vocab_n_words=500), NotStartedError)
    assert line.slept == [2.0]
    assert not engine.calls


async def test_an_engine_that_dies_of_a_line_is_told_from_one_that_fails_on_it() -> None:
    class DyingEngine(Engine):
        dies = True

        async def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
            self.dead = self.dies
            yield EngineError(500, "It failed.")

    engine = DyingEngine()
    assert isinstance(await Line(engine).ask(), EngineDiedError)
    engine.dead = engine.dies = False
    answer = await Line(engine).ask()
    assert isinstance(answer, EngineError)
    assert not isinstance(answer, EngineDiedError)


async def test_no_more_sequences_run_than_the_share_has_places() -> None:
    engine = SlowEngine()
    line = Line(engine, num_places=4)
    asked: list[dict[str, Any]] = [{}, {"n": 3}, {"num_beams": 4}, {"n": 8}] * 10
    answers = await asyncio.gather(*(line.ask(**fields) for fields in asked))
    assert all(isinstance(answer, dict) for answer in answers)
    assert engine.running == 0
    assert 4 <= engine.most <= 8, "only a line that is wider than the share may exceed it, alone"
