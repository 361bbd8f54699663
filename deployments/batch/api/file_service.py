"""What the API does with files: takes, lists, gives and deletes them, always for one owner.

Knows how much an owner may have, and in which order contents and record are kept, so that what dies between the two
leaves no file that is half there. Of batches it knows only which files they still need. Nothing of HTTP.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, Final
from uuid import uuid4

from deployments.batch.api import objects
from deployments.batch.state.contents import Contents, ContentsError, ContentsMissingError
from deployments.batch.state.records import FileRecord
from deployments.batch.state.store import Store, UnknownCursorError
from deployments.errors import BadRequestError, ConflictError, NotFoundError, PayloadTooLargeError
from deployments.settings import BatchSettings

logger = logging.getLogger("ray.serve.wordbound")

MAX_FILES_LISTED: Final = 10_000
MAX_READ_BYTES: Final = 16 * 2**20

_ID: Final = re.compile(r"[a-z]{1,16}[-_][0-9a-f]{1,64}")


class FileService:
    """The operations on files; each may be called from any thread, and blocks it.

    Each gives back what is sent as JSON, and may raise the leaves of ``ApiError``, ``StoreError`` and
    ``ContentsError``. What belongs to another owner is not found.

    Args:
        settings: Those of batches.
        store: Where records are kept.
        contents: Where contents are kept.
        clock: Seconds since 1970.
    """

    def __init__(
        self, settings: BatchSettings, store: Store, contents: Contents, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._limits = settings.limits
        self._store = store
        self._contents = contents
        self._clock = clock
        # No file goes while a batch is made of it.
        self._lock = Lock()

    def create_file(
        self, owner: str, filename: str, purpose: str, content: bytes, expires_after_s: int | None = None
    ) -> dict[str, Any]:
        """Keeps an uploaded file; ``expires_after_s`` shortens the time for which it is kept."""
        if purpose != "batch":
            raise BadRequestError("'purpose' must be 'batch'.", "purpose")
        self._check_size(owner, content)
        keep_s = min(expires_after_s or self._limits.retention_s, self._limits.retention_s)
        return objects.file_object(self._keep(owner, filename, [content], keep_s))

    def list_files(
        self,
        owner: str,
        purpose: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        order: str = "desc",
    ) -> dict[str, Any]:
        """At most ``limit`` files, newest first unless ``order`` is ``asc``."""
        limit = limited(limit, MAX_FILES_LISTED, MAX_FILES_LISTED)
        if order not in ("asc", "desc"):
            raise BadRequestError("'order' must be 'asc' or 'desc'.", "order")
        if purpose not in (None, "batch", "batch_output"):
            raise BadRequestError("'purpose' must be 'batch' or 'batch_output'.", "purpose")
        try:
            files, has_more = self._store.files(
                owner, purpose=purpose, after=checked_cursor(after), limit=limit, newest_first=order == "desc"
            )
        except UnknownCursorError:
            raise unknown_cursor() from None
        return objects.list_object([objects.file_object(file) for file in files], has_more=has_more)

    def get_file(self, owner: str, file_id: str) -> dict[str, Any]:
        return objects.file_object(self._file(owner, file_id))

    def read_file(self, owner: str, file_id: str, offset: int, num_bytes: int) -> bytes:
        """At most ``num_bytes`` from ``offset`` on; fewer where the file ends."""
        if offset < 0 or not 0 < num_bytes <= MAX_READ_BYTES:
            raise BadRequestError(f"A piece of a file has at least 1 and at most {MAX_READ_BYTES} bytes.")
        file = self._file(owner, file_id)
        try:
            return self._contents.read(file.id, offset, num_bytes)
        except ContentsMissingError:
            raise NotFoundError("There is no such file.") from None

    def delete_file(self, owner: str, file_id: str) -> dict[str, Any]:
        with self._lock:
            file = self._file(owner, file_id)
            for batch in self._store.open_batches():
                if batch.input_file_id == file.id:
                    raise ConflictError(
                        f"The file is the input of {batch.id}, which has not ended. Wait for it, or cancel it first.",
                        code="file_in_use",
                    )
            self._store.delete_file(owner, file.id)
        self._drop_contents(file.id)
        return objects.deleted_file(file.id)

    def _check_size(self, owner: str, content: bytes) -> None:
        if not content:
            raise BadRequestError("The file is empty.", "file")
        if len(content) > self._limits.max_file_bytes:
            raise PayloadTooLargeError(f"The file has more than {self._limits.max_file_bytes} bytes.", "file")
        if self._store.num_files_bytes(owner) + len(content) > self._limits.max_bytes_per_key:
            raise BadRequestError(
                f"Your files would have more than {self._limits.max_bytes_per_key} bytes together. Delete some first.",
                "file",
                "storage_full",
            )

    def _keep(self, owner: str, filename: str, chunks: Iterable[bytes], keep_s: int) -> FileRecord:
        """The contents first: a record without them would be a promise that nobody can keep."""
        file_id, now = f"file-{uuid4().hex}", self._now()
        num_bytes = self._contents.write(file_id, chunks)
        file = FileRecord(
            id=file_id,
            owner=owner,
            purpose="batch",
            filename=filename,
            num_bytes=num_bytes,
            created_at=now,
            expires_at=now + keep_s,
        )
        try:
            self._store.add_file(file)
        except BaseException:
            self._drop_contents(file_id)
            raise
        return file

    def _file(self, owner: str, file_id: str) -> FileRecord:
        file = self._store.file(owner, file_id) if is_id(file_id) else None
        if file is None:
            raise NotFoundError("There is no such file.")
        return file

    def _drop_contents(self, file_id: str) -> None:
        try:
            self._contents.delete(file_id)
        except ContentsError as error:
            logger.warning("the contents of a deleted file stay: %s", error)

    def _now(self) -> int:
        return int(self._clock())


def is_id(text: str) -> bool:
    """Whether it has the form of our ids; nothing else is looked for in a database, which might refuse the question."""
    return _ID.fullmatch(text) is not None


def limited(limit: int | None, default: int, most: int) -> int:
    """How many items of a list are asked for."""
    if limit is None:
        return default
    if not 1 <= limit <= most:
        raise BadRequestError(f"'limit' must be an integer from 1 to {most}.", "limit")
    return limit


def checked_cursor(after: str | None) -> str | None:
    if after is not None and not is_id(after):
        raise unknown_cursor()
    return after


def unknown_cursor() -> BadRequestError:
    return BadRequestError("'after' must be the id of an item of this list.", "after")
