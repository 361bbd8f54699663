"""One look at the whole input before it is answered: how many rows, which files exactly, which names come twice.

What it finds cuts the input into pieces, each read by one small task, and tells whether a later run has the same input.
It checks what a Parquet file is made of before any library opens it; what rows ask for is not looked at.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from deployments.errors import BadRequestError
from deployments.offline.config import OfflineConfig
from deployments.offline.footers import check_footer
from deployments.offline.json_lines import raw_lines
from deployments.offline.places import Format, RefusedError, Source, SourceFile
from deployments.offline.rows import custom_id_of
from deployments.protocol.strict_json import JsonError, loads

_PIECE_ROWS: Final = 512
"""Of JSON lines. A piece is read by one task, some 10 ms; what is answered already is not read again."""

_READ_BYTES: Final = 2**22


@dataclass(frozen=True)
class Piece:
    """Rows of one file that are read together.

    Attributes:
        file: Its name in the input.
        url: Where it is.
        format: Of the file.
        first_row: The number of its first row in the file; rows count from 1.
        num_rows: How many.
        start: Where it begins: a byte of JSON lines, a row group of Parquet.
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
        """The numbers of its rows."""
        return range(self.first_row, self.first_row + self.num_rows)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        # Names of JSON objects are strings.
        return cls(**{**fields, "repeated": {int(row): place for row, place in fields["repeated"].items()}})


@dataclass
class Survey:
    """The input as it was found.

    Attributes:
        files: Of each file its name, bytes, rows and SHA-256.
        pieces: All of it, in order.
        kept: Of Parquet, the columns that go to the output.
    """

    format: Format
    files: list[dict[str, Any]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    kept: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def num_rows(self) -> int:
        return sum(piece.num_rows for piece in self.pieces)


def survey(source: Source, config: OfflineConfig) -> Survey:
    """Reads the input once, in the driver; takes some 20 s for a million JSON lines.

    Raises:
        RefusedError: A file cannot be read, or must not be.
    """
    found = Survey(source.format)
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


def _pieces(file: SourceFile, found: Survey, config: OfflineConfig, seen: dict[bytes, str]) -> Iterator[Piece]:
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
    limits = config.settings.limits
    ids: list[str | None] = []
    first, start = 1, 0
    with file.place.filesystem.open(file.place.path, "rb") as stream:
        for line in raw_lines(stream, limits.max_body_bytes):
            if len(ids) == _PIECE_ROWS:
                yield Piece(file.name, file.place.url, "jsonl", first, len(ids), start), ids
                ids, first, start = [], line.number, line.start
            ids.append(_name_in(line.text, config))
    if ids:
        yield Piece(file.name, file.place.url, "jsonl", first, len(ids), start), ids


def _parquet(file: SourceFile, found: Survey, config: OfflineConfig) -> Iterator[tuple[Piece, list[str | None]]]:
    with file.place.filesystem.open(file.place.path, "rb") as stream:
        check_footer(stream, file.num_bytes, file.name)
        stream.seek(0)
        table = pq.ParquetFile(stream)
        schema = table.schema_arrow
        _check_columns(schema, file, config)
        found.kept = _united(found.kept, kept_columns(schema), file)
        column = config.offline.columns.get("custom_id", "custom_id")
        first = 1
        for group in range(table.num_row_groups):
            num_rows = table.metadata.row_group(group).num_rows
            ids: list[str | None] = [None] * num_rows
            if column in schema.names:
                values = table.read_row_group(group, [column]).column(column).to_pylist()
                ids = [_name_of({column: value}, config) for value in values]
            if num_rows:
                yield Piece(file.name, file.place.url, "parquet", first, num_rows, group), ids
            first += num_rows


def kept_columns(schema: pa.Schema) -> pa.Schema:
    """The columns that go to the output: those of one plain value each, without those that are the request."""
    return pa.schema(
        [column.remove_metadata() for column in schema if _is_simple(column.type) and column.name not in NOT_KEPT]
    )


NOT_KEPT: Final = frozenset({"body", "messages", "custom_id", "method", "url"})


def _is_simple(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
    )


def _check_columns(schema: pa.Schema, file: SourceFile, config: OfflineConfig) -> None:
    columns = config.offline.columns
    missing = [column for column in columns.values() if column not in schema.names]
    if missing:
        raise RefusedError(f"{file.name}: it has no column {missing[0]!r}; its columns are {', '.join(schema.names)}")
    if not columns and not {"body", "messages"} & set(schema.names):
        raise RefusedError(
            f"{file.name}: it has neither a column 'body' nor 'messages': say in the configuration which column is the "
            f"prompt (offline.columns.prompt); its columns are {', '.join(schema.names)}"
        )


def _united(schema: pa.Schema, other: pa.Schema, file: SourceFile) -> pa.Schema:
    try:
        return pa.unify_schemas([schema, other])
    except pa.ArrowException as error:
        raise RefusedError(f"{file.name}: its columns differ in type from those of files before: {error}") from None


def _name_in(text: bytes | None, config: OfflineConfig) -> str | None:
    try:
        row = loads(text or b"null", config.settings.limits.max_json_depth)
    except JsonError:
        return None
    return _name_of(row, config) if isinstance(row, dict) else None


def _name_of(row: Mapping[str, Any], config: OfflineConfig) -> str | None:
    try:
        return custom_id_of(row, config)
    except BadRequestError:
        return None


def _digest(file: SourceFile) -> str:
    digest = hashlib.sha256()
    with file.place.filesystem.open(file.place.path, "rb") as stream:
        while chunk := stream.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
