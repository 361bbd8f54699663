"""The vocabulary deployment as its callers see it: nobody waits for one that is not there.

A vocabulary that was resolved before is remembered, and serves while the deployment cannot be reached; a list file that
is replaced meanwhile takes effect when it can be again.
"""

import asyncio
import hashlib
import logging
from functools import partial
from typing import Any

from cachetools import LRUCache
from ray.serve.handle import DeploymentHandle

from deployments.contract import ENGINE_START_S, ResolvedVocabulary, VocabularySpec
from deployments.errors import UNAVAILABLE, OverloadedError, root_cause
from deployments.ray_private import has_no_replica
from deployments.settings.keys import NO_OWNER
from deployments.single_flight import Watch, abandon
from deployments.vocabulary.queries import Question
from vocab.errors import VocabularyError

logger = logging.getLogger("ray.serve.wordbound")


class VocabularyClient:
    """Ask the vocabulary deployment, and remember the last ``max_resolved`` vocabularies, 1 KB each."""

    def __init__(self, handle: DeploymentHandle, max_resolved: int) -> None:
        self._handle = handle
        self._watch = Watch(partial(has_no_replica, handle))
        self._resolved: LRUCache[bytes, ResolvedVocabulary] = LRUCache(max_resolved)

    async def resolve(self, spec: VocabularySpec, owner: str = NO_OWNER) -> ResolvedVocabulary:
        """Return the artefacts of a vocabulary; where the deployment is away, those of the last time.

        They are as ``Vocabulary.resolve`` returns them. ``owner`` is the name of the key that asks: keys take turns.

        Raises:
            VocabularyError: Those of ``Vocabulary.resolve``.
            OverloadedError: The deployment cannot be reached, and nobody has asked for this vocabulary here.
        """
        # Not the specification itself: a client's own list may have a megabyte.
        key = hashlib.sha256(spec.model_dump_json().encode()).digest()
        try:
            resolved: ResolvedVocabulary | VocabularyError = await self._ask("resolve_or_refuse", spec, owner)
        except OverloadedError:
            if (known := self._resolved.get(key)) is None:
                raise
            return known
        if isinstance(resolved, VocabularyError):
            raise resolved
        self._resolved[key] = resolved
        return resolved

    async def ask(self, question: Question, owner: str) -> bytes:
        """Return the answer to a question about lists or a text, in a turn of ``owner``.

        Raises:
            VocabularyError, OverloadedError: Those of ``ListQueries.answer``; the deployment cannot be reached.
        """
        answer: bytes | Exception = await self._ask("answer_or_refuse", question, owner)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def fetch(self, digest: str) -> bytes:
        """Fetch the file of an artefact, by its digest.

        Raises:
            ArtefactError: It is not there.
            OverloadedError: The deployment cannot be reached.
        """
        fetched: bytes = await self._ask("fetch", digest)
        return fetched

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the deployment; raise ``OverloadedError`` at once where it is away."""
        if has_no_replica(self._handle):
            raise _away()
        response = getattr(self._handle, method).remote(*arguments)
        answer: asyncio.Future[Any] = asyncio.ensure_future(response)
        away = self._watch.add()
        try:
            await asyncio.wait({answer, away}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise _away()
            return answer.result()
        except Exception as error:
            if isinstance(root_cause(error), UNAVAILABLE):
                logger.warning("the vocabulary deployment cannot be reached: %s", type(root_cause(error)).__name__)
                raise _away() from None
            raise
        finally:
            away.cancel()
            if not answer.done():
                # A compile ends with the last of those who wait for it.
                response.cancel()
                abandon(answer)


def _away() -> OverloadedError:
    return OverloadedError("The word lists cannot be reached now. Try again in a moment.", ENGINE_START_S)
