"""Several batches at one engine, some of whose lines kill it."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from deployments.batch.state.records import BatchRecord
from deployments.batch.worker.feeder import Answers
from deployments.batch.worker.run_context import MAX_DEADLY_LINES, YIELD_S, Suspects
from deployments.batch.worker.scheduler import BatchScheduler
from deployments.contract import LineAnswer, LineRequest
from tests.deployments.batch.world import World, assert_every_line_once, line_of, text_of
from tests.deployments.front import wait_until

WINDOW = 8


class OneEngine:
    """Dies of each line "poison" with all that is under way, of any batch, and is started again after a moment."""

    def __init__(self) -> None:
        self.num_deaths = 0
        self._under_way = 0
        self._lock = threading.Lock()
        self._starts_at = 0.0

    def answer_many(
        self, lines: Sequence[tuple[int, LineRequest]], should_stop: Callable[[], bool], at_once: int | None = None
    ) -> Iterator[Answers]:
        rest, size = list(lines), min(at_once or WINDOW, WINDOW)
        while rest and not should_stop():
            under_way, rest = rest[:size], rest[size:]
            survives = self._survives([request for _, request in under_way])
            yield [(number, _answer() if survives else None) for number, _ in under_way]
            if not survives:
                return

    def answer_one(self, line: LineRequest, should_stop: Callable[[], bool]) -> LineAnswer | None:
        return _answer() if self._survives([line]) else None

    def are_ready(self) -> bool:
        return time.monotonic() >= self._starts_at

    def _survives(self, requests: list[LineRequest]) -> bool:
        """Work on lines until they are answered or the engine dies; as in Serve's queue, they wait for one."""
        while not self.are_ready():
            time.sleep(0.01)
        num_deaths = self.num_deaths
        time.sleep(0.02)
        with self._lock:
            if self.num_deaths == num_deaths and "poison" in map(text_of, requests):
                self.num_deaths += 1
                self._starts_at = time.monotonic() + 0.1
            return self.num_deaths == num_deaths


def _answer() -> LineAnswer:
    return {"status": 200, "body": json.dumps({"object": "chat.completion"})}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("num_others", [10, 100])
def test_a_poisoned_file_fails_and_the_batch_of_another_key_loses_no_line(world: World, num_others: int) -> None:
    engine = OneEngine()
    world.engines = engine  # type: ignore[assignment]
    poisoned = world.batch_of((line_of(number, "poison") for number in range(1000)), owner="anna")
    runner = BatchScheduler(world.context)
    runner.start()
    wait_until(lambda: engine.num_deaths > 0, timeout_s=10)
    good = world.batch_of((line_of(number) for number in range(num_others)), owner="bert")
    runner.wake()
    wait_until(lambda: not world.store.open_batches(), timeout_s=30)
    runner.stop()
    assert (world.now_of(poisoned).status, world.now_of(good).status) == ("failed", "completed")
    output, errors = assert_every_line_once(world, good, num_others)
    assert (len(output), len(errors)) == (num_others, 0)
    # For each eight lines one with a window and one a few at once, and ten alone.
    assert engine.num_deaths <= 2 + 2 + MAX_DEADLY_LINES


class Turns:
    """A few batches that want a turn, on a clock that stands still."""

    def __init__(self, world: World) -> None:
        self.suspects = Suspects()
        self.is_ready = True
        self.now = 0.0
        self._world = world
        self._threads: list[threading.Thread] = []
        self.ended = threading.Event()
        self.had_turn: list[str] = []

    def batch(self, owner: str) -> BatchRecord:
        return self._world.batch_of([line_of(1)], owner=owner)

    def want(self, batch: BatchRecord) -> None:
        """Wait for a turn in a thread of its own; notes the owner and keeps the turn until ``ended``."""
        thread = threading.Thread(target=self._wait, args=(batch,), daemon=True)
        self._threads.append(thread)
        thread.start()
        time.sleep(0.02)

    def _wait(self, batch: BatchRecord) -> None:
        with self.suspects.turn(
            batch,
            are_ready=lambda: self.is_ready,
            should_stop=lambda: False,
            clock=lambda: self.now,
            sleep=lambda _: time.sleep(0.005),
        ):
            self.had_turn.append(batch.owner)
            self.ended.wait(10)

    def end(self) -> list[str]:
        self.ended.set()
        for thread in self._threads:
            thread.join(10)
        return self.had_turn


def test_suspects_of_one_batch_go_at_a_time_and_keys_take_turns(world: World) -> None:
    turns = Turns(world)
    turns.is_ready = False
    for owner in ("anna", "anna", "bert"):
        turns.want(turns.batch(owner))
    assert turns.had_turn == []
    turns.is_ready = True
    wait_until(lambda: bool(turns.had_turn))
    time.sleep(0.05)
    assert turns.had_turn == ["anna"]
    assert turns.end() == ["anna", "bert", "anna"]


def test_a_batch_that_killed_an_engine_goes_after_those_that_did_not(world: World) -> None:
    turns = Turns(world)
    turns.is_ready = False
    deadly, harmless = turns.batch("anna"), turns.batch("bert")
    turns.suspects.add_death(deadly, is_proof=False)
    for batch in (deadly, harmless):
        turns.want(batch)
    turns.is_ready = True
    assert turns.end() == ["bert", "anna"]


def test_suspects_wait_for_the_lines_of_others_but_not_for_long(world: World) -> None:
    turns = Turns(world)
    batch, other = turns.batch("anna"), turns.batch("bert")
    with turns.suspects.under_way(other), turns.suspects.under_way(batch):
        turns.want(batch)
        assert turns.had_turn == []
    wait_until(lambda: turns.had_turn == ["anna"])
    turns.end()
    again = Turns(world)
    with again.suspects.under_way(other):
        again.want(batch)
        assert again.had_turn == []
        again.now = YIELD_S
        wait_until(lambda: again.had_turn == ["anna"])
    again.end()


def test_a_batch_that_has_ended_is_forgotten(world: World) -> None:
    suspects, batch = Suspects(), world.batch_of([line_of(1)])
    for _ in range(MAX_DEADLY_LINES):
        assert not suspects.are_too_many(batch.id)
        suspects.add_death(batch, is_proof=True)
    assert suspects.are_too_many(batch.id)
    suspects.forget(batch.id)
    assert not suspects.are_too_many(batch.id)
