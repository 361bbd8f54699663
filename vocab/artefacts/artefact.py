"""Tries of words, changes to them, and tables of their forms, as files: one safetensors file each, named by its digest.

A file is written to a temporary name and renamed, so a reader sees a whole file or none. Nothing is unpickled. One that
differs from what was written, in any bit, or holds another artefact is refused.
"""

import json
import mmap
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from vocab.arrays.kernels import Uint8Array, kernel
from vocab.automaton.compiled_list import FORMAT_VERSION, NUM_KINDS, CompiledList, ListedWords, Root, TrieArrays
from vocab.automaton.frame import NUM_MODES
from vocab.automaton.overlay import Overlay
from vocab.errors import ArtefactError
from vocab.lists.credits import attribution
from vocab.lists.wordlists import WordList
from vocab.text.changes import ListChanges
from vocab.text.table import FormTable

Array = npt.NDArray[Any]

_METADATA_KEY: Final = "wordbound"
_CHECKSUM_KEY: Final = "checksum"
_NO_CHECKSUM: Final = "0" * 16
_MAX_HEADER_BYTES: Final = 1 << 24
_DTYPES: Final = {"I64": np.int64, "I32": np.int32, "U8": np.uint8}
_NAMES: Final = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_LANES: Final = 8
_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_ODD: Final = np.uint64(0xC2B2AE3D27D4EB4F)

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
        words = self._map(digest, words_from_bytes)
        if words.digest != digest:
            raise ArtefactError(f"the artefact {digest} holds that of another list; delete the file")
        return words

    def load_table(self, digest: str) -> FormTable:
        """Map the table of a list's forms into memory; raises as ``load``."""
        return self._map(digest, lambda mapped: table_from_bytes(mapped, digest))

    def _map(self, digest: str, read: Callable[[Any], T]) -> T:
        """Map an artefact file into memory and read it with ``read``; raise ``ArtefactError`` on any fault."""
        path = self.path_of(digest)
        try:
            with path.open("rb") as file:
                # All of it is read for its checksum; mapping it at once is quicker than page by page.
                flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
                mapped = mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ)
            return read(mapped)
        except (OSError, ValueError, ArtefactError) as error:
            raise ArtefactError(f"the artefact {path.name} cannot be used: {error}; delete the file") from None

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
    listed, ranks = words.listed, words.listed.word_list.ranks
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
        "attribution": " ".join(attribution(listed.source, listed.lang, is_by_lemma=ranks is not None)),
    }
    arrays: dict[str, Array] = {
        "words": _spell(listed.word_list.words),
        "word_ranks": np.asarray(ranks or (), dtype=np.int32),
        "dropped_words": _spell(words.dropped_words),
        **_trie_arrays(words),
    }
    return write_tensors(arrays, metadata)


def words_from_bytes(data: Any) -> CompiledList:
    """Deserialize a list's trie from an artefact file's bytes; its arrays are views of ``data``.

    Raises:
        ArtefactError: It is something else, or of another version.
    """
    return _read_checked(data, _read_list)


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


def table_to_bytes(table: FormTable, digest: str) -> bytes:
    """Serialize the table of a list's forms, which its ``table_digest`` names, as the bytes of an artefact file."""
    return write_tensors(table.arrays, {"format": FORMAT_VERSION, "digest": digest})


def table_from_bytes(data: Any, digest: str) -> FormTable:
    """Deserialize the table of this digest; its arrays are views of ``data``. Raises as ``words_from_bytes``."""

    def read(arrays: dict[str, Array], metadata: dict[str, Any]) -> FormTable:
        if metadata["digest"] != digest:
            raise ValueError("it holds the forms of another list")
        table = FormTable(**arrays)
        table.check()
        return table

    return _read_checked(data, read)


def _read_checked(data: Any, read: Callable[[dict[str, Array], dict[str, Any]], T]) -> T:
    """Read an artefact of this format with ``read``; raise ``ArtefactError`` on any fault."""
    try:
        arrays, metadata = read_tensors(data)
        if metadata["format"] != FORMAT_VERSION:
            raise ValueError(f"it has format {metadata['format']}, not {FORMAT_VERSION}")
        return read(arrays, metadata)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtefactError(str(error)) from None


def _read_list(arrays: dict[str, Array], metadata: dict[str, Any]) -> CompiledList:
    """Build a list's trie from an artefact's arrays and metadata, and check its indices."""
    lang, source, spelled, ranks = metadata["lang"], metadata["source"], arrays["words"], arrays["word_ranks"]

    def decode() -> WordList:
        return WordList(lang, _read_words(spelled), source, tuple(ranks.tolist()) if len(ranks) else None)

    words = CompiledList(
        digest=metadata["digest"],
        tokenizer_digest=metadata["tokenizer_digest"],
        num_tokens=metadata["num_tokens"],
        listed=ListedWords(lang, source, metadata["num_words"], metadata["num_ranks"], decode),
        has_capitals=metadata["has_capitals"],
        dropped_words=_read_words(arrays["dropped_words"]),
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


def _spell(words: tuple[str, ...]) -> Uint8Array:
    """Encode words in UTF-8, joined by line breaks: no word holds one."""
    return np.frombuffer("\n".join(words).encode(), dtype=np.uint8)


def _read_words(spelled: Uint8Array) -> tuple[str, ...]:
    """Decode the words that ``_spell`` encoded."""
    text = spelled.tobytes().decode()
    return tuple(text.split("\n")) if text else ()


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


def write_tensors(arrays: dict[str, Array], metadata: dict[str, Any]) -> bytes:
    """Serialize one-dimensional arrays (int64, int32, uint8) and JSON metadata as checksummed safetensors."""
    # The widest first, so that each array is aligned.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    header: dict[str, Any] = {"__metadata__": {_METADATA_KEY: json.dumps(metadata), _CHECKSUM_KEY: _NO_CHECKSUM}}
    end = 0
    for name, array in ordered:
        header[name] = {"dtype": _NAMES[array.dtype], "shape": [len(array)], "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    spelled = json.dumps(header).encode()
    spelled += b" " * (-len(spelled) % 8)
    head = len(spelled).to_bytes(8, "little") + spelled
    body = b"".join(np.ascontiguousarray(array).tobytes() for _, array in ordered)
    checksum = _checksum(np.frombuffer(head, dtype=np.uint8), np.frombuffer(body, dtype=np.uint8))
    return head.replace(_checksum_entry(_NO_CHECKSUM), _checksum_entry(checksum), 1) + body


def read_tensors(data: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read checksummed safetensors: the arrays, as read-only views of ``data`` (bytes or a mapped file), and metadata.

    Raises:
        ArtefactError: These are not the bytes that ``write_tensors`` made.
    """
    try:
        return _read(data)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ArtefactError(f"it is damaged or no file of this package: {error}") from None


def _read(data: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Parse the header, verify the checksum, and return the arrays and the metadata."""
    header_bytes = int.from_bytes(data[:8], "little")
    if not 2 <= header_bytes <= min(_MAX_HEADER_BYTES, len(data) - 8):
        raise ValueError("it has no header")
    begin = 8 + header_bytes
    spelled = bytes(data[8:begin])
    header: dict[str, Any] = json.loads(spelled)
    facts = header.pop("__metadata__")
    _check(data, begin, facts[_CHECKSUM_KEY])
    arrays = {name: _view(data, begin, entry) for name, entry in header.items()}
    return arrays, json.loads(facts[_METADATA_KEY])


def _check(data: Any, begin: int, checksum: str) -> None:
    """Verify a file's checksum, computed with its own digits as zeros."""
    head = bytes(data[:begin])
    blank = head.replace(_checksum_entry(checksum), _checksum_entry(_NO_CHECKSUM), 1)
    if len(blank) != begin:
        raise ValueError("its checksum is of another length")
    if _checksum(np.frombuffer(blank, dtype=np.uint8), np.frombuffer(data, dtype=np.uint8, offset=begin)) != checksum:
        raise ValueError("its checksum differs")


def _checksum(head: Uint8Array, body: Uint8Array) -> str:
    return f"{_hash_bytes(body, np.uint64(_hash_bytes(head, _SEED))):016x}"


def _checksum_entry(checksum: str) -> bytes:
    return f'"{_CHECKSUM_KEY}": "{checksum}"'.encode()


def _view(data: Any, begin: int, entry: dict[str, Any]) -> Array:
    """Return the array of a header's entry as a view of the file's bytes."""
    dtype = np.dtype(_DTYPES[entry["dtype"]])
    first, last = entry["data_offsets"]
    return np.frombuffer(data, dtype=dtype, count=(last - first) // dtype.itemsize, offset=begin + first)


@kernel
def _hash_bytes(data: Uint8Array, seed: np.uint64) -> np.uint64:
    """Hash to 64 bits in lanes of eight bytes, as xxHash: each step is one-to-one, so a single change always shows."""
    num_blocks = len(data) // (8 * _LANES)
    words = data[: num_blocks * 8 * _LANES].view(np.uint64)
    lanes = seed + np.arange(_LANES).astype(np.uint64)
    for block in range(num_blocks):
        for lane in range(_LANES):
            lanes[lane] = _step(lanes[lane], words[block * _LANES + lane])
    total = seed ^ np.uint64(len(data))
    for lane in range(_LANES):
        total = _step(total, lanes[lane])
    for i in range(num_blocks * 8 * _LANES, len(data)):
        total = _step(total, np.uint64(data[i]))
    return total


@kernel
def _step(value: np.uint64, word: np.uint64) -> np.uint64:
    """Mix one 64-bit word into a hash."""
    mixed = (value ^ word) * _ODD
    result: np.uint64 = mixed ^ (mixed >> np.uint64(29))
    return result
