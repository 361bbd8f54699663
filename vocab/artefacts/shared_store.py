"""Artefacts behind an fsspec URL (``s3://…``, ``gs://…``, ``file://…``), shared by all clusters that name it.

No method raises or blocks for long. A store that fails or does not answer is logged once and left alone for a while;
meanwhile lists are made on the node. Contents are not checked here.

After a write the store holds at most ``max_bytes``, plus what other nodes write before they look at it themselves. The
files written longest ago are deleted first, or used longest ago where the file system records a use, as local ones do.
"""

import logging
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from threading import Thread
from typing import Any, Final, TypeVar

import fsspec

_TIME_KEYS: Final = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
"""What file systems call the time of the last change; the first present counts."""

_LOW_WATER: Final = 0.9
_SUFFIX: Final = ".safetensors"

T = TypeVar("T")
logger = logging.getLogger(__name__)


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
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._failed_at: float | None = None
        self._room = 0
        self._opened: tuple[Any, str] | None = None

    def read(self, digest: str) -> bytes | None:
        """Fetch an artefact's bytes from the shared store; None where there is none or the store fails."""
        return self._try(lambda: self._read(digest))

    def write(self, digest: str, data: bytes) -> None:
        """Write an artefact's bytes to the shared store; a failure is logged, not raised."""
        self._try(lambda: self._write(digest, data))

    def delete(self, digest: str) -> None:
        """Delete an artefact from the shared store; a failure is logged, not raised."""
        self._try(lambda: self._delete(digest))

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

    def _read(self, digest: str) -> bytes | None:
        """Read an artefact's bytes and, where possible, record the use; None where there is none."""
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

    def _write(self, digest: str, data: bytes) -> None:
        """Write an artefact's bytes, whole or not at all, and make room where the bound may be exceeded."""
        files, root = self._open()
        path = f"{root}/{digest}{_SUFFIX}"
        if {"file", "local"}.isdisjoint(_names(files)):
            # An object store shows an object whole or not at all.
            files.pipe_file(path, data)
        else:
            temporary = f"{root}/{uuid.uuid4().hex}.part"
            try:
                files.pipe_file(temporary, data)
                os.replace(temporary, path)  # noqa: PTH105 - the path is a string of the file system's
            finally:
                with suppress(FileNotFoundError):
                    files.rm_file(temporary)
        self._room -= len(data)
        if self._room <= 0:
            self._make_room(path)

    def _delete(self, digest: str) -> None:
        files, root = self._open()
        with suppress(FileNotFoundError):
            files.rm_file(f"{root}/{digest}{_SUFFIX}")

    def _make_room(self, newest: str) -> None:
        """Delete the artefacts written or used longest ago, but not ``newest``, where the store is over its bound."""
        files, root = self._open()
        files.invalidate_cache(root)
        entries = [entry for entry in files.ls(root, detail=True) if str(entry["name"]).endswith(_SUFFIX)]
        total = sum(entry["size"] for entry in entries)
        if total > self._max_bytes:
            for entry in sorted(entries, key=time_of):
                if total <= self._max_bytes * _LOW_WATER:
                    break
                if not str(entry["name"]).endswith(newest.rsplit("/", 1)[-1]):
                    with suppress(FileNotFoundError):
                        files.rm_file(entry["name"])
                    total -= entry["size"]
        self._room = max(self._max_bytes - total, 0) // 4


def _names(files: Any) -> set[str]:
    """Return the protocol names of a file system."""
    return {files.protocol} if isinstance(files.protocol, str) else set(files.protocol)


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
