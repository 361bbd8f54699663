"""The two kinds of places where files lie: a folder, and whatever a URL of fsspec's names.

Both know how to show a file whole or not at all, and what a failure leaves behind. Names are taken as they come.
"""

import fcntl
import os
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

from vocab.artefacts.shared_store import time_of

_TEMPORARY: Final = ".part"
"""What the names of unfinished files end in; no name that is asked for holds a dot."""


class ContentsError(Exception):
    """The files cannot be read or written now, or at all: disk full, no access, no answer. The text is for the log."""


class ContentsMissingError(ContentsError):
    """There is no such file."""


class Place(Protocol):
    """Where files lie; each method but ``write`` may raise whatever the file system does."""

    def write(self, name: str, chunks: Iterable[bytes]) -> int: ...

    def open(self, name: str) -> BinaryIO: ...

    def read(self, name: str, offset: int, num_bytes: int) -> bytes: ...

    def size(self, name: str) -> int: ...

    def delete(self, name: str) -> None: ...

    def old_names(self, older_than_s: float) -> list[str]: ...


class Folder:
    """A folder of this machine, or one that it has mounted."""

    def __init__(self, root: Path) -> None:
        # What clients wrote is nobody else's business.
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = root
        for left_behind in root.glob(f"*{_TEMPORARY}"):
            _remove_unless_written(left_behind)
        # A folder that cannot be written to is found out now, and not by the first client.
        tempfile.TemporaryFile(dir=root).close()

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        temporary = self._root / f"{name}-{uuid.uuid4().hex}{_TEMPORARY}"
        try:
            with errors(f"file {name} cannot be written"):
                file = temporary.open("xb")
            with _closing(file, name):
                with suppress(OSError):  # some network file systems have no locks
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                num_bytes = _copy(chunks, file, name)
                with errors(f"file {name} cannot be written"):
                    file.flush()
                    os.fsync(file.fileno())
                    temporary.replace(self._root / name)
                    self._sync_root()
            return num_bytes
        finally:
            with suppress(OSError):
                temporary.unlink()

    def open(self, name: str) -> BinaryIO:
        return (self._root / name).open("rb")

    def read(self, name: str, offset: int, num_bytes: int) -> bytes:
        with self.open(name) as file:
            file.seek(offset)
            return file.read(num_bytes)

    def size(self, name: str) -> int:
        return (self._root / name).stat().st_size

    def delete(self, name: str) -> None:
        (self._root / name).unlink()

    def old_names(self, older_than_s: float) -> list[str]:
        before = time.time() - older_than_s
        names = []
        with os.scandir(self._root) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.stat().st_mtime <= before:
                        names.append(entry.name)
        return names

    def _sync_root(self) -> None:
        descriptor = os.open(self._root, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Remote:
    """A place behind a URL. An object store shows an object once it has all of it; so a file is collected here first.

    Where a file system behind a URL shows half a file after a failure, nobody was told that there is one.
    """

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root.rstrip("/")
        files.makedirs(root, exist_ok=True)

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        with errors(f"file {name} cannot be written"):
            # It has no name, so that nothing is left of it if the process is killed.
            file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the next statement
        with _closing(file, name):
            num_bytes = _copy(chunks, file, name)
            with errors(f"file {name} cannot be written"):
                file.seek(0)
                self._files.put_file(f"/dev/fd/{file.fileno()}", self._path(name))
                if (there := self._files.size(self._path(name))) != num_bytes:
                    with suppress(Exception):
                        self._files.rm_file(self._path(name))
                    raise OSError(f"{num_bytes} bytes were sent and {there} arrived")
        return num_bytes

    def open(self, name: str) -> BinaryIO:
        return cast("BinaryIO", self._files.open(self._path(name), "rb"))

    def read(self, name: str, offset: int, num_bytes: int) -> bytes:
        # Object stores take a range that begins at the end for an error.
        end = min(offset + num_bytes, self.size(name))
        return bytes(self._files.cat_file(self._path(name), start=offset, end=end)) if offset < end else b""

    def size(self, name: str) -> int:
        return int(self._files.size(self._path(name)))

    def delete(self, name: str) -> None:
        self._files.rm_file(self._path(name))

    def old_names(self, older_than_s: float) -> list[str]:
        self._files.invalidate_cache(self._root)
        before = time.time() - older_than_s
        entries = self._files.ls(self._root, detail=True)
        return [str(entry["name"]).rsplit("/", 1)[-1] for entry in entries if 0 < time_of(entry) <= before]

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


@contextmanager
def _closing(file: Any, name: str) -> Iterator[None]:
    """Closing writes what is still in the buffer, and fails where writing does."""
    try:
        yield
    finally:
        with errors(f"file {name} cannot be written"):
            file.close()


def _copy(chunks: Iterable[bytes], file: Any, name: str) -> int:
    num_bytes = 0
    for chunk in chunks:
        with errors(f"file {name} cannot be written"):
            file.write(chunk)
        num_bytes += len(chunk)
    return num_bytes


def _remove_unless_written(temporary: Path) -> None:
    """Whoever still writes a temporary file holds its lock."""
    with suppress(OSError), temporary.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        temporary.unlink()


@contextmanager
def errors(what: str) -> Iterator[None]:
    """Drivers of object stores raise errors of their own kinds, which have nothing in common."""
    try:
        yield
    except FileNotFoundError as error:
        raise ContentsMissingError(f"{what}: {error}"[:500]) from error
    except Exception as error:
        raise ContentsError(f"{what}: {type(error).__name__}: {error}"[:500]) from error
