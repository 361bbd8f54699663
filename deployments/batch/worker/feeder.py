"""Send the lines of a batch through Ray Data to the service's replicas.

A dataset of the lines goes through one actor, or a few where many lines may be under way; each keeps its share of
them under way, and yields answers as they come, None for a line whose replica died.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, Protocol, TypeAlias

from ray import serve
from ray.exceptions import GetTimeoutError, RayError

from deployments.contract import ENGINE_DIED, NOT_STARTED, LineAnswer, LineRequest

logger = logging.getLogger("ray.serve")

_LINES_PER_ACTOR: Final = 512
"""Under way at once. An actor is a process of 250 MB."""

_POLL_S: Final = 0.5


Answers: TypeAlias = list[tuple[int, LineAnswer | None]]
"""The answer of each line by its number; None for one that was under way when the replica died. Where only the engine's
process in it did, the answer says so (``ENGINE_DIED``)."""


class FeederDiedError(Exception):
    """A process that sends lines died. The answers before stand; nothing is known of the rest."""


class LineEngines(Protocol):
    """The part of ``ServeEngines`` that a round uses."""

    def answer_many(
        self, lines: Sequence[tuple[int, LineRequest]], should_stop: Callable[[], bool], at_once: int | None = None
    ) -> Iterator[Answers]: ...

    def answer_one(self, line: LineRequest, should_stop: Callable[[], bool]) -> LineAnswer | None: ...

    def are_ready(self) -> bool: ...


class ServeEngines:
    """The replicas of the running service, which answer at most ``num_lines`` lines at once. Safe to use from several
    threads."""

    def __init__(self, app_name: str, deployment_name: str, num_lines: int) -> None:
        self._app_name = app_name
        self._deployment_name = deployment_name
        self._num_lines = num_lines

    def answer_many(
        self, lines: Sequence[tuple[int, LineRequest]], should_stop: Callable[[], bool], at_once: int | None = None
    ) -> Iterator[Answers]:
        """Send lines to the replicas and yield their answers as they come.

        Where an engine dies, no further line is sent: those left have no answer.

        Args:
            lines: All of them are in memory.
            should_stop: Asked about twice a second; once true, the rest is given up.
            at_once: How many may be under way; None for as many as there is room for.

        Raises:
            FeederDiedError: Nothing is known of the lines without an answer.
        """
        if should_stop():
            return
        ask_next = time.monotonic() + _POLL_S
        try:
            # Closing kills the actors, and with them what is under way.
            with closing(iter(self._answers(lines, min(at_once or self._num_lines, len(lines))))) as batches:
                for batch in batches:
                    for answers in map(json.loads, batch["answers"]):
                        if answers:
                            yield [(number, answer) for number, answer in answers]
                    if time.monotonic() >= ask_next:
                        if should_stop():
                            return
                        ask_next = time.monotonic() + _POLL_S
        except RayError as error:
            raise FeederDiedError(f"{type(error).__name__}: {error}"[:2000]) from error

    def _answers(self, lines: Sequence[tuple[int, LineRequest]], num_lines: int) -> Any:
        """Send lines through Ray Data's ``Feeder`` actors; return an iterator of batches of answers."""
        # Imported here: takes a second and 50 MB, even for a service that runs no batch.
        from ray.data import ActorPoolStrategy, DataContext, from_items

        context = DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        # Each row is a block of its own, and passed on at once.
        context.target_max_block_size = 1
        num_actors = math.ceil(num_lines / _LINES_PER_ACTOR)
        rows = [{"line": json.dumps(line)} for line in lines]
        return (
            from_items(rows, override_num_blocks=num_actors)
            .map_batches(
                Feeder,
                fn_constructor_args=(self._app_name, self._deployment_name, math.ceil(num_lines / num_actors)),
                batch_size=None,
                compute=ActorPoolStrategy(size=num_actors),
                num_cpus=0,
                # A restarted actor would have every line answered again. Ray 2.60 has no other way, and warns of this.
                max_restarts=0,
                max_task_retries=0,
            )
            .iter_batches(batch_size=None, prefetch_batches=0)
        )

    def answer_one(self, line: LineRequest, should_stop: Callable[[], bool]) -> LineAnswer | None:
        """Send a line that is under way alone and return its answer; None where the replica died.

        A line that is given up, because ``should_stop`` says so, counts as ``NOT_STARTED``.
        """
        response = serve.get_deployment_handle(self._deployment_name, self._app_name).answer_line.remote(line)
        while not should_stop():
            try:
                answer: LineAnswer = response.result(timeout_s=_POLL_S)
            except GetTimeoutError:
                continue
            except RayError as error:
                logger.warning("line %s has no answer: %s", line["request_id"], type(error).__name__)
                return None
            except TimeoutError:  # not before: what a replica raises is a RayError, and may be this too
                continue
            return answer
        response.cancel()
        return {"status": NOT_STARTED, "body": "null"}

    def are_ready(self) -> bool:
        """Return whether a replica is running, as Serve's controller knows."""
        application = serve.status().applications.get(self._app_name)
        deployment = application.deployments.get(self._deployment_name) if application else None
        return deployment is not None and deployment.replica_states.get("RUNNING", 0) > 0


class Feeder:
    """Sends lines to replicas and yields their answers, in a process of Ray Data's."""

    def __init__(self, app_name: str, deployment_name: str, num_lines: int) -> None:
        self._replica = serve.get_deployment_handle(deployment_name, app_name)
        self._num_lines = num_lines

    def __call__(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield ``answers``, as JSON: pairs of a line's number and its answer or None, at times no pair."""
        answers = self._answers([json.loads(line) for line in batch["line"]])
        with asyncio.Runner() as runner:
            while (some := runner.get_loop().run_until_complete(anext(answers, None))) is not None:
                yield {"answers": [json.dumps(some)]}

    async def _answers(self, lines: list[tuple[int, LineRequest]]) -> AsyncIterator[Answers]:
        """Have lines answered, ``num_lines`` at once; yield answers as they come, and stop after a death."""
        waiting = iter(lines)
        under_way: set[asyncio.Task[tuple[int, LineAnswer | None]]] = set()
        while True:
            while len(under_way) < self._num_lines and (line := next(waiting, None)):
                under_way.add(asyncio.create_task(self._answer(*line)))
            if not under_way:
                return
            done, under_way = await asyncio.wait(
                under_way, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED
            )  # fmt: skip
            answers = [task.result() for task in done]
            if any(answer is None or answer["status"] == ENGINE_DIED for _, answer in answers):
                # It died of one of these, and there may be many more like it.
                waiting = iter(())
            yield answers

    async def _answer(self, number: int, line: LineRequest) -> tuple[int, LineAnswer | None]:
        """Send one line to a replica; its answer is None where that died, or did not take it."""
        try:
            return number, await self._replica.answer_line.remote(line)
        except Exception as error:
            logger.warning("line %s has no answer: %s", line["request_id"], type(error).__name__)
            return number, None
