"""Make, look up and cancel batches and jobs, always for one owner.

The simple route's list of chat requests becomes the lines of a batch, with the parameters of the query. An item that is
no chat request becomes a line at fault, and the others are answered.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from deployments.batch.api import objects
from deployments.batch.api.file_service import (
    FileService,
    check_cursor,
    check_limit,
    is_id,
    new_file_id,
    unknown_cursor,
)
from deployments.batch.state.contents import Contents
from deployments.batch.state.records import BatchRecord, FileRecord, Kind
from deployments.batch.state.statements import UnknownCursorError
from deployments.batch.state.store import BatchStore, StoreError, TooManyOpenError
from deployments.errors import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    PayloadTooLargeError,
    TooManyRequestsError,
)
from deployments.protocol.batches import ENDPOINT, MAX_BATCHES_LISTED, read_batch
from deployments.protocol.strict_json import JsonError, loads
from deployments.settings.limits import MAX_JSON_DEPTH
from deployments.settings.service import Settings
from deployments.storage import PartialFile

MAX_JOB_BYTES: Final = 20 * 2**20
"""Of a JSON list, which is in memory as objects: some ten times as much. For more there are files."""

_BATCHES_LISTED: Final = 20

_JOB_WINDOW_S: Final = 7 * 86400
"""A job names no window. So long, or as long as files are kept, if that is shorter."""


class BatchService(FileService):
    """All operations on files, batches and jobs, with the contract of ``FileService``.

    ``on_change`` is called when a batch is added, or is to be cancelled.
    """

    def __init__(
        self,
        settings: Settings,
        store: BatchStore,
        contents: Contents,
        *,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(settings, store, contents, clock=clock)
        self._on_change = on_change

    # Batches

    def create_batch(self, owner: str, fields: Any) -> dict[str, Any]:
        """Make a batch of an uploaded file; ``fields`` is the parsed body of the request."""
        checked = read_batch(fields, max_window_s=self._limits.retention_s)
        with self._lock:
            file = self._store.file(owner, checked.input_file_id) if is_id(checked.input_file_id) else None
            if file is None:
                raise NotFoundError("There is no such file. Upload one first.", "input_file_id")
            if file.purpose != "batch":
                raise BadRequestError("The file must have been uploaded with the purpose 'batch'.", "input_file_id")
            batch = self._new_batch(
                owner,
                "batch",
                file,
                checked.completion_window,
                checked.window_s,
                metadata=checked.metadata,
                output_expires_after_s=checked.output_expires_after and checked.output_expires_after.seconds,
            )
            self._add(batch)
        self._on_change()
        return objects.batch_object(batch)

    def get_batch(self, owner: str, batch_id: str) -> dict[str, Any]:
        """Return OpenAI's object of one of the owner's batches."""
        return objects.batch_object(self._batch(owner, batch_id, "batch"))

    def list_batches(self, owner: str, after: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """Return a page of the owner's batches, at most ``limit``, newest first."""
        limit = check_limit(limit, _BATCHES_LISTED, MAX_BATCHES_LISTED)
        try:
            batches, has_more = self._store.batches(owner, "batch", after=check_cursor(after), limit=limit)
        except UnknownCursorError:
            raise unknown_cursor() from None
        return objects.list_object([objects.batch_object(batch) for batch in batches], has_more=has_more)

    def cancel_batch(self, owner: str, batch_id: str) -> dict[str, Any]:
        """Begin to cancel a batch; what is answered stays.

        Harmless for a batch that is being cancelled, or was.
        """
        batch = self._batch(owner, batch_id, "batch")
        changed = self._store.update_batch(
            batch.id, only_from=("validating", "in_progress"), status="cancelling", cancelling_at=self._now()
        )
        if changed is not None:
            self._on_change()
            return objects.batch_object(changed)
        batch = self._batch(owner, batch_id, "batch")
        if batch.status not in ("cancelling", "cancelled"):
            raise ConflictError(f"The batch is {batch.status}, so it cannot be cancelled any more.", code="batch_ended")
        return objects.batch_object(batch)

    # Jobs

    def create_job(self, owner: str, upload_id: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Make a job of an uploaded JSON list; ``parameters`` are those of ``protocol.batches.read_parameters``."""
        uploaded = self._end_upload(owner, upload_id)
        try:
            file_id = new_file_id()
            num_bytes = self._contents.write(file_id, self._job_lines(uploaded, parameters))
        finally:
            uploaded.discard()
        file = self._record_file(owner, file_id, "job.jsonl", num_bytes, self._limits.retention_s)
        window_s = min(_JOB_WINDOW_S, self._limits.retention_s)
        job = self._new_batch(owner, "job", file, f"{window_s}s", window_s)
        try:
            self._add(job)
        except BaseException:
            with suppress(StoreError):
                self._store.delete_file(owner, file.id)
                self._drop_contents(file.id)
            raise
        self._on_change()
        return objects.job_object(job)

    def get_job(self, owner: str, job_id: str) -> dict[str, Any]:
        """Return the simple route's object of one of the owner's jobs."""
        return objects.job_object(self._batch(owner, job_id, "job"))

    def job_results(self, owner: str, job_id: str) -> str:
        """Return the id of the file that holds a job's results as a JSON list; 409 where there are none."""
        job = self._batch(owner, job_id, "job")
        if job.output_file_id is not None:
            return job.output_file_id
        error = objects.job_error(job)
        if error is not None:
            raise ConflictError(f"The job has no results, for it failed: {error['message']}", code=error["code"])
        raise ConflictError("The job has not ended yet. Ask again later.", code="job_not_finished")

    def _job_lines(self, uploaded: PartialFile, parameters: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the batch lines of an uploaded JSON list."""
        if uploaded.num_bytes > MAX_JOB_BYTES:
            raise PayloadTooLargeError(
                f"The list has more than {MAX_JOB_BYTES // 2**20} MiB. Send its requests as the lines of a batch "
                "(POST /v1/files, then POST /v1/batches), or in several jobs.",
                "file",
            )
        uploaded.flush()
        uploaded.file.seek(0)
        return to_lines(
            uploaded.file.read(),
            parameters,
            model_id=self._settings.model_id,
            max_lines=self._limits.max_lines,
        )

    def _new_batch(
        self, owner: str, kind: Kind, file: FileRecord, window: str, window_s: int, **fields: Any
    ) -> BatchRecord:
        """Return the record of a new batch or job, with its id and deadline."""
        now = self._now()
        return BatchRecord(
            id=f"{kind}_{uuid4().hex}",
            owner=owner,
            kind=kind,
            endpoint=ENDPOINT,
            input_file_id=file.id,
            completion_window=window,
            created_at=now,
            deadline=now + window_s,
            **fields,
        )

    def _add(self, batch: BatchRecord) -> None:
        """Record a new batch; refuse it where too many are open."""
        max_open = self._settings.key(batch.owner).max_open_batches or self._limits.max_open_per_key
        try:
            self._store.add_batch(batch, max_open=self._limits.max_open, max_open_of_owner=max_open)
        except TooManyOpenError as error:
            if not error.of_owner:
                raise OverloadedError("The service has as many batches as it takes. Try again later.") from None
            raise TooManyRequestsError(
                f"You have {max_open} batches that have not ended, as many as this key may. Wait until one has.",
                code="too_many_batches",
            ) from None

    def _batch(self, owner: str, batch_id: str, kind: Kind) -> BatchRecord:
        """Return the record of one of the owner's batches or jobs, else raise a 404."""
        batch = self._store.batch(owner, batch_id) if is_id(batch_id) else None
        if batch is None or batch.kind != kind:
            raise NotFoundError(f"There is no such {kind}.")
        return batch


def to_lines(content: bytes, parameters: Mapping[str, Any], *, model_id: str, max_lines: int) -> Iterator[bytes]:
    """Turn a job's JSON list into the lines of a batch, one for each item, named ``"0"``, ``"1"``, …

    Each has its line break.

    Args:
        content: A JSON list of chat requests.
        parameters: Of ``protocol.batches.read_parameters``; they override an item's own.
        model_id: The model of an item that names none.

    Raises:
        BadRequestError: It is not a JSON list, has no item or too many. Raised before the first line.
    """
    try:
        requests = loads(content, MAX_JSON_DEPTH + 1)
    except JsonError as error:
        raise BadRequestError(f"The file must be a JSON list of chat requests: {error}.", "file") from None
    if not isinstance(requests, list):
        raise BadRequestError("The file must be a JSON list of chat requests.", "file")
    if not requests:
        raise BadRequestError("The list has no items; it must have at least one chat request.", "file")
    if len(requests) > max_lines:
        raise BadRequestError(f"The list has more than {max_lines} items. Send it in parts.", "file")
    for index, request in enumerate(requests):
        body = _request(request, parameters, model_id) if isinstance(request, dict) else request
        line = {"custom_id": str(index), "method": "POST", "url": ENDPOINT, "body": body}
        yield json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _request(request: dict[str, Any], parameters: Mapping[str, Any], model_id: str) -> dict[str, Any]:
    """Return an item's chat request with the parameters of the query, which override its own."""
    changed = {**request, **parameters}
    if "max_tokens" in parameters:
        changed.pop("max_completion_tokens", None)
    if changed.get("model") is None:
        changed["model"] = model_id
    if isinstance(request.get("vocab"), dict):
        changed["vocab"] = _vocab(request["vocab"], parameters)
        for name in ("vocab_lang", "vocab_n_words"):
            if name in parameters:
                changed.pop(name)
    return changed


def _vocab(vocab: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item's ``vocab`` with the list and N of the query in place of its own."""
    changed = dict(vocab)
    if "vocab_lang" in parameters:
        changed["lang"] = parameters["vocab_lang"]
        changed.pop("words", None)
    if "vocab_n_words" in parameters:
        changed["n_words"] = parameters["vocab_n_words"]
    return changed
