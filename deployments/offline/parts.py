"""The output of a run: parts, each a file of rows that appears whole, under ``answers`` or ``errors``.

A row is in one part or in none, so the parts themselves say what is done. The folder's manifest has the input and the
configuration of its run, which may be resumed only where both are the same: its output would be of two kinds. A lock
keeps a second run out of a local folder.
"""

import fcntl
import hashlib
import io
import json
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from deployments.batch.lines import output_line, to_json
from deployments.offline.config import OfflineConfig
from deployments.offline.pieces import Input
from deployments.offline.source import FORMATS, Format, RefusedError
from deployments.storage import Location

ANSWERS: Final = "answers"
ERRORS: Final = "errors"

_ROW_COLUMNS: Final = (("custom_id", pa.string()), ("file", pa.string()), ("row", pa.int64()))
_ANSWER_COLUMNS: Final = (
    ("answer", pa.string()),
    ("finish_reason", pa.string()),
    ("prompt_tokens", pa.int64()),
    ("completion_tokens", pa.int64()),
    ("completion", pa.string()),
)
_ERROR_COLUMNS: Final = (
    ("status", pa.int64()),
    ("code", pa.string()),
    ("message", pa.string()),
    ("param", pa.string()),
)


@dataclass(frozen=True)
class Result:
    """The result of one row of the input: an answer or an error.

    ``input_columns`` go to the output as they are, ``status`` is as HTTP's, and ``body`` a chat completion (200) or
    OpenAI's error object.
    """

    file: str
    row: int
    custom_id: str | None
    input_columns: Mapping[str, Any]
    status: int
    body: Mapping[str, Any]

    @property
    def is_answer(self) -> bool:
        return self.status == 200


class Parts:
    """The output folder of one run. ``input_columns`` are, of Parquet, the columns that come from the input."""

    def __init__(self, folder: Location, kind: Format, input_columns: pa.Schema) -> None:
        self._folder = folder
        self._format: Format = kind
        self._input_columns = input_columns

    def clean(self) -> None:
        """Remove the unfinished files of a killed run."""
        for folder in self._folders():
            folder.remove_partial_files()

    def write(self, results: list[Result]) -> None:
        """Write results as new parts, answers and errors apart, each whole or not at all.

        Raises:
            OSError: A part could not be written; the one before may be there.
        """
        for name, is_answer in ((ANSWERS, True), (ERRORS, False)):
            rows = [result for result in results if result.is_answer == is_answer]
            if rows:
                data = self._parquet(rows) if self._format == "parquet" else _json_lines(rows)
                self._folder.child(name).child(f"part-{uuid4().hex}.{self._format}").write([data])

    def done(self) -> Iterator[tuple[str, int, bool]]:
        """Yield each row that is in the output: its file, its number, whether it is an answer.

        Raises:
            RefusedError: A part cannot be read.
        """
        for folder in self._folders():
            is_answer = folder.path.endswith(f"/{ANSWERS}")
            for path in self._list_files(folder):
                if posixpath.splitext(path)[1] not in FORMATS:
                    continue
                try:
                    with folder.filesystem.open(path, "rb") as stream:
                        for file, row in self._rows_in(stream):
                            yield file, row, is_answer
                except (OSError, ValueError, KeyError, pa.ArrowException) as error:
                    raise RefusedError(f"{path}: cannot be read, so what is done is not known: {error}") from None

    def _rows_in(self, stream: Any) -> Iterator[tuple[str, int]]:
        """Yield the input file and row number of each row in a part."""
        if self._format == "parquet":
            table = pq.read_table(stream, columns=["file", "row"])
            yield from zip(table["file"].to_pylist(), table["row"].to_pylist(), strict=True)
            return
        for line in stream:
            row = json.loads(line)
            yield row["file"], row["row"]

    def _folders(self) -> tuple[Location, Location]:
        """Return the folders of answers and of errors."""
        return self._folder.child(ANSWERS), self._folder.child(ERRORS)

    def _list_files(self, folder: Location) -> list[str]:
        """List the files of a folder; none where it does not exist."""
        folder.filesystem.invalidate_cache()
        return sorted(folder.filesystem.find(folder.path)) if folder.filesystem.isdir(folder.path) else []

    def _parquet(self, results: list[Result]) -> bytes:
        """Return results as the bytes of a Parquet file: columns of the input, then the run's own."""
        ours = (*_ROW_COLUMNS, *(_ANSWER_COLUMNS if results[0].is_answer else _ERROR_COLUMNS))
        taken = {name for name, _ in ours}
        names = {name: f"input_{name}" if name in taken else name for name in self._input_columns.names}
        input_columns = [pa.field(names[column.name], column.type) for column in self._input_columns]
        rows = [
            {**{names[name]: value for name, value in result.input_columns.items()}, **_columns(result)}
            for result in results
        ]
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema([*input_columns, *ours])), sink)
        return sink.getvalue()


def _json_lines(results: list[Result]) -> bytes:
    """Return results as the bytes of a file of JSON lines."""
    return "".join(f"{to_json(_record(result))}\n" for result in results).encode()


def _record(result: Result) -> dict[str, Any]:
    """Return a line of an output file of OpenAI's batches, with the file and row it came from."""
    name = hashlib.sha256(f"{result.file}\n{result.row}".encode()).hexdigest()[:32]
    error = None if result.is_answer else {name: result.body.get(name) for name in ("code", "message", "param")}
    body = dict(result.body) if result.is_answer else {"error": dict(result.body)}
    request_id, response = f"{result.file}:{result.row}", (result.status, body)
    return {
        **output_line(f"batch_req_{name}", result.custom_id, request_id, response, error),
        "file": result.file,
        "row": result.row,
        **({"input": dict(result.input_columns)} if result.input_columns else {}),
    }


def _columns(result: Result) -> dict[str, Any]:
    """Return a result's own columns in Parquet: its row, then its answer or error."""
    row = {"custom_id": result.custom_id, "file": result.file, "row": result.row}
    body = result.body
    if not result.is_answer:
        return {**row, "status": result.status, **{name: body.get(name) for name in ("code", "message", "param")}}
    choice, usage = body["choices"][0], body.get("usage") or {}
    return {
        **row,
        "answer": choice["message"].get("content"),
        "finish_reason": choice.get("finish_reason"),
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
        "completion": json.dumps(body, ensure_ascii=False),
    }


NAME: Final = "_manifest.json"
_LOCK: Final = "_lock"
_VERSION: Final = 1


def claim_folder(folder: Location, found: Input, config: OfflineConfig) -> bool:
    """Mark the output folder as this run's; return whether the run was begun before.

    Raises:
        RefusedError: Another run was begun there, with the differences, or the folder holds something else.
    """
    ours = {"version": _VERSION, "format": found.format, "config": config.digest, "files": found.files}
    manifest = folder.child(NAME)
    if not folder.filesystem.exists(manifest.path):
        if _holds_something(folder):
            raise RefusedError(f"{folder.url}: is not empty, and no run was begun there: choose another folder")
        manifest.write([json.dumps(ours, indent=2, ensure_ascii=False).encode()])
        return False
    try:
        theirs = json.loads(folder.filesystem.cat_file(manifest.path))
        difference = _difference(ours, theirs)
    except (ValueError, TypeError, KeyError) as error:
        raise RefusedError(f"{manifest.url}: cannot be read ({error}): choose another folder") from None
    if difference:
        raise RefusedError(f"{folder.url}: a run was begun there with {difference}: choose another folder")
    return True


@contextmanager
def only_run(folder: Location) -> Iterator[None]:
    """Lock the output folder, so that no second run of this machine writes the same rows.

    Does nothing for a URL.

    Raises:
        RefusedError: Another run holds it.
    """
    if not folder.is_local:
        yield
        return
    Path(folder.path).mkdir(parents=True, exist_ok=True)
    with Path(folder.child(_LOCK).path).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RefusedError(f"{folder.url}: another run writes there now: wait for its end") from None
        # The file stays: a second run may have opened it.
        yield


def _holds_something(folder: Location) -> bool:
    """Return whether the output folder has more in it than a lock."""
    if not folder.filesystem.isdir(folder.path):
        return False
    return any(not path.endswith(f"/{_LOCK}") for path in folder.filesystem.ls(folder.path, detail=False))


def _difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """Describe how a manifest differs from this run's; None where it does not."""
    if theirs["version"] != _VERSION:
        return f"a manifest of version {theirs['version']}, not {_VERSION}"
    if theirs["config"] != ours["config"]:
        return "a configuration that gives other answers"
    before, now = ({file["name"]: file for file in one["files"]} for one in (theirs, ours))
    if before.keys() != now.keys():
        return f"other files: {', '.join(sorted(before.keys() ^ now.keys())[:5])}"
    changed = [name for name in now if now[name] != before[name]]
    return f"another content of {', '.join(changed[:5])}" if changed else None
