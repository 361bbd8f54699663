"""Ray Data's vLLM stage, with the service's replica between the rows and the engine.

Ray starts the engine, places it and sends it tasks of rows; the replica answers each row as the service would. A
dead engine takes its process with it, so that Ray starts another and sends it the rows again.
"""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from ray.llm._internal.batch.stages.vllm_engine_stage import vLLMEngineStageUDF

from deployments.errors import UpstreamError
from deployments.keys import NO_OWNER
from deployments.offline.replica import OfflineReplica, make_replica, normalize_engine_kwargs
from deployments.offline.rows import ANSWER, REQUEST
from deployments.process_setup import set_up_process
from deployments.replica.answers.answer_line import LineRequest
from deployments.replica.engine.adapters import EngineAdapters
from deployments.replica.engine.dtype import resolve_dtype
from deployments.replica.engine.engine import is_dead
from deployments.settings import Settings
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE

logger = logging.getLogger("ray.serve")


class Turns:
    """A shared/exclusive lock for rows that run together or alone; one that waits to run alone holds back others."""

    def __init__(self) -> None:
        self._num_together = 0
        self._num_waiting_alone = 0
        self._is_alone = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_alone and not self._num_waiting_alone)
            self._num_together += 1
        try:
            yield
        finally:
            async with self._changed:
                self._num_together -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._changed:
            self._num_waiting_alone += 1
            try:
                await self._changed.wait_for(lambda: not self._is_alone and not self._num_together)
                self._is_alone = True
            finally:
                self._num_waiting_alone -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            async with self._changed:
                self._is_alone = False
                self._changed.notify_all()


class AnswerStage(vLLMEngineStageUDF):
    """One engine; a row may be under way ``max_attempts`` times when an engine dies."""

    def __init__(
        self,
        data_column: str,
        expected_input_keys: list[str],
        *,
        settings: Settings,
        coordinator: Any,
        max_attempts: int,
        **kwargs: Any,
    ) -> None:
        del expected_input_keys
        # Inherited by the engine's own process, where the plugin reads what stands there.
        set_up_process(settings)
        os.environ[ARTEFACT_DIR_VARIABLE] = str(settings.resolved_artefact_dir())
        os.environ[CACHE_BYTES_VARIABLE] = str(settings.engine_cache_bytes)
        self._adapters = EngineAdapters.read(settings)
        if self._adapters.model is not None:
            kwargs["model"] = str(self._adapters.model)
        super().__init__(data_column, [REQUEST], **kwargs)
        self._settings = settings
        self._coordinator = coordinator
        self._max_attempts = max_attempts
        self._turns = Turns()
        self._replica: asyncio.Task[OfflineReplica] | None = None

    def normalize_engine_kwargs(self, engine_kwargs: dict[str, Any]) -> dict[str, Any]:
        # Here, where the engine runs.
        given = {**engine_kwargs, "dtype": resolve_dtype(engine_kwargs.get("dtype", "auto"))}
        given |= self._adapters.arguments
        return normalize_engine_kwargs(super().normalize_engine_kwargs(given))

    async def udf(self, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """Answer the rows of a task, each as soon as possible."""
        requests = [json.loads(row[REQUEST]) for row in batch]
        ids = [request["id"] for request in requests if "id" in request]
        replica = await self._ready()
        suspects = await self._coordinator.begin_new.remote(ids)
        answers = [
            asyncio.create_task(self._answer(replica, row[self.IDX_IN_BATCH_COLUMN], request, suspects))
            for row, request in zip(batch, requests, strict=True)
        ]
        for answer in asyncio.as_completed(answers):
            yield await answer
        await self._coordinator.end.remote(ids)

    async def _ready(self) -> OfflineReplica:
        """Return the replica; made here, as the constructor has no event loop."""
        if self._replica is None:
            self._replica = asyncio.create_task(
                make_replica(self._settings, vocabulary=self._coordinator, client=self.llm.engine)
            )
        return await asyncio.shield(self._replica)

    async def _answer(
        self, replica: OfflineReplica, index: int, request: dict[str, Any], suspects: dict[str, int]
    ) -> dict[str, Any]:
        if "answer" in request:
            return {self.IDX_IN_BATCH_COLUMN: index, ANSWER: json.dumps(request["answer"])}
        num_attempts = suspects.get(request["id"], 0)
        if num_attempts >= self._max_attempts:
            answer = _failure(num_attempts)
        elif num_attempts:
            async with self._turns.alone():
                await self._coordinator.begin.remote(request["id"])
                answer = await self._ask(replica, request)
                # At once: another row of its task may kill the engine next.
                await self._coordinator.end.remote([request["id"]])
        else:
            async with self._turns.together():
                answer = await self._ask(replica, request)
        return {self.IDX_IN_BATCH_COLUMN: index, ANSWER: json.dumps(answer, ensure_ascii=False)}

    async def _ask(self, replica: OfflineReplica, request: dict[str, Any]) -> dict[str, Any]:
        line: LineRequest = {
            "body": request["body"],
            "owner": NO_OWNER,
            "request_id": request["id"],
        }
        answer = await replica.answer_line(line)
        if answer["status"] != 200 and is_dead(replica):
            logger.error("the engine died; it is started again, and its rows are sent again")
            self._end_process()
        return dict(answer)

    def _end_process(self) -> NoReturn:
        # As Ray's own stage does: the actor is restarted, and its tasks are sent again.
        os._exit(1)


def _failure(num_attempts: int) -> dict[str, Any]:
    error = UpstreamError(
        500,
        f"The engine died {num_attempts} times with this row under way, so it is not tried again.",
        code="engine_died",
    )
    return {"status": error.status, "body": error.to_json().decode()}
