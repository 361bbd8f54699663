"""The parts of an output."""

import json
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deployments.offline.parts import Parts, Result, claim_folder, only_run
from deployments.offline.pieces import Input
from deployments.offline.source import RefusedError
from deployments.storage import Location
from tests.deployments.batch.full_disk import no_room
from tests.deployments.offline.conftest import MakeConfig

COMPLETION = {
    "choices": [{"message": {"role": "assistant", "content": "Hola."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    "vocab": {"lang": "es"},
}
ERROR = {"message": "No.", "type": "invalid_request_error", "param": "messages", "code": None}


def answer(row: int, **fields: Any) -> Result:
    return Result(
        **{
            "file": "in",
            "row": row,
            "custom_id": None,
            "input_columns": {},
            "status": 200,
            "body": COMPLETION,
            **fields,
        }
    )


def error(row: int, **fields: Any) -> Result:
    return answer(row, **{"status": 400, "body": ERROR, **fields})


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def test_answers_and_errors_are_lines_of_output_files_of_batches(tmp_path: Path) -> None:
    parts = Parts(Location.of(str(tmp_path)), "jsonl", pa.schema([]))
    parts.write([answer(1, custom_id="a", input_columns={"title": "t"}), error(2)])
    [good], [bad] = lines(tmp_path / "answers"), lines(tmp_path / "errors")
    assert good.pop("id").startswith("batch_req_")
    assert good == {
        "custom_id": "a",
        "response": {"status_code": 200, "request_id": "in:1", "body": COMPLETION},
        "error": None,
        "file": "in",
        "row": 1,
        "input": {"title": "t"},
    }
    assert bad.pop("id") != good
    assert bad == {
        "custom_id": None,
        "response": {"status_code": 400, "request_id": "in:2", "body": {"error": ERROR}},
        "error": {"code": None, "message": "No.", "param": "messages"},
        "file": "in",
        "row": 2,
    }
    assert set(parts.done()) == {("in", 1, True), ("in", 2, False)}


def test_of_a_table_the_columns_stay(tmp_path: Path) -> None:
    input_columns = pa.schema([("title", pa.string()), ("level", pa.int32()), ("answer", pa.string())])
    parts = Parts(Location.of(str(tmp_path)), "parquet", input_columns)
    parts.write(
        [answer(1, input_columns={"title": "t", "level": 3, "answer": "mine"}), error(2, input_columns={"title": "u"})]
    )
    [good] = pq.read_table(tmp_path / "answers").to_pylist()
    assert json.loads(good.pop("completion")) == COMPLETION
    assert good == {
        "title": "t", "level": 3, "input_answer": "mine", "custom_id": None, "file": "in", "row": 1,
        "answer": "Hola.", "finish_reason": "stop", "prompt_tokens": 3, "completion_tokens": 2,
    }  # fmt: skip
    [bad] = pq.read_table(tmp_path / "errors").to_pylist()
    assert bad == {
        "title": "u", "level": None, "answer": None, "custom_id": None, "file": "in", "row": 2,
        "status": 400, "code": None, "message": "No.", "param": "messages",
    }  # fmt: skip
    assert set(parts.done()) == {("in", 1, True), ("in", 2, False)}


def test_parts_of_one_run_can_be_read_together(tmp_path: Path) -> None:
    parts = Parts(Location.of(str(tmp_path)), "parquet", pa.schema([("level", pa.int64())]))
    for row in range(5):
        parts.write([answer(row, custom_id=None if row % 2 else "x", input_columns={} if row % 2 else {"level": row})])
    assert sorted(pq.read_table(tmp_path / "answers")["row"].to_pylist()) == [0, 1, 2, 3, 4]


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    parts = Parts(Location.of(str(tmp_path)), "jsonl", pa.schema([]))
    parts.write([answer(1)])
    (tmp_path / "answers" / ".part-x.jsonl-0.part").write_text('{"half')
    parts.clean()
    assert len(list((tmp_path / "answers").iterdir())) == 1
    assert list(parts.done()) == [("in", 1, True)]


def test_a_part_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "part-x.jsonl").write_text('{"half')
    with pytest.raises(RefusedError, match="what is done is not known"):
        list(Parts(Location.of(str(tmp_path)), "jsonl", pa.schema([])).done())


def test_a_disk_that_is_full_leaves_nothing_half_written(tmp_path: Path) -> None:
    parts = Parts(Location.of(str(tmp_path)), "jsonl", pa.schema([]))
    with no_room(100), pytest.raises(OSError, match="File too large"):
        parts.write([answer(1)])
    assert list((tmp_path / "answers").iterdir()) == []


def test_a_url_is_written_through_fsspec() -> None:
    parts = Parts(Location.of("memory://out/run"), "jsonl", pa.schema([]))
    parts.clean()
    parts.write([answer(1), error(2)])
    assert len(fsspec.filesystem("memory").ls("/out/run/answers")) == 1
    assert set(parts.done()) == {("in", 1, True), ("in", 2, False)}


def found(**fields: Any) -> Input:
    return Input("jsonl", files=[{"name": "in.jsonl", "bytes": 3, "rows": 1, "sha256": "ab", **fields}])


def test_the_same_run_goes_on(tmp_path: Path, make_config: MakeConfig) -> None:
    place = Location.of(str(tmp_path / "out"))
    with only_run(place):
        assert claim_folder(place, found(), make_config()) is False
        assert claim_folder(place, found(), make_config(engines=5)) is True


@pytest.mark.parametrize(
    ("survey", "offline", "difference"),
    [
        (found(sha256="cd"), {}, r"another content of in\.jsonl"),
        (found(name="other.jsonl"), {}, r"other files: in\.jsonl, other\.jsonl"),
        (found(), {"request": {"max_tokens": 5}}, "a configuration that gives other answers"),
    ],
)
def test_another_run_is_refused(
    tmp_path: Path, make_config: MakeConfig, survey: Input, offline: dict[str, Any], difference: str
) -> None:
    place = Location.of(str(tmp_path))
    claim_folder(place, found(), make_config())
    with pytest.raises(RefusedError, match=difference):
        claim_folder(place, survey, make_config(**offline))


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path, make_config: MakeConfig) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RefusedError, match="is not empty"):
        claim_folder(Location.of(str(tmp_path)), found(), make_config())


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 2}', "{}"])
def test_a_manifest_that_cannot_be_read_is_refused(tmp_path: Path, make_config: MakeConfig, content: str) -> None:
    (tmp_path / "_manifest.json").write_text(content)
    with pytest.raises(RefusedError):
        claim_folder(Location.of(str(tmp_path)), found(), make_config())


def test_a_second_run_at_the_same_time_is_refused(tmp_path: Path) -> None:
    place = Location.of(str(tmp_path))
    with only_run(place), pytest.raises(RefusedError, match="another run"), only_run(place):
        pass
    with only_run(place):
        pass


def test_a_url_is_begun_too(make_config: MakeConfig) -> None:
    place = Location.of("memory://manifests/out")
    with only_run(place):
        assert claim_folder(place, found(), make_config()) is False
        assert claim_folder(place, found(), make_config()) is True
