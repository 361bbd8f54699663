"""Rows of JSON Lines and of Parquet: the request that an engine gets of each, or the error in its place."""

import json
from typing import Any

import pyarrow as pa
import pytest

from deployments.offline.config import RefusedError
from deployments.storage import Location
from tests.deployments import buffered_files as buffered_files  # registers buffered://
from tests.deployments.offline.conftest import ASKED, OfflineWorld

BATCH_LINE = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": ASKED}}
TOOLS = [{"function": {"parameters": {"const": None}}}]

Case = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]

LINES: list[Case] = [
    (BATCH_LINE, {}, {}),
    ({"custom_id": 7, "messages": ASKED, "vocab_lang": "es"}, {}, {"vocab_lang": "es"}),
    # A null of JSON may mean something.
    ({"messages": ASKED, "tools": TOOLS}, {}, {"tools": TOOLS}),
    # What a row says counts more than the configuration.
    ({"max_tokens": 6}, {"max_tokens": 5}, {"max_tokens": 6}),
    ({"max_completion_tokens": 6}, {"max_tokens": 5}, {"max_completion_tokens": 6}),
    ({"vocab": {"lang": "it"}}, {"vocab": {"lang": "es", "n_words": 5}}, {"vocab": {"lang": "it", "n_words": 5}}),
    ({"vocab_lang": "it"}, {"vocab": {"lang": "es"}}, {"vocab_lang": "it"}),
    ({"vocab": {"lang": "it"}}, {"vocab_lang": "es", "vocab_n_words": 9}, {"vocab": {"lang": "it"}}),
    ({"vocab_lang": "it"}, {"vocab_lang": "es", "vocab_n_words": 9}, {"vocab_lang": "it", "vocab_n_words": 9}),
]
"""A line, ``offline.request``, and what the request has beside model and messages."""


def test_a_line_becomes_a_request(world: OfflineWorld) -> None:
    for number, (line, request, expected) in enumerate(LINES):
        row = line if "body" in line else {"messages": ASKED, **line}
        path = world.write(f"{number}.jsonl", [row])
        found = world.requests(source=path, output=world.folder / str(number), request=request)
        assert found == [{"model": "toy", "messages": ASKED, **expected}], line


TABLES: list[Case] = [
    (
        {"body": json.dumps({"model": "other", "messages": ASKED, "max_tokens": 5}), "title": "no part of it"},
        {},
        {"model": "other", "max_tokens": 5},
    ),
    # Members that are null, or no number, are not there.
    ({"body": {"messages": [{**ASKED[0], "name": None}], "vocab": None, "stop": ["x"]}}, {}, {"stop": ["x"]}),
    ({"messages": ASKED, "max_tokens": 5}, {}, {"max_tokens": 5}),
    (
        {"q": "Hello", "role": "Be kind.", "id": "x", "l": "es", "w": ["a", "b"], "n": 9},
        {
            "columns": {"prompt": "q", "system": "role", "custom_id": "id", "vocab.lang": "l", "vocab.words": "w"}
            | {"max_tokens": "n"}
        },
        {
            "messages": [{"role": "system", "content": "Be kind."}, *ASKED],
            "vocab": {"lang": "es", "words": ["a", "b"]},
            "max_tokens": 9,
        },
    ),
    (
        {"q": "Hello", "s": None, "l": None, "n": float("nan")},
        {
            "columns": {"prompt": "q", "system": "s", "vocab_lang": "l", "max_tokens": "n"},
            "request": {"vocab_lang": "en"},
        },
        {"vocab_lang": "en"},
    ),
    ({"talk": [{**ASKED[0], "name": None}], "note": "x"}, {"columns": {"messages": "talk"}}, {}),
]
"""A row, the block ``offline``, and what the request has beside model and messages."""


def test_a_row_of_a_table_becomes_a_request(world: OfflineWorld) -> None:
    for number, (row, offline, expected) in enumerate(TABLES):
        path = world.write(f"{number}.parquet", pa.Table.from_pylist([row]))
        found = world.requests(source=path, output=world.folder / str(number), **offline)
        assert found == [{"model": "toy", "messages": ASKED, **expected}], row


def test_a_bad_line_is_a_row_of_its_own(world: OfflineWorld) -> None:
    good = {"custom_id": "a", "messages": ASKED}
    lines: list[tuple[Any, str]] = [
        ({"messages": ASKED}, ""),
        (b"{\n", "not valid JSON"),
        (b"\n", "blank"),
        (b"[]\n", "must be a JSON object"),
        (b"\xff\xfe\n", "not valid UTF-8"),
        (b'{"a": 1, "a": 2}\n', "twice"),
        (b"x" * 2000 + b"\n", "more than 1024 bytes"),
        (good, ""),
        (good, "same as that of row in.jsonl:8"),
        ({"prompt": "x"}, "neither 'body' nor 'messages'"),
        ({"body": "{"}, "'body' is not valid JSON"),
        ({"body": "[]"}, "'body' must be a JSON object"),
        ({"body": {"messages": ASKED}, "method": "GET"}, "'method' must be 'POST'"),
        ({"body": {"messages": ASKED}, "url": "/v1/embeddings"}, "'url' must be"),
        ({"messages": ASKED, "stream": True}, "'stream' must be false"),
        ({"messages": ASKED, "custom_id": ""}, "'custom_id' must be"),
        ({"messages": ASKED, "custom_id": "x" * 513}, "'custom_id' must be"),
        ({"messages": ASKED, "custom_id": [1]}, "'custom_id' must be"),
        ({"messages": [{"role": "user", "content": "x" * 970}]}, "longer than 1024 bytes"),
    ]
    world.write("in.jsonl", [line for line, _ in lines])
    world.run(settings={"limits": {"max_body_bytes": 1024}})
    told = {row["row"]: row["response"]["body"]["error"]["message"] for row in world.lines("errors")}
    expected = {number: message for number, (_, message) in enumerate(lines, start=1) if message}
    assert told.keys() == expected.keys()
    assert [text for number, text in told.items() if not text.startswith(f"Line {number}: ")] == []
    assert {number: text for number, text in told.items() if expected[number] not in text} == {}
    assert {row["row"]: row["custom_id"] for row in world.lines("answers")} == {1: None, 8: "a"}
    assert world.lines("errors")[6]["custom_id"] == "a"


def test_a_bad_row_of_a_table_is_a_row_of_its_own(world: OfflineWorld) -> None:
    schema = [("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])))]
    schema += [("user", pa.binary()), ("temperature", pa.float64()), ("custom_id", pa.binary())]
    faults: list[tuple[dict[str, Any], str]] = [
        ({"user": b"x"}, "be written as JSON"),
        ({"temperature": float("inf")}, "be written as JSON"),
        ({"custom_id": b"x"}, "'custom_id' must be"),
    ]
    rows = [{"messages": ASKED, **fault} for fault, _ in faults]
    world.write("in.parquet", pa.Table.from_pylist(rows, schema=pa.schema(schema)))
    world.run()
    for row, (_, message) in zip(world.table("errors"), faults, strict=True):
        assert message in row["message"]
        assert row["message"].startswith(f"Row {row['row']}: ")


def test_many_lines_keep_their_numbers_and_names_also_behind_a_url(world: OfflineWorld) -> None:
    rows = [{"custom_id": f"r{number}", "messages": ASKED} for number in range(1, 1101)]
    world.write("in.jsonl", rows)
    # The files of object stores have a `readline` that takes no limit.
    Location.of("buffered://rows/in.jsonl").write([json.dumps(row).encode() + b"\n" for row in rows])
    for number, source in enumerate((str(world.source), "buffered://rows")):
        world.out = world.folder / f"out-{number}"
        world.run(source=source)
        written = {row["row"]: row["custom_id"] for name in ("answers", "errors") for row in world.lines(name)}
        assert written == {number: f"r{number}" for number in range(1, 1101)}


def test_the_same_name_in_another_file_is_a_fault(world: OfflineWorld) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        world.write(name, [{"custom_id": "x", "messages": ASKED}])
    world.run()
    [answered], [refused] = world.lines("answers"), world.lines("errors")
    assert (answered["file"], refused["file"]) == ("a.jsonl", "b.jsonl")
    assert "same as that of row a.jsonl:1" in refused["error"]["message"]


def test_a_table_is_read_by_row_groups(world: OfflineWorld) -> None:
    table = pa.table(
        {
            "id": [f"r{number}" for number in range(1, 9)],
            "q": [*["Hello"] * 7, None],
            "lang": ["es", None] * 4,
            "n": pa.array([100, None] * 4, pa.int32()),
            "weight": [0.5] * 8,
            "tags": [["a"]] * 8,
        }
    )
    world.write("in.parquet", table, row_group_size=3)
    columns = {"prompt": "q", "custom_id": "id", "vocab_lang": "lang", "vocab_n_words": "n"}
    first, second, *_ = world.requests(columns=columns)
    assert first == {"model": "toy", "messages": ASKED, "vocab_lang": "es", "vocab_n_words": 100}
    assert second == {"model": "toy", "messages": ASKED}
    kept = [[row[name] for name in ("row", "id", "q", "lang", "n", "weight")] for row in world.table("answers")]
    assert kept[0] == [1, "r1", "Hello", "es", 100, 0.5]
    assert [row[0] for row in kept] == [1, 2, 3, 4, 5, 6]
    assert "tags" not in world.table("answers")[0]
    assert [row["row"] for row in world.table("errors")] == [7, 8]
    assert world.table("errors")[1]["message"].startswith("Row 8: The column 'q' has no prompt")


def test_a_table_that_holds_no_requests_is_refused(world: OfflineWorld) -> None:
    world.write("a.parquet", pa.table({"q": ["x"]}))
    with pytest.raises(RefusedError, match=r"neither a column 'body' nor 'messages'.*columns are q"):
        world.run()
    with pytest.raises(RefusedError, match="no column 'question'; its columns are q"):
        world.run(columns={"prompt": "question"})
    for name, value in (("a", "x"), ("b", 1)):
        world.write(f"{name}.parquet", pa.table({"messages": [ASKED], "user": [value]}))
    with pytest.raises(RefusedError, match=r"b\.parquet: its columns differ"):
        world.run()
