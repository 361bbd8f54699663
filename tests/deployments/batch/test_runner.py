"""Batches from their first line to their files, while whatever dies, dies."""

import asyncio
import json
import logging
import random
from pathlib import Path

import pytest

from deployments.batch.stages import MAX_DEADLY_LINES
from deployments.storage import PartialFile, StorageError
from tests.deployments.batch.world import BatchWorld, assert_every_line_once, line_of, raising, until


class Killed(BaseException):
    """As good as SIGKILL: nothing after it runs."""


async def test_good_lines_are_answered_and_bad_ones_named(world: BatchWorld) -> None:
    lines = [line_of(1, "one"), b"{", b"", line_of(4, "four"), line_of(1, "again"), b"\xff\xfe", line_of(7, n=0)]
    batch = world.batch_of(lines, owner="alice")
    assert (await world.run(batch)).status == "completed"
    output, errors = assert_every_line_once(world, batch, 7)
    assert [line["response"]["body"]["text"] for line in output.values()] == ["one", "four"]
    assert errors["row-7"]["error"]["param"] == "n"
    assert world.engines.asked == {"one": 1, "four": 1}
    assert world.engines.owners == ["alice", "alice"]


async def test_files_are_in_the_order_of_the_lines_and_no_more_are_in_progress_than_may_be(world: BatchWorld) -> None:
    batch = world.batch_of((line_of(number) for number in range(200)), output_expires_after_s=3600)
    ended = await world.run(batch)
    output = world.lines_of(ended.output_file_id)
    assert [line["custom_id"] for line in output] == [f"row-{number}" for number in range(200)]
    assert world.engines.most == world.engines.num_lines
    assert None not in (ended.in_progress_at, ended.finalizing_at, ended.completed_at)
    file = world.store.file("default", ended.output_file_id or "")
    assert file is not None
    assert (file.expires_at, file.num_bytes) == (int(world.now) + 3600, world.files.child(file.id).size())


async def test_every_log_line_of_a_batch_names_its_owner(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ray.serve")
    world = BatchWorld(tmp_path)
    batch = world.batch_of([line_of(1), line_of(2, "poison")], owner="anna")
    await world.run(batch)
    lines = [record.getMessage() for record in caplog.records if batch.id in record.getMessage()]
    assert len(lines) >= 5
    assert all(line.startswith(f"{batch.id} of anna") for line in lines)


async def test_a_batch_whose_file_is_gone_or_has_no_line_or_too_many_fails_and_says_why(tmp_path: Path) -> None:
    world = BatchWorld(tmp_path, limits={"max_lines": 3})
    gone, gone_later = (world.batch_of([line_of(1)]) for _ in range(2))
    world.store.update_batch(gone_later.id, only_from=["validating"], status="in_progress", total=1)
    for batch in (gone, gone_later):
        world.files.child(batch.input_file_id).delete()
    for batch, code in (
        (gone, "input_file_missing"),
        (gone_later, "input_file_missing"),
        (world.batch_of([]), "empty_file"),
        (world.batch_of([], kind="job"), "empty_file"),
        (world.batch_of([b"{", *(line_of(number) for number in range(3))]), "too_many_lines"),
    ):
        ended = await world.run(batch)
        assert (ended.status, ended.errors[0]["code"]) == ("failed", code)
        assert (ended.total, ended.completed, ended.failed) == (0, 0, 0)
    assert not world.engines.asked
    world.close()


async def test_lines_of_files_and_elements_of_lists_are_openais(world: BatchWorld) -> None:
    lines = [line_of(0, "zero"), line_of(1, n=0), line_of(2, "status 404"), line_of(3, "status 404"), b""]
    lines += [line_of(5, "status 500"), line_of(6, "\u2028 \x85 é")]
    batch = await world.run(world.batch_of(lines))
    output, errors = world.lines_of(batch.output_file_id), world.lines_of(batch.error_file_id)
    # One line each, whatever clients take for a line break.
    assert len(world.files.child(batch.output_file_id or "").read(0, 10_000).decode().splitlines()) == 2
    for line in output + errors:
        assert line.keys() == {"id", "custom_id", "response", "error"}
        assert line["id"].startswith("batch_req_")
        assert line["response"] is None or line["response"]["request_id"] == line["id"]
    assert (output[0]["custom_id"], output[0]["response"]["status_code"], output[0]["error"]) == ("row-0", 200, None)
    body = {"object": "chat.completion", "text": "zero"}
    assert output[0]["response"]["body"] == body
    bad_value, refused, _, blank, failed = errors
    assert bad_value["error"]["code"] == "invalid_request"
    envelope = {"message": "It failed.", "type": "invalid_request_error", "param": "vocab.lang"}
    envelope["code"] = "of_the_engine"
    assert (refused["response"]["status_code"], refused["response"]["body"]) == (404, {"error": envelope})
    assert refused["error"] == {
        "code": "of_the_engine",
        "message": "Line 3: It failed.",
        "line": 3,
        "param": "vocab.lang",
    }
    message = "Line 5: it is blank. Leave it out."
    assert (blank["custom_id"], blank["response"]) == (None, None)
    assert blank["error"] == {"code": "blank_line", "message": message, "line": 5, "param": None}
    assert failed["id"] in failed["error"]["message"]
    job = await world.run(world.batch_of(lines, kind="job"))
    elements = json.loads(world.files.child(job.output_file_id or "").read(0, 10_000))
    assert [element.get("text") for element in elements] == ["zero", *[None] * 5, "\u2028 \x85 é"]
    assert (elements[0], elements[2]) == (body, {"error": envelope})
    blank_error = {"message": "It is blank. Leave it out.", "type": "invalid_request_error", "param": None}
    assert elements[4]["error"] == {**blank_error, "code": "blank_line"}
    assert elements[5]["error"]["type"] == "server_error"


class TestDeaths:
    @pytest.mark.fault(51)
    async def test_a_line_that_kills_engines_is_isolated_and_the_others_are_answered(self, world: BatchWorld) -> None:
        lines = [line_of(number, f"text {number}") for number in range(100)]
        lines[50] = line_of(50, "poison")
        world.engines.num_lines = 64
        batch = world.batch_of(lines)
        await world.run(batch)
        output, errors = assert_every_line_once(world, batch, 100)
        assert len(output) == 99
        assert errors.keys() == {"row-50"}
        assert errors["row-50"]["error"]["code"] == "engine_failed"
        # With all, with seven others, and alone.
        assert world.engines.num_deaths == world.engines.asked["poison"] == 3
        assert sum(number == 3 for number in world.engines.asked.values()) <= 8

    @pytest.mark.fault(62)
    @pytest.mark.parametrize("max_attempts", [1, 2, 3])
    async def test_a_file_of_lines_that_kill_engines_fails_after_a_few_deaths_and_keeps_what_was_answered(
        self, tmp_path: Path, max_attempts: int
    ) -> None:
        world = BatchWorld(tmp_path, max_attempts=max_attempts)
        batch = world.batch_of([b"{", line_of(2), *(line_of(number, "poison") for number in range(3, 300))])
        world.engines.num_lines = 1
        ended = await world.run(batch)
        assert (ended.status, ended.failed_at, ended.errors[0]["code"]) == ("failed", int(world.now), "engine_killed")
        # Alone, and before that once in each of the earlier attempts: with others at most eight at once.
        assert MAX_DEADLY_LINES <= world.engines.num_deaths <= MAX_DEADLY_LINES * max_attempts
        output, errors = assert_every_line_once(world, batch, 299)
        assert output.keys() == {"row-2"}
        codes = [line["error"]["code"] for line in errors.values()]
        assert (codes.count("engine_failed"), codes.count("batch_failed")) == (10, 287)
        assert await world.run(batch) == ended

    @pytest.mark.fault(62)
    async def test_a_poisoned_file_fails_and_the_batch_of_another_key_loses_no_line(self, world: BatchWorld) -> None:
        world.engines.num_lines = 8
        poisoned = world.batch_of((line_of(number, "poison") for number in range(1000)), owner="anna")
        good = world.batch_of((line_of(number) for number in range(100)), owner="bert")
        await world.run_open()
        assert (world.now_of(poisoned).status, world.now_of(good).status) == ("failed", "completed")
        output, errors = assert_every_line_once(world, good, 100)
        assert (len(output), len(errors)) == (100, 0)
        # For each window one with all and one a few at once, and ten alone.
        assert world.engines.num_deaths <= 2 * MAX_DEADLY_LINES

    async def test_a_batch_that_kills_engines_fails_though_the_process_dies_while_it_is_ended(
        self, world: BatchWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        batch = world.batch_of(line_of(number, "poison") for number in range(100))
        with monkeypatch.context() as patch:
            patch.setattr(world.store, "finish", raising(Killed()))
            with pytest.raises(Killed):
                await world.run(batch)
        num_deaths = world.engines.num_deaths
        assert (await world.run(batch)).status == "failed"
        assert world.engines.num_deaths == num_deaths
        assert_every_line_once(world, batch, 100)

    async def test_an_engines_own_failure_is_tried_again_and_fails_no_batch(self, world: BatchWorld) -> None:
        lines = [line_of(number, f"status 500 {number}") for number in range(20)]
        batch = world.batch_of([*lines, line_of(20, "status 400"), line_of(21)])
        assert (await world.run(batch)).status == "completed"
        _, errors = assert_every_line_once(world, batch, 22)
        assert len(errors) == 21
        assert errors["row-1"]["error"]["code"] == "engine_failed"
        assert "3 times" in errors["row-1"]["error"]["message"]
        assert errors["row-20"]["response"]["status_code"] == 400
        assert (world.engines.asked["status 500 1"], world.engines.asked["status 400"]) == (3, 1)

    @pytest.mark.parametrize("max_attempts", [1, 2, 5])
    async def test_a_line_is_tried_as_often_as_the_setting_says(self, tmp_path: Path, max_attempts: int) -> None:
        world = BatchWorld(tmp_path, max_attempts=max_attempts)
        world.engines.num_lines = 1
        batch = world.batch_of([line_of(1, "poison"), line_of(2, "status 503"), line_of(3)])
        await world.run(batch)
        output, errors = assert_every_line_once(world, batch, 3)
        assert output.keys() == {"row-3"}
        assert errors.keys() == {"row-1", "row-2"}
        assert (world.engines.asked["poison"], world.engines.asked["status 503"]) == (max_attempts, max_attempts)

    async def test_a_line_that_did_not_reach_an_engine_is_not_blamed(self, world: BatchWorld) -> None:
        batch = world.batch_of([line_of(1, "not started"), line_of(2)])
        async with world.running():
            await until(lambda: world.engines.asked["not started"] >= 9)
        assert not world.store.attempts(batch)
        assert world.slept, "it did not wait before it asked again"

    async def test_suspects_wait_for_the_lines_of_others_and_for_an_engine(self, world: BatchWorld) -> None:
        stalled = world.batch_of([line_of(1, "stall")], owner="bert")
        world.engines.ready = False
        async with world.running():
            await until(lambda: world.engines.asked["stall"] == 1)
            suspect = world.batch_of([line_of(1, "suspect")], owner="anna")
            world.store.add_attempt(suspect.id, 1)
            await until(lambda: world.now_of(suspect).status == "in_progress")
            await asyncio.sleep(0.1)
            assert not world.engines.asked["suspect"]
            world.store.update_batch(stalled.id, only_from=["in_progress"], status="cancelling")
            await until(lambda: bool(world.slept))
            assert not world.engines.asked["suspect"]
            world.engines.ready = True
            await until(lambda: world.now_of(suspect).status == "completed")

    @pytest.mark.fault(52)
    @pytest.mark.parametrize("seed", range(8))
    async def test_a_killed_process_goes_on_where_it_was(self, tmp_path: Path, database_url: str, seed: int) -> None:
        randomness = random.Random(seed)
        lines = [line_of(number, f"text {number}") for number in range(60)]
        for number in randomness.sample(range(60), 6):
            lines[number] = randomness.choice([b"", b"nonsense", line_of(number, "poison"), line_of(number, top_p=3)])
        world = BatchWorld(tmp_path, database=database_url)
        batch = world.batch_of(lines)
        num_deaths = 0
        for _ in range(200):
            countdown = randomness.randint(1, 25)

            def die_later() -> None:
                nonlocal countdown
                countdown -= 1
                if countdown == 0:
                    raise Killed

            again = BatchWorld(tmp_path, database=database_url)
            again.engines.after_answer = die_later
            again.engines.order = randomness
            try:
                await again.run(batch)
                break
            except* Killed:
                num_deaths += 1
            finally:
                again.store.close()
        assert num_deaths
        assert world.now_of(batch).status == "completed"
        assert_every_line_once(world, batch, 60)
        world.store.close()

    @pytest.mark.fault(52)
    @pytest.mark.parametrize("place", ["commit", "finish"])
    async def test_a_death_while_the_files_are_written_costs_nothing(
        self, world: BatchWorld, monkeypatch: pytest.MonkeyPatch, place: str
    ) -> None:
        batch = world.batch_of([line_of(1), b"{"])
        with monkeypatch.context() as patch:
            patch.setattr(PartialFile if place == "commit" else world.store, place, raising(Killed()))
            with pytest.raises(Killed):
                await world.run(batch)
        # All was answered in time.
        world.now += 90_000
        assert (await world.run(batch)).status == "completed"
        assert_every_line_once(world, batch, 2)
        assert world.engines.asked["Hello"] == 1


@pytest.mark.fault(47)
@pytest.mark.parametrize(("place", "status"), [("record", "validating"), ("commit", "finalizing")])
async def test_a_full_disk_ends_no_batch(
    world: BatchWorld, monkeypatch: pytest.MonkeyPatch, place: str, status: str
) -> None:
    batch, fail = world.batch_of([line_of(1)]), raising(StorageError("No space left on device"))
    async with world.running(retry_s=(0.01,)):
        with monkeypatch.context() as patch:
            patch.setattr(PartialFile if place == "commit" else world.store, place, fail)
            await until(lambda: world.now_of(batch).status == status)
            await asyncio.sleep(0.1)
            assert world.now_of(batch).status == status
        await until(lambda: world.now_of(batch).status == "completed")
    assert_every_line_once(world, batch, 1)


class TestEnds:
    @pytest.mark.fault(53)
    @pytest.mark.parametrize(("ending", "code"), [("cancelled", "batch_cancelled"), ("expired", "batch_expired")])
    async def test_what_was_answered_before_the_end_is_kept(self, world: BatchWorld, ending: str, code: str) -> None:
        good = [line_of(number, f"text {number}") for number in range(8)]
        batch = world.batch_of([b"{", *good, *(line_of(number, "stall") for number in range(8, 20))])
        async with world.running():
            await until(lambda: world.now_of(batch).completed == 8)
            await until(lambda: world.engines.asked["stall"] == world.engines.num_lines)
            if ending == "expired":
                world.now += 86400
            else:
                world.store.update_batch(batch.id, only_from=["in_progress"], status="cancelling")
            await until(lambda: world.has_ended(batch))
            assert world.engines.num_running == 0
        ended = world.now_of(batch)
        assert ended.status == ending
        assert (ended.cancelled_at if ending == "cancelled" else ended.expired_at) == int(world.now)
        output, errors = assert_every_line_once(world, batch, 21)
        assert len(output) == 8
        assert {line["error"]["code"] for line in errors.values()} == {code}
        assert await world.run(batch) == ended

    @pytest.mark.parametrize("status", ["cancelling", "validating"])
    async def test_a_batch_that_ends_before_its_lines_are_counted_has_a_result_for_each(
        self, world: BatchWorld, status: str
    ) -> None:
        batch = world.batch_of([line_of(1), b"{", line_of(3)])
        if status == "cancelling":
            world.store.update_batch(batch.id, only_from=["validating"], status="cancelling")
        else:
            world.now += 90_000
        assert (await world.run(batch)).status == ("cancelled" if status == "cancelling" else "expired")
        assert_every_line_once(world, batch, 3)
        assert not world.engines.asked

    async def test_a_runner_that_is_stopped_leaves_the_rest_for_the_next(self, world: BatchWorld) -> None:
        batch = world.batch_of([*(line_of(number) for number in range(8)), *[line_of(9, "stall")]])
        async with world.running():
            await until(lambda: world.now_of(batch).completed == 8 and world.engines.num_running == 1)
        assert world.engines.num_running == 0
        assert world.now_of(batch).status == "in_progress"
        assert not world.store.attempts(batch)
        async with world.running():
            await until(lambda: world.engines.asked["stall"] == 2)
            world.store.update_batch(batch.id, only_from=["in_progress"], status="cancelling")
            await until(lambda: world.has_ended(batch))
        assert_every_line_once(world, batch, 9)


class TestTurns:
    async def test_open_batches_run_to_their_end_also_those_that_come_later(self, world: BatchWorld) -> None:
        first = world.batch_of([line_of(1)])
        async with world.running(look_s=60) as runner:
            await until(lambda: world.now_of(first).status == "completed")
            second = world.batch_of([line_of(1)])
            await asyncio.to_thread(runner.wake)
            await until(lambda: world.now_of(second).status == "completed")
            assert runner.is_alive()
        assert not runner.is_alive()
        for batch in (first, second):
            assert_every_line_once(world, batch, 1)

    async def test_keys_take_turns_at_every_line(self, world: BatchWorld) -> None:
        many = [world.batch_of((line_of(number) for number in range(200)), owner="anna") for _ in range(3)]
        few = world.batch_of((line_of(number) for number in range(20)), owner="bert")
        await world.run_open()
        for batch in many:
            assert_every_line_once(world, batch, 200)
        assert_every_line_once(world, few, 20)
        # The small key waits for no batch of the other.
        first = world.engines.owners.index("bert")
        assert world.engines.owners[first : first + 48].count("bert") >= 10

    async def test_a_batch_is_cancelled_while_others_fill_all_places(self, world: BatchWorld) -> None:
        world.batch_of((line_of(number, "stall") for number in range(10)), owner="anna")
        async with world.running():
            await until(lambda: world.engines.asked["stall"] == 4)
            waiting = world.batch_of([line_of(1)], owner="bert")
            await until(lambda: world.now_of(waiting).status == "in_progress")
            world.store.update_batch(waiting.id, only_from=["in_progress"], status="cancelling")
            await until(lambda: world.now_of(waiting).status == "cancelled")
        assert not world.engines.asked["Hello"]
