"""What callers of the vocabulary deployment see while it is there, dies, is away and comes back."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from deployments.contract import ENGINE_START_S, ResolvedVocabulary, VocabularySpec
from deployments.errors import OverloadedError
from deployments.vocabulary.client import RESOLVED_FOR_S, VocabularyClient
from deployments.vocabulary.queries import AskVocabularies, Question
from tests.deployments.handles import Handle
from tests.deployments.stand_in import StandIn
from vocab.errors import ArtefactError, UnknownLanguageError

ENGLISH = VocabularySpec(lang="en", n_words=500)


class Lists:
    """The vocabulary deployment, which may wait and die."""

    dies = waits = False

    def __init__(self) -> None:
        self.owners: list[str] = []
        """Of what was resolved."""

    async def resolve_or_refuse(self, spec: VocabularySpec, owner: str) -> ResolvedVocabulary | UnknownLanguageError:
        self.owners.append(owner)
        await self._live()
        return UnknownLanguageError("There is no list 'xx'.") if spec.lang == "xx" else await StandIn().resolve(spec)

    async def answer_or_refuse(self, question: Question, owner: str) -> bytes:
        await self._live()
        return b"told"

    async def fetch(self, digest: str) -> bytes:
        await self._live()
        raise ArtefactError("there is no such artefact")

    async def _live(self) -> None:
        if self.dies:
            raise ActorDiedError
        if self.waits:
            await asyncio.sleep(3600)


@pytest.fixture
def deployment() -> Handle:
    return Handle(Lists())


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(now=0.0)


@pytest.fixture
def client(deployment: Any, clock: SimpleNamespace) -> VocabularyClient:
    return VocabularyClient(deployment, 2, clock=lambda: clock.now)


async def resolved(client: VocabularyClient, spec: VocabularySpec = ENGLISH, owner: str = "one") -> ResolvedVocabulary:
    return await asyncio.wait_for(client.resolve(spec, owner), 60)


async def test_a_list_is_asked_for_once_a_second_by_each_key(
    deployment: Handle, client: VocabularyClient, clock: SimpleNamespace
) -> None:
    """So a list file that was replaced is seen within a second, and each key asks by its own right."""
    first = await asyncio.gather(*(resolved(client) for _ in range(3)))
    clock.now = 0.9 * RESOLVED_FOR_S
    assert [*first, await resolved(client)] == [await resolved(client)] * 4
    await resolved(client, owner="two")
    assert deployment.replica.owners == ["one", "two"]
    clock.now = RESOLVED_FOR_S
    await asyncio.gather(*(resolved(client) for _ in range(3)))
    assert deployment.replica.owners == ["one", "two", "one"]

    async def compile_slowly() -> None:
        clock.now += RESOLVED_FOR_S

    # It counts from when it was asked for: a compile takes long enough to replace a file.
    clock.now += RESOLVED_FOR_S
    deployment.replica._live = compile_slowly
    assert await resolved(client) == await resolved(client)
    assert deployment.num_calls == 5


async def test_errors_and_all_else_are_asked_for_each_time(deployment: Handle, client: VocabularyClient) -> None:
    for _ in range(2):
        assert await client.ask(AskVocabularies(), "one") == b"told"
        with pytest.raises(UnknownLanguageError):
            await client.resolve(VocabularySpec(lang="xx"))
        with pytest.raises(ArtefactError):
            await client.fetch("d" * 64)
    assert deployment.num_calls == 6


async def test_what_was_resolved_last_serves_while_nobody_is_there_and_all_else_is_refused_at_once(
    deployment: Handle, client: VocabularyClient, clock: SimpleNamespace
) -> None:
    first = VocabularySpec(lang="en", n_words=100)
    for spec in (first, VocabularySpec(lang="en", n_words=200)):
        await resolved(client, spec)
    known = await resolved(client)
    deployment.replicas.clear()
    clock.now = RESOLVED_FOR_S
    assert [await resolved(client), await resolved(client, owner="two")] == [known, known]
    for asked in (
        resolved(client, VocabularySpec(lang="es")),
        resolved(client, first),
        client.ask(AskVocabularies(), "one"),
        client.fetch("d"),
    ):
        with pytest.raises(OverloadedError, match="cannot be reached") as refused:
            await asked
        assert dict(refused.value.headers) == {"Retry-After": str(ENGINE_START_S)}
    assert deployment.num_calls == 3


async def test_who_asked_before_it_died_is_answered_too(
    deployment: Handle, client: VocabularyClient, clock: SimpleNamespace
) -> None:
    known = await resolved(client)
    clock.now = RESOLVED_FOR_S
    deployment.replica.dies = True
    assert await resolved(client) == known
    clock.now = 2 * RESOLVED_FOR_S
    deployment.replica.dies, deployment.replica.waits = False, True
    waiting = [asyncio.create_task(resolved(client, spec)) for spec in (ENGLISH, VocabularySpec(lang="es"))]
    await asyncio.sleep(0.01)
    deployment.replicas.clear()
    first, second = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
    assert first == known
    assert isinstance(second, OverloadedError)
    assert deployment.num_cancelled == 2


async def test_a_question_is_cancelled_when_the_last_who_wait_for_it_have_left(
    deployment: Handle, client: VocabularyClient
) -> None:
    deployment.replica.waits = True
    callers = [asyncio.create_task(client.resolve(ENGLISH)) for _ in range(2)]
    for caller, num_cancelled in zip(callers, (0, 1), strict=True):
        await asyncio.sleep(0.01)
        assert deployment.num_cancelled == 0
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await asyncio.sleep(0.01)
        assert deployment.num_cancelled == num_cancelled
    assert deployment.num_calls == 1
