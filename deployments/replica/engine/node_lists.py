"""The lists of a replica's node: a reader for answers, and the grammar for the engine.

Artefacts are fetched to the node once however many requests want them, and the latest readers are cached, bounded
in bytes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary

from deployments.contract import USUAL_OPTIONS, ResolvedVocabulary
from deployments.errors import ApiError, EngineError
from deployments.single_flight import SingleFlight
from vocab.artefacts.artefact import read_tensors
from vocab.artefacts.store import ArtefactStore
from vocab.errors import ArtefactError, StructureError
from vocab.matching.controls import Controls
from vocab.matching.engine_cache import EngineCache
from vocab.matching.reference import GrammarReference, write_compiled_grammar
from vocab.matching.structure.answers import AnswerReader
from vocab.matching.structure.schema import PreparedSchema, StringKind
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges
from vocab.text.checker import TextChecker
from vocab.text.forms import case_of
from vocab.text.reader import TextReader
from vocab.text.table import FormTable, table_digest
from vocab.text.words import ListSegments

logger = logging.getLogger("ray.serve")

MAX_BYTES: Final = 512 * 1024 * 1024
"""Of words, tables and grammars. The longest list takes 30 MB, and 35 MB more where a request wants all of it."""

MAX_LISTS: Final = 1024
"""Readers, each for one N of one list; a small one takes some kilobytes."""

WORD_BYTES: Final = 100
"""Of a word in a list. The table of its forms is a file, mapped into memory."""

DICTIONARY_BYTES: Final = 64 * 1024 * 1024
"""Of the reference dictionary of a language without spaces, which all of its readers share."""


class ListedWords:
    """The words of one artefact, and the table of their forms."""

    def __init__(self, store: ArtefactStore, digest: str) -> None:
        # Only the words are kept, so that the mapped file is closed.
        words = store.load(digest)
        self.word_list = words.listed.word_list
        self.table_digest = table_digest(self.word_list)
        self.has_capitals = words.has_capitals
        self._store = store

    @cached_property
    def table(self) -> FormTable:
        """Return the table of the forms of all words, from this node's artefacts."""
        return self._store.table_of(self.word_list)

    @property
    def num_bytes(self) -> int:
        return WORD_BYTES * len(self.word_list.words)


class NodeList:
    """A vocabulary's list on this node: its reader, checker and grammar.

    Attributes:
        listed: Its words, which other lists share.
        changes: The words that the request adds and leaves out.
        lang: Its name; None for a client's own list.
        language: The language whose rules of spelling apply.
        n_words: N.
        options: What is allowed between the words, the case resolved.
        reader: Of its answers.
        block: The part of the ``vocab`` block that its answers share.
    """

    def __init__(self, listed: ListedWords, changes: ListChanges, vocabulary: ResolvedVocabulary) -> None:
        self.listed, self.changes = listed, changes
        self.lang, self.n_words = vocabulary.lang, vocabulary.n_words
        self.language = listed.word_list.language
        self._vocabulary = vocabulary
        # The list may be the beginning of one that has capitals.
        case = case_of(vocabulary.options, has_capitals=listed.has_capitals)
        self.options = replace(vocabulary.options, case=case)
        self.reader = self.reader_of(self.options, self.n_words)
        self.block: dict[str, Any] = {
            "id": vocabulary.id,
            "list_id": vocabulary.digest,
            "lang": vocabulary.lang,
            "source": vocabulary.source,
            "n_words": vocabulary.n_words,
            "unit": vocabulary.unit,
            **({"num_forms": len(listed.word_list.up_to(self.n_words).words)} if vocabulary.unit == "lemma" else {}),
            **{
                name: value
                for name, value in vocabulary.options.as_dict().items()
                if value != getattr(USUAL_OPTIONS, name)
            },
        }

    def checker(self) -> TextChecker:
        """Return a checker of texts against the first N words of the list.

        It finds whether a word counts, and not which of the others the list has beyond N: so it is made as fast as N is
        small. In a language without spaces all words of the list count, for the dictionary.
        """
        known = self.listed.word_list.needed_up_to(self.n_words)
        return TextChecker(known, self.options, self.n_words, self.changes)

    @cached_property
    def segments(self) -> ListSegments | None:
        """Return the words that texts of this list are cut into; None for a language with spaces.

        Made with the first request for a word tool, in some milliseconds for each 1,000 words.
        """
        if not self.listed.word_list.is_unspaced:
            return None
        return ListSegments(self.listed.word_list, self.n_words, self.options.segmentation, self.changes)

    @property
    def num_bytes(self) -> int:
        """Estimate the bytes of this list, without the words that are shared."""
        return 4096

    def grammar(
        self,
        max_tokens: int | None,
        no_repeat: int | None = None,
        *,
        min_tokens: int = 0,
        place: int | None = None,
        controls: Controls | None = None,
    ) -> str:
        """Return the request's grammar for the engine; arguments as in ``GrammarReference``, for its automaton only."""
        if self._vocabulary.grammar_digest is not None:
            return write_compiled_grammar(self._vocabulary.grammar_digest)
        reference = replace(
            self.reference(max_tokens),
            no_repeat=no_repeat,
            min_tokens=min_tokens,
            place=place,
            controls=controls,
        )
        return reference.to_ebnf()

    def reference(self, max_tokens: int | None, schema: PreparedSchema | None = None) -> GrammarReference:
        """Return the reference to this list, of a text or of answers of a schema."""
        vocabulary = self._vocabulary
        return GrammarReference(
            vocabulary.digest,
            vocabulary.options,
            vocabulary.n_words,
            max_tokens,
            changes=vocabulary.changes_digest,
            schema=schema,
        )

    def json_constraint(
        self, param: str, schema: PreparedSchema, states: EngineCache, max_tokens: int, min_tokens: int
    ) -> tuple[AnswerReader, str]:
        """Return the reader of the answers of the schema of a field, and their grammar for the engine.

        Raises:
            EngineError: With status 400: no answer can be written in the list, or none fits into ``max_tokens``.
        """
        reference = replace(self.reference(max_tokens, schema), min_tokens=min_tokens)
        try:
            reader, answers = self._answer_reader(schema), states.for_text(reference)
        except StructureError as error:
            message = f"'{param}' cannot be written in this word list: {error}."
            raise EngineError(400, message, param=param) from None
        fewest = answers.tokens_to_end(answers.start)
        if fewest is None or fewest > max_tokens:
            message = (
                f"'max_tokens' must be at least {fewest}: an answer of this schema in this word list needs as many."
            )
            raise EngineError(400, message, param="max_tokens")
        return reader, reference.to_ebnf()

    def _answer_reader(self, schema: PreparedSchema) -> AnswerReader:
        """Return the reader of a schema's answers; raise ``StructureError`` for a list that no JSON string holds."""
        words = "".join((*self.listed.word_list.up_to(self.n_words).words, *self.changes.extra_words))
        if '"' in words or "\\" in words:
            raise StructureError("the list has words with a quotation mark or a backslash: leave them out of it")
        return AnswerReader(schema, self._reader_of_strings)

    def _reader_of_strings(self, kind: StringKind) -> TextReader:
        options = kind.options(self.options)
        return self.reader if options == self.options else self.reader_of(options, self.n_words)

    def reader_of(self, options: ListOptions, n_words: int) -> TextReader:
        """Return a reader by other options, or of the first ``n_words``, which may be more than N."""
        return TextReader(self.listed.word_list, options, n_words, self.listed.table, self.changes)


class NodeLists:
    """The lists of one node, at most ``max_bytes`` besides what requests hold, but always the newest.

    ``fetch`` returns the bytes of an artefact, from where it was made.
    """

    def __init__(
        self,
        store: ArtefactStore,
        fetch: Callable[[str], Awaitable[bytes]],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._store = store
        self._fetch = fetch
        self._max_bytes = max_bytes
        self._lists = SingleFlight(MAX_LISTS, self._drop)
        self._fetches = SingleFlight(MAX_LISTS)
        # Words are decoded once for each list, whatever N asks for them, and gone when no reader holds them.
        self._words: WeakValueDictionary[str, ListedWords] = WeakValueDictionary()
        self._lock = Lock()

    async def get(self, vocabulary: ResolvedVocabulary) -> NodeList:
        """Return a vocabulary's list; fetch its artefacts to this node where they are missing.

        Raises:
            ArtefactError: One is neither here nor where it was made, or cannot be written.
        """

        async def is_there(node_list: NodeList) -> bool:
            # The engine maps the files by itself. Asking counts as a use, so that they are not evicted.
            self._store.has(node_list.listed.table_digest)
            return all(list(map(self._store.has, vocabulary.digests)))

        return await self._lists.get(vocabulary, partial(self._make, vocabulary), is_there)

    @property
    def num_bytes(self) -> int:
        """Estimate the bytes of all cached lists; words and dictionaries that several share count once."""
        made: list[NodeList] = self._lists.results()
        shared = {id(one.listed): one.listed.num_bytes for one in made}
        dictionaries = {one.language for one in made if one.listed.word_list.is_unspaced}
        return sum(one.num_bytes for one in made) + sum(shared.values()) + DICTIONARY_BYTES * len(dictionaries)

    def _drop(self) -> None:
        # Counted anew: the tables of shared words grow while readers are made.
        while len(self._lists) > 1 and self.num_bytes > self._max_bytes:
            self._lists.drop_least_used()

    async def _make(self, vocabulary: ResolvedVocabulary) -> NodeList:
        """Fetch and read a list; where an artefact is damaged, fetch all of it again."""
        await self._fetch_missing(vocabulary.digests)
        try:
            return await self._read(vocabulary)
        except ArtefactError as error:
            logger.warning("%s; it is fetched again", error)
        for digest in vocabulary.digests:
            await asyncio.to_thread(self._store.discard, digest)
        await self._fetch_missing(vocabulary.digests)
        return await self._read(vocabulary)

    async def _read(self, vocabulary: ResolvedVocabulary) -> NodeList:
        """Read a vocabulary's list from this node's artefacts, and bring the table of its forms here."""
        listed = await asyncio.to_thread(self._listed, vocabulary.digest)
        try:
            await self._fetch_missing([listed.table_digest])
        except (ArtefactError, ApiError) as error:
            logger.info("the table of artefact %s is made here: %s", vocabulary.digest[:12], error)
        return await asyncio.to_thread(self._make_list, vocabulary, listed)

    async def _fetch_missing(self, digests: Iterable[str]) -> None:
        async def is_there(digest: str) -> bool:
            return self._store.has(digest)

        missing = [digest for digest in digests if not self._store.has(digest)]
        await asyncio.gather(
            *(self._fetches.get(digest, partial(self._fetch_one, digest), is_there) for digest in missing)
        )

    async def _fetch_one(self, digest: str) -> str:
        data = await self._fetch(digest)
        await asyncio.to_thread(self._store.write_bytes, digest, data)
        logger.info("fetched artefact %s, %.1f MB", digest[:12], len(data) / 1e6)
        return digest

    def _listed(self, digest: str) -> ListedWords:
        """Return the words of an artefact, which all lists of it share."""
        with self._lock:
            listed = self._words.get(digest)
            if listed is None:
                listed = self._words[digest] = ListedWords(self._store, digest)
            return listed

    def _make_list(self, vocabulary: ResolvedVocabulary, listed: ListedWords) -> NodeList:
        changes = NO_CHANGES
        if vocabulary.changes_digest is not None:
            changes = self._store.load_overlay(vocabulary.changes_digest).changes
        if vocabulary.grammar_digest is not None:
            # The engine reads it by itself, and cannot have it fetched again.
            read_tensors(self._store.read_bytes(vocabulary.grammar_digest))
        return NodeList(listed, changes, vocabulary)
