"""What callers of the vocabulary deployment see while it is there, dies, is away and comes back."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from deployments.contract import ENGINE_START_S, ResolvedVocabulary, VocabularySpec
from deployments.errors import OverloadedError
from deployments.vocabulary.client import VocabularyClient
from deployments.vocabulary.queries import AskVocabularies
from tests.deployments.stand_in import StandIn
from vocab.errors import ArtefactError, UnknownLanguageError

ENGLISH = VocabularySpec(lang="en", n_words=500)


class Response:
    """Of a handle: awaited, or cancelled."""

    def __init__(self, work: Callable[[], Awaitable[Any]], cancelled: list[str]) -> None:
        self._work = work
        self._cancelled = cancelled

    def __await__(self) -> Any:
        return self._work().__await__()

    def cancel(self) -> None:
        self._cancelled.append("")


class Deployment:
    """A handle of a deployment with at most one replica, which may wait, die and be away."""

    def __init__(self) -> None:
        self.replicas: dict[str, Any] = {"one": object()}
        self.num_calls = 0
        self.dies = self.waits = False
        self.cancelled: list[str] = []
        router = SimpleNamespace(curr_replicas=self.replicas)
        self._router = SimpleNamespace(_asyncio_router=SimpleNamespace(request_router=router))

    def running_replicas_populated(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: self._call(name, arguments))

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Response:
        self.num_calls += 1

        async def work() -> Any:
            if self.dies:
                raise ActorDiedError
            if self.waits:
                await asyncio.sleep(3600)
            if name == "resolve_or_refuse" and arguments[0].lang == "xx":
                return UnknownLanguageError("There is no list 'xx'.")
            if name == "resolve_or_refuse":
                return await StandIn().resolve(arguments[0])
            if name == "fetch":
                raise ArtefactError("there is no such artefact")
            return b"told"

        return Response(work, self.cancelled)


@pytest.fixture
def deployment() -> Deployment:
    return Deployment()


def client_of(deployment: Any, max_resolved: int = 4) -> VocabularyClient:
    return VocabularyClient(deployment, max_resolved)


async def resolved(client: VocabularyClient, spec: VocabularySpec = ENGLISH) -> ResolvedVocabulary:
    return await asyncio.wait_for(client.resolve(spec), 60)


async def test_who_is_there_is_asked_each_time(deployment: Deployment) -> None:
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
    deployment: Deployment,
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


async def test_who_asked_before_it_died_is_answered_too(deployment: Deployment) -> None:
    client = client_of(deployment)
    known = await resolved(client)
    deployment.dies = True
    assert await resolved(client) == known
    deployment.dies, deployment.waits = False, True
    waiting = [asyncio.create_task(resolved(client, spec)) for spec in (ENGLISH, VocabularySpec(lang="es"))]
    await asyncio.sleep(0.01)
    deployment.replicas.clear()
    first, second = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
    assert first == known
    assert isinstance(second, OverloadedError)
    assert len(deployment.cancelled) == 2


async def test_a_caller_that_leaves_cancels_its_question(deployment: Deployment) -> None:
    client = client_of(deployment)
    deployment.waits = True
    asked = asyncio.create_task(client.resolve(ENGLISH))
    await asyncio.sleep(0.01)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert len(deployment.cancelled) == 1


async def test_the_last_few_are_remembered(deployment: Deployment) -> None:
    client = client_of(deployment, max_resolved=2)
    for n_words in (100, 200, 300):
        await resolved(client, VocabularySpec(lang="en", n_words=n_words))
    deployment.replicas.clear()
    assert (await resolved(client, VocabularySpec(lang="en", n_words=300))).n_words == 300
    with pytest.raises(OverloadedError):
        await resolved(client, VocabularySpec(lang="en", n_words=100))
