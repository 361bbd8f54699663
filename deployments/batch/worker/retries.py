"""One round of a batch: send every line without a result to the engines once, until an engine dies.

Lines that were under way when an engine died go first in the next round: a few at once, and at last each alone, so that
one that kills engines is found and the others are answered. A batch with too many of them fails
(``deployments.batch.worker.run_context``).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from deployments.batch.state.records import BatchRecord
from deployments.batch.worker import results
from deployments.batch.worker.feeder import FeederDiedError
from deployments.batch.worker.lines import Line, LineFault
from deployments.batch.worker.run_context import RunContext
from deployments.contract import ENGINE_DIED, NOT_STARTED, LineRequest

logger = logging.getLogger("ray.serve")

_WINDOW_LINES: Final = 10_000
_WINDOW_BYTES: Final = 64 * 2**20
"""Bounds the lines given to the engines in one go, which are in memory three times."""

_MAX_SUSPECTS: Final = 256
"""Lines of a round that go a few at once, or alone: those that were under way at one engine."""

_SUSPECTS_AT_ONCE: Final = 8
"""When the engine dies again, one of these killed it, and each of them goes alone the next time."""

_PAUSE_S: Final = 2.0
_READY_TIMEOUT_S: Final = 300.0


class _Sent(NamedTuple):
    """What came of lines: whether one got a result or one more attempt, and how many died with an engine."""

    did_something: bool
    num_died: int


class Round:
    """One round of a batch that is in progress."""

    def __init__(self, context: RunContext, batch: BatchRecord) -> None:
        self._context = context
        self._store = context.store
        self._batch = batch

    def run(self, recorded: set[int]) -> None:
        """Send the suspects of earlier rounds, or else all lines without a result, to the engines once."""
        attempts = self._store.attempts(self._batch.id)
        suspects = {line: number for line, number in attempts.items() if line not in recorded}
        did_something = self._send_suspects(suspects) if suspects else self._send(recorded)
        if not did_something and not self._should_stop():
            self._context.sleep(_PAUSE_S)

    def _send(self, recorded: set[int]) -> bool:
        """Send all lines without a result, window by window; return whether a line got one, or an attempt."""
        did_something = False
        for window in self._windows(recorded):
            with self._context.suspects.under_way(self._batch):
                sent = self._answer_together(window)
            did_something |= sent.did_something
            if sent.num_died and self._context.settings.max_attempts == 1:
                # None of them goes again, and no other proof will come.
                self._context.suspects.add_death(self._batch, is_proof=True)
            # A window that went on would kill an engine for every few hundred such lines.
            if sent.num_died or self._should_stop():
                break
        return did_something

    def _windows(self, recorded: set[int]) -> Iterator[list[Line]]:
        """Yield the lines without a result in windows of bounded lines and bytes."""
        window: list[Line] = []
        num_bytes = 0
        for line in self._context.lines(self._batch):
            if isinstance(line, LineFault) or line.number in recorded:
                continue
            window.append(line)
            num_bytes += len(line.to_request())
            if len(window) >= _WINDOW_LINES or num_bytes >= _WINDOW_BYTES:
                yield window
                window, num_bytes = [], 0
        if window:
            yield window

    def _send_suspects(self, attempts: Mapping[int, int]) -> bool:
        """Send some suspects again, a few at once or alone; return whether one got a result or an attempt."""
        few, alone = self._divide_suspects(attempts)
        did_something = False
        for line in alone:
            with self._turn() as is_ours:
                if is_ours:
                    did_something |= self._answer_alone(line, attempts[line.number])
            if not is_ours or self._context.suspects.are_too_many(self._batch.id):
                return did_something
        if few:
            with self._turn() as is_ours:
                if is_ours:
                    sent = self._answer_together(few, _SUSPECTS_AT_ONCE)
                    did_something |= sent.did_something
                    if sent.num_died:
                        self._context.suspects.add_death(self._batch, is_proof=False)
        return did_something

    def _divide_suspects(self, attempts: Mapping[int, int]) -> tuple[list[Line], list[Line]]:
        """Return the suspects to send a few at once, and those to send alone."""
        alone_from = max(self._context.settings.max_attempts - 1, 1)
        few: list[Line] = []
        alone: list[Line] = []
        num_left = len(attempts)
        for line in self._context.lines(self._batch):
            if isinstance(line, LineFault) or line.number not in attempts:
                continue
            some = alone if attempts[line.number] >= alone_from else few
            if len(some) < _MAX_SUSPECTS:
                some.append(line)
            num_left -= 1
            if not num_left:
                break
        return few, alone

    def _answer_together(self, lines: list[Line], at_once: int | None = None) -> _Sent:
        """Send lines at once; record their answers, and an attempt for each on which an engine failed."""
        line_of = {line.number: line for line in lines}
        failed, num_died, num_recorded = set[int](), 0, 0
        requests = [(line.number, self._request(line)) for line in lines]
        try:
            for answers in self._context.engines.answer_many(requests, self._should_stop, at_once):
                ready = []
                for number, answer in answers:
                    if answer is None or answer["status"] == ENGINE_DIED:
                        num_died += 1
                        failed.add(number)
                    elif answer["status"] >= 500:
                        failed.add(number)
                    elif answer["status"] != NOT_STARTED:
                        ready.append(
                            results.answer_result(self._batch, line_of[number], answer["status"], answer["body"])
                        )
                num_recorded += self._store.record(self._batch.id, ready)
        except FeederDiedError as error:
            logger.warning("%s of %s goes on where it was: %s", self._batch.id, self._batch.owner, error)
        if failed:
            logger.warning("%s of %s: an engine failed on %d lines", self._batch.id, self._batch.owner, len(failed))
            self._store.add_attempts(self._batch.id, failed)
            if self._context.settings.max_attempts == 1:
                self._record_failures([line_of[number] for number in failed], 1)
        return _Sent(bool(num_recorded or failed), num_died)

    def _answer_alone(self, line: Line, num_attempts: int) -> bool:
        """Try a line that may kill engines once more, with no other line of its batch beside it."""
        if num_attempts >= self._context.settings.max_attempts:
            self._record_failures([line], num_attempts)
            return True
        answer = self._context.engines.answer_one(self._request(line), self._should_stop)
        if answer is not None and answer["status"] == NOT_STARTED:
            return False
        if answer is not None and answer["status"] < 500 and answer["status"] != ENGINE_DIED:
            result = results.answer_result(self._batch, line, answer["status"], answer["body"])
            self._store.record(self._batch.id, [result])
            return True
        logger.warning("%s of %s: an engine failed on line %d alone", self._batch.id, self._batch.owner, line.number)
        self._store.add_attempts(self._batch.id, [line.number])
        if num_attempts + 1 >= self._context.settings.max_attempts:
            self._record_failures([line], num_attempts + 1)
        if answer is None or answer["status"] == ENGINE_DIED:
            self._context.suspects.add_death(self._batch, is_proof=True)
        # Serve needs a moment to see that a replica is dead.
        self._context.sleep(_PAUSE_S)
        return True

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Wait for the turn of this batch's suspects; False where the round is to end first."""
        context = self._context
        deadline = context.clock() + _READY_TIMEOUT_S

        def are_ready() -> bool:
            # After a timeout they go anyway, and wake a replica.
            return context.clock() >= deadline or context.engines.are_ready()

        with context.suspects.turn(
            self._batch, are_ready=are_ready, should_stop=self._should_stop, clock=context.clock, sleep=context.sleep
        ) as is_ours:
            yield is_ours

    def _record_failures(self, lines: Sequence[Line], num_attempts: int) -> None:
        """Record an error as the result of lines whose attempts are used up."""
        self._store.record(self._batch.id, [results.failure_result(self._batch, line, num_attempts) for line in lines])

    def _request(self, line: Line) -> LineRequest:
        """Return a line as replicas take it."""
        return {
            "body": line.to_request(),
            "owner": self._batch.owner,
            "request_id": results.line_id(self._batch.id, line.number),
        }

    def _should_stop(self) -> bool:
        """Return whether the round is to end: the process stops, or the batch is no longer in progress."""
        if self._context.is_stopping():
            return True
        batch = self._store.batch(None, self._batch.id)
        return batch is None or batch.status != "in_progress" or self._context.has_expired(batch)
