"""The actor that the engines of a run share, called without Ray."""

import asyncio
from typing import Any

import pytest

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.offline.run import Attempts, Coordinator
from deployments.vocabulary import deployment
from tests.deployments.offline.conftest import MakeConfig
from vocab.errors import VocabularyError, WordListError

SPEC = VocabularySpec(lang="es", n_words=5)


class Vocabulary:
    """Knows one list."""

    async def resolve(self, spec: VocabularySpec) -> ResolvedVocabulary:
        if spec != SPEC:
            raise WordListError("no such list")
        return ResolvedVocabulary(digest="ab", lang=spec.lang, n_words=5, fewest_tokens=1)

    async def resolve_or_refuse(self, spec: VocabularySpec, owner: str) -> ResolvedVocabulary | VocabularyError:
        assert owner == ""
        try:
            return await self.resolve(spec)
        except VocabularyError as error:
            return error

    async def fetch(self, digest: str) -> bytes:
        return digest.encode()


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the next starts of a vocabulary give; an error is raised."""
    planned: list[Any] = []

    async def make(_: object) -> Any:
        await asyncio.sleep(0)
        made = planned.pop(0)
        if isinstance(made, Exception):
            raise made
        return made

    monkeypatch.setattr(deployment.Vocabulary, "create", make)
    return planned


async def test_lists_are_resolved_as_the_service_does(starts: list[Any], make_config: MakeConfig) -> None:
    starts.append(Vocabulary())
    shared = Coordinator(make_config().settings)
    found, unknown, data = await asyncio.gather(
        shared.resolve(SPEC), shared.resolve_or_refuse(VocabularySpec(lang="xx")), shared.fetch("ab")
    )
    assert (found.digest, data) == ("ab", b"ab")
    assert isinstance(unknown, WordListError)
    assert starts == []


async def test_a_vocabulary_that_did_not_start_is_started_again(starts: list[Any], make_config: MakeConfig) -> None:
    starts += [OSError("no space"), Vocabulary()]
    shared = Coordinator(make_config().settings)
    with pytest.raises(OSError, match="no space"):
        await shared.resolve(SPEC)
    assert (await shared.resolve(SPEC)).digest == "ab"


async def test_it_remembers_what_was_under_way(make_config: MakeConfig) -> None:
    shared = Coordinator(make_config().settings)
    assert await shared.begin_new(["a", "b"]) == {}
    await shared.end(["a"])
    await shared.begin("b")
    assert await shared.begin_new(["a", "b"]) == {"b": 2}


def test_rows_that_ended_are_no_suspects() -> None:
    attempts = Attempts()
    assert attempts.begin_new(["a", "b"]) == {}
    attempts.end(["a"])
    assert attempts.begin_new(["a", "b", "c"]) == {"b": 1}


def test_a_suspect_is_counted_when_it_begins_again_and_not_before() -> None:
    attempts = Attempts()
    attempts.begin_new(["a"])
    assert attempts.begin_new(["a"]) == attempts.begin_new(["a"]) == {"a": 1}
    attempts.begin("a")
    assert attempts.begin_new(["a"]) == {"a": 2}
