"""The vocabulary deployment as its callers see it: nobody waits for one that is not there.

A vocabulary that was resolved a moment ago is not asked for again: each question costs the caller, Ray and the
deployment 6 ms of CPU together. While the deployment cannot be reached, an older one serves; a list file that is
replaced meanwhile takes effect when it can be again.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from cachetools import LRUCache
from ray.actor import ActorHandle
from ray.serve.handle import DeploymentHandle

from deployments.contract import ENGINE_START_S, ResolvedVocabulary, VocabularySpec
from deployments.errors import UNAVAILABLE, OverloadedError, root_cause
from deployments.ray_private import by_grpc, has_no_replica
from deployments.settings.keys import NO_OWNER
from deployments.single_flight import SingleFlight, Watch, abandon
from deployments.vocabulary.queries import Question

logger = logging.getLogger("ray.serve.wordbound")


RESOLVED_FOR_S: Final = 1.0
"""A list that is replaced, or left out of the store, counts this late at most."""

_Resolved: TypeAlias = tuple[ResolvedVocabulary, float]
"""A vocabulary, and when it was asked for."""


class VocabularyClient:
    """Ask the vocabulary deployment, and remember the last ``max_resolved`` vocabularies, 1 KB each.

    Offline, an actor with the same methods stands for the deployment.
    """

    def __init__(
        self,
        handle: DeploymentHandle | ActorHandle[Any],
        max_resolved: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handle = handle
        self._by_grpc = handle if isinstance(handle, ActorHandle) else by_grpc(handle)
        self._watch = Watch(partial(has_no_replica, handle))
        self._clock = clock
        self._resolved = SingleFlight(max_resolved, cancels_unwanted=True)
        self._last: LRUCache[bytes, ResolvedVocabulary] = LRUCache(max_resolved)

    async def resolve(self, spec: VocabularySpec, owner: str = NO_OWNER) -> ResolvedVocabulary:
        """Return the artefacts of a vocabulary, as they were within the last ``RESOLVED_FOR_S``.

        They are as ``Vocabulary.resolve`` returns them; where the deployment is away, those of the last time. ``owner``
        is the name of the key that asks: keys take turns, and have lists of their own to compile in an hour.

        Raises:
            VocabularyError, OverloadedError: Those of ``Vocabulary.resolve``; the deployment cannot be reached, and
                nobody has asked for this vocabulary here.
        """
        # Not the specification itself: a client's own list may have a megabyte.
        digest = hashlib.sha256(spec.model_dump_json().encode()).digest()
        resolved, _ = await self._resolved.get(
            (owner, digest), lambda: self._resolve(spec, owner, digest), self._is_fresh
        )
        return resolved

    async def _resolve(self, spec: VocabularySpec, owner: str, digest: bytes) -> _Resolved:
        # From when it was asked for: a compile may take as long as a file needs to be replaced.
        asked_at = self._clock()
        try:
            resolved: ResolvedVocabulary | Exception = await self._ask(self._by_grpc.resolve_or_refuse, spec, owner)
        except OverloadedError:
            if (known := self._last.get(digest)) is None:
                raise
            return known, asked_at
        if isinstance(resolved, Exception):
            raise resolved
        self._last[digest] = resolved
        return resolved, asked_at

    async def _is_fresh(self, known: _Resolved) -> bool:
        return self._clock() - known[1] < RESOLVED_FOR_S

    async def ask(self, question: Question, owner: str) -> bytes:
        """Return the answer to a question about lists or a text, in a turn of ``owner``.

        Raises:
            VocabularyError, OverloadedError: Those of ``ListQueries.answer``; the deployment cannot be reached.
        """
        answer: bytes | Exception = await self._ask(self._handle.answer_or_refuse, question, owner)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def fetch(self, digest: str) -> bytes:
        """Fetch the file of an artefact, by its digest.

        Raises:
            ArtefactError: It is not there.
            OverloadedError: The deployment cannot be reached.
        """
        fetched: bytes = await self._ask(self._handle.fetch, digest)
        return fetched

    async def _ask(self, method: Any, *arguments: Any) -> Any:
        """Call a method of the deployment's handle; raise ``OverloadedError`` at once where it is away."""
        if has_no_replica(self._handle):
            raise _vocabulary_is_away()
        response = method.remote(*arguments)
        answer: asyncio.Future[Any] = asyncio.ensure_future(response)
        away = self._watch.add()
        try:
            await asyncio.wait({answer, away}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise _vocabulary_is_away()
            return answer.result()
        except Exception as error:
            if isinstance(root_cause(error), UNAVAILABLE):
                logger.warning("the vocabulary deployment cannot be reached: %s", type(root_cause(error)).__name__)
                raise _vocabulary_is_away() from None
            raise
        finally:
            away.cancel()
            if not answer.done():
                # A compile ends with the last of those who wait for it.
                response.cancel()
                abandon(answer)


def _vocabulary_is_away() -> OverloadedError:
    return OverloadedError("The word lists cannot be reached now. Try again in a moment.", ENGINE_START_S)
