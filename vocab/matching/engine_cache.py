"""Resolve grammar references to states, keeping the lists of an engine within a bound of bytes.

Mapped artefacts, mask rows and unions are cached. A dropped entry lives on in the matchers that hold it.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.automaton import TokenAutomaton
from vocab.errors import ArtefactError
from vocab.exclusion.exclusion import Exclusion
from vocab.matching.masks import MaskRows
from vocab.matching.reference import GrammarReference
from vocab.matching.states import ListStates, States
from vocab.matching.union import UnionStates

DEFAULT_CACHE_BYTES: Final = 1024 * 1024 * 1024
"""Includes mapped files, whose pages the processes of a node share. A list of 50,000 words takes 20 MB for 262,144
tokens, all 340,000 Spanish ones 110 MB."""

ARTEFACT_DIR_VARIABLE: Final = "WORDBOUND_ARTEFACT_DIR"
"""Environment variable of an engine's process with the folder of this node's artefacts."""

CACHE_BYTES_VARIABLE: Final = "WORDBOUND_ENGINE_CACHE_BYTES"
"""Environment variable of an engine's process with the bytes that its cache keeps; optional."""

MAX_FILES: Final = 256
"""Artefacts mapped at once; each holds a file descriptor, of which a process often has 1,024."""

ENTRY_BYTES: Final = 32 * 1024
"""The Python objects of a list, however few words it has."""

_ROWS_SHARE: Final = 8
"""The rows of one list take at most this fraction (1/8) of the cache."""

T = TypeVar("T")
logger = logging.getLogger(__name__)


class _List(NamedTuple):
    automaton: TokenAutomaton
    rows: MaskRows
    own_bytes: int

    @property
    def num_bytes(self) -> int:
        return self.own_bytes + self.rows.num_bytes

    def states(self, n_words: int) -> ListStates:
        return ListStates(self.automaton, self.rows, n_words)


class EngineCache:
    """The lists of one engine, dropped least recently used first. Thread-safe.

    At most ``max_bytes`` are kept besides what matchers hold. Artefacts for another tokenizer are refused.
    """

    def __init__(self, folder: Path, tokenizer_digest: str, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._folder = ArtefactFolder(folder)
        self._tokenizer_digest = tokenizer_digest
        self._max_bytes = max_bytes
        # No cache of cachetools: those measure an entry once, when it is put in, and its rows are made later.
        # Entries made of others precede them, so that they are dropped first.
        self._entries: OrderedDict[tuple[str | int, ...], Any] = OrderedDict()
        self._lock = Lock()

    def states(self, reference: GrammarReference) -> States:
        """Return the states that the reference names.

        Raises:
            ArtefactError: An artefact is missing, damaged, or incompatible with the others.
        """
        with self._lock:
            states = self._states(reference)
            self._drop()
            return states

    @property
    def num_bytes(self) -> int:
        """Bytes kept, without those that only matchers hold."""
        with self._lock:
            return self._num_bytes()

    def _states(self, reference: GrammarReference) -> States:
        if reference.extra is None:
            return self._changed(reference).states(reference.n_words)
        union: UnionStates = self._get(
            (reference.digest, reference.without or "", reference.extra, reference.n_words),
            lambda: self._union(reference),
        )
        # Touched again, so that they are dropped after the union.
        self._list(reference.extra)
        self._changed(reference)
        return union

    def _union(self, reference: GrammarReference) -> UnionStates:
        listed, extra = self._changed(reference), self._list(str(reference.extra))
        try:
            return UnionStates(listed.states(reference.n_words), extra.states(extra.automaton.words.num_ranks))
        except ValueError as error:
            raise ArtefactError(f"the artefacts {reference.digest} and {reference.extra}: {error}") from None

    def _changed(self, reference: GrammarReference) -> _List:
        without = reference.without
        if without is None:
            return self._list(reference.digest)
        changed = self._get((reference.digest, without), lambda: self._exclude(reference.digest, without))
        self._list(reference.digest)
        return changed

    def _exclude(self, digest: str, without: str) -> _List:
        base = self._list(digest).automaton
        exclusion = Exclusion.from_bytes(self._folder.read_bytes(without))
        if exclusion.digest != without:
            raise ArtefactError(f"the artefact {without} holds other words to leave out")
        changed = exclusion.apply(base)
        return self._with_rows(changed, _bytes_apart(changed, base))

    def _list(self, digest: str) -> _List:
        return self._get((digest,), lambda: self._load(digest))

    def _load(self, digest: str) -> _List:
        automaton = self._folder.load(digest)
        if automaton.tokenizer_digest != self._tokenizer_digest:
            raise ArtefactError(f"the artefact {digest} was compiled for another tokenizer than the engine's")
        words = automaton.words
        logger.info("loaded %d words of list %s (%s)", words.num_words, words.lang, digest)
        return self._with_rows(automaton, self._folder.path_of(digest).stat().st_size)

    def _with_rows(self, automaton: TokenAutomaton, own_bytes: int) -> _List:
        return _List(automaton, MaskRows(automaton, self._max_bytes // _ROWS_SHARE), own_bytes)

    def _get(self, key: tuple[str | int, ...], make: Callable[[], T]) -> T:
        if key not in self._entries:
            self._entries[key] = make()
        self._entries.move_to_end(key)
        entry: T = self._entries[key]
        return entry

    def _drop(self) -> None:
        num_bytes = self._num_bytes()
        num_files = sum(len(key) == 1 for key in self._entries)
        while len(self._entries) > 1 and (num_bytes > self._max_bytes or num_files > MAX_FILES):
            key, entry = self._entries.popitem(last=False)
            num_bytes -= ENTRY_BYTES + entry.num_bytes
            num_files -= len(key) == 1

    def _num_bytes(self) -> int:
        return sum(ENTRY_BYTES + entry.num_bytes for entry in self._entries.values())


def _bytes_apart(automaton: TokenAutomaton, base: TokenAutomaton) -> int:
    """Return the bytes of the arrays that one automaton does not share with the other."""
    shared = {id(array) for array in _arrays(base)}
    return sum(array.nbytes for array in _arrays(automaton) if id(array) not in shared)


def _arrays(automaton: TokenAutomaton) -> list[np.ndarray[Any, Any]]:
    holders = (automaton, automaton.edges, automaton.distances)
    return [value for holder in holders for value in vars(holder).values() if isinstance(value, np.ndarray)]
