"""The contents of files, each under its name in one folder or behind one URL.

Names are ours; any other is refused, so that none can lead to another path.
"""

import re
from collections.abc import Iterable
from typing import BinaryIO, Final

from deployments.storage import Location, PartialFile

_NAME: Final = re.compile(r"[a-z0-9_-]{1,128}")


class Contents:
    """The files in one folder, which is made, or behind a URL such as ``s3://bucket/files`` whose driver is installed.

    May be used from several threads, beside other processes. Every method may raise ``StorageError``, and
    ``FileMissingError`` where there is no such file; see ``Location``.
    """

    def __init__(self, url_or_folder: str) -> None:
        self._folder = Location.of(url_or_folder)
        self._folder.prepare_folder()

    def begin(self, name: str) -> PartialFile:
        """Return a new file to write to, which appears under its name when it is committed."""
        return PartialFile(self._file(name))

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        return self._file(name).write(chunks)

    def open(self, name: str) -> BinaryIO:
        return self._file(name).open()

    def read(self, name: str, offset: int, num_bytes: int) -> bytes:
        return self._file(name).read(offset, num_bytes)

    def size(self, name: str) -> int:
        return self._file(name).size()

    def delete(self, name: str) -> None:
        self._file(name).delete()

    def old_names(self, older_than_s: float) -> list[str]:
        """Return the names of files written at least ``older_than_s`` ago, as far as the file system knows.

        A process that died between writing a file and recording it has left an orphan.
        """
        return [name for name in self._folder.old_names(older_than_s) if _NAME.fullmatch(name)]

    def _file(self, name: str) -> Location:
        """Return the location of a file; refuse a name that is not ours."""
        if not _NAME.fullmatch(name):
            raise ValueError("the name of a file is of small letters, digits, - and _")
        return self._folder.child(name)
