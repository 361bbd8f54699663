"""The output of a run: the columns of a result, and the folder of parts, each a file of rows that appears whole.

A row is in one part or in none, so the parts themselves say what is done. The folder's manifest has the input and the
configuration of its run, which may be resumed only where both are the same: its output would be of two kinds. A lock
keeps a second run out of a local folder.
"""

import fcntl
import hashlib
import io
import json
import posixpath
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from deployments.batch.lines import output_line, to_json
from deployments.offline.config import OfflineConfig, RefusedError, locate
from deployments.offline.input import FORMATS, Format, Input
from deployments.storage import Location

ANSWER: Final = "wordbound_answer"
"""The column with the answer: JSON, ``{"status", "body"}``; the body a chat completion, or OpenAI's error."""

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

_MANIFEST: Final = "_manifest.json"
_LOCK: Final = "_lock"
_VERSION: Final = 1


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

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Make the result of a row that Ray Data returned."""
        answer = json.loads(row[ANSWER])
        status, body = answer["status"], answer["body"]
        columns = json.loads(row["input_columns"])
        return cls(
            row["file"], row["row"], row["custom_id"] or None, columns, status, body if status == 200 else body["error"]
        )

    @property
    def is_answer(self) -> bool:
        return self.status == 200


def with_result(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a dataset with columns for answer, completion, error and status in place of ``ANSWER``.

    See ``run.answer``.
    """
    made = json.loads(row.pop(ANSWER))
    status, body = made["status"], made["body"]
    shown = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    if status != 200:
        return row | {"answer": None, "completion": None, "error": shown, "status": status}
    text = body["choices"][0]["message"].get("content")
    return row | {"answer": text, "completion": shown, "error": None, "status": status}


def find_output(given: str, source: str, allowed_roots: Collection[str] = ()) -> Location:
    """Return the folder of the output, once it is clear that it may be written.

    Raises:
        RefusedError: It is a file, outside the roots, or it and the input are in one another.
    """
    location, read = locate(given, allowed_roots), locate(source)
    if location.holds(read) or read.holds(location):
        raise RefusedError(f"{given}: the output must not be the input, or in it, or around it: choose another folder")
    if location.filesystem.isfile(location.path):
        raise RefusedError(f"{given}: is a file: the output is a folder")
    if location.is_local:
        for name in (ANSWERS, ERRORS):
            if not location.holds(locate(f"{location.path}/{name}")):
                raise RefusedError(f"{given}/{name}: is a link that leads out of the output")
    return location


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


def claim_folder(folder: Location, found: Input, config: OfflineConfig) -> None:
    """Mark the output folder as this run's, unless the run was begun there before.

    Raises:
        RefusedError: Another run was begun there, with the differences, or the folder holds something else.
    """
    ours = {"version": _VERSION, "format": found.format, "config": config.digest, "files": found.files}
    manifest = folder.child(_MANIFEST)
    if not folder.filesystem.exists(manifest.path):
        there = folder.filesystem.ls(folder.path, detail=False) if folder.filesystem.isdir(folder.path) else []
        if any(not path.endswith(f"/{_LOCK}") for path in there):
            raise RefusedError(f"{folder.url}: is not empty, and no run was begun there: choose another folder")
        manifest.write([json.dumps(ours, indent=2, ensure_ascii=False).encode()])
        return
    try:
        difference = _difference(ours, json.loads(folder.filesystem.cat_file(manifest.path)))
    except (ValueError, TypeError, KeyError) as error:
        raise RefusedError(f"{manifest.url}: cannot be read ({error}): choose another folder") from None
    if difference:
        raise RefusedError(f"{folder.url}: a run was begun there with {difference}: choose another folder")


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


class Parts:
    """The parts in the output folder of one run, under ``answers`` and ``errors``.

    ``input_columns`` are, of Parquet, the columns that come from the input.
    """

    def __init__(self, folder: Location, kind: Format, input_columns: pa.Schema) -> None:
        self._folders = {name: folder.child(name) for name in (ANSWERS, ERRORS)}
        self._format: Format = kind
        self._input_columns = input_columns

    def clean(self) -> None:
        """Remove the unfinished files of a killed run."""
        for folder in self._folders.values():
            folder.remove_partial_files()

    def write(self, results: list[Result]) -> None:
        """Write results as new parts, answers and errors apart, each whole or not at all.

        Raises:
            OSError: A part could not be written; the one before may be there.
        """
        for name, folder in self._folders.items():
            rows = [result for result in results if result.is_answer == (name == ANSWERS)]
            if rows:
                data = self._parquet(rows) if self._format == "parquet" else _json_lines(rows)
                folder.child(f"part-{uuid4().hex}.{self._format}").write([data])

    def done(self) -> Iterator[tuple[str, int]]:
        """Yield each row that is in the output: its file and its number.

        Raises:
            RefusedError: A part cannot be read.
        """
        for folder in self._folders.values():
            filesystem = folder.filesystem
            filesystem.invalidate_cache()
            for path in sorted(filesystem.find(folder.path)) if filesystem.isdir(folder.path) else ():
                if posixpath.splitext(path)[1] not in FORMATS:
                    continue
                try:
                    with filesystem.open(path, "rb") as stream:
                        yield from self._rows_in(stream)
                except (OSError, ValueError, KeyError, pa.ArrowException) as error:
                    raise RefusedError(f"{path}: cannot be read, so what is done is not known: {error}") from None

    def _rows_in(self, stream: Any) -> Iterator[tuple[str, int]]:
        if self._format == "parquet":
            table = pq.read_table(stream, columns=["file", "row"])
            yield from zip(table["file"].to_pylist(), table["row"].to_pylist(), strict=True)
            return
        for line in stream:
            row = json.loads(line)
            yield row["file"], row["row"]

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


def _json_lines(results: list[Result]) -> bytes:
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
