"""The artefacts on a replica's node, and the lists in them, as the replica needs them.

An artefact that is not there is fetched from the vocabulary deployment, once however many wait for it, and written so
that the engine's process finds it whole. It knows nothing of requests or of the engine.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Literal

from deployments.contract import ResolvedVocabulary
from vocab.artefact import ArtefactFolder
from vocab.ebnf import write_ebnf
from vocab.errors import ArtefactError
from vocab.reader import TextReader
from vocab.reference import GrammarReference

logger = logging.getLogger("ray.serve")

MAX_LISTS = 32
"""Lists kept with a reader, for one N each. Costs the words of each, 5 to 50 MB."""


class NodeList:
    """One list at one N on this node: its reader, and the grammar that asks the engine for it."""

    def __init__(self, folder: ArtefactFolder, vocabulary: ResolvedVocabulary, mask_engine: str) -> None:
        automaton = folder.load(vocabulary.digest)
        self._vocabulary = vocabulary
        self.reader = TextReader(automaton.word_list, automaton.options, vocabulary.n_words)
        self._ebnf: str | None = None
        if mask_engine == "xgrammar":
            self._ebnf = write_ebnf(automaton.word_list, automaton.options, vocabulary.n_words)

    def grammar(self, max_tokens: int | None) -> str:
        """What goes to the engine as the request's grammar."""
        if self._ebnf is not None:
            return self._ebnf
        return GrammarReference(self._vocabulary.digest, self._vocabulary.n_words, max_tokens).to_ebnf()


class NodeLists:
    """The lists of one node.

    Args:
        fetch: Gives the bytes of an artefact, from wherever it was made.
    """

    def __init__(
        self,
        folder: ArtefactFolder,
        fetch: Callable[[str], Awaitable[bytes]],
        mask_engine: Literal["automaton", "xgrammar"],
    ) -> None:
        self._folder = folder
        self._fetch = fetch
        self._mask_engine = mask_engine
        self._one_fetch = asyncio.Lock()
        self._lists: OrderedDict[tuple[str, int], asyncio.Task[NodeList]] = OrderedDict()

    async def get(self, vocabulary: ResolvedVocabulary) -> NodeList:
        """The list, its artefact fetched to this node if need be.

        Raises:
            ArtefactError: It is neither here nor where it was made.
        """
        key = (vocabulary.digest, vocabulary.n_words)
        task = self._lists.get(key)
        if task is None or (task.done() and not self._folder.has(vocabulary.digest)):
            task = asyncio.create_task(self._make(vocabulary))
            self._lists[key] = task
            task.add_done_callback(lambda done: self._forget_if_failed(key, done))
        self._lists.move_to_end(key)
        while len(self._lists) > MAX_LISTS:
            self._lists.popitem(last=False)
        return await asyncio.shield(task)

    def _forget_if_failed(self, key: tuple[str, int], task: asyncio.Task[NodeList]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and self._lists.get(key) is task:
            del self._lists[key]

    async def _make(self, vocabulary: ResolvedVocabulary) -> NodeList:
        if self._folder.has(vocabulary.digest):
            try:
                return await asyncio.to_thread(NodeList, self._folder, vocabulary, self._mask_engine)
            except ArtefactError as error:
                logger.warning("%s; it is fetched again", error)
                self._folder.path_of(vocabulary.digest).unlink(missing_ok=True)
        async with self._one_fetch:
            if not self._folder.has(vocabulary.digest):
                data = await self._fetch(vocabulary.digest)
                await asyncio.to_thread(self._folder.write_bytes, vocabulary.digest, data)
                logger.info("fetched artefact %s, %.1f MB", vocabulary.digest[:12], len(data) / 1e6)
        return await asyncio.to_thread(NodeList, self._folder, vocabulary, self._mask_engine)
