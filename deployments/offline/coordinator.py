"""The one actor of a run that its engines share: it resolves lists, as the vocabulary deployment does, and remembers
which rows were under way when an engine died.

Whoever dies with an engine cannot say so afterwards, so what begins is noted before, and struck out when it ends.
"""

from collections.abc import Collection
from typing import Any, Final

import ray

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.settings import Settings
from deployments.single_flight import SingleFlight
from deployments.vocabulary.deployment import Vocabulary
from vocab.errors import VocabularyError

_NUM_CPUS: Final = 0
"""It shares a core with an engine; what compiles is a process of its own."""


class Attempts:
    """How often each row was begun and did not end."""

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}

    def begin_new(self, rows: Collection[str]) -> dict[str, int]:
        """Notes those that never began before; gives the others, with how often they were begun in vain."""
        suspects = {row: self._begun[row] for row in rows if row in self._begun}
        for row in rows:
            self._begun.setdefault(row, 1)
        return suspects

    def begin(self, row: str) -> None:
        """Notes one more attempt."""
        self._begun[row] = self._begun.get(row, 0) + 1

    def end(self, rows: Collection[str]) -> None:
        for row in rows:
            self._begun.pop(row, None)


class Coordinator:
    """See ``deployments.vocabulary.deployment`` for what lists are resolved to, and for the errors."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._attempts = Attempts()
        self._vocabulary = SingleFlight(1)

    async def resolve(self, spec: VocabularySpec) -> ResolvedVocabulary:
        return await (await self._made()).resolve(spec)

    async def resolve_or_refuse(self, spec: VocabularySpec) -> ResolvedVocabulary | VocabularyError:
        return await (await self._made()).resolve_or_refuse(spec)

    async def fetch(self, digest: str) -> bytes:
        return await (await self._made()).fetch(digest)

    async def begin_new(self, rows: Collection[str]) -> dict[str, int]:
        return self._attempts.begin_new(rows)

    async def begin(self, row: str) -> None:
        self._attempts.begin(row)

    async def end(self, rows: Collection[str]) -> None:
        self._attempts.end(rows)

    async def _made(self) -> Vocabulary:
        """Made with the first question, for an actor's constructor cannot wait."""
        return await self._vocabulary.get("vocabulary", lambda: _make_vocabulary(self._settings))


def start_coordinator(settings: Settings) -> Any:
    """The actor, which lives as long as somebody holds what is returned."""
    options = {"num_cpus": _NUM_CPUS, "resources": settings.vocabulary_resources}
    return ray.remote(Coordinator).options(max_restarts=-1, max_task_retries=3, **options).remote(settings)


async def _make_vocabulary(settings: Settings) -> Vocabulary:
    return await Vocabulary.create(settings)
