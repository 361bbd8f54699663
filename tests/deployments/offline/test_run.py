"""A run and its continuation, with made-up engines; tests/e2e/test_offline.py has real ones."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from deployments.offline.__main__ import main
from deployments.offline.config import OfflineConfig
from deployments.offline.input import Input
from deployments.offline.output import Parts, Result
from deployments.offline.run import Done, Summary
from tests.deployments.offline.conftest import ASKED, Engines, Killed, OfflineWorld

NUM_ROWS = 50


@pytest.fixture(autouse=True)
def source(world: OfflineWorld) -> Path:
    return world.write("in.jsonl", [{"messages": ASKED}] * NUM_ROWS)


def rows(world: OfflineWorld) -> dict[str, Counter[int]]:
    return {name: Counter(line["row"] for line in world.lines(name)) for name in ("answers", "errors")}


def assert_complete(world: OfflineWorld) -> None:
    written = rows(world)
    assert written["answers"] == Counter(row for row in range(1, NUM_ROWS + 1) if row % 7)
    assert written["errors"] == Counter(range(7, NUM_ROWS + 1, 7))


def test_every_row_is_written_once(world: OfflineWorld) -> None:
    summary = world.run(part_rows=8)
    assert_complete(world)
    assert (summary.num_rows, summary.num_skipped, summary.num_answers, summary.num_errors) == (50, 0, 43, 7)
    assert (summary.prompt_tokens, summary.completion_tokens) == (3 * 43, 2 * 43)
    assert json.loads((world.out / "_summary.json").read_text())["num_answers"] == 43
    assert "50 rows: 43 answered, 7 errors, 0 done before; 86 tokens" in summary.as_text()
    assert "0.0 tokens/s" in Summary(0).as_text()


def test_a_row_that_comes_twice_is_written_once(world: OfflineWorld) -> None:
    def twice(found: Input, done: Done, config: OfflineConfig) -> Iterator[Result]:
        for result in Engines()(found, done, config):
            yield from (result, result)

    assert world.run(twice, part_rows=8).num_answers == 43
    assert_complete(world)


@pytest.mark.fault(53)
def test_a_run_that_is_complete_needs_no_engine(world: OfflineWorld) -> None:
    world.run()
    engines = Engines()
    assert world.run(engines).num_skipped == NUM_ROWS
    assert engines.asked == {}


@pytest.mark.parametrize("dies_after", [0, 1, 20, 49])
def test_a_run_that_was_ended_goes_on(world: OfflineWorld, dies_after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def die() -> NoReturn:
        # A process that is killed writes nothing more.
        monkeypatch.setattr(Parts, "write", lambda *_: None)
        raise Killed

    with pytest.raises(Killed):
        world.run(Engines(dies_after, die), part_rows=8)
    monkeypatch.undo()
    num_written = sum(sum(counts.values()) for counts in rows(world).values())
    assert num_written == dies_after // 8 * 8
    engines = Engines()
    assert world.run(engines, part_rows=8).num_skipped == num_written
    assert len(engines.asked) == NUM_ROWS - num_written
    assert_complete(world)


def test_what_came_before_a_failure_is_kept(world: OfflineWorld) -> None:
    with pytest.raises(Killed):
        world.run(Engines(dies_after=20))
    assert sum(sum(counts.values()) for counts in rows(world).values()) == 20


def test_a_part_is_written_when_time_is_up(world: OfflineWorld) -> None:
    world.run(part_s=1e-9)
    assert len(list((world.out / "answers").iterdir())) == 43
    assert_complete(world)


def test_a_run_without_rows_ends_at_once(world: OfflineWorld, source: Path) -> None:
    source.write_bytes(b"")
    assert world.run(Engines(dies_after=0)).num_rows == 0


def test_the_command_says_why_it_cannot_begin(world: OfflineWorld, capsys: pytest.CaptureFixture[str]) -> None:
    config = world.folder / "c.yaml"
    for offline, message in (("{engine: 1}", "unknown setting"), ("{engines: 1}", "must not be the input")):
        config.write_text(f"model_name: /models/toy\noffline: {offline}\n")
        assert main([str(world.source), str(world.source / "out"), "--config", str(config)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("refused: ")
        assert message in error
