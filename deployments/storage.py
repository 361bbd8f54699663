"""Files in a local folder or behind an fsspec URL, behind one interface.

What is written appears whole or not at all: a local file is renamed once it is safe on the disk, and an object store
shows an object once it has all of it.
"""

import fcntl
import os
import posixpath
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Self, cast
from uuid import uuid4

import fsspec
from fsspec.implementations.local import LocalFileSystem

from vocab.artefacts.store import time_of

_PARTIAL: Final = ".part"
"""Suffix of unfinished files. Their names begin with a dot, so that readers of the folder pass them over."""


class StorageError(OSError):
    """Files cannot be read or written, now or at all: disk full, no access, no answer. The text is for the log."""


class FileMissingError(StorageError):
    """There is no such file."""


@dataclass(frozen=True)
class Location:
    """A file, or a folder and all below it; ``path`` is, on this machine, absolute and without links.

    Each method may raise ``StorageError``, and ``FileMissingError`` where there is no such file.
    """

    filesystem: fsspec.AbstractFileSystem
    path: str

    @classmethod
    def of(cls, given: str) -> Self:
        """Return the location of a path, which may begin with ``~``, or of a URL whose driver is installed."""
        with _errors(f"{given}: cannot be opened"):
            filesystem, path = fsspec.core.url_to_fs(os.path.expanduser(given))  # noqa: PTH111 - may be a URL
        if isinstance(filesystem, LocalFileSystem):
            return cls(filesystem, os.path.realpath(path))
        if ".." in path.split("/"):
            raise StorageError(f"{given}: a URL must not hold '..'")
        return cls(filesystem, posixpath.normpath(path))

    @property
    def is_local(self) -> bool:
        return isinstance(self.filesystem, LocalFileSystem)

    @property
    def url(self) -> str:
        return self.path if self.is_local else str(self.filesystem.unstrip_protocol(self.path))

    def child(self, name: str) -> Self:
        """Return the location of a file or folder directly in this folder."""
        if "/" in name or name in ("", ".", ".."):
            raise ValueError("the name of a file has no '/', and is neither '.' nor '..'")
        return type(self)(self.filesystem, f"{self.path}/{name}")

    def holds(self, other: "Location") -> bool:
        """Return whether another location is this one or below it."""
        same = self.is_local == other.is_local and self.filesystem == other.filesystem
        return same and f"{other.path}/".startswith(f"{self.path.rstrip('/')}/")

    def prepare_folder(self) -> None:
        """Create the folder, for its owner only, and remove partial files; fail if it is not writable."""
        with _errors(f"{self.path} cannot be used"):
            if not self.is_local:
                self.filesystem.makedirs(self.path, exist_ok=True)
                return
            Path(self.path).mkdir(mode=0o700, parents=True, exist_ok=True)
            self.remove_partial_files()
            tempfile.TemporaryFile(dir=self.path).close()

    def remove_partial_files(self) -> None:
        """Remove the unfinished files that killed processes left in this folder."""
        for left_behind in Path(self.path).glob(f"*{_PARTIAL}") if self.is_local else ():
            # A file that is still being written is locked.
            with suppress(OSError), left_behind.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left_behind.unlink()

    def old_names(self, older_than_s: float) -> list[str]:
        """Return the names in this folder written at least ``older_than_s`` ago, as far as it is known."""
        with _errors(f"{self.path} cannot be listed"):
            self.filesystem.invalidate_cache(self.path)
            before = time.time() - older_than_s
            entries = self.filesystem.ls(self.path, detail=True)
            return [str(entry["name"]).rsplit("/", 1)[-1] for entry in entries if 0 < time_of(entry) <= before]

    def open(self) -> BinaryIO:
        """Open the file for reading; reading from it may raise whatever its driver does."""
        with _errors(f"{self.path} cannot be opened"):
            return cast("BinaryIO", self.filesystem.open(self.path, "rb"))

    def read(self, offset: int, num_bytes: int) -> bytes:
        """Read at most ``num_bytes`` from ``offset`` on; fewer where the file ends."""
        # Object stores take a range that begins at the end for an error.
        end = min(offset + num_bytes, self.size())
        with _errors(f"{self.path} cannot be read"):
            return bytes(self.filesystem.cat_file(self.path, start=offset, end=end)) if offset < end else b""

    def size(self) -> int:
        with _errors(f"{self.path} cannot be looked at"):
            return int(self.filesystem.size(self.path))

    def delete(self) -> None:
        """Delete the file, if it is there."""
        with _errors(f"{self.path} cannot be deleted"), suppress(FileNotFoundError):
            self.filesystem.rm_file(self.path)

    def write(self, chunks: Iterable[bytes]) -> int:
        """Write or replace the file, whole or not at all; return its size. Errors of ``chunks`` pass through."""
        file = PartialFile(self)
        try:
            for chunk in chunks:
                file.write(chunk)
            return file.commit()
        finally:
            file.discard()


class PartialFile:
    """A file that is being written; it appears at its location with ``commit``.

    Until then it is on this machine: beside its location or, for a URL, without a name. ``file`` may be read after
    ``flush``. Each method but ``discard`` may raise ``StorageError``.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._failed = f"{location.path} cannot be written"
        self._temporary: Path | None = None
        self.num_bytes = 0
        with _errors(self._failed):
            if not location.is_local:
                self.file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed by discard
                return
            target = Path(location.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            self._temporary = target.with_name(f".{target.name}-{uuid4().hex}{_PARTIAL}")
            self.file = self._temporary.open("x+b")
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, data: bytes) -> None:
        with _errors(self._failed):
            self.file.write(data)
        self.num_bytes += len(data)

    def flush(self) -> None:
        with _errors(self._failed):
            self.file.flush()

    def commit(self) -> int:
        """Make the file appear, once all of it is on the disk or sent; return its size in bytes."""
        self.flush()
        with _errors(self._failed):
            if self._temporary is None:
                self._send()
            else:
                os.fsync(self.file.fileno())
                self._temporary.replace(self._location.path)
                _sync_folder(self._temporary.parent)
        self.discard()
        return self.num_bytes

    def discard(self) -> None:
        """Close the file and delete it if it is unfinished; harmless after a commit."""
        # Closing flushes the buffer, which fails where writing did.
        with suppress(OSError):
            self.file.close()
        if self._temporary is not None:
            with suppress(OSError):
                self._temporary.unlink()

    def _send(self) -> None:
        """Upload the file; raise and delete it where not all of it arrived."""
        filesystem, path = self._location.filesystem, self._location.path
        self.file.seek(0)
        filesystem.put_file(f"/dev/fd/{self.file.fileno()}", path)
        if (there := filesystem.size(path)) != self.num_bytes:
            with suppress(Exception):
                filesystem.rm_file(path)
            raise OSError(f"{self.num_bytes} bytes were sent and {there} arrived")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Convert the exceptions of all kinds of drivers into ``StorageError``."""
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise FileMissingError(f"{what}: {error}"[:500]) from error
    except Exception as error:
        raise StorageError(f"{what}: {type(error).__name__}: {error}"[:500]) from error
