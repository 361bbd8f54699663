"""The input of a run: which files it may read, and their rows in pieces, each read by one small task on any node.

Refused before anything is read: a path outside the allowed roots, a link that leads out, and Parquet with Arrow
extension types. Code outside Arrow makes such a type from bytes in the file: some types of Ray unpickle them, which
runs whatever the file's author wrote. Arrow does so already when it opens a file, so the footer is searched as plain
bytes.

The driver reads the whole input once for its rows, its digests and repeated names. A row that is no request becomes
one that is answered already, with the error.
"""

import hashlib
import io
import json
import posixpath
from base64 import b64encode
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from deployments.batch.lines import parse_line
from deployments.errors import BadRequestError
from deployments.offline.config import OfflineConfig, RefusedError, locate
from deployments.offline.row_requests import REQUEST, custom_id_of, refused_request, to_request
from deployments.protocol.strict_json import raw_lines
from deployments.storage import Location

Format: TypeAlias = Literal["jsonl", "parquet"]

Found: TypeAlias = Mapping[str, Any] | bytes | None
"""A row as it was found: of a table, or a JSON line; None for a line that is too long."""

FORMATS: Final[dict[str, Format]] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}

_MAGIC: Final = b"PAR1"
_MAX_FOOTER_BYTES: Final = 64 * 2**20
"""Costs as much memory twice. A table of 1,000 columns and 1,000 row groups has 50 MB."""

_EXTENSION: Final = b"ARROW:extension"
_MARKS: Final = (
    _EXTENSION,
    # In base64, as Arrow's own schema is there, one for each place in a group of three bytes, less the characters that
    # the bytes around it change.
    b64encode(_EXTENSION),
    b64encode(b"?" + _EXTENSION)[2:-3],
    b64encode(b"??" + _EXTENSION)[3:-2],
)
"""A footer with an extension type has one of these."""

_PIECE_ROWS: Final = 512
"""Of JSON lines. A piece is read by one task, some 10 ms; pieces that are done are not read again."""

_BATCH_ROWS: Final = 256

_NOT_KEPT: Final = frozenset({"body", "messages", "custom_id", "method", "url"})
"""Columns that make up the request."""


@dataclass(frozen=True)
class Piece:
    """Rows of one file that are read together; rows count from 1.

    Attributes:
        file: Its path below the input, which identifies it in the output.
        start: Where the piece begins: a byte of JSON lines, a row group of Parquet.
        repeated: Rows whose ``custom_id`` came before, and where.
    """

    file: str
    url: str
    format: Format
    first_row: int
    num_rows: int
    start: int
    repeated: Mapping[int, str] = field(default_factory=dict)

    @property
    def rows(self) -> range:
        return range(self.first_row, self.first_row + self.num_rows)


@dataclass
class Input:
    """The input of a run as it was found: its files, and the pieces they are read in.

    ``files`` has of each file its name, bytes, rows and SHA-256; ``input_columns``, of Parquet, those that go to the
    output.
    """

    format: Format
    files: list[dict[str, Any]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    input_columns: pa.Schema = field(default_factory=lambda: pa.schema([]))


def look_through(given: str, config: OfflineConfig) -> Input:
    """Read the whole input, a file, folder or URL, once, in the driver, and divide it into pieces.

    Takes some 20 s for a million JSON lines.

    Raises:
        RefusedError: There are no files of one format, or one cannot be read, or must not be.
    """
    kind, files = _find_files(locate(given, config.offline.allowed_roots), given)
    found = Input(kind)
    seen: dict[bytes, str] = {}
    for name, location in files:
        try:
            with location.open() as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # has readinto
            pieces = list(_pieces(name, location, found, config, seen))
        except (OSError, pa.ArrowException) as error:
            raise RefusedError(f"{name}: cannot be read: {error}") from None
        found.pieces += pieces
        num_rows = sum(piece.num_rows for piece in pieces)
        found.files.append({"name": name, "bytes": location.size(), "rows": num_rows, "sha256": digest})
    return found


def _find_files(location: Location, given: str) -> tuple[Format, list[tuple[str, Location]]]:
    """Return the files of the input, in the order of their names, and their one format."""
    filesystem = location.filesystem
    if filesystem.isfile(location.path):
        names = {posixpath.basename(location.path): location}
    elif filesystem.isdir(location.path):
        names = _files_below(location)
    else:
        raise RefusedError(f"{given}: there is no such file or folder")
    known = ", ".join(FORMATS)
    kinds: set[Format] = set()
    for name in names:
        kind = FORMATS.get(posixpath.splitext(name)[1].lower())
        if kind is None:
            raise RefusedError(f"{name}: not a format that is read here; files end with {known}, uncompressed")
        kinds.add(kind)
    if len(kinds) != 1:
        fault = "both JSON lines and Parquet: give one of them" if kinds else f"no file that ends with {known}"
        raise RefusedError(f"{given}: it holds {fault}")
    return kinds.pop(), sorted(names.items(), key=lambda found: found[0])


def _files_below(folder: Location) -> dict[str, Location]:
    """Return the files below a folder by name; those that begin with a dot or an underscore are no input."""
    found: dict[str, Location] = {}
    for path in folder.filesystem.find(folder.path):
        name = posixpath.relpath(path, folder.path)
        if any(part.startswith((".", "_")) for part in name.split("/")):
            continue
        location = locate(path) if folder.is_local else Location(folder.filesystem, path)
        if not folder.holds(location):
            raise RefusedError(f"{path}: is a link that leads out of the input")
        if folder.is_local and not Path(location.path).is_file():
            raise RefusedError(f"{path}: is not a file")
        found[name] = location
    return found


def _pieces(
    file: str, location: Location, found: Input, config: OfflineConfig, seen: dict[bytes, str]
) -> Iterator[Piece]:
    """Divide a file into pieces, with the rows whose ``custom_id`` came before."""
    rows = _parquet(file, location, found, config) if found.format == "parquet" else _json_lines(file, location, config)
    for piece, ids in rows:
        repeated: dict[int, str] = {}
        for row, name in enumerate(ids, piece.first_row):
            if name is None:
                continue
            key = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:16]
            if key in seen:
                repeated[row] = seen[key]
            else:
                seen[key] = f"{file}:{row}"
        yield replace(piece, repeated=repeated)


def _json_lines(file: str, location: Location, config: OfflineConfig) -> Iterator[tuple[Piece, list[str | None]]]:
    """Yield the pieces of a file of JSON lines, each with the ``custom_id`` of its rows."""
    ids: list[str | None] = []
    first, start = 1, 0
    with location.open() as stream:
        for line in raw_lines(stream, config.settings.limits.max_body_bytes):
            if len(ids) == _PIECE_ROWS:
                yield Piece(file, location.url, "jsonl", first, len(ids), start), ids
                ids, first, start = [], line.number, line.start
            ids.append(_name_of(line.text, config))
    if ids:
        yield Piece(file, location.url, "jsonl", first, len(ids), start), ids


def _parquet(
    file: str, location: Location, found: Input, config: OfflineConfig
) -> Iterator[tuple[Piece, list[str | None]]]:
    """Yield the row groups of a Parquet file as pieces, each with the ``custom_id`` of its rows."""
    with location.open() as stream:
        table = _open_table(stream, file)
        schema = table.schema_arrow
        _check_columns(schema, file, config)
        try:
            found.input_columns = pa.unify_schemas([found.input_columns, _select_columns(schema)])
        except pa.ArrowException as error:
            raise RefusedError(f"{file}: its columns differ in type from those of files before: {error}") from None
        column = config.offline.columns.get("custom_id", "custom_id")
        first = 1
        for group in range(table.num_row_groups):
            num_rows = table.metadata.row_group(group).num_rows
            ids: list[str | None] = [None] * num_rows
            if column in schema.names:
                values = table.read_row_group(group, [column]).column(column).to_pylist()
                ids = [_name_of({column: value}, config) for value in values]
            if num_rows:
                yield Piece(file, location.url, "parquet", first, num_rows, group), ids
            first += num_rows


def _check_columns(schema: pa.Schema, file: str, config: OfflineConfig) -> None:
    """Refuse a Parquet file that lacks the columns from which requests are made."""
    columns = config.offline.columns
    missing = [column for column in columns.values() if column not in schema.names]
    if missing:
        raise RefusedError(f"{file}: it has no column {missing[0]!r}; its columns are {', '.join(schema.names)}")
    if not columns and not {"body", "messages"} & set(schema.names):
        raise RefusedError(
            f"{file}: it has neither a column 'body' nor 'messages': say in the configuration which column is the "
            f"prompt (offline.columns.prompt); its columns are {', '.join(schema.names)}"
        )


def _select_columns(schema: pa.Schema) -> pa.Schema:
    """Select the columns that go to the output: of one plain value each, and no part of the request."""
    return pa.schema(
        [column.remove_metadata() for column in schema if _is_simple(column.type) and column.name not in _NOT_KEPT]
    )


def _is_simple(kind: pa.DataType) -> bool:
    names = ("string", "large_string", "integer", "boolean", "float32", "float64")
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def _name_of(found: Found, config: OfflineConfig) -> str | None:
    """Return the ``custom_id`` of a row; None where there is none, or a bad one."""
    try:
        return custom_id_of(_columns_of(found, config), config)
    except BadRequestError:
        return None


def _columns_of(found: Found, config: OfflineConfig) -> Mapping[str, Any]:
    """Return the members of a row; raise ``BadRequestError`` where its line is no JSON object."""
    return found if isinstance(found, Mapping) else parse_line(found, config.settings.limits)


def read_piece(piece: Piece, done: Set[int], config: OfflineConfig) -> Iterator[dict[str, Any]]:
    """Read a piece and yield its rows that are not done.

    Each has ``file``, ``row``, ``custom_id``, ``input_columns`` (JSON) and ``REQUEST``.
    """
    read = _parquet_rows if piece.format == "parquet" else _json_rows
    with Location.of(piece.url).open() as stream:
        for number, found in read(stream, piece, config):
            if number not in done:
                yield _row(piece, number, found, config)


def _row(piece: Piece, number: int, found: Found, config: OfflineConfig) -> dict[str, Any]:
    """Return a row as Ray Data gets it: its place, its name, columns to copy, and its request or error."""
    custom_id, input_columns = None, {}
    try:
        row = _columns_of(found, config)
        if piece.format == "parquet" or config.offline.columns:
            input_columns = {
                name: value
                for name, value in row.items()
                if name not in _NOT_KEPT and isinstance(value, (str, int, float, bool))
            }
        custom_id = custom_id_of(row, config)
        if number in piece.repeated:
            raise BadRequestError(
                f"'custom_id' is the same as that of row {piece.repeated[number]}: each needs its own.", "custom_id"
            )
        request = to_request(row, config, f"{piece.file}:{number}", is_table=piece.format == "parquet")
    except BadRequestError as error:
        unit = "Line" if piece.format == "jsonl" else "Row"
        request = refused_request(BadRequestError(f"{unit} {number}: {error.message}", error.param, error.code))
    return {
        "file": piece.file,
        "row": number,
        # Arrow has no type for a column without a value.
        "custom_id": custom_id or "",
        "input_columns": json.dumps(input_columns, ensure_ascii=False),
        REQUEST: request,
    }


def _json_rows(stream: BinaryIO, piece: Piece, config: OfflineConfig) -> Iterator[tuple[int, Found]]:
    """Yield the lines of a piece of JSON lines with their numbers."""
    most = config.settings.limits.max_body_bytes
    for line in islice(raw_lines(stream, most, start=piece.start, number=piece.first_row), piece.num_rows):
        yield line.number, line.text


def _parquet_rows(stream: BinaryIO, piece: Piece, config: OfflineConfig) -> Iterator[tuple[int, Found]]:
    """Yield the rows of a row group with their numbers, only the columns that are needed."""
    # Its footer is looked at again: the file may have been replaced.
    table = _open_table(stream, piece.file)
    schema = table.schema_arrow
    wanted = {*_select_columns(schema).names, *_NOT_KEPT, *config.offline.columns.values()}
    if not config.offline.columns and "body" not in schema.names:
        wanted |= set(schema.names)
    columns = [name for name in schema.names if name in wanted]
    number = piece.first_row
    for batch in table.iter_batches(_BATCH_ROWS, row_groups=[piece.start], columns=columns):
        for row in batch.to_pylist():
            yield number, row
            number += 1


def _open_table(stream: BinaryIO, name: str) -> pq.ParquetFile:
    """Open a file once it is clear that it is Parquet and that all of its types are Arrow's own; else RefusedError."""
    num_bytes = stream.seek(0, io.SEEK_END)
    stream.seek(max(num_bytes - 8, 0))
    end = stream.read(8)
    size = int.from_bytes(end[:4], "little")
    if len(end) < 8 or end[4:] != _MAGIC or size + 12 > num_bytes:
        raise RefusedError(f"{name}: not a Parquet file, or not a whole one, or an encrypted one")
    if size > _MAX_FOOTER_BYTES:
        raise RefusedError(f"{name}: its footer is larger than {_MAX_FOOTER_BYTES // 2**20} MiB: split the file")
    stream.seek(num_bytes - 8 - size)
    footer = stream.read(size)
    if any(mark in footer for mark in _MARKS):
        raise RefusedError(
            f"{name}: it has a column of an extension type, such as pickled Python objects, and is not opened. "
            "Write it with columns of plain types: strings, numbers, lists, structs"
        )
    stream.seek(0)
    return pq.ParquetFile(stream)
