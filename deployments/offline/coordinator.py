"""The actor that the engines of a run share: resolves lists, and records which rows were under way when an engine died.

A process that dies cannot report its rows, so each is recorded before it begins, and removed when it ends.
"""

from collections.abc import Collection
from typing import Any, Final

import ray

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.keys import NO_OWNER
from deployments.settings import Settings
from deployments.single_flight import SingleFlight
from deployments.vocabulary.deployment import Vocabulary
from vocab.errors import VocabularyError

_NUM_CPUS: Final = 0
"""It shares a core with an engine; lists are compiled in processes of their own."""


class Attempts:
    """How often each row was begun and did not end."""

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}

    def begin_new(self, rows: Collection[str]) -> dict[str, int]:
        """Record the rows that never began before; return how often the others did."""
        suspects = {row: self._begun[row] for row in rows if row in self._begun}
        for row in rows:
            self._begun.setdefault(row, 1)
        return suspects

    def begin(self, row: str) -> None:
        self._begun[row] = self._begun.get(row, 0) + 1

    def end(self, rows: Collection[str]) -> None:
        for row in rows:
            self._begun.pop(row, None)


class Coordinator:
    """``deployments.vocabulary.deployment`` documents the results and errors of its first three methods."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._attempts = Attempts()
        self._vocabulary = SingleFlight(1)

    async def resolve(self, spec: VocabularySpec) -> ResolvedVocabulary:
        return await (await self._get_vocabulary()).resolve(spec)

    async def resolve_or_refuse(
        self, spec: VocabularySpec, owner: str = NO_OWNER
    ) -> ResolvedVocabulary | VocabularyError:
        return await (await self._get_vocabulary()).resolve_or_refuse(spec, owner)

    async def fetch(self, digest: str) -> bytes:
        return await (await self._get_vocabulary()).fetch(digest)

    async def begin_new(self, rows: Collection[str]) -> dict[str, int]:
        return self._attempts.begin_new(rows)

    async def begin(self, row: str) -> None:
        self._attempts.begin(row)

    async def end(self, rows: Collection[str]) -> None:
        self._attempts.end(rows)

    async def _get_vocabulary(self) -> Vocabulary:
        """Return the vocabulary, made at the first call: an actor's constructor cannot await."""
        return await self._vocabulary.get("vocabulary", lambda: Vocabulary.create(self._settings))


def start_coordinator(settings: Settings) -> Any:
    """Start the actor, which lives as long as the returned handle."""
    options = {"num_cpus": _NUM_CPUS, "resources": settings.vocabulary_resources}
    return ray.remote(Coordinator).options(max_restarts=-1, max_task_retries=3, **options).remote(settings)
