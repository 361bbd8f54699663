"""The artefacts of one node, and the store behind an fsspec URL that nodes share.

*A node's store* is a folder of bounded size. Several processes of the node use the folder at once, each through a
store of its own. A use sets a file's time of modification, so the order of uses is shared and survives restarts
without an index.

After a write the folder holds at most ``max_bytes``. Files used during the last ``GRACE_S`` seconds, which a request
may be about to map, are kept beyond that (with a sixteenth of ``max_bytes`` that may have grown old meanwhile), but
never beyond twice ``max_bytes``: then the oldest are deleted whatever their age, except the newest. A mapped file keeps
its pages when it is deleted.

*The shared store* (``s3://…``, ``gs://…``, ``file://…``). No method raises or blocks for long. A store that fails or
does not answer is logged once and left alone for a while; meanwhile lists are made on the node. Contents are not
checked here.

After a write the store holds at most ``max_bytes``, plus what other nodes write before they look at it themselves. The
files written longest ago are deleted first, or used longest ago where the file system records a use, as local ones do.
"""

import logging
import math
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final, TypeVar

import fsspec
import numpy as np
from fsspec.implementations.local import LocalFileSystem
from typing_extensions import override

from vocab.artefacts.artefact import Array, ArtefactFolder, read_tensors, table_to_bytes, words_to_bytes, write_tensors
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.tokenizer import Speller, TokenizerFacts
from vocab.errors import ArtefactError
from vocab.lists.wordlists import WordList
from vocab.text.table import FormTable, table_digest

T = TypeVar("T")

_TIME_KEYS: Final = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
"""What file systems call the time of the last change; the first present counts."""

_SUFFIX: Final = ".safetensors"
_PART: Final = ".part"

GRACE_S: Final = 60.0
"""From the answer that names an artefact to the engine that maps it; reading the longest list takes most of it."""

STALE_PART_S: Final = 600.0
"""A temporary file is complete within seconds; an older one was left by a process that died."""

_LOW_WATER: Final = 0.9
"""Deleting goes down to this part of the bound, so that not every write looks at all files."""

_MAX_WRITERS: Final = 4
"""Processes that may write between two looks at the folder or store without exceeding the bound together."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    used_s: float
    num_bytes: int


class _Room:
    """The bound of a folder or store: what was used longest ago is deleted where it is exceeded.

    Args:
        max_bytes: The bound.
        files: Lists what is there.
        delete: Deletes the artefact of a file name.
        grace_s: What was used since goes only where there is twice as much as may be.
    """

    def __init__(
        self, max_bytes: int, files: Callable[[], list[_File]], delete: Callable[[str], object], grace_s: float = 0.0
    ) -> None:
        self._max_bytes = max_bytes
        self._files = files
        self._delete = delete
        self._grace_s = grace_s
        self._left = 0

    def take(self, num_bytes: int, newest: str) -> None:
        """Count an artefact that was written, and delete others where the bound may be exceeded."""
        self._left -= num_bytes
        if self._left > 0:
            return
        files, most = self._files(), self._max_bytes
        total = sum(file.num_bytes for file in files)
        num_deleted = 0
        kept_since_s = time.time() - self._grace_s if self._grace_s else math.inf
        low = most * _LOW_WATER if total > most else total
        for file in sorted(files, key=lambda file: file.used_s):
            is_kept = file.used_s > kept_since_s and total <= 2 * most
            if total <= low or is_kept:
                break
            if file.name.endswith(_SUFFIX) and file.name != newest + _SUFFIX:
                self._delete(file.name)
                total -= file.num_bytes
                num_deleted += 1
        if num_deleted:
            logger.info("deleted %d artefacts used longest ago; %.1f MB are left", num_deleted, total / 1e6)
        # Where all of it is in use, still not every write looks at as many files.
        self._left = (most - total if total <= most else min(2 * most - total, most // 16)) // _MAX_WRITERS


class SharedStore:
    """The artefact store behind a URL, shared by clusters. Thread-safe.

    Args:
        url: Any that fsspec opens.
        max_bytes: Bound of its size.
        timeout_s: A call that takes longer counts as a failure. 130 MB, the longest list for the largest tokenizer,
            take 10 s at 100 Mbit/s.
        retry_s: How long a store that failed is left alone.
    """

    def __init__(self, url: str, max_bytes: int, *, timeout_s: float = 20.0, retry_s: float = 60.0) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._failed_at: float | None = None
        self._room = _Room(max_bytes, self._files, self._delete)
        self._opened: tuple[Any, str] | None = None

    def read(self, digest: str) -> bytes | None:
        """Fetch an artefact's bytes and, where possible, record the use; None where there is none."""

        def read() -> bytes | None:
            files, root = self._open()
            path = f"{root}/{digest}{_SUFFIX}"
            try:
                data: bytes = files.cat_file(path)
            except FileNotFoundError:
                return None
            # Only some file systems can record a use; elsewhere the time of writing decides what goes.
            with suppress(NotImplementedError, ValueError, OSError):
                files.touch(path, truncate=False)
            return data

        return self._try(read)

    def write(self, digest: str, data: bytes) -> None:
        """Write an artefact, whole or not at all, and make room for it if needed; a failure is logged, not raised."""

        def write() -> None:
            files, root = self._open()
            path = f"{root}/{digest}{_SUFFIX}"
            if isinstance(files, LocalFileSystem):
                temporary = f"{path}.{uuid.uuid4().hex}.part"
                try:
                    files.pipe_file(temporary, data)
                    os.replace(temporary, path)  # noqa: PTH105 - the path is a string of the file system's
                finally:
                    with suppress(FileNotFoundError):
                        files.rm_file(temporary)
            else:
                # An object store shows an object whole or not at all.
                files.pipe_file(path, data)
            self._room.take(len(data), digest)

        self._try(write)

    def delete(self, digest: str) -> None:
        """Delete an artefact; a failure is logged, not raised."""
        self._try(lambda: self._delete(digest + _SUFFIX))

    def _try(self, action: Callable[[], T]) -> T | None:
        """Run an action in a thread, abandoned at the timeout; None on failure and for ``retry_s`` after one."""
        if self._failed_at is not None and time.monotonic() - self._failed_at < self._retry_s:
            return None
        results: list[T] = []
        faults: list[Exception] = []

        def run() -> None:
            try:
                results.append(action())
            except Exception as error:
                faults.append(error)

        thread = Thread(target=run, name="shared-store", daemon=True)
        thread.start()
        thread.join(self._timeout_s)
        if results:
            self._failed_at = None
            return results[0]
        self._failed_at = time.monotonic()
        why = f"{type(faults[0]).__name__}: {faults[0]}" if faults else f"no answer within {self._timeout_s:g} s"
        logger.warning("the artefact store is left alone for %g s: %s", self._retry_s, why[:500])
        return None

    def _open(self) -> tuple[Any, str]:
        """Return the store's file system and root path, opened on first use."""
        if self._opened is None:
            files, root = fsspec.core.url_to_fs(self._url)
            files.makedirs(root, exist_ok=True)
            self._opened = files, root.rstrip("/")
        return self._opened

    def _delete(self, name: str) -> None:
        files, root = self._open()
        with suppress(FileNotFoundError):
            files.rm_file(f"{root}/{name}")

    def _files(self) -> list[_File]:
        """List the store's artefacts, each with its last known use and size."""
        files, root = self._open()
        files.invalidate_cache(root)
        entries = [entry for entry in files.ls(root, detail=True) if str(entry["name"]).endswith(_SUFFIX)]
        return [_File(str(entry["name"]).rpartition("/")[-1], time_of(entry), entry["size"]) for entry in entries]


def time_of(entry: dict[str, Any]) -> float:
    """Return when an entry of a shared store was written, in seconds; 0 where its file system does not say."""
    for key in _TIME_KEYS:
        value = entry.get(key)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, str):
            with suppress(ValueError):
                return datetime.fromisoformat(value).timestamp()
    return 0.0


class ArtefactStore(ArtefactFolder):
    """The artefacts of this node, at most ``max_bytes`` of them. Thread-safe.

    Args:
        path: The folder, created with the first file.
        max_bytes: Bound of its size.
        shared: Asked for what is missing here, and sent what is made here.
    """

    def __init__(self, path: Path, max_bytes: int, shared: SharedStore | None = None) -> None:
        super().__init__(path)
        self._shared = shared
        self._unshared: list[str] = []
        self._lock = Lock()
        self._room = _Room(max_bytes, self._files, lambda name: (path / name).unlink(missing_ok=True), GRACE_S)
        self._remove_stale_parts()

    @override
    def has(self, digest: str) -> bool:
        """Return whether the artefact is in this node's folder; if so, mark it as used."""
        path = self.path_of(digest)
        try:
            os.utime(path)
        except OSError:
            return path.is_file()  # in a folder that may only be read
        return True

    @override
    def load(self, digest: str) -> CompiledList:
        self.has(digest)
        return super().load(digest)

    def table_of(self, word_list: WordList) -> FormTable:
        """Load the table of a list's forms from here or the shared store, or make it and write it to this folder.

        Raises:
            ArtefactError: It cannot be written.
        """
        digest = table_digest(word_list)
        table = self.find(digest, self.load_table)
        if table is None:
            self.write_bytes(digest, table_to_bytes(FormTable.of(word_list), digest), is_new=True)
            # Not what was made: that would stay in the memory of each process.
            table = self.load_table(digest)
        return table

    def find(self, digest: str, load: Callable[[str], T]) -> T | None:
        """Load an artefact with ``load`` from this node's folder, else the shared store; None where neither has it.

        A file that ``load`` refuses with ``ArtefactError`` is deleted, so that it is made again.
        """
        if self.has(digest):
            try:
                return load(digest)
            except ArtefactError as error:
                logger.warning("%s", error)
                self.discard(digest)
        if self._shared is None or (data := self._shared.read(digest)) is None:
            return None
        try:
            self.write_bytes(digest, data)
            return load(digest)
        except ArtefactError as error:
            logger.warning("from the shared store: %s", error)
            self.discard(digest)
            self._shared.delete(digest)
            return None

    @override
    def save(self, words: CompiledList) -> Path:
        """Write a list's trie to this node's folder, for the next ``share``; raise ``ArtefactError`` on failure."""
        return self.write_bytes(words.digest, words_to_bytes(words), is_new=True)

    @override
    def write_bytes(self, digest: str, data: bytes, *, is_new: bool = False) -> Path:
        """Write an artefact to the folder, to be shared if ``is_new``, and make room for it if needed.

        Raises:
            ArtefactError: It cannot be written.
        """
        try:
            path = super().write_bytes(digest, data)
        except OSError as error:
            raise ArtefactError(f"the artefact {digest} cannot be written to {self._path}: {error.strerror}") from None
        with self._lock:
            if is_new and self._shared:
                self._unshared.append(digest)
            self._room.take(len(data), digest)
        return path

    @override
    def read_bytes(self, digest: str) -> bytes:
        """Read an artefact's bytes from the folder or the shared store; raise ``ArtefactError`` if neither has it."""
        if self.has(digest) or self._shared is None or (data := self._shared.read(digest)) is None:
            return super().read_bytes(digest)
        return data

    def discard(self, digest: str) -> None:
        """Delete the artefact from this node's folder, not from the shared store."""
        self.path_of(digest).unlink(missing_ok=True)

    def share(self) -> None:
        """Send the artefacts made since the last call to the shared store, and wait until they are sent."""
        with self._lock:
            digests, self._unshared = self._unshared, []
        if self._shared is None:
            return
        for digest in digests:
            try:
                self._shared.write(digest, super().read_bytes(digest))
            except ArtefactError as error:
                logger.warning("not shared: %s", error)

    def num_bytes(self) -> int:
        """Return the size of the folder, temporary files included."""
        return sum(file.num_bytes for file in self._files())

    def _files(self) -> list[_File]:
        """List the folder's artefacts and temporary files, each with its last use and size."""
        files = []
        for path in self._path.glob("*"):
            if path.suffix in (_SUFFIX, _PART):
                with suppress(FileNotFoundError):  # deleted by another process since the folder was listed
                    status = path.stat(follow_symlinks=False)
                    files.append(_File(path.name, status.st_mtime, status.st_size))
        return files

    def _remove_stale_parts(self) -> None:
        """Delete temporary files that were left by processes that died."""
        for part in self._path.glob("*" + _PART):
            with suppress(FileNotFoundError):  # another process may do it, too
                if part.stat().st_mtime < time.time() - STALE_PART_S:
                    part.unlink()


def store_tokenizer(speller: Speller, store: ArtefactStore) -> Path:
    """Store a tokenizer as an artefact; raise ``ArtefactError`` if it cannot be written."""
    tokens = speller.facts.token_bytes
    arrays: dict[str, Array] = {
        "ends": np.cumsum([0, *map(len, tokens)], dtype=np.int64),
        "bytes": np.frombuffer(b"".join(tokens), dtype=np.uint8),
        "rules": np.frombuffer(speller.rules.encode(), dtype=np.uint8),
    }
    metadata = {"tokenizer": speller.facts.digest, "is_own": speller.is_own}
    return store.write_bytes(speller.digest, write_tensors(arrays, metadata))


def load_stored_tokenizer(digest: str, store: ArtefactStore) -> Speller:
    """Load the speller of a tokenizer that ``store_tokenizer`` wrote.

    Raises:
        ArtefactError: The file is missing, damaged, or holds another tokenizer.
    """
    arrays, metadata = read_tensors(store.read_bytes(digest))
    try:
        data = arrays["bytes"].tobytes()
        facts = TokenizerFacts(tuple(data[start:end] for start, end in pairwise(arrays["ends"].tolist())))
        speller = Speller.from_rules(arrays["rules"].tobytes().decode(), facts, is_own=metadata["is_own"])
    except (KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"the tokenizer {digest} cannot be used: {error}") from None
    if speller.digest != digest or metadata["tokenizer"] != facts.digest:
        raise ArtefactError(f"the file of tokenizer {digest} holds another one")
    return speller
