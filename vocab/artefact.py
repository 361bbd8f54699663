"""Compiled automata as files: one safetensors file each, named by its digest and mapped into memory.

Written to a temporary name and renamed, so a reader sees a whole file or none. Nothing is unpickled, and a file that
is damaged or another artefact's is refused.
"""

import json
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from vocab.automaton import FORMAT_VERSION, TokenAutomaton
from vocab.distance import Distances
from vocab.errors import ArtefactError
from vocab.options import ListOptions
from vocab.product import TokenEdges
from vocab.wordlists import WordList

_METADATA_KEY: Final = "wordbound"
_MAX_HEADER_BYTES: Final = 1 << 24
_DTYPES: Final = {"I64": np.int64, "I32": np.int32, "U8": np.uint8}
_Array = npt.NDArray[Any]


class ArtefactFolder:
    """The artefacts in one folder of this node."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def path_of(self, digest: str) -> Path:
        """Where the artefact of that digest lies, or would lie.

        Raises:
            ArtefactError: That is no digest.
        """
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ArtefactError("an artefact is named by 64 hexadecimal digits")
        return self._path / f"{digest}.safetensors"

    def has(self, digest: str) -> bool:
        return self.path_of(digest).is_file()

    def save(self, automaton: TokenAutomaton) -> Path:
        """Writes an automaton; a file of that digest is replaced."""
        return self.write_bytes(automaton.digest, _to_bytes(automaton))

    def write_bytes(self, digest: str, data: bytes) -> Path:
        """Writes an artefact that another node read with ``read_bytes``."""
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
        """The bytes of an artefact's file.

        Raises:
            ArtefactError: There is no such file.
        """
        try:
            return self.path_of(digest).read_bytes()
        except OSError as error:
            raise ArtefactError(f"the artefact {digest} cannot be read: {error.strerror}") from None

    def load(self, digest: str) -> TokenAutomaton:
        """Maps an artefact into memory; its arrays are read-only views of the file.

        Raises:
            ArtefactError: The file is missing, damaged, or another artefact's.
        """
        path = self.path_of(digest)
        try:
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            automaton = _from_bytes(mapped)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArtefactError(f"the artefact {path.name} cannot be used: {error}; delete the file") from None
        if automaton.digest != digest:
            raise ArtefactError(f"the artefact {path.name} holds that of another list; delete the file")
        return automaton


def _to_bytes(automaton: TokenAutomaton) -> bytes:
    edges, distances = automaton.edges, automaton.distances
    metadata = {
        "format": FORMAT_VERSION,
        "digest": automaton.digest,
        "tokenizer_digest": automaton.tokenizer_digest,
        "num_tokens": automaton.num_tokens,
        "lang": automaton.word_list.lang,
        "source": automaton.word_list.source,
        "options": automaton.options.as_dict(),
        "start": edges.start,
    }
    arrays: dict[str, _Array] = {
        "words": _text_array(automaton.word_list.words),
        "dropped_words": _text_array(automaton.dropped_words),
        "edge_start": edges.edge_start,
        "tokens": edges.tokens,
        "targets": edges.targets,
        "ranks": edges.ranks,
        "links": edges.links,
        "link_ranks": edges.link_ranks,
        "complete_ranks": edges.complete_ranks,
        "pair_start": distances.pair_start,
        "pair_tokens": distances.num_tokens,
        "pair_ranks": distances.ranks,
        "is_dense": automaton.is_dense,
    }
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data: bytes = save(contiguous, metadata={_METADATA_KEY: json.dumps(metadata)})
    return data


def _from_bytes(data: mmap.mmap) -> TokenAutomaton:
    header_bytes = int.from_bytes(data[:8], "little")
    if not 2 <= header_bytes <= min(_MAX_HEADER_BYTES, len(data) - 8):
        raise ValueError("it is no safetensors file")
    header: dict[str, Any] = json.loads(data[8 : 8 + header_bytes])
    metadata: dict[str, Any] = json.loads(header.pop("__metadata__")[_METADATA_KEY])
    if metadata["format"] != FORMAT_VERSION:
        raise ValueError(f"it has format {metadata['format']}, not {FORMAT_VERSION}")
    arrays = {name: _view(data, 8 + header_bytes, entry) for name, entry in header.items()}
    edges = TokenEdges(
        edge_start=arrays["edge_start"],
        tokens=arrays["tokens"],
        targets=arrays["targets"],
        ranks=arrays["ranks"],
        links=arrays["links"],
        link_ranks=arrays["link_ranks"],
        complete_ranks=arrays["complete_ranks"],
        start=metadata["start"],
    )
    automaton = TokenAutomaton(
        digest=metadata["digest"],
        tokenizer_digest=metadata["tokenizer_digest"],
        num_tokens=metadata["num_tokens"],
        word_list=WordList(metadata["lang"], _texts(arrays["words"]), metadata["source"]),
        options=ListOptions(**metadata["options"]),
        dropped_words=_texts(arrays["dropped_words"]),
        edges=edges,
        distances=Distances(arrays["pair_start"], arrays["pair_tokens"], arrays["pair_ranks"]),
        is_dense=arrays["is_dense"],
    )
    _check(automaton)
    return automaton


def _view(data: mmap.mmap, offset: int, entry: dict[str, Any]) -> _Array:
    first, last = entry["data_offsets"]
    dtype = np.dtype(_DTYPES[entry["dtype"]])
    if not 0 <= first <= last <= len(data) - offset or (last - first) != dtype.itemsize * entry["shape"][0]:
        raise ValueError("it is cut short or its header is wrong")
    return np.frombuffer(data, dtype=dtype, count=entry["shape"][0], offset=offset + first)


def _check(automaton: TokenAutomaton) -> None:
    """Refuses arrays whose contents would lead outside them."""
    edges, distances = automaton.edges, automaton.distances
    num_states, num_edges, num_pairs = len(edges.links), len(edges.tokens), len(distances.ranks)
    sizes_agree = (
        len(edges.edge_start) == len(distances.pair_start) == num_states + 1
        and len(edges.link_ranks) == len(edges.complete_ranks) == len(automaton.is_dense) == num_states
        and len(edges.targets) == len(edges.ranks) == num_edges
        and len(distances.num_tokens) == num_pairs
        and 0 <= edges.start < num_states
    )
    if not sizes_agree:
        raise ValueError("its arrays do not fit together")
    inside = (
        _are_within(edges.tokens, 0, automaton.num_tokens)
        and _are_within(edges.targets, 0, num_states)
        and bool(np.all(edges.links < np.arange(num_states)))
        and _are_within(edges.links, -1, num_states)
        and _is_rising(edges.edge_start, num_edges)
        and _is_rising(distances.pair_start, num_pairs)
    )
    if not inside:
        raise ValueError("its arrays point outside themselves")


def _are_within(array: _Array, low: int, high: int) -> bool:
    return not len(array) or bool(array.min() >= low and array.max() < high)


def _is_rising(starts: _Array, total: int) -> bool:
    return bool(starts[0] == 0 and starts[-1] == total and np.all(np.diff(starts) >= 0))


def _text_array(words: tuple[str, ...]) -> npt.NDArray[np.uint8]:
    # No word holds a line break.
    return np.frombuffer("\n".join(words).encode(), dtype=np.uint8)


def _texts(array: _Array) -> tuple[str, ...]:
    text = array.tobytes().decode()
    return tuple(text.split("\n")) if text else ()
