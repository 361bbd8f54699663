"""Tries of words, and changes to them, as files: one safetensors file each, named by its digest.

A file is written to a temporary name and renamed, so a reader sees a whole file or none. One that is damaged or holds
another artefact is refused.
"""

import mmap
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from vocab.arrays.tensors import Array, read_tensors, write_tensors
from vocab.automaton.compiled_list import FORMAT_VERSION, NUM_KINDS, CompiledList, Root, TrieArrays
from vocab.automaton.frame import NUM_MODES
from vocab.automaton.overlay import Overlay
from vocab.errors import ArtefactError
from vocab.lists.credits import attribution
from vocab.lists.stored_words import StoredWords, read_words, spell
from vocab.text.changes import ListChanges

_TRIE_ARRAYS: Final = ("edge_start", "tokens", "children", "ranks", "ranks_below", "kinds")

T = TypeVar("T")


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

    def save(self, words: CompiledList) -> Path:
        """Write a list's trie as an artefact file, replacing one of that digest."""
        return self.write_bytes(words.digest, words_to_bytes(words))

    def write_bytes(self, digest: str, data: bytes) -> Path:
        """Write an artefact's bytes to its file, whole or not at all."""
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

    def load(self, digest: str) -> CompiledList:
        """Map a list's trie from its artefact file into memory; its arrays are read-only views of the file.

        Raises:
            ArtefactError: The file is missing, damaged, or holds another artefact.
        """
        path = self.path_of(digest)
        try:
            with path.open("rb") as file:
                # All of it is read for its checksum; mapping it at once is quicker than page by page.
                flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
                mapped = mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ)
            words = words_from_bytes(mapped)
        except (OSError, ValueError, ArtefactError) as error:
            raise ArtefactError(f"the artefact {path.name} cannot be used: {error}; delete the file") from None
        if words.digest != digest:
            raise ArtefactError(f"the artefact {path.name} holds that of another list; delete the file")
        return words

    def load_overlay(self, digest: str) -> Overlay:
        """Read the overlay (a request's changes to a list) of this digest.

        Raises:
            ArtefactError: The file is missing, damaged, or holds something else.
        """
        overlay = overlay_from_bytes(self.read_bytes(digest))
        if overlay.digest != digest:
            raise ArtefactError(f"the file of the changes {digest} holds others")
        return overlay


def words_to_bytes(words: CompiledList) -> bytes:
    """Serialize a list's trie and words as the bytes of an artefact file."""
    listed = words.listed
    metadata = {
        "format": FORMAT_VERSION,
        "digest": words.digest,
        "tokenizer_digest": words.tokenizer_digest,
        "num_tokens": words.num_tokens,
        "lang": listed.lang,
        "source": listed.source,
        "num_words": listed.num_words,
        "num_ranks": listed.num_ranks,
        "has_capitals": words.has_capitals,
        "roots": [[*root, node] for root, node in words.roots.items()],
        # Read by people only. The digest names list, tokenizer and format, not these bytes, so that files with and
        # without it are the same artefact.
        "attribution": " ".join(attribution(listed.source, listed.lang, is_by_lemma=len(listed.ranks) > 0)),
    }
    arrays: dict[str, Array] = {
        "words": listed.spelled,
        "word_ranks": listed.ranks,
        "dropped_words": spell(words.dropped_words),
        **_trie_arrays(words),
    }
    return write_tensors(arrays, metadata)


def words_from_bytes(data: Any) -> CompiledList:
    """Deserialize a list's trie from an artefact file's bytes; its arrays are views of ``data``.

    Raises:
        ArtefactError: It is something else, or of another version.
    """
    return _read_checked(data, _read_words)


def overlay_to_bytes(overlay: Overlay) -> bytes:
    """Serialize an overlay (the changes to a list) as the bytes of an artefact file."""
    metadata = {
        "format": FORMAT_VERSION,
        "digest": overlay.digest,
        "base_digest": overlay.base_digest,
        "extra_words": overlay.changes.extra_words,
        "exclude_words": overlay.changes.exclude_words,
        "dropped_words": overlay.dropped_words,
        "roots": [[*root, node] for root, node in overlay.roots.items()],
    }
    return write_tensors(_trie_arrays(overlay), metadata)


def overlay_from_bytes(data: Any) -> Overlay:
    """Deserialize an overlay from an artefact file's bytes; raises as ``words_from_bytes``."""
    return _read_checked(data, _read_overlay)


def _read_checked(data: Any, read: Callable[[dict[str, Array], dict[str, Any]], T]) -> T:
    """Read an artefact of this format with ``read``; raise ``ArtefactError`` on any fault."""
    try:
        arrays, metadata = read_tensors(data)
        if metadata["format"] != FORMAT_VERSION:
            raise ValueError(f"it has format {metadata['format']}, not {FORMAT_VERSION}")
        return read(arrays, metadata)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtefactError(str(error)) from None


def _read_words(arrays: dict[str, Array], metadata: dict[str, Any]) -> CompiledList:
    """Build a list's trie from an artefact's arrays and metadata, and check its indices."""
    listed = StoredWords(
        lang=metadata["lang"],
        source=metadata["source"],
        num_words=metadata["num_words"],
        num_ranks=metadata["num_ranks"],
        spelled=arrays["words"],
        ranks=arrays["word_ranks"],
    )
    words = CompiledList(
        digest=metadata["digest"],
        tokenizer_digest=metadata["tokenizer_digest"],
        num_tokens=metadata["num_tokens"],
        listed=listed,
        has_capitals=metadata["has_capitals"],
        dropped_words=read_words(arrays["dropped_words"]),
        **_trie_fields(arrays, metadata, num_modes=2),
    )
    _check_trie(words, first_node=0)
    if not _are_within(words.tokens, 0, sys.maxunicode + 1 if words.is_unspaced else words.num_tokens):
        raise ValueError("its arrays point outside themselves")
    return words


def _read_overlay(arrays: dict[str, Array], metadata: dict[str, Any]) -> Overlay:
    """Build an overlay from an artefact's arrays and metadata; ``check_overlay`` checks it."""
    return Overlay(
        digest=metadata["digest"],
        base_digest=metadata["base_digest"],
        changes=ListChanges(tuple(metadata["extra_words"]), tuple(metadata["exclude_words"])),
        dropped_words=tuple(metadata["dropped_words"]),
        **_trie_fields(arrays, metadata, num_modes=NUM_MODES),
    )


def check_overlay(overlay: Overlay, words: CompiledList) -> None:
    """Raise ``ArtefactError`` where an overlay was made for another trie, or does not fit it."""
    try:
        if overlay.base_digest != words.digest:
            raise ValueError("it was made for another list")
        _check_trie(overlay, first_node=words.num_nodes)
        if (
            not _are_within(overlay.tokens, 0, words.num_tokens)
            or tuple(words.roots) != tuple(overlay.roots)[: len(words.roots)]
        ):
            raise ValueError("it does not fit the list")
    except ValueError as error:
        raise ArtefactError(f"the changes {overlay.digest} cannot be used: {error}") from None


def _trie_arrays(trie: TrieArrays) -> dict[str, Array]:
    """Return a trie's arrays by name, flattened for an artefact file."""
    return {name: np.ravel(getattr(trie, name)) for name in _TRIE_ARRAYS}


def _trie_fields(arrays: dict[str, Array], metadata: dict[str, Any], num_modes: int) -> dict[str, Any]:
    """Return the fields of ``TrieArrays`` from an artefact's arrays and metadata."""
    fields: dict[str, Any] = {name: arrays[name] for name in _TRIE_ARRAYS}
    for name in ("ranks", "ranks_below"):
        fields[name] = fields[name].reshape(num_modes, -1)
    roots = {Root(*root): node for *root, node in metadata["roots"]}
    return {**fields, "roots": roots}


def _check_trie(trie: TrieArrays, first_node: int) -> None:
    """Raise ``ValueError`` for a trie with indices out of range: compiled code does not check bounds."""
    num_nodes, num_edges = trie.num_nodes, len(trie.tokens)
    sizes_agree = (
        len(trie.edge_start) == num_nodes + 1
        and len(trie.children) == num_edges
        and trie.ranks.shape[1] == trie.ranks_below.shape[1] == num_nodes
    )
    if not sizes_agree:
        raise ValueError("its arrays do not fit together")
    inside = (
        _is_rising(trie.edge_start, num_edges)
        and _are_within(trie.children, 0, first_node + num_nodes)
        and _are_within(trie.kinds, 0, NUM_KINDS)
        and all(0 <= node < first_node + num_nodes for node in trie.roots.values())
    )
    if not inside:
        raise ValueError("its arrays point outside themselves")


def _are_within(array: Array, low: int, high: int) -> bool:
    return not len(array) or bool(array.min() >= low and array.max() < high)


def _is_rising(starts: Array, total: int) -> bool:
    return bool(starts[0] == 0 and starts[-1] == total and np.all(np.diff(starts) >= 0))
