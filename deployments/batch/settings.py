"""The settings of batches, a part of the service's: where their state is, how much of the engines they get, limits."""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class BatchLimits(BaseModel):
    """How much batches may ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_file_bytes: int = Field(default=200 * 2**20, ge=1024)
    """Costs its size in the folder of files, and five times that in the ingress's memory while it arrives and is passed
    on (960 MiB for 199). OpenAI's limit."""

    max_upload_s: float = Field(default=600.0, gt=0)
    """Costs one waiting task. 200 MB over a line of 3 Mbit/s."""

    max_lines: int = Field(default=100_000, ge=1)
    """Costs a row of the database each, 2 KB with its answer, until the batch ends. OpenAI's limit is 50,000."""

    max_open: int = Field(default=1000, ge=1)
    """Batches that are not at their end. Costs a row each."""

    max_open_per_key: int = Field(default=100, ge=1)
    """The same for one key, so that one client leaves room for others."""

    max_bytes_per_key: int = Field(default=20 * 2**30, ge=1024)
    """Files of one key together. Costs as many bytes of the folder."""

    retention_s: int = Field(default=30 * 86400, ge=60)
    """Files are deleted so long after they came or were made, and batches so long after they ended. OpenAI's number."""


class BatchSettings(BaseModel):
    """Where batches are kept and how they run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    database: SecretStr | None = None
    """A URL of SQLAlchemy's, such as ``postgresql+psycopg://user:password@host/name``. By default a SQLite file in
    ``state_dir``: enough for one machine. Where the batch deployment may move to another node, use a server."""
    files: str | None = None
    """A folder or an fsspec URL (``s3://bucket/files``) for what files hold; by default ``files`` in ``state_dir``."""
    state_dir: Path | None = None
    """By default ``WORDBOUND_STATE``, else ``wordbound`` in the user's folder for state."""
    lines_in_flight: int = Field(default=128, ge=1)
    """The share of batches in each engine: so many sequences of theirs run at once, a line with beams or several
    choices counting for each. An eighth of the engine's ``max_num_seqs`` is kept from them in any case."""
    jobs_at_once: int = Field(default=2, ge=1)
    """Batches that run at once; later ones wait. Costs two processes of 250 MB each, and one more is kept ready."""
    max_attempts: int = Field(default=3, ge=1)
    """So often may a line be under way when an engine dies, the last time alone; then it fails and the others go on."""
    resources: dict[str, float] = {}
    """Custom resources that pin the batch deployment to a node."""
    limits: BatchLimits = BatchLimits()

    @property
    def lines_sent(self) -> int:
        """Lines that are with one replica: those that run, and some that wait there to take a place that gets free. A
        line that had to come from elsewhere first would leave its place empty meanwhile."""
        return self.lines_in_flight + self.lines_in_flight // 2 + 4

    def resolved_database(self) -> str:
        """The database's URL; may hold a password."""
        if self.database is not None:
            return self.database.get_secret_value()
        return f"sqlite:///{self.resolved_state_dir() / 'batches.sqlite'}"

    def resolved_files(self) -> str:
        """The folder or URL of the files' contents."""
        return self.files or str(self.resolved_state_dir() / "files")

    def resolved_state_dir(self) -> Path:
        """On the node of the calling process."""
        if self.state_dir is not None:
            return self.state_dir.expanduser()
        if named := os.environ.get("WORDBOUND_STATE"):
            return Path(named).expanduser()
        return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "wordbound"
