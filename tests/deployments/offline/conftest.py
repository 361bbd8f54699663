"""What the tests of offline runs share: a run from its files to its files, without Ray and engines."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deployments.offline.config import OfflineConfig
from deployments.offline.input import Input, read_piece
from deployments.offline.output import ANSWER, Result
from deployments.offline.row_requests import REQUEST
from deployments.offline.run import Done, Summary, run

ASKED = [{"role": "user", "content": "Hello"}]
COMPLETION = {
    "choices": [{"message": {"role": "assistant", "content": "Hola."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    "vocab": {"lang": "es"},
}
ERROR = {"message": "No.", "type": "invalid_request_error", "param": "messages", "code": None}


class Killed(BaseException):
    """Stands for the end of the process: nobody catches it."""


def fail() -> NoReturn:
    raise Killed


class Engines:
    """In place of Ray Data: reads the rows as its tasks do, and answers each, but every seventh with an error.

    After ``dies_after`` rows it calls ``die``. ``asked`` has the requests of the rows, by file and number.
    """

    def __init__(self, dies_after: int | None = None, die: Callable[[], NoReturn] = fail) -> None:
        self._dies_after, self._die = dies_after, die
        self.asked: dict[str, dict[str, Any]] = {}

    def __call__(self, found: Input, done: Done, config: OfflineConfig) -> Iterator[Result]:
        for piece in found.pieces:
            for row in read_piece(piece, done.get(piece.file, set()), config):
                if len(self.asked) == self._dies_after:
                    self._die()
                yield Result.of({**row, ANSWER: json.dumps(self._answer(row["row"], json.loads(row[REQUEST])))})

    def _answer(self, row: int, request: Mapping[str, Any]) -> dict[str, Any]:
        if "answer" in request:
            return dict(request["answer"])
        self.asked[request["id"]] = request["body"]
        if row % 7 == 0:
            return {"status": 400, "body": {"error": ERROR}}
        return {"status": 200, "body": COMPLETION}


def make_config(settings: dict[str, Any] | None = None, **offline: Any) -> OfflineConfig:
    """Keyword arguments go into the block ``offline``, ``settings`` beside it."""
    return OfflineConfig.load({"model_name": "/models/toy", **(settings or {}), "offline": offline}, {})


class OfflineWorld:
    """Folders of a run: its input, and its output beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.source, self.out = folder, folder / "in", folder / "out"
        self.source.mkdir()

    def write(self, name: str, rows: Sequence[Any] | pa.Table, **options: Any) -> Path:
        """Write a file of the input: a table, or JSON lines; bytes are a line as it is."""
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(rows, pa.Table):
            pq.write_table(rows, path, **options)
        else:
            lines = (row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows)
            path.write_bytes(b"".join(lines))
        return path

    def run(
        self,
        stand_in: Callable[[Input, Done, OfflineConfig], Iterator[Result]] | None = None,
        source: Path | str | None = None,
        output: Path | str | None = None,
        settings: dict[str, Any] | None = None,
        **offline: Any,
    ) -> Summary:
        config = make_config(settings, **offline)
        return run(str(source or self.source), str(output or self.out), config, stand_in or Engines())

    def requests(self, **options: Any) -> list[dict[str, Any]]:
        """Run, and return what an engine was asked, row by row."""
        engines = Engines()
        self.run(engines, **options)
        return list(engines.asked.values())

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The rows of JSON lines under ``answers`` or ``errors``, in the order of the input."""
        files = (self.out / name).glob("*.jsonl")
        rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
        return sorted(rows, key=lambda row: (row["file"], row["row"]))

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of Parquet under ``answers`` or ``errors``, in the order of the input."""
        return sorted(pq.read_table(self.out / name).to_pylist(), key=lambda row: (row["file"], row["row"]))


@pytest.fixture
def world(tmp_path: Path) -> OfflineWorld:
    return OfflineWorld(tmp_path)
