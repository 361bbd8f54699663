"""Where batches are stored, and how many of them run."""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from deployments.settings.limits import BatchLimits


class BatchSettings(BaseModel):
    """Where batches are stored and how they run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    """Whether there are files, batches and jobs."""
    database: SecretStr | None = None
    """A URL of SQLAlchemy's, such as ``postgresql+psycopg://user:password@host/name``. By default a SQLite file in
    ``state_dir``: enough for one machine. Where the batch deployment may move to another node, use a server."""
    files: str | None = None
    """A folder or an fsspec URL (``s3://bucket/files``) for what files hold; by default ``files`` in ``state_dir``."""
    state_dir: Path | None = None
    """By default ``WORDBOUND_STATE``, else ``wordbound`` in the user's folder for state."""
    lines_in_flight: int = Field(default=128, ge=1)
    """The share of batches in each engine: so many sequences of theirs run at once, a line with beams or several
    choices counting for each. An eighth of the engine's ``max_num_seqs`` is never theirs."""
    max_attempts: int = Field(default=3, ge=1)
    """So often may a line be under way when an engine dies, the last time alone; then it fails and the others go on. If
    1, the first death fails all lines under way, those of other batches too."""
    resources: dict[str, float] = {}
    """Custom resources that pin the batch deployment to a node."""
    limits: BatchLimits = BatchLimits()
    """How much batches may ask for."""

    @property
    def lines_sent(self) -> int:
        """Lines sent to one replica: those that run, and some that wait, so that the next starts at once."""
        return self.lines_in_flight + self.lines_in_flight // 2 + 4

    def resolved_database(self) -> str:
        """Return the URL of the batch database, a SQLite file by default; may hold a password."""
        if self.database is not None:
            return self.database.get_secret_value()
        return f"sqlite:///{self.resolved_state_dir() / 'batches.sqlite'}"

    def resolved_files(self) -> str:
        """Return the folder or URL where the contents of batch files are."""
        return self.files or str(self.resolved_state_dir() / "files")

    def resolved_state_dir(self) -> Path:
        """Return the folder of batch state on the node of the calling process."""
        if self.state_dir is not None:
            return self.state_dir.expanduser()
        if named := os.environ.get("WORDBOUND_STATE"):
            return Path(named).expanduser()
        return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "wordbound"
