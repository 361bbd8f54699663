"""Keeps what files hold, each under its name, in a folder or behind an fsspec URL.

A name shows a whole file or none. Knows nothing of who owns a file or what is in it. The names are ours, and what is
no such name is refused, so no path can be made of one.
"""

import fcntl
import os
import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

import fsspec
from fsspec.implementations.local import LocalFileSystem

_NAME: Final = re.compile(r"[a-z0-9_-]{1,128}")
_TEMPORARY: Final = ".part"
"""What the names of unfinished files end in; no name of ours holds a dot."""


class ContentsError(Exception):
    """The files cannot be read or written now, or at all: disk full, no access, no answer. The text is for the log."""


class ContentsMissingError(ContentsError):
    """There is no such file."""


class Contents:
    """The files in one place. Safe to use from several threads, beside other processes.

    Args:
        url_or_folder: A folder, which is made, or a URL such as ``s3://bucket/files``; its driver has to be installed.

    Raises:
        ContentsError: The place cannot be used.
    """

    def __init__(self, url_or_folder: str) -> None:
        with _errors("the place of the files cannot be used"):
            files, root = fsspec.core.url_to_fs(os.path.expanduser(url_or_folder))  # noqa: PTH111 - may be a URL
            self._place: _Place = _Folder(Path(root)) if isinstance(files, LocalFileSystem) else _Remote(files, root)

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        """Writes a file, or replaces it once the new one is complete and safe on the disk.

        Returns:
            Its bytes.

        Raises:
            ContentsError: It could not be written; nothing of it is left. What the chunks raise goes through, likewise.
        """
        return self._place.write(_checked(name), chunks)

    def open(self, name: str) -> BinaryIO:
        """The file, to be closed by the caller. Reading from it may raise ``OSError``.

        Raises:
            ContentsMissingError: There is none.
            ContentsError: It cannot be opened.
        """
        with _errors(f"file {_checked(name)} cannot be opened"):
            return self._place.open(name)

    def read(self, name: str, offset: int, num_bytes: int) -> bytes:
        """At most ``num_bytes`` of a file from ``offset`` on; fewer where it ends.

        Raises:
            ContentsError: As ``open``.
        """
        with _errors(f"file {_checked(name)} cannot be read"):
            return self._place.read(name, offset, num_bytes)

    def size(self, name: str) -> int:
        """Bytes of a file.

        Raises:
            ContentsError: As ``open``.
        """
        with _errors(f"file {_checked(name)} cannot be looked at"):
            return self._place.size(name)

    def delete(self, name: str) -> None:
        """One that is gone is fine.

        Raises:
            ContentsError: It is still there.
        """
        with _errors(f"file {_checked(name)} cannot be deleted"), suppress(FileNotFoundError):
            self._place.delete(name)


class _Place(Protocol):
    """Where files lie; each method but ``write`` may raise whatever the file system does."""

    def write(self, name: str, chunks: Iterable[bytes]) -> int: ...

    def open(self, name: str) -> BinaryIO: ...

    def read(self, name: str, offset: int, num_bytes: int) -> bytes: ...

    def size(self, name: str) -> int: ...

    def delete(self, name: str) -> None: ...


class _Folder:
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
            with _errors(f"file {name} cannot be written"):
                file = temporary.open("xb")
            with _closing(file, name):
                with suppress(OSError):  # some network file systems have no locks
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                num_bytes = _copy(chunks, file, name)
                with _errors(f"file {name} cannot be written"):
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

    def _sync_root(self) -> None:
        descriptor = os.open(self._root, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class _Remote:
    """A place behind a URL. An object store shows an object once it has all of it; so a file is collected here first.

    Where a file system behind a URL shows half a file after a failure, nobody was told that there is one.
    """

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root.rstrip("/")
        files.makedirs(root, exist_ok=True)

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        with _errors(f"file {name} cannot be written"):
            # It has no name, so that nothing is left of it if the process is killed.
            file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the next statement
        with _closing(file, name):
            num_bytes = _copy(chunks, file, name)
            with _errors(f"file {name} cannot be written"):
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

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("the name of a file is of small letters, digits, - and _")
    return name


@contextmanager
def _closing(file: Any, name: str) -> Iterator[None]:
    """Closing writes what is still in the buffer, and fails where writing does."""
    try:
        yield
    finally:
        with _errors(f"file {name} cannot be written"):
            file.close()


def _copy(chunks: Iterable[bytes], file: Any, name: str) -> int:
    num_bytes = 0
    for chunk in chunks:
        with _errors(f"file {name} cannot be written"):
            file.write(chunk)
        num_bytes += len(chunk)
    return num_bytes


def _remove_unless_written(temporary: Path) -> None:
    """Whoever still writes a temporary file holds its lock."""
    with suppress(OSError), temporary.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        temporary.unlink()


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Drivers of object stores raise errors of their own kinds, which have nothing in common."""
    try:
        yield
    except ContentsError:
        raise
    except FileNotFoundError as error:
        raise ContentsMissingError(f"{what}: {error}"[:500]) from error
    except Exception as error:
        raise ContentsError(f"{what}: {type(error).__name__}: {error}"[:500]) from error
