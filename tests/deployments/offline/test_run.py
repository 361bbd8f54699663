"""A run and its continuation, with made-up engines; tests/e2e/test_offline.py has real ones."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.offline.__main__ import main
from deployments.offline.config import OfflineConfig
from deployments.offline.parts import Result
from deployments.offline.pieces import Input
from deployments.offline.run import Done, Summary, run
from deployments.offline.source import RefusedError
from tests.deployments.offline.conftest import MakeConfig
from tests.deployments.offline.test_parts import COMPLETION, ERROR, lines

NUM_ROWS = 50


class Killed(BaseException):
    """Stands for the end of the process: nobody catches it."""


class Engines:
    """Answer every row but each seventh, which is an error; ``dies_after`` rows the process ends."""

    def __init__(self, dies_after: int | None = None) -> None:
        self.dies_after = dies_after
        self.num_answered = 0

    def __call__(self, found: Input, done: Done, _: OfflineConfig) -> Iterator[Result]:
        for piece in found.pieces:
            for row in set(piece.rows) - done.get(piece.file, set()):
                if self.num_answered == self.dies_after:
                    raise Killed
                self.num_answered += 1
                status, body = (400, ERROR) if row % 7 == 0 else (200, COMPLETION)
                yield Result(piece.file, row, None, {}, status, body)


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "in.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "Hello"}]}\n' * NUM_ROWS)
    return str(path)


def rows(out: Path) -> dict[str, Counter[int]]:
    return {name: Counter(line["row"] for line in lines(out / name)) for name in ("answers", "errors")}


def assert_complete(out: Path) -> None:
    written = rows(out)
    assert written["answers"] == Counter(row for row in range(1, NUM_ROWS + 1) if row % 7)
    assert written["errors"] == Counter(range(7, NUM_ROWS + 1, 7))


def test_every_row_is_written_once(source: str, tmp_path: Path, make_config: MakeConfig) -> None:
    out = tmp_path / "out"
    summary = run(source, str(out), make_config(part_rows=8), Engines())
    assert_complete(out)
    assert (summary.num_rows, summary.num_skipped, summary.num_answers, summary.num_errors) == (50, 0, 43, 7)
    assert (summary.prompt_tokens, summary.completion_tokens) == (3 * 43, 2 * 43)
    assert json.loads((out / "_summary.json").read_text())["num_answers"] == 43
    assert "50 rows: 43 answered, 7 errors, 0 done before; 86 tokens" in summary.as_text()


def test_a_row_that_comes_twice_is_written_once(source: str, tmp_path: Path, make_config: MakeConfig) -> None:
    def twice(found: Input, done: Done, config: OfflineConfig) -> Iterator[Result]:
        for result in Engines()(found, done, config):
            yield from (result, result)

    summary = run(source, str(tmp_path / "out"), make_config(part_rows=8), twice)
    assert_complete(tmp_path / "out")
    assert summary.num_answers == 43


def test_a_run_that_is_complete_needs_no_engine(source: str, tmp_path: Path, make_config: MakeConfig) -> None:
    run(source, str(tmp_path / "out"), make_config(), Engines())
    engines = Engines()
    assert run(source, str(tmp_path / "out"), make_config(), engines).num_skipped == NUM_ROWS
    assert engines.num_answered == 0


@pytest.mark.parametrize("dies_after", [0, 1, 20, 49])
def test_a_run_that_was_ended_goes_on(
    source: str, tmp_path: Path, make_config: MakeConfig, dies_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, config = tmp_path / "out", make_config(part_rows=8)
    with monkeypatch.context() as patch:
        # A process that is killed writes nothing more.
        patch.setattr("deployments.offline.run._write_rest", lambda *_: None)
        with pytest.raises(Killed):
            run(source, str(out), config, Engines(dies_after))
    num_written = sum(sum(counts.values()) for counts in rows(out).values())
    assert num_written == dies_after // 8 * 8
    engines = Engines()
    summary = run(source, str(out), config, engines)
    assert (summary.num_skipped, engines.num_answered) == (num_written, NUM_ROWS - num_written)
    assert_complete(out)


def test_what_came_before_a_failure_is_kept(source: str, tmp_path: Path, make_config: MakeConfig) -> None:
    with pytest.raises(Killed):
        run(source, str(tmp_path / "out"), make_config(), Engines(dies_after=20))
    assert sum(sum(counts.values()) for counts in rows(tmp_path / "out").values()) == 20


def test_a_part_is_written_when_time_is_up(source: str, tmp_path: Path, make_config: MakeConfig) -> None:
    run(source, str(tmp_path / "out"), make_config(part_s=1e-9), Engines())
    assert len(list((tmp_path / "out" / "answers").iterdir())) == 43
    assert_complete(tmp_path / "out")


def test_a_changed_input_is_refused(source: str, tmp_path: Path, make_config: MakeConfig) -> None:
    run(source, str(tmp_path / "out"), make_config(), Engines())
    with Path(source).open("a") as file:
        file.write("{}\n")
    with pytest.raises(RefusedError, match=r"another content of in\.jsonl"):
        run(source, str(tmp_path / "out"), make_config(), Engines())


def test_a_run_without_rows_ends_at_once(tmp_path: Path, make_config: MakeConfig) -> None:
    (tmp_path / "in.jsonl").touch()
    assert run(str(tmp_path / "in.jsonl"), str(tmp_path / "out"), make_config(), Engines(0)).num_rows == 0


def test_a_summary_without_time_has_no_rate() -> None:
    assert "0.0 tokens/s" in Summary(0).as_text()


@pytest.mark.parametrize(
    ("offline", "message"), [("{engine: 1}", "unknown setting"), ("{engines: 1}", "must not be the input")]
)
def test_the_command_says_why_it_cannot_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], offline: str, message: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "c.yaml").write_text(f"model_name: /models/toy\noffline: {offline}\n")
    arguments: list[Any] = [tmp_path / "in", tmp_path / "in" / "out", "--config", tmp_path / "c.yaml"]
    assert main(list(map(str, arguments))) == 2
    error = capsys.readouterr().err
    assert error.startswith("refused: ")
    assert message in error
