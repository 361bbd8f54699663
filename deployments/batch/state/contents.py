"""What files hold, each under its name in one folder or behind one URL.

The names are ours, and what is no such name is refused, so that no path can be made of one.
"""

import re
from collections.abc import Iterable
from typing import BinaryIO, Final

from deployments.storage import Location, PartialFile

_NAME: Final = re.compile(r"[a-z0-9_-]{1,128}")


class Contents:
    """The files in one folder. May be used from several threads, beside other processes.

    Every method may raise ``StorageError``, and ``FileMissingError`` where there is no such file.

    Args:
        url_or_folder: A folder, which is made, or a URL such as ``s3://bucket/files``; its driver has to be installed.
    """

    def __init__(self, url_or_folder: str) -> None:
        self._folder = Location.of(url_or_folder)
        self._folder.prepare_folder()

    def begin(self, name: str) -> PartialFile:
        """Begin to write a file, or to replace it."""
        return PartialFile(self._file(name))

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        """Write a file, whole or not at all, and return its bytes. What the chunks raise goes through."""
        return self._file(name).write(chunks)

    def open(self, name: str) -> BinaryIO:
        return self._file(name).open()

    def read(self, name: str, offset: int, num_bytes: int) -> bytes:
        """Return at most ``num_bytes`` of a file from ``offset`` on; fewer where it ends."""
        return self._file(name).read(offset, num_bytes)

    def size(self, name: str) -> int:
        return self._file(name).size()

    def delete(self, name: str) -> None:
        """Delete a file; one that is gone is fine."""
        self._file(name).delete()

    def old_names(self, older_than_s: float) -> list[str]:
        """Return the names of the files that were written at least so long ago, as far as that is known.

        A process that died between writing a file and remembering it has left one that nobody asks for.
        """
        return [name for name in self._folder.old_names(older_than_s) if _NAME.fullmatch(name)]

    def _file(self, name: str) -> Location:
        if not _NAME.fullmatch(name):
            raise ValueError("the name of a file is of small letters, digits, - and _")
        return self._folder.child(name)
