"""One round of a batch: send every line without a result to the engines once.

Lines that were under way when an engine died go a few at once the next time, and at last each alone, so that one
that kills engines is found and the others are answered.
"""

import logging
from collections.abc import Sequence
from typing import Final

from deployments.batch.state.records import BatchRecord
from deployments.batch.worker import results
from deployments.batch.worker.feeder import FeederDiedError
from deployments.batch.worker.lines import Line, LineFault
from deployments.batch.worker.run_context import RunContext
from deployments.replica.answer_line import EXPIRED, NOT_STARTED, LineRequest

logger = logging.getLogger("ray.serve")

_WINDOW_LINES: Final = 10_000
_WINDOW_BYTES: Final = 64 * 2**20
"""Bounds the lines given to the engines in one go, which are in memory three times."""

_MAX_SUSPECTS: Final = 1000
"""Lines of a round that go a few at once, or alone; the rest waits for the next."""

_SUSPECTS_AT_ONCE: Final = 8
"""When the engine dies again, one of these killed it, and each of them goes alone the next time."""

_PAUSE_S: Final = 2.0
_READY_TIMEOUT_S: Final = 300.0


class Round:
    """One round of a batch that is in progress."""

    def __init__(self, context: RunContext, batch: BatchRecord) -> None:
        self._context = context
        self._store = context.store
        self._batch = batch

    def run(self, recorded: set[int]) -> None:
        """Have the lines without a result answered, as far as possible."""
        attempts = self._store.attempts(self._batch.id)
        alone_from = max(self._context.settings.max_attempts - 1, 1)
        together: list[Line] = []
        suspects: list[Line] = []
        alone: list[Line] = []
        num_bytes, did_something = 0, False
        for line in self._context.lines(self._batch):
            if isinstance(line, LineFault) or line.number in recorded:
                continue
            if num_attempts := attempts.get(line.number, 0):
                some = alone if num_attempts >= alone_from else suspects
                if len(some) < _MAX_SUSPECTS:
                    some.append(line)
                continue
            together.append(line)
            num_bytes += len(line.to_request())
            if len(together) >= _WINDOW_LINES or num_bytes >= _WINDOW_BYTES:
                did_something |= self._answer_together(together)
                together, num_bytes = [], 0
                if self._should_stop():
                    return
        if together:
            did_something |= self._answer_together(together)
        if suspects and not self._should_stop():
            did_something |= self._answer_together(suspects, _SUSPECTS_AT_ONCE)
        for line in alone:
            if self._should_stop():
                return
            did_something |= self._answer_alone(line, attempts[line.number])
        if not did_something and not self._should_stop():
            self._context.sleep(_PAUSE_S)

    def _answer_together(self, lines: list[Line], at_once: int | None = None) -> bool:
        """Return whether a line got a result or one more attempt."""
        line_of = {line.number: line for line in lines}
        failed, did_something = set[int](), False
        requests = [(line.number, self._request(line)) for line in lines]
        try:
            for answers in self._context.engines.answer_many(requests, self._should_stop, at_once):
                ready = []
                for number, answer in answers:
                    if answer is None or answer["status"] >= 500:
                        failed.add(number)
                    elif answer["status"] not in (NOT_STARTED, EXPIRED):
                        ready.append(results.answered(self._batch, line_of[number], answer["status"], answer["body"]))
                did_something = self._store.record(self._batch.id, ready) > 0 or did_something
        except FeederDiedError as error:
            logger.warning("%s of %s goes on where it was: %s", self._batch.id, self._batch.owner, error)
        if failed:
            logger.warning("%s of %s: an engine failed on %d lines", self._batch.id, self._batch.owner, len(failed))
            self._store.add_attempts(self._batch.id, failed)
            if self._context.settings.max_attempts == 1:
                self._give_up([line_of[number] for number in failed], 1)
        return did_something or bool(failed)

    def _answer_alone(self, line: Line, num_attempts: int) -> bool:
        """Try a line that may kill engines once more, with no other line of its batch beside it."""
        if num_attempts >= self._context.settings.max_attempts:
            self._give_up([line], num_attempts)
            return True
        if not self._wait_until_ready():
            return False
        answer = self._context.engines.answer_one(self._request(line), self._should_stop)
        if answer is not None and answer["status"] in (NOT_STARTED, EXPIRED):
            return False
        if answer is not None and answer["status"] < 500:
            result = results.answered(self._batch, line, answer["status"], answer["body"])
            self._store.record(self._batch.id, [result])
            return True
        logger.warning("%s of %s: an engine failed on line %d alone", self._batch.id, self._batch.owner, line.number)
        self._store.add_attempts(self._batch.id, [line.number])
        if num_attempts + 1 >= self._context.settings.max_attempts:
            self._give_up([line], num_attempts + 1)
        # Serve needs a moment to see that a replica is dead.
        self._context.sleep(_PAUSE_S)
        return True

    def _wait_until_ready(self) -> bool:
        """Return False where the line is not wanted any more. After a timeout it goes anyway, and wakes a replica."""
        deadline = self._context.clock() + _READY_TIMEOUT_S
        while not self._context.engines.are_ready() and self._context.clock() < deadline:
            if self._should_stop():
                return False
            self._context.sleep(_PAUSE_S)
        return True

    def _give_up(self, lines: Sequence[Line], num_attempts: int) -> None:
        self._store.record(self._batch.id, [results.given_up(self._batch, line, num_attempts) for line in lines])

    def _request(self, line: Line) -> LineRequest:
        return {
            "body": line.to_request(),
            "deadline": float(self._batch.deadline),
            "owner": self._batch.owner,
            "request_id": results.line_id(self._batch.id, line.number),
        }

    def _should_stop(self) -> bool:
        if self._context.is_stopping():
            return True
        batch = self._store.batch(None, self._batch.id)
        return batch is None or batch.status != "in_progress" or self._context.clock() >= batch.deadline
