"""The input in pieces, each read by one small task on any node.

The driver reads the whole input once for its rows, its digests and repeated names. A row that is no request becomes
one that is answered already, with the error.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from deployments.batch.lines import parse_line
from deployments.errors import BadRequestError
from deployments.offline.config import OfflineConfig
from deployments.offline.row_requests import REQUEST, custom_id_of, refused_request, to_request
from deployments.offline.source import Format, RefusedError, Source, SourceFile, check_footer
from deployments.protocol.strict_json import raw_lines
from deployments.settings.limits import Limits
from deployments.storage import Location

_PIECE_ROWS: Final = 512
"""Of JSON lines. A piece is read by one task, some 10 ms; pieces that are done are not read again."""

_READ_BYTES: Final = 2**22

_BATCH_ROWS: Final = 256

_NOT_KEPT: Final = frozenset({"body", "messages", "custom_id", "method", "url"})
"""Columns that make up the request."""


@dataclass(frozen=True)
class Piece:
    """Rows of one file that are read together; rows count from 1.

    Attributes:
        file: Its name in the input.
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

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        # Names of JSON objects are strings.
        return cls(**{**fields, "repeated": {int(row): before for row, before in fields["repeated"].items()}})


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

    @property
    def num_rows(self) -> int:
        return sum(piece.num_rows for piece in self.pieces)


def look_through(source: Source, config: OfflineConfig) -> Input:
    """Read the whole input once, in the driver, and divide it into pieces.

    Takes some 20 s for a million JSON lines.

    Raises:
        RefusedError: A file cannot be read, or must not be.
    """
    found = Input(source.format)
    seen: dict[bytes, str] = {}
    for file in source.files:
        try:
            digest = _digest(file)
            pieces = list(_pieces(file, found, config, seen))
        except (OSError, pa.ArrowException) as error:
            raise RefusedError(f"{file.name}: cannot be read: {error}") from None
        found.pieces += pieces
        num_rows = sum(piece.num_rows for piece in pieces)
        found.files.append({"name": file.name, "bytes": file.num_bytes, "rows": num_rows, "sha256": digest})
    return found


def _pieces(file: SourceFile, found: Input, config: OfflineConfig, seen: dict[bytes, str]) -> Iterator[Piece]:
    """Divide a file into pieces, with the rows whose ``custom_id`` came before."""
    rows = _parquet(file, found, config) if found.format == "parquet" else _json_lines(file, config)
    for piece, ids in rows:
        repeated: dict[int, str] = {}
        for row, name in enumerate(ids, piece.first_row):
            if name is None:
                continue
            key = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:16]
            if key in seen:
                repeated[row] = seen[key]
            else:
                seen[key] = f"{file.name}:{row}"
        yield Piece(**{**vars(piece), "repeated": repeated})


def _json_lines(file: SourceFile, config: OfflineConfig) -> Iterator[tuple[Piece, list[str | None]]]:
    """Yield the pieces of a file of JSON lines, each with the ``custom_id`` of its rows."""
    limits = config.settings.limits
    ids: list[str | None] = []
    first, start = 1, 0
    with file.location.open() as stream:
        for line in raw_lines(stream, limits.max_body_bytes):
            if len(ids) == _PIECE_ROWS:
                yield Piece(file.name, file.location.url, "jsonl", first, len(ids), start), ids
                ids, first, start = [], line.number, line.start
            ids.append(_name_in(line.text, config))
    if ids:
        yield Piece(file.name, file.location.url, "jsonl", first, len(ids), start), ids


def _parquet(file: SourceFile, found: Input, config: OfflineConfig) -> Iterator[tuple[Piece, list[str | None]]]:
    """Yield the row groups of a Parquet file as pieces, each with the ``custom_id`` of its rows."""
    with file.location.open() as stream:
        check_footer(stream, file.num_bytes, file.name)
        stream.seek(0)
        table = pq.ParquetFile(stream)
        schema = table.schema_arrow
        _check_columns(schema, file, config)
        found.input_columns = _unify(found.input_columns, _select_columns(schema), file)
        column = config.offline.columns.get("custom_id", "custom_id")
        first = 1
        for group in range(table.num_row_groups):
            num_rows = table.metadata.row_group(group).num_rows
            ids: list[str | None] = [None] * num_rows
            if column in schema.names:
                values = table.read_row_group(group, [column]).column(column).to_pylist()
                ids = [_name_of({column: value}, config) for value in values]
            if num_rows:
                yield Piece(file.name, file.location.url, "parquet", first, num_rows, group), ids
            first += num_rows


def _select_columns(schema: pa.Schema) -> pa.Schema:
    """Select the columns that go to the output: of one plain value each, and no part of the request."""
    return pa.schema(
        [column.remove_metadata() for column in schema if _is_simple(column.type) and column.name not in _NOT_KEPT]
    )


def _is_simple(kind: pa.DataType) -> bool:
    """Return whether a type is of plain values: strings, integers, floats or booleans."""
    names = ("string", "large_string", "integer", "boolean", "float32", "float64")
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def _check_columns(schema: pa.Schema, file: SourceFile, config: OfflineConfig) -> None:
    """Refuse a Parquet file that lacks the columns from which requests are made."""
    columns = config.offline.columns
    missing = [column for column in columns.values() if column not in schema.names]
    if missing:
        raise RefusedError(f"{file.name}: it has no column {missing[0]!r}; its columns are {', '.join(schema.names)}")
    if not columns and not {"body", "messages"} & set(schema.names):
        raise RefusedError(
            f"{file.name}: it has neither a column 'body' nor 'messages': say in the configuration which column is the "
            f"prompt (offline.columns.prompt); its columns are {', '.join(schema.names)}"
        )


def _unify(schema: pa.Schema, other: pa.Schema, file: SourceFile) -> pa.Schema:
    """Merge the columns of two files; refuse those that differ in type."""
    try:
        return pa.unify_schemas([schema, other])
    except pa.ArrowException as error:
        raise RefusedError(f"{file.name}: its columns differ in type from those of files before: {error}") from None


def _name_in(text: bytes | None, config: OfflineConfig) -> str | None:
    """Return the ``custom_id`` in a JSON line; None where there is none, or a bad one."""
    row = _parse_row(text, config.settings.limits)
    return None if isinstance(row, BadRequestError) else _name_of(row, config)


def _name_of(row: Mapping[str, Any], config: OfflineConfig) -> str | None:
    """Return the ``custom_id`` of a row; None where there is none, or a bad one."""
    try:
        return custom_id_of(row, config)
    except BadRequestError:
        return None


def _digest(file: SourceFile) -> str:
    """Return the SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with file.location.open() as stream:
        while chunk := stream.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def read_piece(piece: Piece, done: Set[int], config: OfflineConfig) -> Iterator[dict[str, Any]]:
    """Read a piece and yield its rows that are not done.

    Each has ``file``, ``row``, ``custom_id``, ``input_columns`` (JSON) and ``REQUEST``.
    """
    read = _parquet_rows if piece.format == "parquet" else _json_rows
    with Location.of(piece.url).open() as stream:
        for number, found in read(stream, piece, config):
            if number not in done:
                yield _row(piece, number, found, config)


def _row(
    piece: Piece, number: int, found: Mapping[str, Any] | BadRequestError, config: OfflineConfig
) -> dict[str, Any]:
    """Return a row as Ray Data gets it: its place, its name, columns to copy, and its request or error."""
    custom_id, input_columns = None, {}
    try:
        if isinstance(found, BadRequestError):
            raise found
        if piece.format == "parquet" or config.offline.columns:
            input_columns = {
                name: value
                for name, value in found.items()
                if name not in _NOT_KEPT and isinstance(value, (str, int, float, bool))
            }
        custom_id = custom_id_of(found, config)
        if number in piece.repeated:
            raise BadRequestError(
                f"'custom_id' is the same as that of row {piece.repeated[number]}: each needs its own.", "custom_id"
            )
        request: dict[str, Any] = {
            "id": f"{piece.file}:{number}",
            "body": to_request(found, config, is_table=piece.format == "parquet").body,
        }
    except BadRequestError as error:
        unit = "Line" if piece.format == "jsonl" else "Row"
        request = refused_request(BadRequestError(f"{unit} {number}: {error.message}", error.param, error.code))
    return {
        "file": piece.file,
        "row": number,
        # Arrow has no type for a column without a value.
        "custom_id": custom_id or "",
        "input_columns": json.dumps(input_columns, ensure_ascii=False),
        REQUEST: json.dumps(request, ensure_ascii=False),
    }


def _json_rows(
    stream: Any, piece: Piece, config: OfflineConfig
) -> Iterator[tuple[int, Mapping[str, Any] | BadRequestError]]:
    """Yield the rows of a piece of JSON lines with their numbers; a bad line as its error."""
    limits = config.settings.limits
    for line in raw_lines(stream, limits.max_body_bytes, start=piece.start, number=piece.first_row):
        if line.number >= piece.first_row + piece.num_rows:
            return
        yield line.number, _parse_row(line.text, limits)


def _parse_row(text: bytes | None, limits: Limits) -> Mapping[str, Any] | BadRequestError:
    """Parse a JSON line; return its error where it is no object."""
    try:
        return parse_line(text, limits)
    except BadRequestError as error:
        return error


def _parquet_rows(stream: Any, piece: Piece, config: OfflineConfig) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of a row group with their numbers, only the columns that are needed."""
    # Again: the file may have been replaced.
    check_footer(stream, stream.seek(0, io.SEEK_END), piece.file)
    stream.seek(0)
    table = pq.ParquetFile(stream)
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
