"""Batches from their first line to their files, while whatever dies, dies."""

import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.batch.worker.run import run_batch
from deployments.storage import StorageError
from tests.deployments.batch.world import World, assert_every_line_once, line_of


@pytest.fixture
def world(tmp_path: Path, database_url: str) -> Iterator[World]:
    """Over each of the databases."""
    world = World(tmp_path, database=database_url)
    yield world
    world.store.close()


def test_good_lines_are_answered_and_bad_ones_named(world: World) -> None:
    lines = [line_of(1, "one"), b"{", b"", line_of(4, "four"), line_of(1, "again"), b"\xff\xfe", line_of(7, n=0)]
    batch = world.batch_of(lines)
    run_batch(world.context(), batch.id)
    assert world.now_of(batch).status == "completed"
    output, errors = assert_every_line_once(world, batch, 7)
    assert [line["response"]["body"]["text"] for line in output.values()] == ["one", "four"]
    assert errors["row-7"]["error"]["param"] == "n"
    assert world.engines.asked == {"one": 1, "four": 1}


def test_every_line_goes_in_its_owners_name(world: World) -> None:
    batch = world.batch_of([line_of(1), line_of(2)], owner="alice")
    run_batch(world.context(), batch.id)
    assert world.engines.owners == {"alice"}


def test_files_are_in_the_order_of_the_lines(world: World) -> None:
    batch = world.batch_of(line_of(number) for number in range(50))
    run_batch(world.context(), batch.id)
    output = world.lines_of(world.now_of(batch).output_file_id)
    assert [line["custom_id"] for line in output] == [f"row-{number}" for number in range(50)]


def test_times_are_told(world: World) -> None:
    batch = world.batch_of([line_of(1)], output_expires_after_s=3600)
    run_batch(world.context(), batch.id)
    ended = world.now_of(batch)
    assert None not in (ended.in_progress_at, ended.finalizing_at, ended.completed_at)
    file = world.store.file("default", ended.output_file_id or "")
    assert file is not None
    assert (file.expires_at, file.num_bytes) == (int(world.now) + 3600, world.contents.size(file.id))


def test_every_log_line_of_a_batch_names_its_owner(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ray.serve")
    world = World(tmp_path)
    batch = world.batch_of([line_of(1), line_of(2, "poison")], owner="anna")
    run_batch(world.context(), batch.id)
    lines = [record.getMessage() for record in caplog.records if batch.id in record.getMessage()]
    assert len(lines) == 5
    assert all(line.startswith(f"{batch.id} of anna") for line in lines)


def test_a_batch_whose_file_is_gone_fails_and_says_why(world: World) -> None:
    batch = world.batch_of([line_of(1)])
    world.contents.delete(batch.input_file_id)
    run_batch(world.context(), batch.id)
    ended = world.now_of(batch)
    assert (ended.status, ended.errors[0]["code"]) == ("failed", "input_file_missing")


def test_a_line_alone_waits_for_a_replica_and_then_wakes_one(world: World) -> None:
    batch = world.batch_of([line_of(1, "poison"), line_of(2)])
    world.engines.ready = False
    world.engines.window = 1
    context = world.context()

    def sleep(seconds: float) -> None:
        world.now += seconds

    object.__setattr__(context, "sleep", sleep)
    run_batch(context, batch.id)
    assert_every_line_once(world, batch, 2)
    assert world.now >= 1_000_000 + 300


@pytest.mark.parametrize("kind", ["batch", "job"])
def test_a_file_without_lines_fails_and_says_why(world: World, kind: Any) -> None:
    batch = world.batch_of([], kind=kind)
    run_batch(world.context(), batch.id)
    ended = world.now_of(batch)
    assert ended.status == "failed"
    assert ended.errors[0]["code"] == "empty_file"


def test_a_file_of_too_many_lines_fails_before_any_is_answered(tmp_path: Path) -> None:
    world = World(tmp_path, limits={"max_lines": 3})
    batch = world.batch_of([b"{", *(line_of(number) for number in range(3))])
    run_batch(world.context(), batch.id)
    ended = world.now_of(batch)
    assert (ended.status, ended.errors[0]["code"]) == ("failed", "too_many_lines")
    assert (ended.total, ended.completed, ended.failed) == (0, 0, 0)
    assert not world.engines.asked


def test_a_line_that_kills_engines_is_isolated_and_the_others_are_answered(world: World) -> None:
    lines = [line_of(number, f"text {number}") for number in range(10)]
    lines[5] = line_of(5, "poison")
    batch = world.batch_of(lines)
    run_batch(world.context(), batch.id)
    output, errors = assert_every_line_once(world, batch, 10)
    assert errors.keys() == {"row-5"}
    assert errors["row-5"]["error"]["code"] == "engine_failed"
    assert len(output) == 9
    assert world.engines.asked["poison"] == 3
    assert world.engines.alone["poison"] == 1


@pytest.mark.parametrize("max_attempts", [1, 2, 3])
def test_a_file_of_lines_that_kill_engines_fails_after_a_few_deaths_and_keeps_what_was_answered(
    tmp_path: Path, max_attempts: int
) -> None:
    world = World(tmp_path, max_attempts=max_attempts)
    batch = world.batch_of([b"{", line_of(2), *(line_of(number, "poison") for number in range(3, 300))])
    world.engines.window = 1
    run_batch(world.context(), batch.id)
    ended = world.now_of(batch)
    assert (ended.status, ended.failed_at, ended.errors[0]["code"]) == ("failed", int(world.now), "engine_killed")
    # Ten alone; before them one for each time that they went together, of one line each.
    assert world.engines.num_deaths == 10 * max_attempts
    output, errors = assert_every_line_once(world, batch, 299)
    assert output.keys() == {"row-2"}
    codes = [line["error"]["code"] for line in errors.values()]
    assert (codes.count("engine_failed"), codes.count("batch_failed")) == (10, 287)
    run_batch(world.context(), batch.id)
    assert world.now_of(batch) == ended


def test_a_batch_that_kills_engines_fails_though_the_process_dies_while_it_is_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = world.batch_of(line_of(number, "poison") for number in range(100))

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "finish", die)
        with pytest.raises(Killed):
            run_batch(world.context(), batch.id)
    num_deaths = world.engines.num_deaths
    run_batch(world.context(), batch.id)
    assert world.now_of(batch).status == "failed"
    assert world.engines.num_deaths == num_deaths
    assert_every_line_once(world, batch, 100)


def test_lines_on_which_engines_fail_without_dying_do_not_fail_their_batch(world: World) -> None:
    batch = world.batch_of([*(line_of(number, f"status 500 {number}") for number in range(20)), line_of(20)])
    run_batch(world.context(), batch.id)
    assert world.now_of(batch).status == "completed"
    _, errors = assert_every_line_once(world, batch, 21)
    assert len(errors) == 20


def test_a_line_that_an_engine_died_of_is_counted_though_its_batch_gives_up_its_slot(world: World) -> None:
    batch = world.batch_of([line_of(1, "poison"), line_of(2, "stall")])
    world.engines.window = 1
    world.engines.after_death = lambda: setattr(world, "stopping", True)
    run_batch(world.context(), batch.id)
    assert world.store.attempts(batch.id) == {1: 1}
    world.engines.after_death = lambda: None


def test_few_lines_go_alone_also_where_many_were_under_way(world: World) -> None:
    lines = [line_of(number, f"text {number}") for number in range(100)]
    lines[50] = line_of(50, "poison")
    world.engines.window = 100
    batch = world.batch_of(lines)
    run_batch(world.context(), batch.id)
    output, errors = assert_every_line_once(world, batch, 100)
    assert len(output) == 99
    assert errors.keys() == {"row-50"}
    assert world.engines.alone.total() == 8


def test_an_engines_own_failure_is_tried_again_and_then_told(world: World) -> None:
    batch = world.batch_of([line_of(1, "status 500"), line_of(2, "status 400"), line_of(3)])
    run_batch(world.context(), batch.id)
    _, errors = assert_every_line_once(world, batch, 3)
    assert errors["row-1"]["error"]["code"] == "engine_failed"
    assert "3 times" in errors["row-1"]["error"]["message"]
    assert errors["row-2"]["response"]["status_code"] == 400
    assert world.engines.asked == {"status 500": 3, "status 400": 1, "Hello": 1}


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
def test_a_line_is_tried_as_often_as_the_setting_says(tmp_path: Path, max_attempts: int) -> None:
    world = World(tmp_path, max_attempts=max_attempts)
    batch = world.batch_of([line_of(1, "poison"), line_of(2, "status 503"), line_of(3)])
    world.engines.window = 1
    run_batch(world.context(), batch.id)
    output, errors = assert_every_line_once(world, batch, 3)
    assert output.keys() == {"row-3"}
    assert errors.keys() == {"row-1", "row-2"}
    assert (world.engines.asked["poison"], world.engines.asked["status 503"]) == (max_attempts, max_attempts)


def test_a_line_that_did_not_reach_an_engine_is_not_blamed(world: World) -> None:
    batch = world.batch_of([line_of(1, "status 0"), line_of(2)])

    def heal_later() -> None:
        if world.engines.asked["status 0"] == 9:
            world.stopping = True

    world.engines.after_answer = heal_later
    run_batch(world.context(), batch.id)
    assert not world.store.attempts(batch.id)
    assert world.slept, "it did not wait before it asked again"


class Killed(BaseException):
    """As good as SIGKILL: nothing after it runs."""


@pytest.mark.parametrize("seed", range(8))
def test_a_killed_process_goes_on_where_it_was(tmp_path: Path, database_url: str, seed: int) -> None:
    randomness = random.Random(seed)
    lines = [line_of(number, f"text {number}") for number in range(60)]
    for number in randomness.sample(range(60), 6):
        lines[number] = randomness.choice([b"", b"nonsense", line_of(number, "poison"), line_of(number, top_p=3)])
    world = World(tmp_path, database=database_url)
    batch = world.batch_of(lines)
    num_deaths = 0
    for _ in range(200):
        countdown = randomness.randint(1, 25)

        def die() -> None:
            nonlocal countdown
            countdown -= 1
            if countdown == 0:
                raise Killed

        again = World(tmp_path, database=database_url)
        again.engines.after_answer = die
        again.engines.order = randomness
        try:
            run_batch(again.context(), batch.id)
            break
        except Killed:
            num_deaths += 1
        finally:
            again.store.close()
    assert num_deaths
    assert world.now_of(batch).status == "completed"
    assert_every_line_once(world, batch, 60)
    world.store.close()


@pytest.mark.parametrize("place", ["write", "finish"])
def test_a_death_while_the_files_are_written_costs_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    batch = world.batch_of([line_of(1), b"{"])

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(world.contents if place == "write" else world.store, place, die)
        with pytest.raises(Killed):
            run_batch(world.context(), batch.id)
    run_batch(world.context(), batch.id)
    assert_every_line_once(world, batch, 2)
    assert world.engines.asked["Hello"] == 1


def test_a_full_disk_ends_no_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = world.batch_of([line_of(1)])

    def fail(*_: object, **__: object) -> None:
        raise StorageError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(world.contents, "write", fail)
        with pytest.raises(StorageError):
            run_batch(world.context(), batch.id)
    assert world.now_of(batch).status == "finalizing"
    run_batch(world.context(), batch.id)
    assert world.now_of(batch).status == "completed"


def test_a_dead_feeder_costs_no_line_an_attempt(world: World) -> None:
    batch = world.batch_of([line_of(1), line_of(2, "feeder dies"), line_of(3)])
    deaths = 0

    def sleep_then_stop(seconds: float) -> None:
        nonlocal deaths
        deaths += 1
        world.stopping = deaths == 3

    context = world.context()
    object.__setattr__(context, "sleep", sleep_then_stop)
    run_batch(context, batch.id)
    assert deaths == 3
    assert not world.store.attempts(batch.id)
    assert world.now_of(batch).status == "in_progress"


@pytest.mark.parametrize(("ending", "code"), [("cancelled", "batch_cancelled"), ("expired", "batch_expired")])
def test_what_was_answered_before_the_end_is_kept(world: World, ending: str, code: str) -> None:
    batch = world.batch_of([b"{", *(line_of(number, f"text {number}") for number in range(20))])

    def end() -> None:
        if world.engines.asked.total() >= 8:
            if ending == "expired":
                world.now += 86400
            else:
                world.store.update_batch(batch.id, only_from=["in_progress"], status="cancelling")

    world.engines.after_answer = end
    run_batch(world.context(), batch.id)
    ended = world.now_of(batch)
    assert ended.status == ending
    assert (ended.cancelled_at if ending == "cancelled" else ended.expired_at) == int(world.now)
    output, errors = assert_every_line_once(world, batch, 21)
    assert len(output) == 8
    assert {line["error"]["code"] for line in errors.values()} == {code}
    run_batch(world.context(), batch.id)
    assert world.now_of(batch) == ended


@pytest.mark.parametrize("status", ["cancelling", "validating"])
def test_a_batch_that_ends_before_its_lines_are_counted_has_a_result_for_each(world: World, status: str) -> None:
    batch = world.batch_of([line_of(1), b"{", line_of(3)])
    if status == "cancelling":
        world.store.update_batch(batch.id, only_from=["validating"], status="cancelling")
    else:
        world.now += 90_000
    run_batch(world.context(), batch.id)
    assert world.now_of(batch).status == ("cancelled" if status == "cancelling" else "expired")
    assert_every_line_once(world, batch, 3)
    assert not world.engines.asked


def test_what_was_all_answered_in_time_is_completed_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = world.batch_of([line_of(1)])

    def stop() -> None:
        world.stopping = True

    world.engines.after_answer = stop
    run_batch(world.context(), batch.id)
    assert world.now_of(batch).status == "in_progress"
    world.now, world.stopping = world.now + 90_000, False
    run_batch(world.context(), batch.id)
    assert world.now_of(batch).status == "completed"


def test_a_job_gives_a_list_with_one_element_for_each_line(world: World) -> None:
    batch = world.batch_of([line_of(0, "zero"), line_of(1, n=0), line_of(2, "status 400"), line_of(3)], kind="job")
    run_batch(world.context(), batch.id)
    with world.contents.open(world.now_of(batch).output_file_id or "") as stream:
        made = json.loads(stream.read())
    assert [element.get("text") for element in made] == ["zero", None, None, "Hello"]
    assert made[1]["error"]["param"] == "n"
    assert made[2]["error"]["code"] == "engine_error"


def test_many_lines_go_in_several_windows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deployments.batch.worker.run._WINDOW_LINES", 7)
    monkeypatch.setattr("deployments.batch.worker.run._MAX_SUSPECTS", 2)
    batch = world.batch_of(line_of(number, "poison" if number in (3, 11, 12, 30) else "x") for number in range(40))
    world.engines.window = 1
    run_batch(world.context(), batch.id)
    output, errors = assert_every_line_once(world, batch, 40)
    assert (len(output), len(errors)) == (36, 4)
    assert world.engines.asked["x"] == 36
