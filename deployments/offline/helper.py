"""The one actor of a run that its engines share: it resolves lists, as the vocabulary deployment does, and remembers
which rows were under way when an engine died. It knows nothing of datasets.
"""

from collections.abc import Collection
from typing import Any, Final

import ray

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.offline.attempts import Attempts
from deployments.settings import Settings
from deployments.single_flight import SingleFlight
from deployments.vocabulary.deployment import Vocabulary
from vocab.errors import VocabularyError

_NUM_CPUS: Final = 0
"""It shares a core with an engine; what compiles is a process of its own."""


class Helper:
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


def start_helper(settings: Settings) -> Any:
    """The actor, which lives as long as somebody holds what is returned."""
    options = {"num_cpus": _NUM_CPUS, "resources": settings.vocabulary_resources}
    return ray.remote(Helper).options(max_restarts=-1, max_task_retries=3, **options).remote(settings)


async def _make_vocabulary(settings: Settings) -> Vocabulary:
    return await Vocabulary.create(settings)
