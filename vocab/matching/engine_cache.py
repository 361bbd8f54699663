"""Resolve grammar references to states, keeping the lists of an engine within a bound of bytes.

Mapped artefacts, frames and states are cached. A dropped entry lives on in the matchers that hold it.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar

from vocab.artefacts.artefact import ArtefactFolder, check_overlay
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.overlay import Overlay
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import ArtefactError
from vocab.matching.list_kinds import PlainStates, StatesMaker, control
from vocab.matching.reference import GrammarReference
from vocab.matching.structure.graph import Graph
from vocab.matching.structure.rows import StructuredList
from vocab.matching.structure.schema import PreparedSchema, StringKind
from vocab.matching.structure.states import StructuredStates
from vocab.matching.structure.tokens import StructureTokens
from vocab.matching.text_states import TextStates
from vocab.options import ListOptions

DEFAULT_CACHE_BYTES: Final = 1024 * 1024 * 1024
"""Includes mapped files, whose pages the processes of a node share. A list of 50,000 words takes 8 MB for 262,144
tokens, all 311,740 English ones 53 MB for 49,152."""

ARTEFACT_DIR_VARIABLE: Final = "WORDBOUND_ARTEFACT_DIR"
"""Environment variable of an engine's process with the folder of this node's artefacts."""

CACHE_BYTES_VARIABLE: Final = "WORDBOUND_ENGINE_CACHE_BYTES"
"""Environment variable of an engine's process with the bytes that its cache keeps; optional."""

MAX_FILES: Final = 256
"""Artefacts mapped at once; each holds a file descriptor, of which a process often has 1,024."""

ENTRY_BYTES: Final = 32 * 1024
"""The Python objects of a list, however few words it has."""

T = TypeVar("T")
logger = logging.getLogger(__name__)


class _Loaded(NamedTuple):
    """What an artefact's file holds, and its bytes."""

    content: Any
    num_bytes: int


class EngineCache:
    """The lists of one engine, dropped least recently used first. Thread-safe.

    At most ``max_bytes`` are cached besides what matchers hold. Artefacts for another tokenizer are refused.
    """

    def __init__(self, folder: Path, tokenizer: TokenizerFacts, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._folder = ArtefactFolder(folder)
        self._tokenizer = tokenizer
        self._maker = StatesMaker(tokenizer)
        self._max_bytes = max_bytes
        # No cache of cachetools: those measure an entry once, when it is put in, and its rows are made later.
        # Entries made of others precede them, so that they are dropped first.
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def for_text(self, reference: GrammarReference) -> TextStates:
        """Resolve a grammar reference to the states of one text, under its controls or schema.

        Raises:
            ArtefactError: As ``states``.
            StructureError: No answer of its schema can be written in the list.
        """
        if reference.schema is not None:
            return StructuredStates(self._structured(reference, reference.schema))
        states = self.states(reference)
        return states if reference.controls is None else control(states, reference.controls)

    def states(self, reference: GrammarReference) -> PlainStates:
        """Resolve a grammar reference to the states of its list, whatever its controls; cached.

        Raises:
            ArtefactError: An artefact is missing, damaged, or incompatible with the others.
        """
        with self._lock:
            states: PlainStates = self._states(reference, reference.options)
            self._drop()
            return states

    def grammar(self, digest: str, load: Callable[[ArtefactFolder, str], tuple[Any, int]]) -> Any:
        """Return what ``load`` reads from an artefact, with its bytes; cached. One is read at a time."""
        with self._lock:
            loaded: _Loaded = self._get(("grammar", digest), lambda: _Loaded(*load(self._folder, digest)))
            self._drop()
            return loaded.content

    def _structured(self, reference: GrammarReference, schema: PreparedSchema) -> StructuredList:
        """Resolve a reference to the states of its schema's answers; cached."""
        base = reference.digest, reference.changes, reference.options, reference.n_words
        with self._lock:
            key = base, schema
            known: StructuredList | None = self._entries.get(key)
            lists = [] if known else [self._states_of(reference, kind) for kind in schema.kinds]
        # Not under the lock: others wait for their lists.
        made = known or StructuredList(Graph.of(schema), self._structure_tokens, lists, schema.kinds)
        with self._lock:
            found: StructuredList = self._get(key, lambda: made)
            self._drop()
            return found

    def _states_of(self, reference: GrammarReference, kind: StringKind) -> PlainStates:
        """Return the states of a kind of strings of a schema."""
        return self._states(reference, kind.options(reference.options))

    @cached_property
    def _structure_tokens(self) -> StructureTokens:
        """The tokens around the strings of JSON answers: made with the first schema, in 0.1 s."""
        return StructureTokens(self._tokenizer)

    def _states(self, reference: GrammarReference, options: ListOptions) -> PlainStates:
        """Return the states of a list under these options, cached; those of JSON strings where it has a schema."""
        has_places, in_json = reference.place is not None, reference.schema is not None
        states: PlainStates = self._get(
            (reference.digest, reference.changes, options, reference.n_words, has_places, in_json),
            lambda: self._bind(reference, options),
        )
        # Touched again, so that they are dropped after the states.
        self._words(reference.digest)
        return states

    @property
    def num_bytes(self) -> int:
        """Return the bytes that are cached, without those that only matchers hold."""
        with self._lock:
            return self._num_bytes()

    def _bind(self, reference: GrammarReference, options: ListOptions) -> PlainStates:
        """Build the states of a reference from its artefacts."""
        words = self._words(reference.digest)
        overlay = None if reference.changes is None else self._overlay(reference.changes, words)
        return self._maker.states(
            words,
            overlay,
            options,
            reference.n_words,
            has_places=reference.place is not None,
            in_json=reference.schema is not None,
        )

    def _words(self, digest: str) -> CompiledList:
        """Return the trie of an artefact, mapped into memory and cached."""
        loaded: _Loaded = self._get(digest, lambda: self._load(digest))
        words: CompiledList = loaded.content
        return words

    def _load(self, digest: str) -> _Loaded:
        """Map the trie of an artefact into memory; refuse one for another tokenizer."""
        words = self._folder.load(digest)
        if words.tokenizer_digest != self._tokenizer.digest:
            raise ArtefactError(f"the artefact {digest} was compiled for another tokenizer than the engine's")
        logger.info("loaded %d words of list %s (%s)", words.listed.num_words, words.listed.lang, digest)
        return _Loaded(words, self._folder.path_of(digest).stat().st_size)

    def _overlay(self, digest: str, words: CompiledList) -> Overlay:
        """Load the overlay of a request's changes, and check that it fits the trie."""
        overlay = self._folder.load_overlay(digest)
        check_overlay(overlay, words)
        return overlay

    def _get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a cached entry, made with ``make`` where it is missing, and mark it as used."""
        if key not in self._entries:
            self._entries[key] = make()
        self._entries.move_to_end(key)
        entry: T = self._entries[key]
        return entry

    def _drop(self) -> None:
        """Drop the entries used longest ago until the bounds on bytes and files hold."""
        num_bytes = self._num_bytes()
        num_files = sum(isinstance(key, str) for key in self._entries)
        while len(self._entries) > 1 and (num_bytes > self._max_bytes or num_files > MAX_FILES):
            key, entry = self._entries.popitem(last=False)
            num_bytes -= ENTRY_BYTES + entry.num_bytes
            num_files -= isinstance(key, str)

    def _num_bytes(self) -> int:
        return sum(ENTRY_BYTES + entry.num_bytes for entry in self._entries.values())
