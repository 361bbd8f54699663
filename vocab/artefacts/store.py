"""The artefacts of one node: a folder of bounded size, backed by an optional store that nodes share.

Several processes of the node use the folder at once, each through a store of its own. A use sets a file's time of
modification, so the order of uses is shared and survives restarts without an index.

After a write the folder holds at most ``max_bytes``. Files used during the last ``GRACE_S`` seconds, which a request
may be about to map, are kept beyond that (with a sixteenth of ``max_bytes`` that may have grown old meanwhile), but
never beyond twice ``max_bytes``: then the oldest are deleted whatever their age, except the newest. A mapped file keeps
its pages when it is deleted.
"""

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

from vocab.artefacts.artefact import ArtefactFolder
from vocab.artefacts.shared_store import SharedStore
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.overlay import Overlay
from vocab.errors import ArtefactError

GRACE_S: Final = 60.0
"""From the answer that names an artefact to the engine that maps it; reading the longest list takes most of it."""

STALE_PART_S: Final = 600.0
"""A temporary file is complete within seconds; an older one was left by a process that died."""

_LOW_WATER: Final = 0.9
"""Deleting goes down to this part of the bound, so that not every write scans the folder."""

_MAX_WRITERS: Final = 4
"""Processes that may write between two scans of the folder without exceeding the bound together."""

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    used_s: float
    num_bytes: int


class ArtefactStore:
    """The artefacts of this node, at most ``max_bytes`` of them. Thread-safe.

    Args:
        path: The folder, created with the first file.
        max_bytes: Bound of its size.
        shared: Asked for what is missing here, and sent what is made here.
    """

    def __init__(self, path: Path, max_bytes: int, shared: SharedStore | None = None) -> None:
        self._path = path
        self._folder = ArtefactFolder(path)
        self._max_bytes = max_bytes
        self._shared = shared
        self._unshared: list[str] = []
        self._lock = Lock()
        self._room = 0
        self._remove_stale_parts()

    def path_of(self, digest: str) -> Path:
        """Return the path of an artefact, existing or not, as ``ArtefactFolder.path_of``."""
        return self._folder.path_of(digest)

    def has(self, digest: str) -> bool:
        """Return whether the artefact is in this node's folder; if so, mark it as used."""
        path = self.path_of(digest)
        try:
            os.utime(path)
        except OSError:
            return path.is_file()  # in a folder that may only be read
        return True

    def load(self, digest: str) -> CompiledList:
        """Load a list's trie from this node's folder, as ``ArtefactFolder.load``, and mark it as used."""
        self.has(digest)
        return self._folder.load(digest)

    def load_overlay(self, digest: str) -> Overlay:
        """Load an overlay from this node's folder, as ``ArtefactFolder.load_overlay``, and mark it as used."""
        self.has(digest)
        return self._folder.load_overlay(digest)

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

    def save(self, words: CompiledList) -> Path:
        """Write a list's trie to this node's folder, for the next ``share``; raise ``ArtefactError`` on failure."""
        return self._write(words.digest, lambda: self._folder.save(words), is_new=True)

    def write_bytes(self, digest: str, data: bytes, *, is_new: bool = False) -> Path:
        """Write an artefact to the folder, to be shared if ``is_new``; raise ``ArtefactError`` if that fails."""
        return self._write(digest, lambda: self._folder.write_bytes(digest, data), is_new=is_new)

    def read_bytes(self, digest: str) -> bytes:
        """Read an artefact's bytes from the folder or the shared store; raise ``ArtefactError`` if neither has it."""
        if self.has(digest) or self._shared is None or (data := self._shared.read(digest)) is None:
            return self._folder.read_bytes(digest)
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
                self._shared.write(digest, self._folder.read_bytes(digest))
            except ArtefactError as error:
                logger.warning("not shared: %s", error)

    def num_bytes(self) -> int:
        """Return the size of the folder, temporary files included."""
        return sum(file.num_bytes for file in self._files())

    def _write(self, digest: str, write: Callable[[], Path], *, is_new: bool) -> Path:
        """Write an artefact's file with ``write``, note it for ``share`` if it is new, and make room if needed."""
        try:
            path = write()
        except OSError as error:
            raise ArtefactError(f"the artefact {digest} cannot be written to {self._path}: {error.strerror}") from None
        with self._lock:
            if is_new and self._shared:
                self._unshared.append(digest)
            with suppress(FileNotFoundError):  # another process may make room at any time
                self._room -= path.stat().st_size
            if self._room <= 0:
                self._make_room(path)
        return path

    def _make_room(self, newest: Path) -> None:
        """Delete the artefacts used longest ago, but not ``newest``, where the folder is over its bound."""
        present = self._files()
        total = sum(file.num_bytes for file in present)
        files = [file for file in present if file.path != newest and file.path.suffix != ".part"]
        num_deleted = 0
        if total > self._max_bytes:
            recent = time.time() - GRACE_S
            for file in sorted(files, key=lambda file: file.used_s):
                is_kept = file.used_s > recent and total <= 2 * self._max_bytes
                if total <= self._max_bytes * _LOW_WATER or is_kept:
                    break
                file.path.unlink(missing_ok=True)
                total -= file.num_bytes
                num_deleted += 1
        if num_deleted:
            logger.info("deleted %d artefacts used longest ago; %.1f MB are left", num_deleted, total / 1e6)
        if total <= self._max_bytes:
            self._room = (self._max_bytes - total) // _MAX_WRITERS
        else:
            # All of it is in use: still, not every write scans as many files.
            self._room = min(2 * self._max_bytes - total, self._max_bytes // 16) // _MAX_WRITERS

    def _files(self) -> list[_File]:
        """List the folder's artefacts and temporary files, each with its last use and size."""
        files = []
        try:
            with os.scandir(self._path) as entries:
                for entry in entries:
                    if entry.name.endswith((".safetensors", ".part")):
                        with suppress(FileNotFoundError):  # deleted by another process since the folder was listed
                            status = entry.stat(follow_symlinks=False)
                            files.append(_File(Path(entry.path), status.st_mtime, status.st_size))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return files

    def _remove_stale_parts(self) -> None:
        """Delete temporary files that were left by processes that died."""
        old = time.time() - STALE_PART_S
        for file in self._files():
            if file.path.suffix == ".part" and file.used_s < old:
                file.path.unlink(missing_ok=True)
