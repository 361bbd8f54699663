"""The artefacts on a replica's node: what is not there is fetched from the vocabulary deployment.

One that several requests want is fetched once, and written so that the engine's process finds it whole. It knows
nothing of what is in them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from vocab.artefacts.store import ArtefactStore

logger = logging.getLogger("ray.serve")


class NodeArtefacts:
    """The artefacts of one node.

    Args:
        store: Their folder.
        fetch: Gives the bytes of an artefact, from wherever it was made.
    """

    def __init__(self, store: ArtefactStore, fetch: Callable[[str], Awaitable[bytes]]) -> None:
        self.store = store
        self._fetch = fetch
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def has(self, digests: Iterable[str]) -> bool:
        """Whether all of them are here; if so, this is a use of them."""
        return all(list(map(self.store.has, digests)))

    async def bring(self, digests: Iterable[str]) -> None:
        """Returns when all of them are here.

        Raises:
            ArtefactError: One is neither here nor where it was made, or cannot be written.
        """
        missing = [digest for digest in digests if not self.store.has(digest)]
        # A caller who goes away does not take the fetch from those who wait with it.
        await asyncio.gather(*(asyncio.shield(self._fetching(digest)) for digest in missing))

    async def bring_again(self, digests: Iterable[str]) -> None:
        """Like ``bring``, for files that turned out to be of no use."""
        digests = list(digests)
        for digest in digests:
            await asyncio.to_thread(self.store.discard, digest)
        await self.bring(digests)

    def _fetching(self, digest: str) -> asyncio.Task[None]:
        task = self._under_way.get(digest)
        if task is None:
            task = self._under_way[digest] = asyncio.create_task(self._fetch_one(digest))
            task.add_done_callback(lambda _: self._under_way.pop(digest, None))
        return task

    async def _fetch_one(self, digest: str) -> None:
        data = await self._fetch(digest)
        await asyncio.to_thread(self.store.write_bytes, digest, data)
        logger.info("fetched artefact %s, %.1f MB", digest[:12], len(data) / 1e6)
