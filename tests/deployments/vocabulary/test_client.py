"""What callers of the vocabulary deployment see while it is there, dies, is away and comes back."""

import asyncio
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from deployments.contract import ENGINE_START_S, ResolvedVocabulary, VocabularySpec
from deployments.errors import OverloadedError
from deployments.vocabulary.client import VocabularyClient
from deployments.vocabulary.queries import AskVocabularies, Question
from tests.deployments.handles import Handle
from tests.deployments.stand_in import StandIn
from vocab.errors import ArtefactError, UnknownLanguageError

ENGLISH = VocabularySpec(lang="en", n_words=500)


class Lists:
    """The vocabulary deployment, which may wait and die."""

    dies = waits = False

    async def resolve_or_refuse(self, spec: VocabularySpec, owner: str) -> ResolvedVocabulary | UnknownLanguageError:
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


def client_of(deployment: Any) -> VocabularyClient:
    return VocabularyClient(deployment, max_resolved=2)


async def resolved(client: VocabularyClient, spec: VocabularySpec = ENGLISH) -> ResolvedVocabulary:
    return await asyncio.wait_for(client.resolve(spec), 60)


async def test_who_is_there_is_asked_each_time(deployment: Handle) -> None:
    """So that a list file that was replaced is seen at once."""
    client = client_of(deployment)
    assert await resolved(client) == await resolved(client)
    assert deployment.num_calls == 2
    assert await client.ask(AskVocabularies(), "one") == b"told"
    with pytest.raises(UnknownLanguageError):
        await client.resolve(VocabularySpec(lang="xx"))
    with pytest.raises(ArtefactError):
        await client.fetch("d" * 64)


async def test_what_was_resolved_serves_while_nobody_is_there_and_all_else_is_refused_at_once(
    deployment: Handle,
) -> None:
    client = client_of(deployment)
    known = await resolved(client)
    deployment.replicas.clear()
    assert await resolved(client) == known
    for asked in (
        resolved(client, VocabularySpec(lang="es")),
        client.ask(AskVocabularies(), "one"),
        client.fetch("d"),
    ):
        with pytest.raises(OverloadedError, match="cannot be reached") as refused:
            await asked
        assert dict(refused.value.headers) == {"Retry-After": str(ENGINE_START_S)}
    assert deployment.num_calls == 1


async def test_only_the_last_few_are_remembered(deployment: Handle) -> None:
    client = client_of(deployment)
    asked = [VocabularySpec(lang="en", n_words=n_words) for n_words in (100, 200, 300)]
    for spec in asked:
        await resolved(client, spec)
    deployment.replicas.clear()
    assert (await resolved(client, asked[2])).n_words == 300
    with pytest.raises(OverloadedError):
        await resolved(client, asked[0])


async def test_who_asked_before_it_died_is_answered_too(deployment: Handle) -> None:
    client = client_of(deployment)
    known = await resolved(client)
    deployment.replica.dies = True
    assert await resolved(client) == known
    deployment.replica.dies, deployment.replica.waits = False, True
    waiting = [asyncio.create_task(resolved(client, spec)) for spec in (ENGLISH, VocabularySpec(lang="es"))]
    await asyncio.sleep(0.01)
    deployment.replicas.clear()
    first, second = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
    assert first == known
    assert isinstance(second, OverloadedError)
    assert deployment.num_cancelled == 2


async def test_a_caller_that_leaves_cancels_its_question(deployment: Handle) -> None:
    deployment.replica.waits = True
    asked = asyncio.create_task(client_of(deployment).resolve(ENGLISH))
    await asyncio.sleep(0.01)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert deployment.num_cancelled == 1
