"""Reads a piece of the input, wherever the task runs: each row with its place, its request, and what is kept of it.

A row that is no request becomes one that is answered already, with the error that says so. It knows nothing of engines.
"""

import io
import json
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

import fsspec
import pyarrow.parquet as pq

from deployments.errors import BadRequestError
from deployments.offline.columns import REQUEST, refused
from deployments.offline.config import OfflineConfig
from deployments.offline.footers import check_footer
from deployments.offline.json_lines import raw_lines
from deployments.offline.rows import custom_id_of, to_request
from deployments.offline.survey import NOT_KEPT, Piece, kept_columns
from deployments.protocol.strict_json import JsonError, loads

_BATCH_ROWS: Final = 256


def read_piece(piece: Piece, done: Set[int], config: OfflineConfig) -> Iterator[dict[str, Any]]:
    """The rows of a piece that are not done: ``file``, ``row``, ``custom_id``, ``kept`` (JSON) and ``REQUEST``."""
    read = _parquet_rows if piece.format == "parquet" else _json_rows
    with fsspec.open(piece.url, "rb") as stream:
        for number, found in read(stream, piece, config):
            if number not in done:
                yield _row(piece, number, found, config)


def _row(
    piece: Piece, number: int, found: Mapping[str, Any] | BadRequestError, config: OfflineConfig
) -> dict[str, Any]:
    custom_id, kept = None, {}
    try:
        if isinstance(found, BadRequestError):
            raise found
        if piece.format == "parquet" or config.offline.columns:
            kept = {
                name: value
                for name, value in found.items()
                if name not in NOT_KEPT and isinstance(value, (str, int, float, bool))
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
        place = f"Line {number}" if piece.format == "jsonl" else f"Row {number}"
        request = refused(BadRequestError(f"{place}: {error.message}", error.param, error.code))
    return {
        "file": piece.file,
        "row": number,
        # Arrow has no type for a column without a value.
        "custom_id": custom_id or "",
        "kept": json.dumps(kept, ensure_ascii=False),
        REQUEST: json.dumps(request, ensure_ascii=False),
    }


def _json_rows(
    stream: Any, piece: Piece, config: OfflineConfig
) -> Iterator[tuple[int, Mapping[str, Any] | BadRequestError]]:
    limits = config.settings.limits
    for line in raw_lines(stream, limits.max_body_bytes, start=piece.start, number=piece.first_row):
        if line.number >= piece.first_row + piece.num_rows:
            return
        yield line.number, _parsed(line.text, limits.max_body_bytes, limits.max_json_depth)


def _parsed(text: bytes | None, max_bytes: int, max_depth: int) -> Mapping[str, Any] | BadRequestError:
    if text is None:
        return BadRequestError(f"it is longer than {max_bytes} bytes.")
    if not text.strip():
        return BadRequestError("it is blank: take it out.")
    try:
        row = loads(text, max_depth)
    except JsonError as error:
        return BadRequestError(f"it is not valid JSON: {error}.")
    return row if isinstance(row, dict) else BadRequestError("it must be a JSON object.")


def _parquet_rows(stream: Any, piece: Piece, config: OfflineConfig) -> Iterator[tuple[int, Mapping[str, Any]]]:
    # Again, for the file may be another by now.
    check_footer(stream, stream.seek(0, io.SEEK_END), piece.file)
    stream.seek(0)
    table = pq.ParquetFile(stream)
    schema = table.schema_arrow
    wanted = {*kept_columns(schema).names, *NOT_KEPT, *config.offline.columns.values()}
    if not config.offline.columns and "body" not in schema.names:
        wanted |= set(schema.names)
    columns = [name for name in schema.names if name in wanted]
    number = piece.first_row
    for batch in table.iter_batches(_BATCH_ROWS, row_groups=[piece.start], columns=columns):
        for row in batch.to_pylist():
            yield number, row
            number += 1
