"""The output of a run: its columns, its parts, and who may write there."""

import json
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from deployments.offline.config import RefusedError
from tests.deployments.batch.full_disk import no_room
from tests.deployments.offline.conftest import ASKED, COMPLETION, ERROR, OfflineWorld

QUESTIONS: dict[str, Any] = {"columns": {"prompt": "q"}}


def test_answers_and_errors_are_lines_of_output_files_of_batches(world: OfflineWorld) -> None:
    world.write("in.jsonl", [{"q": "Hello", "title": "t", "custom_id": f"r{row}"} for row in range(1, 8)])
    world.run(**QUESTIONS)
    good, [bad] = world.lines("answers")[0], world.lines("errors")
    names = [good.pop("id"), bad.pop("id")]
    assert len(set(names)) == 2
    assert all(name.startswith("batch_req_") for name in names)
    of_input = {"file": "in.jsonl", "input": {"q": "Hello", "title": "t"}}
    response = {"status_code": 200, "request_id": "in.jsonl:1", "body": COMPLETION}
    assert good == {"custom_id": "r1", "row": 1, "response": response, "error": None, **of_input}
    response = {"status_code": 400, "request_id": "in.jsonl:7", "body": {"error": ERROR}}
    error = {"code": None, "message": "No.", "param": "messages"}
    assert bad == {"custom_id": "r7", "row": 7, "response": response, "error": error, **of_input}


def test_of_a_table_the_columns_stay_and_parts_can_be_read_together(world: OfflineWorld) -> None:
    rows = [{"q": "Hello", "level": None if row % 2 else row, "answer": "mine"} for row in range(1, 8)]
    columns = pa.schema([("q", pa.string()), ("level", pa.int32()), ("answer", pa.string())])
    world.write("in.parquet", pa.Table.from_pylist(rows, schema=columns))
    world.run(**QUESTIONS, part_rows=1)
    assert len(list((world.out / "answers").iterdir())) == 6
    good, [bad] = world.table("answers"), world.table("errors")
    assert [row["level"] for row in good] == [None, 2, None, 4, None, 6]
    assert json.loads(good[1].pop("completion")) == COMPLETION
    assert good[1] == {
        "q": "Hello", "level": 2, "input_answer": "mine", "custom_id": None, "file": "in.parquet", "row": 2,
        "answer": "Hola.", "finish_reason": "stop", "prompt_tokens": 3, "completion_tokens": 2,
    }  # fmt: skip
    assert bad == {
        "q": "Hello", "level": None, "answer": "mine", "custom_id": None, "file": "in.parquet", "row": 7,
        "status": 400, "code": None, "message": "No.", "param": "messages",
    }  # fmt: skip
    assert world.run(**QUESTIONS).num_skipped == 7


def test_what_a_killed_run_left_is_removed(world: OfflineWorld) -> None:
    world.write("in.jsonl", [{"messages": ASKED}])
    world.run()
    (world.out / "answers" / ".part-x.jsonl-0.part").write_text('{"half')
    world.run()
    assert len(list((world.out / "answers").iterdir())) == 1


@pytest.mark.fault(47)
def test_a_disk_that_is_full_leaves_nothing_half_written(world: OfflineWorld) -> None:
    world.write("in.jsonl", [{"messages": ASKED}] * 50)
    with no_room(1000), pytest.raises(OSError, match="File too large"):
        world.run()
    assert [path for name in ("answers", "errors") for path in (world.out / name).glob("*")] == []
    assert world.run().num_skipped == 0


def test_a_url_is_written_through_fsspec(world: OfflineWorld) -> None:
    world.write("in.jsonl", [{"messages": ASKED}] * 7)
    world.run(output="memory://out/run")
    assert len(fsspec.filesystem("memory").ls("/out/run/answers")) == 1
    assert world.run(output="memory://out/run").num_skipped == 7


def test_a_folder_that_holds_something_else_is_refused(world: OfflineWorld) -> None:
    world.write("in.jsonl", [{"messages": ASKED}])
    for number, (name, content, message) in enumerate(
        [
            ("thesis.txt", "years of work", "is not empty, and no run was begun there"),
            *(("_manifest.json", content, "cannot be read") for content in ("{", "[]", "{}")),
            ("_manifest.json", '{"version": 2}', "a manifest of version 2, not 1"),
        ]
    ):
        world.out = world.folder / f"out-{number}"
        world.out.mkdir()
        (world.out / name).write_text(content)
        with pytest.raises(RefusedError, match=message):
            world.run()


def test_a_run_that_was_begun_with_other_arguments_is_refused(world: OfflineWorld) -> None:
    path = world.write("in.jsonl", [{"messages": ASKED}])
    world.run()
    # How fast it is may change.
    assert world.run(engines=5, part_rows=5).num_skipped == 1
    with pytest.raises(RefusedError, match="a configuration that gives other answers"):
        world.run(request={"max_tokens": 5})
    path.write_bytes(path.read_bytes() + b"{}\n")
    with pytest.raises(RefusedError, match=r"another content of in\.jsonl"):
        world.run()
    path.rename(path.with_name("other.jsonl"))
    with pytest.raises(RefusedError, match=r"other files: in\.jsonl, other\.jsonl"):
        world.run()


def test_a_part_that_cannot_be_read_is_refused(world: OfflineWorld) -> None:
    world.write("in.jsonl", [{"messages": ASKED}])
    world.run()
    (world.out / "answers" / "part-x.jsonl").write_text('{"half')
    with pytest.raises(RefusedError, match="what is done is not known"):
        world.run()


def test_a_second_run_at_the_same_time_is_refused(world: OfflineWorld) -> None:
    world.write("in.jsonl", [{"messages": ASKED}])

    def begin_another(*_: Any) -> Any:
        world.run()
        return iter(())

    with pytest.raises(RefusedError, match="another run writes there now"):
        world.run(begin_another)
    assert world.run().num_answers == 1
