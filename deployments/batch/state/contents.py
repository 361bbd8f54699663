"""Keeps what files hold, each under its name, in a folder or behind an fsspec URL.

A name shows a whole file or none. Knows nothing of who owns a file or what is in it. The names are ours, and what is
no such name is refused, so no path can be made of one.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import fsspec
from fsspec.implementations.local import LocalFileSystem

from deployments.batch.state.places import ContentsError, ContentsMissingError, Folder, Place, Remote, errors

__all__ = ["Contents", "ContentsError", "ContentsMissingError"]

_NAME: Final = re.compile(r"[a-z0-9_-]{1,128}")


class Contents:
    """The files in one place. Safe to use from several threads, beside other processes.

    Args:
        url_or_folder: A folder, which is made, or a URL such as ``s3://bucket/files``; its driver has to be installed.

    Raises:
        ContentsError: The place cannot be used.
    """

    def __init__(self, url_or_folder: str) -> None:
        with errors("the place of the files cannot be used"):
            files, root = fsspec.core.url_to_fs(os.path.expanduser(url_or_folder))  # noqa: PTH111 - may be a URL
            self._place: Place = Folder(Path(root)) if isinstance(files, LocalFileSystem) else Remote(files, root)

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
        with errors(f"file {_checked(name)} cannot be opened"):
            return self._place.open(name)

    def read(self, name: str, offset: int, num_bytes: int) -> bytes:
        """At most ``num_bytes`` of a file from ``offset`` on; fewer where it ends.

        Raises:
            ContentsError: As ``open``.
        """
        with errors(f"file {_checked(name)} cannot be read"):
            return self._place.read(name, offset, num_bytes)

    def size(self, name: str) -> int:
        """Bytes of a file.

        Raises:
            ContentsError: As ``open``.
        """
        with errors(f"file {_checked(name)} cannot be looked at"):
            return self._place.size(name)

    def delete(self, name: str) -> None:
        """One that is gone is fine.

        Raises:
            ContentsError: It is still there.
        """
        with errors(f"file {_checked(name)} cannot be deleted"), suppress(FileNotFoundError):
            self._place.delete(name)

    def old_names(self, older_than_s: float) -> list[str]:
        """Names of the files that were written at least so long ago; those whose place does not know are left out.

        A process that died between writing a file and remembering it has left one that nobody asks for.

        Raises:
            ContentsError: They cannot be listed.
        """
        with errors("the files cannot be listed"):
            return [name for name in self._place.old_names(older_than_s) if _NAME.fullmatch(name)]


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("the name of a file is of small letters, digits, - and _")
    return name
