"""A batch service of its own for each test: a database and files in a folder, and a clock that stands."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployments.batch.api.service import BatchService
from deployments.batch.state.contents import Contents
from deployments.batch.state.records import OPEN, FileRecord
from deployments.batch.state.store import BatchStore
from deployments.settings.batch import BatchSettings
from deployments.settings.limits import BatchLimits
from deployments.settings.service import Settings
from tests.deployments.front import KEY, LIMITS, MODEL, chat_body

ME = "me"
ENDPOINT = "/v1/chat/completions"
NOW = 1_750_000_000

FEW = BatchLimits(
    max_file_bytes=100_000,
    max_lines=5,
    max_open=4,
    max_open_per_key=3,
    max_bytes_per_key=150_000,
    retention_s=10 * 86400,
)


def jsonl(num_lines: int = 1) -> bytes:
    lines = [
        {"custom_id": f"line-{number}", "method": "POST", "url": ENDPOINT, "body": chat_body()}
        for number in range(1, num_lines + 1)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@dataclass
class World:
    """A service, what is under it, and how often it said that something changed."""

    folder: Path
    limits: BatchLimits = FEW
    now: float = NOW
    database: str | None = None
    num_changes: int = 0
    store: BatchStore = field(init=False)
    contents: Contents = field(init=False)
    service: BatchService = field(init=False)

    def __post_init__(self) -> None:
        batch = BatchSettings.model_validate(
            {"state_dir": self.folder, "limits": self.limits, "database": self.database}
        )
        settings = Settings(model_id=MODEL, secret_token=KEY, limits=LIMITS, batch=batch)
        self.store = BatchStore(batch.resolved_database())
        self.contents = Contents(batch.resolved_files())
        self.service = BatchService(settings, self.store, self.contents, clock=lambda: self.now, on_change=self._count)

    def send(self, content: bytes, owner: str = ME, piece_bytes: int = 1000) -> str:
        """The id of an upload whose pieces have all come."""
        upload_id = self.service.begin_upload(owner, len(content))
        for start in range(0, len(content), piece_bytes):
            self.service.append(owner, upload_id, content[start : start + piece_bytes])
        return upload_id

    def upload(self, content: bytes | None = None, owner: str = ME, **options: Any) -> str:
        """The id of a new file."""
        upload_id = self.send(content or jsonl(), owner)
        file_id: str = self.service.create_file(owner, upload_id, "in.jsonl", "batch", **options)["id"]
        return file_id

    def job(self, items: bytes, owner: str = ME, **parameters: Any) -> dict[str, Any]:
        """A new job."""
        return self.service.create_job(owner, self.send(items, owner), parameters)

    def batch(self, owner: str = ME, file_id: str | None = None, **fields: Any) -> dict[str, Any]:
        """A new batch, of a new file unless one is named."""
        given = {
            "input_file_id": file_id or self.upload(owner=owner),
            "endpoint": ENDPOINT,
            "completion_window": "24h",
            **fields,
        }
        return self.service.create_batch(owner, given)

    def end(self, batch_id: str, output: bytes = b"[]", status: str = "completed", **changes: Any) -> str:
        """Brings a batch to its end, as the scheduler does; gives the id of its output file."""
        batch = self.store.batch(None, batch_id)
        assert batch is not None
        file = FileRecord(
            id=f"file-{len(output):032x}",
            owner=batch.owner,
            purpose="batch_output",
            filename="out.jsonl",
            num_bytes=self.contents.write(f"file-{len(output):032x}", [output]),
            created_at=NOW,
        )
        ended = self.store.finish(batch_id, only_from=OPEN, files=[file], status=status, **changes)
        assert ended is not None
        return file.id

    def set_status(self, batch_id: str, status: str, **changes: Any) -> None:
        assert self.store.update_batch(batch_id, only_from=OPEN, status=status, **changes)

    def num_contents(self) -> int:
        return len(list((self.folder / "files").iterdir()))

    def close(self) -> None:
        self.service.close()
        self.store.close()

    def _count(self) -> None:
        self.num_changes += 1
