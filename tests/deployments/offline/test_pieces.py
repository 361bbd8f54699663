"""One look at the whole input, and the pieces that it is read in."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deployments.offline.config import OfflineConfig
from deployments.offline.pieces import Input, Piece, look_through, read_piece
from deployments.offline.row_requests import REQUEST
from deployments.offline.source import RefusedError, find_source
from deployments.storage import Location
from tests.deployments import buffered_files as buffered_files  # registers buffered://
from tests.deployments.offline.conftest import MakeConfig
from tests.deployments.offline.test_source import HostileType

ASKED = [{"role": "user", "content": "Hello"}]


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    path.write_bytes(b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows))
    return path


def look(path: Path | str, config: OfflineConfig) -> Input:
    return look_through(find_source(str(path)), config)


def read(found: Input, config: OfflineConfig) -> list[dict[str, Any]]:
    """All rows, each with its request parsed."""
    rows = [row for piece in found.pieces for row in read_piece(Piece.from_json(piece.to_json()), frozenset(), config)]
    return [{**row, REQUEST: json.loads(row[REQUEST])} for row in rows]


def fault(row: dict[str, Any]) -> str:
    """The message of a row that is answered already."""
    answer = row[REQUEST]["answer"]
    assert answer["status"] == 400
    return str(answer["body"]["error"]["message"])


def test_json_lines_are_read_in_pieces_with_their_numbers(tmp_path: Path, make_config: MakeConfig) -> None:
    config = make_config()
    path = write_lines(tmp_path / "in.jsonl", [{"custom_id": f"r{n}", "messages": ASKED} for n in range(1, 1101)])
    found = look(path, config)
    assert [(piece.first_row, piece.num_rows) for piece in found.pieces] == [(1, 512), (513, 512), (1025, 76)]
    assert found.num_rows == 1100
    rows = read(found, config)
    assert [(row["row"], row["custom_id"]) for row in rows] == [(n, f"r{n}") for n in range(1, 1101)]
    assert rows[599][REQUEST] == {
        "id": "in.jsonl:600",
        "body": {"model": "toy", "messages": ASKED},
    }


def test_rows_that_are_done_are_not_read(tmp_path: Path, make_config: MakeConfig) -> None:
    config = make_config()
    found = look(write_lines(tmp_path / "in.jsonl", [{"messages": ASKED}] * 5), config)
    assert [row["row"] for row in read_piece(found.pieces[0], {1, 3, 4}, config)] == [2, 5]


def test_a_bad_line_is_a_row_of_its_own(tmp_path: Path, make_config: MakeConfig) -> None:
    config = make_config({"limits": {"max_body_bytes": 1024}})
    lines = [
        b"{\n", b"\n", b"[]\n", b"\xff\xfe\n", b'{"a": 1, "a": 2}\n', b"x" * 2000 + b"\n",
        {"custom_id": "a", "messages": ASKED}, {"custom_id": "a", "messages": ASKED}, {"prompt": "x"},
        {"messages": ASKED},
    ]  # fmt: skip
    rows = read(look(write_lines(tmp_path / "in.jsonl", lines), config), config)
    messages = [fault(row) if "answer" in row[REQUEST] else "" for row in rows]
    for number, expected in enumerate(
        ["not valid JSON", "blank", "must be a JSON object", "not valid UTF-8", "twice", "more than 1024 bytes", "",
         "same as that of row in.jsonl:7", "neither 'body' nor 'messages'", ""], start=1,
    ):  # fmt: skip
        assert expected in messages[number - 1]
        assert messages[number - 1].startswith(f"Line {number}: ") or not expected
    assert rows[7]["custom_id"] == "a"


def test_the_same_name_in_another_file_is_a_fault(tmp_path: Path, make_config: MakeConfig) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        write_lines(tmp_path / name, [{"custom_id": "x", "messages": ASKED}])
    first, second = read(look(tmp_path, make_config()), make_config())
    assert "body" in first[REQUEST]
    assert "same as that of row a.jsonl:1" in fault(second)


def test_parquet_is_read_by_row_groups(tmp_path: Path, make_config: MakeConfig) -> None:
    config = make_config(columns={"prompt": "q", "custom_id": "id", "vocab_lang": "lang", "vocab_n_words": "n"})
    table = pa.table(
        {
            "id": [f"r{n}" for n in range(1, 8)],
            "q": [*["Hello"] * 6, None],
            "lang": ["es", None] * 3 + ["es"],
            "n": pa.array([100, None] * 3 + [5], pa.int32()),
            "weight": [0.5] * 7,
            "tags": [["a"]] * 7,
        }
    )
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=3)
    found = look(tmp_path / "in.parquet", config)
    assert [(piece.first_row, piece.num_rows) for piece in found.pieces] == [(1, 3), (4, 3), (7, 1)]
    assert found.input_columns.names == ["id", "q", "lang", "n", "weight"]
    rows = read(found, config)
    assert rows[0][REQUEST]["body"] == {
        "model": "toy", "messages": ASKED, "vocab_lang": "es", "vocab_n_words": 100,
    }  # fmt: skip
    assert rows[1][REQUEST]["body"] == {"model": "toy", "messages": ASKED}
    assert json.loads(rows[0]["input_columns"]) == {"id": "r1", "q": "Hello", "lang": "es", "n": 100, "weight": 0.5}
    assert fault(rows[6]).startswith("Row 7: The column 'q' has no prompt")


def test_parquet_with_messages_or_bodies(tmp_path: Path, make_config: MakeConfig) -> None:
    bodies = pa.table({"custom_id": ["a"], "body": [json.dumps({"messages": ASKED})], "title": ["t"]})
    pq.write_table(bodies, tmp_path / "a.parquet")
    pq.write_table(pa.table({"messages": [ASKED], "max_tokens": [5]}), tmp_path / "b.parquet")
    rows = read(look(tmp_path, make_config()), make_config())
    assert [row[REQUEST]["body"] for row in rows] == [
        {"model": "toy", "messages": ASKED},
        {"model": "toy", "messages": ASKED, "max_tokens": 5},
    ]
    assert json.loads(rows[0]["input_columns"]) == {"title": "t"}


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        (pa.table({"q": ["x"]}), {}, "neither a column 'body' nor 'messages'.*columns are q"),
        (pa.table({"q": ["x"]}), {"prompt": "question"}, "no column 'question'; its columns are q"),
        (
            pa.table({"body": pa.ExtensionArray.from_storage(HostileType(), pa.array([b"x"], pa.binary()))}),
            {},
            "extension type",
        ),
    ],
)
def test_a_table_that_holds_no_requests_is_refused(
    tmp_path: Path, make_config: MakeConfig, table: pa.Table, columns: dict[str, str], message: str
) -> None:
    pq.write_table(table, tmp_path / "in.parquet")
    with pytest.raises(RefusedError, match=message):
        look(tmp_path / "in.parquet", make_config(columns=columns))


def test_tables_whose_columns_differ_in_type_are_refused(tmp_path: Path, make_config: MakeConfig) -> None:
    for name, value in (("a", "x"), ("b", 1)):
        pq.write_table(pa.table({"messages": [ASKED], "user": [value]}), tmp_path / f"{name}.parquet")
    with pytest.raises(RefusedError, match=r"b\.parquet: its columns differ"):
        look(tmp_path, make_config())


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path, make_config: MakeConfig) -> None:
    (tmp_path / "in.parquet").write_text("not parquet at all")
    with pytest.raises(RefusedError, match="not a Parquet file"):
        look(tmp_path, make_config())


def test_an_empty_file_has_no_rows(tmp_path: Path, make_config: MakeConfig) -> None:
    found = look(write_lines(tmp_path / "in.jsonl", []), make_config())
    assert (found.num_rows, found.pieces) == (0, [])


def test_json_lines_behind_a_url_are_read_in_pieces(make_config: MakeConfig) -> None:
    """The files of object stores have a ``readline`` that takes no limit."""
    rows = [{"custom_id": f"r{n}", "messages": ASKED} for n in range(1, 601)]
    Location.of("buffered://rows/in.jsonl").write([json.dumps(row).encode() + b"\n" for row in rows])
    config = make_config()
    found = look("buffered://rows", config)
    assert [piece.num_rows for piece in found.pieces] == [512, 88]
    assert [row["custom_id"] for row in read(found, config)] == [row["custom_id"] for row in rows]
