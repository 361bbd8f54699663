"""Take, list, return and delete files, always for one owner.

Contents are written before the record, so that a process that dies between the two leaves no half file. An upload
comes in pieces, and is dropped if they stop coming.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Final, TypeVar
from uuid import uuid4

from deployments.batch.models import File, is_id
from deployments.batch.store import BatchStore, TooManyBytesError, UnknownCursorError
from deployments.errors import BadRequestError, ConflictError, NotFoundError, OverloadedError, PayloadTooLargeError
from deployments.protocol.batches import MAX_FILES_LISTED
from deployments.settings.service import Settings
from deployments.storage import FileMissingError, Location, PartialFile, StorageError

logger = logging.getLogger("ray.serve.wordbound")

T = TypeVar("T")

_FORGET_UPLOAD_S: Final = 120.0
"""After so long without a piece, the ingress that sent them has died, or its client left."""


@dataclass
class _Upload:
    """A file that arrives; ``num_bytes`` is its final size."""

    owner: str
    num_bytes: int
    file: PartialFile
    last_piece_at: float


class FileService:
    """The operations on files; each may be called from any thread, and blocks it.

    Each returns what is sent as JSON, and may raise the leaves of ``ApiError``, ``StoreError`` and ``StorageError``.
    What belongs to another owner is not found. ``on_change`` is called when a batch is added, or is to be cancelled.
    """

    def __init__(
        self,
        settings: Settings,
        store: BatchStore,
        folder: Location,
        *,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self._on_change = on_change
        self._settings = settings
        self._limits = settings.batch.limits
        self._store = store
        self._folder = folder
        self._clock = clock
        # No file goes while a batch is made of it.
        self._lock = Lock()
        self._uploads: dict[str, _Upload] = {}
        self._uploads_lock = Lock()

    def close(self) -> None:
        """Discard all uploads under way."""
        while self._uploads:
            self._uploads.popitem()[1].file.discard()

    def begin_upload(self, owner: str, num_bytes: int) -> str:
        """Begin an upload of ``num_bytes``, if the owner's files leave room; return its id."""
        if not num_bytes:
            raise BadRequestError("The file is empty.", "file")
        if num_bytes > self._limits.max_file_bytes:
            raise PayloadTooLargeError(f"The file has more than {self._limits.max_file_bytes} bytes.", "file")
        with self._uploads_lock:
            for upload_id, upload in list(self._uploads.items()):
                if self._clock() - upload.last_piece_at > _FORGET_UPLOAD_S:
                    self._uploads.pop(upload_id).file.discard()
            arriving = sum(upload.num_bytes for upload in self._uploads.values() if upload.owner == owner)
            if self._store.num_files_bytes(owner) + arriving + num_bytes > self._max_bytes(owner):
                raise self._storage_full(owner)
            upload_id = f"file-{uuid4().hex}"
            file = PartialFile(self._folder.child(upload_id))
            self._uploads[upload_id] = _Upload(owner, num_bytes, file, self._clock())
        return upload_id

    def append(self, owner: str, upload_id: str, piece: bytes) -> None:
        """Write the next piece of an upload; one that cannot be written ends the upload."""
        upload = self._upload(owner, upload_id)
        upload.last_piece_at = self._clock()
        try:
            upload.file.write(piece)
        except StorageError:
            self._uploads.pop(upload_id, None)
            upload.file.discard()
            raise

    def create_file(
        self, owner: str, upload_id: str, filename: str, purpose: str, expires_after_s: int | None = None
    ) -> dict[str, Any]:
        """Make a file of a complete upload; ``expires_after_s`` shortens the time until it is deleted."""
        file = self._end_upload(owner, upload_id)
        try:
            if purpose != "batch":
                raise BadRequestError("'purpose' must be 'batch'.", "purpose")
            keep_s = min(expires_after_s or self._limits.retention_s, self._limits.retention_s)
            return file_object(self._record_file(owner, upload_id, filename, file.commit(), keep_s))
        finally:
            file.discard()

    def list_files(
        self,
        owner: str,
        purpose: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        order: str = "desc",
    ) -> dict[str, Any]:
        """Return a page of the owner's files, at most ``limit``, newest first unless ``order`` is ``asc``."""
        if order not in ("asc", "desc"):
            raise BadRequestError("'order' must be 'asc' or 'desc'.", "order")
        if purpose not in (None, "batch", "batch_output"):
            raise BadRequestError("'purpose' must be 'batch' or 'batch_output'.", "purpose")
        find = partial(self._store.files, owner, purpose=purpose, newest_first=order == "desc")
        return page_object(find, file_object, after, limit, MAX_FILES_LISTED, MAX_FILES_LISTED)

    def get_file(self, owner: str, file_id: str) -> dict[str, Any]:
        """Return OpenAI's object of one of the owner's files."""
        return file_object(self._file(owner, file_id))

    def read_file(self, owner: str, file_id: str, offset: int, num_bytes: int) -> bytes:
        """Return at most ``num_bytes`` of a file's contents from ``offset`` on; fewer where it ends."""
        file = self._file(owner, file_id)
        try:
            return self._folder.child(file.id).read(offset, num_bytes)
        except FileMissingError:
            raise NotFoundError("There is no such file.") from None

    def delete_file(self, owner: str, file_id: str) -> dict[str, Any]:
        """Delete a file with its contents; refuse one that an open batch reads."""
        with self._lock:
            file = self._file(owner, file_id)
            for batch in self._store.open_batches():
                if batch.input_file_id == file.id:
                    raise ConflictError(
                        f"The file is the input of {batch.id}, which has not ended. Wait for it, or cancel it first.",
                        code="file_in_use",
                    )
            self._store.delete_file(file.id)
        self._drop_contents(file.id)
        return {"id": file.id, "object": "file", "deleted": True}

    def _upload(self, owner: str, upload_id: str) -> _Upload:
        """Return the owner's upload under way; refuse where it is gone."""
        upload = self._uploads.get(upload_id)
        if upload is None or upload.owner != owner:
            raise OverloadedError("The upload was interrupted. Send the file again.")
        return upload

    def _end_upload(self, owner: str, upload_id: str) -> PartialFile:
        """Return the file of a complete upload, for the caller to commit or discard."""
        upload = self._upload(owner, upload_id)
        self._uploads.pop(upload_id, None)
        if upload.file.num_bytes != upload.num_bytes:
            upload.file.discard()
            raise OverloadedError("The upload was interrupted. Send the file again.")
        return upload.file

    def _record_file(self, owner: str, file_id: str, filename: str, num_bytes: int, keep_s: int) -> File:
        """Record a file whose contents are stored; where it is refused, delete them."""
        now = self._now()
        file = File(
            id=file_id,
            owner=owner,
            purpose="batch",
            filename=filename,
            num_bytes=num_bytes,
            created_at=now,
            expires_at=now + keep_s,
        )
        try:
            # ``begin_upload`` cannot know what arrives in another process, or how long a list is as lines.
            self._store.add_file(file, max_bytes_of_owner=self._max_bytes(owner))
        except TooManyBytesError:
            self._drop_contents(file_id)
            raise self._storage_full(owner) from None
        except BaseException:
            self._drop_contents(file_id)
            raise
        return file

    def _max_bytes(self, owner: str) -> int:
        """Return how many bytes the owner's files may have together."""
        return self._settings.key(owner).max_file_bytes or self._limits.max_bytes_per_key

    def _storage_full(self, owner: str) -> BadRequestError:
        return BadRequestError(
            f"Your files would have more than {self._max_bytes(owner)} bytes together. Delete some first.",
            "file",
            "storage_full",
        )

    def _file(self, owner: str, file_id: str) -> File:
        """Return the record of one of the owner's files, else raise a 404."""
        file = self._store.file(owner, file_id) if is_id(file_id) else None
        if file is None:
            raise NotFoundError("There is no such file.")
        return file

    def _drop_contents(self, file_id: str) -> None:
        """Delete a file's contents, and log where that fails."""
        try:
            self._folder.child(file_id).delete()
        except StorageError as error:
            logger.warning("the contents of a deleted file stay: %s", error)

    def _now(self) -> int:
        return int(self._clock())


def file_object(file: File) -> dict[str, Any]:
    """Return OpenAI's object of a file."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.num_bytes,
        "created_at": file.created_at,
        "expires_at": file.expires_at,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def page_object(
    find: Callable[..., tuple[list[T], bool]],
    show: Callable[[T], dict[str, Any]],
    after: str | None,
    limit: int | None,
    default_limit: int,
    max_limit: int,
) -> dict[str, Any]:
    """Return OpenAI's object of one page of a list: at most ``limit`` of what ``find`` finds after the id ``after``."""
    if limit is not None and not 1 <= limit <= max_limit:
        raise BadRequestError(f"'limit' must be an integer from 1 to {max_limit}.", "limit")
    try:
        if after is not None and not is_id(after):
            raise UnknownCursorError
        found, has_more = find(after=after, limit=limit or default_limit)
    except UnknownCursorError:
        raise BadRequestError("'after' must be the id of an item of this list.", "after") from None
    data = [show(one) for one in found]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }
