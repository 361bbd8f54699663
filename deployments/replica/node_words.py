"""The words of the artefacts on a node, for reading answers: decoded once for each list, whatever N asks for them.

Knows how much memory words take, and that a reader of a small N needs few of them. Knows nothing of requests and keeps
nothing alive: what nobody holds is gone.
"""

from threading import Lock
from typing import Final
from weakref import WeakValueDictionary

from vocab.artefacts.store import ArtefactStore
from vocab.text.form_ranks import FormRanks

WORD_BYTES: Final = 100
"""Of a word in a list; as much again in the table of its forms."""

_SMALLEST_TABLE: Final = 4096


class ListedWords:
    """The words of one artefact, and tables of their forms, each for as many words as several N need."""

    def __init__(self, store: ArtefactStore, digest: str) -> None:
        # The mapped file, and its file descriptor, are let go: only the words are needed.
        automaton = store.load(digest)
        self.word_list = automaton.word_list
        self.options = automaton.options
        self._tables: dict[int, FormRanks] = {}
        self._num_tabled = 0
        self._lock = Lock()

    def form_ranks(self, n_words: int) -> FormRanks:
        """A table of the forms of the first ``n_words`` words, and perhaps of more: the next power of two."""
        size = max(_SMALLEST_TABLE, 1 << (n_words - 1).bit_length())
        if size >= self.word_list.num_ranks:
            size = self.word_list.num_ranks
        with self._lock:
            if size not in self._tables:
                self._tables[size] = FormRanks(self.word_list, self.options, size)
                self._num_tabled += len(self.word_list.up_to(size).words)
            return self._tables[size]

    @property
    def num_bytes(self) -> int:
        return WORD_BYTES * (len(self.word_list.words) + self._num_tabled)


class NodeWords:
    """The lists whose words somebody on this node holds. Safe for threads."""

    def __init__(self, store: ArtefactStore) -> None:
        self._store = store
        self._held: WeakValueDictionary[str, ListedWords] = WeakValueDictionary()
        self._lock = Lock()

    def get(self, digest: str) -> ListedWords:
        """The words of an artefact.

        Raises:
            ArtefactError: Its file is missing or damaged.
        """
        with self._lock:
            listed = self._held.get(digest)
            if listed is None:
                listed = self._held[digest] = ListedWords(self._store, digest)
            return listed
