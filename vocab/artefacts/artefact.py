"""Compiled automata as files: one safetensors file each, named by its digest and mapped into memory.

A file is written to a temporary name and renamed, so a reader sees a whole file or none. One that is damaged or holds
another artefact is refused.
"""

import mmap
import os
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from vocab.arrays.tensors import Array, read_tensors, write_tensors
from vocab.automaton.automaton import FORMAT_VERSION, TokenAutomaton
from vocab.automaton.distance import Distances
from vocab.automaton.token_edges import TokenEdges
from vocab.errors import ArtefactError
from vocab.lists.stored_words import StoredWords, read_words, spell
from vocab.options import ListOptions

_EDGE_ARRAYS: Final = ("edge_start", "tokens", "targets", "ranks", "links", "link_ranks", "complete_ranks")
_PLACE_ARRAYS: Final = ("gap_states", "crowded_states", "place_start", "places", "place_ranks")


class ArtefactFolder:
    """The artefacts in one folder of this node."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def path_of(self, digest: str) -> Path:
        """Return the path of the artefact, existing or not; raise ``ArtefactError`` for a malformed digest."""
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ArtefactError("an artefact is named by 64 hexadecimal digits")
        return self._path / f"{digest}.safetensors"

    def has(self, digest: str) -> bool:
        return self.path_of(digest).is_file()

    def save(self, automaton: TokenAutomaton) -> Path:
        """Write an automaton, replacing a file of that digest."""
        return self.write_bytes(automaton.digest, _to_bytes(automaton))

    def write_bytes(self, digest: str, data: bytes) -> Path:
        """Write the bytes of an artefact's file."""
        path = self.path_of(digest)
        self._path.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=self._path, suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return path

    def read_bytes(self, digest: str) -> bytes:
        """Read the bytes of an artefact's file; raise ``ArtefactError`` if it is missing."""
        try:
            return self.path_of(digest).read_bytes()
        except OSError as error:
            raise ArtefactError(f"the artefact {digest} cannot be read: {error.strerror}") from None

    def load(self, digest: str) -> TokenAutomaton:
        """Map an artefact into memory; its arrays are read-only views of the file.

        Raises:
            ArtefactError: The file is missing, damaged, or holds another artefact.
        """
        path = self.path_of(digest)
        try:
            with path.open("rb") as file:
                # All of it is read for its checksum; mapping it at once is quicker than page by page.
                flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
                mapped = mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ)
            automaton = _from_bytes(mapped)
        except (OSError, ValueError, KeyError, TypeError, ArtefactError) as error:
            raise ArtefactError(f"the artefact {path.name} cannot be used: {error}; delete the file") from None
        if automaton.digest != digest:
            raise ArtefactError(f"the artefact {path.name} holds that of another list; delete the file")
        return automaton


def _to_bytes(automaton: TokenAutomaton) -> bytes:
    words, edges, distances = automaton.words, automaton.edges, automaton.distances
    metadata = {
        "format": FORMAT_VERSION,
        "digest": automaton.digest,
        "tokenizer_digest": automaton.tokenizer_digest,
        "num_tokens": automaton.num_tokens,
        "lang": words.lang,
        "source": words.source,
        "num_words": words.num_words,
        "num_ranks": words.num_ranks,
        "options": automaton.options.as_dict(),
        "start": edges.start,
    }
    arrays: dict[str, Array] = {
        "words": words.spelled,
        "word_ranks": words.ranks,
        "dropped_words": spell(automaton.dropped_words),
        **{name: getattr(edges, name) for name in _EDGE_ARRAYS},
        "pair_start": distances.pair_start,
        "pair_tokens": distances.num_tokens,
        "pair_ranks": distances.ranks,
        "dense_states": automaton.dense_states,
        "mask_rows": automaton.mask_rows,
        **{name: getattr(automaton, name) for name in _PLACE_ARRAYS},
    }
    return write_tensors(arrays, metadata)


def _from_bytes(data: mmap.mmap) -> TokenAutomaton:
    arrays, metadata = read_tensors(data)
    if metadata["format"] != FORMAT_VERSION:
        raise ValueError(f"it has format {metadata['format']}, not {FORMAT_VERSION}")
    words = StoredWords(
        lang=metadata["lang"],
        source=metadata["source"],
        num_words=metadata["num_words"],
        num_ranks=metadata["num_ranks"],
        spelled=arrays["words"],
        ranks=arrays["word_ranks"],
    )
    automaton = TokenAutomaton(
        digest=metadata["digest"],
        tokenizer_digest=metadata["tokenizer_digest"],
        num_tokens=metadata["num_tokens"],
        words=words,
        options=ListOptions(**metadata["options"]),
        dropped_words=read_words(arrays["dropped_words"]),
        edges=TokenEdges(start=metadata["start"], **{name: arrays[name] for name in _EDGE_ARRAYS}),
        distances=Distances(arrays["pair_start"], arrays["pair_tokens"], arrays["pair_ranks"]),
        dense_states=arrays["dense_states"],
        mask_rows=arrays["mask_rows"],
        **{name: arrays[name] for name in _PLACE_ARRAYS},
    )
    _check(automaton)
    return automaton


def _check(automaton: TokenAutomaton) -> None:
    """Refuse arrays with indices out of range: compiled code does not check bounds."""
    edges, distances = automaton.edges, automaton.distances
    num_states, num_edges, num_pairs = len(edges.links), len(edges.tokens), len(distances.ranks)
    sizes_agree = (
        len(edges.edge_start) == len(distances.pair_start) == num_states + 1
        and len(edges.link_ranks) == len(edges.complete_ranks) == len(automaton.mask_rows) == num_states
        and len(edges.targets) == len(edges.ranks) == num_edges
        and len(distances.num_tokens) == num_pairs
        and len(automaton.place_start) == len(automaton.crowded_states) + 1
        and len(automaton.places) == len(automaton.place_ranks)
        and 0 <= edges.start < num_states
    )
    if not sizes_agree:
        raise ValueError("its arrays do not fit together")
    inside = (
        _are_within(edges.tokens, 0, automaton.num_tokens)
        and _are_within(edges.targets, 0, num_states)
        and bool(np.all(edges.links < np.arange(num_states, dtype=np.int32)))
        and _are_within(edges.links, -1, num_states)
        and _is_rising(edges.edge_start, num_edges)
        and _is_rising(distances.pair_start, num_pairs)
        and _are_within(automaton.dense_states, 0, num_states)
        and _are_within(automaton.mask_rows, -1 - len(automaton.dense_states), len(automaton.dense_states))
        and _are_within(automaton.gap_states, 0, num_states)
        and _are_within(automaton.crowded_states, 0, num_states)
        and _are_within(automaton.places, 0, len(automaton.gap_states))
        and _is_rising(automaton.place_start, len(automaton.places))
    )
    if not inside:
        raise ValueError("its arrays point outside themselves")


def _are_within(array: Array, low: int, high: int) -> bool:
    return not len(array) or bool(array.min() >= low and array.max() < high)


def _is_rising(starts: Array, total: int) -> bool:
    return bool(starts[0] == 0 and starts[-1] == total and np.all(np.diff(starts) >= 0))
