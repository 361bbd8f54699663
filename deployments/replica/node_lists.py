"""The lists of a replica's node as its requests need them: a reader for answers, and the grammar for the engine.

Brings the artefacts of a vocabulary to the node, the list's and those of what is left out and added, and keeps the
readers made last, bounded in bytes. It knows nothing of requests or of the engine.
"""

import asyncio
import logging
from collections import OrderedDict
from typing import Any, Final, Literal

from deployments.contract import ResolvedVocabulary
from deployments.replica.node_artefacts import NodeArtefacts
from deployments.replica.node_words import ListedWords, NodeWords
from vocab.artefacts.store import ArtefactStore
from vocab.errors import ArtefactError
from vocab.exclusion.exclusion import Exclusion
from vocab.matching.reference import MARK, GrammarReference
from vocab.options import DEFAULT_OPTIONS
from vocab.text.changes import ListChanges
from vocab.text.ebnf import write_ebnf
from vocab.text.reader import TextReader

logger = logging.getLogger("ray.serve")

MAX_BYTES: Final = 512 * 1024 * 1024
"""Of words, tables and grammars. The longest list takes 30 MB, and 35 MB more where a request wants all of it."""

MAX_LISTS: Final = 1024
"""Readers, each for one N of one list; a small one takes some kilobytes."""

MaskEngine = Literal["automaton", "xgrammar"]


class NodeList:
    """One vocabulary on this node.

    Attributes:
        reader: Reads its texts.
        listed: The words of its list, shared with other N.
        block: What its answers say of it.
    """

    def __init__(
        self, listed: ListedWords, changes: ListChanges, vocabulary: ResolvedVocabulary, mask_engine: MaskEngine
    ) -> None:
        self.listed = listed
        self._vocabulary = vocabulary
        word_list, options, n_words = listed.word_list, listed.options, vocabulary.n_words
        self.reader = TextReader(word_list, options, n_words, listed.form_ranks(n_words), changes)
        self.block: dict[str, Any] = {
            "id": vocabulary.id,
            "list_id": vocabulary.digest,
            "lang": vocabulary.lang,
            "n_words": vocabulary.n_words,
            "unit": vocabulary.unit,
            **{name: value for name, value in options.as_dict().items() if value != getattr(DEFAULT_OPTIONS, name)},
        }
        self._ebnf = (
            f"{MARK}\n{write_ebnf(word_list, options, n_words, changes)}" if mask_engine == "xgrammar" else None
        )

    @property
    def num_bytes(self) -> int:
        """Without the words that are shared."""
        return 4096 + len(self._ebnf or "")

    def grammar(self, max_tokens: int | None, no_repeat: int | None = None) -> str:
        """What goes to the engine as the request's grammar; ``no_repeat`` as in ``GrammarReference``."""
        if self._ebnf is not None:
            return self._ebnf
        vocabulary = self._vocabulary
        return GrammarReference(
            vocabulary.digest,
            vocabulary.n_words,
            max_tokens,
            without=vocabulary.exclusion_digest,
            extra=vocabulary.extra_digest,
            no_repeat=no_repeat,
        ).to_ebnf()


class NodeLists:
    """The lists of one node."""

    def __init__(self, artefacts: NodeArtefacts, mask_engine: MaskEngine, max_bytes: int = MAX_BYTES) -> None:
        self._artefacts = artefacts
        self._words = NodeWords(artefacts.store)
        self._mask_engine = mask_engine
        self._max_bytes = max_bytes
        self._lists: OrderedDict[ResolvedVocabulary, asyncio.Task[NodeList]] = OrderedDict()

    async def get(self, vocabulary: ResolvedVocabulary) -> NodeList:
        """The list, its artefacts fetched to this node if need be.

        Raises:
            ArtefactError: One is neither here nor where it was made.
        """
        task = self._lists.get(vocabulary)
        # The engine maps the files by itself, so they must be here even where the reader is.
        if task is None or (task.done() and not self._artefacts.has(vocabulary.digests)):
            task = asyncio.create_task(self._make(vocabulary))
            self._lists[vocabulary] = task
            task.add_done_callback(lambda done: self._settle(vocabulary, done))
        self._lists.move_to_end(vocabulary)
        return await asyncio.shield(task)

    @property
    def num_bytes(self) -> int:
        """Of all that is kept, words that several share once."""
        made = [task.result() for task in self._lists.values() if _is_made(task)]
        shared = {id(one.listed): one.listed.num_bytes for one in made}
        return sum(one.num_bytes for one in made) + sum(shared.values())

    def _settle(self, vocabulary: ResolvedVocabulary, task: asyncio.Task[NodeList]) -> None:
        """A failure is not remembered; what was made may push out what was used longest ago."""
        if not _is_made(task) and self._lists.get(vocabulary) is task:
            del self._lists[vocabulary]
        while len(self._lists) > 1 and (len(self._lists) > MAX_LISTS or self.num_bytes > self._max_bytes):
            self._lists.popitem(last=False)

    async def _make(self, vocabulary: ResolvedVocabulary) -> NodeList:
        await self._artefacts.bring(vocabulary.digests)
        try:
            return await asyncio.to_thread(self._read, vocabulary)
        except ArtefactError as error:
            logger.warning("%s; it is fetched again", error)
        await self._artefacts.bring_again(vocabulary.digests)
        return await asyncio.to_thread(self._read, vocabulary)

    def _read(self, vocabulary: ResolvedVocabulary) -> NodeList:
        """Runs in a thread."""
        store = self._artefacts.store
        changes = ListChanges(
            extra_words=_extra_words(store, vocabulary.extra_digest),
            exclude_words=_excluded_words(store, vocabulary.exclusion_digest),
        )
        return NodeList(self._words.get(vocabulary.digest), changes, vocabulary, self._mask_engine)


def _is_made(task: asyncio.Task[NodeList]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _extra_words(store: ArtefactStore, digest: str | None) -> tuple[str, ...]:
    return () if digest is None else store.load(digest).word_list.words


def _excluded_words(store: ArtefactStore, digest: str | None) -> tuple[str, ...]:
    return () if digest is None else Exclusion.from_bytes(store.read_bytes(digest)).entries
