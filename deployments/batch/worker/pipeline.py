"""The lines of a batch through Ray Data to the service's replicas, by ``ray.data.llm``'s Serve processor.

A process of its own, the feeder, runs Ray Data: it keeps so many lines under way, and gives each answer back as it
comes. A line is a block of its own as long as there are few, so that the death of a replica costs those that it was at
work on and no other. What lines and answers mean is not known here.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import ray
from ray import serve
from ray.exceptions import RayError

from deployments.replica.answer_line import LineAnswer, LineRequest

logger = logging.getLogger("ray.serve")

METHOD: Final = "answer_line"

_MAX_BLOCKS: Final = 2500
"""Of one dataset; lines share a block where there are more. Each costs 13 ms of CPU time, in two processes."""

_LINES_PER_ACTOR: Final = 128
"""Each costs a thread of the actor that waits for it."""

_POLL_S: Final = 0.5


@dataclass(frozen=True)
class FeederSettings:
    """Where the lines go.

    Attributes:
        app_name: The Serve application.
        deployment_name: Its deployment that answers lines.
        num_lines: How many may be under way at once.
    """

    app_name: str
    deployment_name: str
    num_lines: int


class FeederDiedError(Exception):
    """The process that feeds the engines ended. What it gave back before stands; nothing is known of the rest."""


class ServeEngines:
    """The replicas of the running service. May be used by several threads."""

    def __init__(self, settings: FeederSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._spare: Any = None

    def get_ready(self) -> None:
        """Starts a feeder for the next call of ``answer_many``, which then need not wait for it. Costs the memory of an
        idle process, 250 MB."""
        with self._lock:
            if self._spare is None:
                self._spare = self._new_feeder()

    def answer_many(
        self,
        lines: Sequence[tuple[int, LineRequest]],
        should_stop: Callable[[], bool],
        at_once: int | None = None,
    ) -> Iterator[list[tuple[int, LineAnswer]]]:
        """Answers as they come, with the number that each line was given with.

        A line without an answer at the end was under way when the replica, or the engine's process in it, died.

        Args:
            lines: Any number; all of them are in memory.
            should_stop: Asked twice a second; the rest is given up as soon as it is true.
            at_once: How many may be under way; None for as many as there is room for.

        Raises:
            FeederDiedError: Nothing is known of the lines without an answer.
        """
        feeder = self._take_feeder()
        try:
            answers = feeder.feed.remote(list(lines), at_once)
            ask_next = 0.0
            while True:
                if time.monotonic() >= ask_next:
                    if should_stop():
                        return
                    ask_next = time.monotonic() + _POLL_S
                ready, _ = ray.wait([answers], timeout=_POLL_S, fetch_local=False)
                if ready:
                    yield ray.get(next(answers))
        except StopIteration:
            pass
        except RayError as error:
            raise FeederDiedError(f"{type(error).__name__}: {error}"[:2000]) from error
        finally:
            # With it go its tasks and actors.
            ray.kill(feeder)
            self.get_ready()

    def _take_feeder(self) -> Any:
        with self._lock:
            spare, self._spare = self._spare, None
        return self._new_feeder() if spare is None else spare

    def _new_feeder(self) -> Any:
        return ray.remote(num_cpus=0, max_restarts=0)(Feeder).remote(self._settings)

    def answer_one(self, line: LineRequest) -> LineAnswer | None:
        """The answer of a line that is under way alone; None where the replica died of it."""
        replica = serve.get_deployment_handle(self._settings.deployment_name, self._settings.app_name)
        try:
            response = replica.options(stream=True).answer_line.remote(line)
            answer: LineAnswer = next(iter(response))
        except RayError as error:
            logger.warning("a replica died at the work on line %s: %s", line["request_id"], type(error).__name__)
            return None
        return answer

    def are_ready(self) -> bool:
        """Whether a replica runs, as the controller knows it."""
        application = serve.status().applications.get(self._settings.app_name)
        deployment = application.deployments.get(self._settings.deployment_name) if application else None
        return deployment is not None and deployment.replica_states.get("RUNNING", 0) > 0


class Feeder:
    """Runs Ray Data, which its caller's process is spared."""

    def __init__(self, settings: FeederSettings) -> None:
        self._settings = settings
        # What takes long of a first dataset: modules, and Ray Data's own actors, which the feeders of a cluster share.
        import ray.data.llm

        _quiet(ray.data.DataContext.get_current())
        ray.data.from_items([0]).map(_as_is, num_cpus=0).materialize()

    def feed(self, lines: list[tuple[int, LineRequest]], at_once: int | None) -> Iterator[list[tuple[int, LineAnswer]]]:
        dataset = answered(lines, replace(self._settings, num_lines=at_once or self._settings.num_lines))
        for batch in dataset.iter_batches(batch_size=None, prefetch_batches=0):
            yield [
                (int(row["number"]), {"status": int(row["status"]), "body": str(row["body"])})
                for row in batch["__data"]
            ]


def answered(lines: Sequence[tuple[int, LineRequest]], settings: FeederSettings) -> Any:
    """A ``ray.data.Dataset`` of the answers, in any order; lines that killed something are missing.

    Each row has one column ``__data``, a struct with ``number``, ``status`` and ``body``.
    """
    from ray.data import ActorPoolStrategy, DataContext, from_items
    from ray.data.llm import ServeDeploymentProcessorConfig, build_processor

    context = DataContext.get_current()
    _quiet(context)
    # A block that fails is left out, and its lines are seen to be missing.
    context.max_errored_blocks = -1
    rows = [{"number": number, "request": request} for number, request in lines]
    per_block = math.ceil(len(rows) / _MAX_BLOCKS)
    num_actors = math.ceil(settings.num_lines / _LINES_PER_ACTOR)
    num_tasks = max(math.ceil(settings.num_lines / num_actors / per_block), 1)
    config = ServeDeploymentProcessorConfig(
        deployment_name=settings.deployment_name,
        app_name=settings.app_name,
        batch_size=per_block,
        concurrency=num_actors,
    )
    processor = build_processor(config, preprocess=_to_call, preprocess_map_kwargs={"num_cpus": 0})
    # It would be one more process, which only takes the rows out of their column.
    processor.postprocess = None
    stage = processor.get_stage_by_name("ServeDeploymentStage")
    stage.map_batches_kwargs = {
        "compute": ActorPoolStrategy(
            size=num_actors,
            max_tasks_in_flight_per_actor=num_tasks,
            max_concurrent_calls_per_actor=num_tasks,
        ),
        "num_cpus": 0,
    }
    return processor(from_items(rows, override_num_blocks=math.ceil(len(rows) / per_block)))


def _quiet(context: Any) -> None:
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    # Else each line under way has a thread that reads its process's memory once a second.
    context.memory_usage_poll_interval_s = None


def _as_is(row: dict[str, Any]) -> dict[str, Any]:
    return row


def _to_call(row: dict[str, Any]) -> dict[str, Any]:
    """What the Serve processor wants to know. Runs in its process, whose log would get a line per block."""
    log = logging.getLogger("ray.llm")
    # Setting a level empties the cache of every logger.
    if log.level != logging.WARNING:
        log.setLevel(logging.WARNING)
    return {"method": METHOD, "request_kwargs": row["request"]}
