"""A file system whose files are fsspec's ``AbstractBufferedFile``, as those of object stores are."""

from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractBufferedFile


class BufferedFileSystem(MemoryFileSystem):
    """``buffered://``, kept in memory."""

    protocol = "buffered"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace(f"{cls.protocol}://", "memory://")))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode != "rb":
            return super()._open(path, mode, **options)
        return AbstractBufferedFile(self, path, mode, block_size=1000)


fsspec.register_implementation("buffered", BufferedFileSystem, clobber=True)
