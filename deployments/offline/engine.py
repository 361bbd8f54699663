"""Ray Data's vLLM stage, with the service's replica between the rows and the engine, and the actor that stages share.

Ray starts the engine, places it and sends it tasks of rows; the replica answers each row as the service would. A
dead engine takes its process with it, so that Ray starts another and sends it the rows again.
"""

import asyncio
import json
import logging
import math
import os
from argparse import Namespace
from collections.abc import AsyncIterator, Collection
from typing import Any, Final, NoReturn

from starlette.datastructures import State
from typing_extensions import override
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import FrontendArgs

from deployments.contract import LineAnswer, LineRequest, ResolvedVocabulary, VocabularySpec
from deployments.errors import ApiError, EngineError
from deployments.fair_semaphore import FairSemaphore
from deployments.offline.output import ANSWER
from deployments.offline.row_requests import REQUEST, answer_of
from deployments.process_setup import set_up_process
from deployments.ray_private import VLLMEngine, normalize_engine_kwargs, set_engine, vLLMEngineStageUDF
from deployments.replica.deployment import Replica
from deployments.replica.engine.configuration import engine_config, resolve_dtype
from deployments.replica.engine.engine import is_dead, max_sequences
from deployments.replica.engine.engine_adapters import EngineAdapters
from deployments.settings.keys import NO_OWNER
from deployments.settings.service import Settings
from deployments.single_flight import SingleFlight
from deployments.vocabulary.deployment import Vocabulary
from vocab.lists.wordlists import paths_in
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE
from vocab.vllm_plugin import use_plugin

logger = logging.getLogger("ray.serve")

MAX_ATTEMPTS: Final = 3
"""So often may a row be under way when an engine dies, the later times alone; then it becomes an error."""


class OfflineReplica(Replica):
    """The service's replica without Serve, over an engine that Ray Data's stage started; ``make_replica`` makes it."""

    client: Any

    @override
    def _num_batch_sequences(self, settings: Settings) -> int:
        """Return all sequences of the engine: nothing else uses it."""
        return max_sequences(self)

    @override
    async def start(self) -> None:
        """Connect the engine that the stage started; ``LLMServer.start`` would start one."""
        # Imported here, as Ray does: it raises the level of the root logger, which belongs to the importing program.
        from vllm.entrypoints.openai.api_server import init_app_state

        self.engine = VLLMEngine(self._llm_config)
        state = State()
        config = self._llm_config.get_engine_config()
        arguments = AsyncEngineArgs(**normalize_engine_kwargs(config.get_initialization_kwargs()))
        given = Namespace(**vars(FrontendArgs(**config.frontend_kwargs)) | vars(arguments))
        await init_app_state(self.client, state, given, await self.client.get_supported_tasks())
        set_engine(self, self.client, state)


async def make_replica(settings: Settings, *, vocabulary: Any, client: Any) -> OfflineReplica:
    """Make the offline replica; return it once its engine has proved that it keeps to a list.

    ``client`` is vLLM's own of that engine, and ``vocabulary`` an actor's handle.

    Raises:
        EngineProofError: It does not.
        ValueError: The limits do not fit the model's context.
    """
    made = OfflineReplica.__new__(OfflineReplica)
    made.client = client
    # Nobody waits for a row, and a step of a full engine may take minutes on a small machine.
    settings = settings.model_copy(update={"engine_stall_s": math.inf})
    await made.__init__(engine_config(settings), settings=settings, vocabulary=vocabulary)  # type: ignore[misc]
    return made


def engine_arguments(settings: Settings) -> dict[str, Any]:
    """Return the engine's arguments as the service would pass them, except how it is spread over workers."""
    kwargs = dict(engine_config(settings).get_engine_config().get_initialization_kwargs())
    if "distributed_executor_backend" not in settings.engine_kwargs:
        del kwargs["distributed_executor_backend"]
    # Ray's stage passes these itself.
    return {name: value for name, value in kwargs.items() if name not in ("model", "enable_log_requests")}


class AnswerStage(vLLMEngineStageUDF):
    """Ray Data's stage of one engine, with the service's replica in front of it; ``num_rows`` run at once."""

    def __init__(
        self,
        data_column: str,
        expected_input_keys: list[str],
        *,
        settings: Settings,
        coordinator: Any,
        num_rows: int,
        **kwargs: Any,
    ) -> None:
        del expected_input_keys
        # Inherited by the engine's own process, where the plugin reads what stands there.
        set_up_process(settings)
        use_plugin()
        os.environ[ARTEFACT_DIR_VARIABLE] = str(settings.resolved_artefact_dir())
        os.environ[CACHE_BYTES_VARIABLE] = str(settings.engine_cache_bytes)
        self._adapters = EngineAdapters.read(settings)
        if self._adapters.model is not None:
            kwargs["model"] = str(self._adapters.model)
        super().__init__(data_column, [REQUEST], **kwargs)
        self._settings = settings
        self._coordinator = coordinator
        self._turns = FairSemaphore(num_rows)
        self._replica: asyncio.Task[OfflineReplica] | None = None

    @override
    def normalize_engine_kwargs(self, engine_kwargs: dict[str, Any]) -> dict[str, Any]:
        # Here, where the engine runs.
        given = {**engine_kwargs, "dtype": resolve_dtype(engine_kwargs.get("dtype", "auto"))}
        given |= self._adapters.arguments
        return normalize_engine_kwargs(super().normalize_engine_kwargs(given))

    @override
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
        """Answer a row; one that was under way at a death goes alone, and fails after ``MAX_ATTEMPTS``."""
        if "answer" in request:
            return {self.IDX_IN_BATCH_COLUMN: index, ANSWER: json.dumps(request["answer"])}
        num_attempts = suspects.get(request["id"], 0)
        if num_attempts >= MAX_ATTEMPTS:
            answer: LineAnswer = _failure(num_attempts)
        elif num_attempts:
            async with self._turns.take(self._turns.size, NO_OWNER):
                await self._coordinator.begin.remote(request["id"])
                answer = await self._ask(replica, request)
                # At once: another row of its task may kill the engine next.
                await self._coordinator.end.remote([request["id"]])
        else:
            async with self._turns.take(1, NO_OWNER):
                answer = await self._ask(replica, request)
        return {self.IDX_IN_BATCH_COLUMN: index, ANSWER: json.dumps(answer_of(answer), ensure_ascii=False)}

    async def _ask(self, replica: OfflineReplica, request: dict[str, Any]) -> LineAnswer:
        """Have the replica answer a request; end this process where the engine has died."""
        answer = await replica.answer_line(LineRequest(request["body"], NO_OWNER, request["id"]))
        if isinstance(answer, ApiError) and is_dead(replica):
            logger.error("the engine died; it is started again, and its rows are sent again")
            self._end_process()
        return answer

    def _end_process(self) -> NoReturn:
        # As Ray's own stage does: the actor is restarted, and its tasks are sent again.
        os._exit(1)


def _failure(num_attempts: int) -> EngineError:
    message = f"The engine died {num_attempts} times with this row under way, so it is not tried again."
    return EngineError(500, message, code="engine_died")


class Coordinator:
    """The actor that the engines of a run share: resolves lists, and records which rows were under way when one died.

    A process that dies cannot report its rows, so each is recorded before it begins, and removed when it ends.
    ``deployments.vocabulary.deployment`` documents the results and errors of its first two methods.
    """

    def __init__(self, settings: Settings) -> None:
        # Without its folder of list files a run ends here: of an error later, each row would be one.
        paths_in(settings.wordlist_dir)
        self._settings = settings
        self._num_begun: dict[str, int] = {}
        self._vocabulary = SingleFlight(1)

    async def resolve_or_refuse(self, spec: VocabularySpec, owner: str = NO_OWNER) -> ResolvedVocabulary | Exception:
        return await (await self._get_vocabulary()).resolve_or_refuse(spec, owner)

    async def fetch(self, digest: str) -> bytes:
        return await (await self._get_vocabulary()).fetch(digest)

    async def begin_new(self, rows: Collection[str]) -> dict[str, int]:
        """Record the rows that never began before; return how often the others did without an end."""
        suspects = {row: self._num_begun[row] for row in rows if row in self._num_begun}
        for row in rows:
            self._num_begun.setdefault(row, 1)
        return suspects

    async def begin(self, row: str) -> None:
        """Count one more attempt of a row."""
        self._num_begun[row] = self._num_begun.get(row, 0) + 1

    async def end(self, rows: Collection[str]) -> None:
        """Forget rows that have ended."""
        for row in rows:
            self._num_begun.pop(row, None)

    async def _get_vocabulary(self) -> Vocabulary:
        """Return the vocabulary, made at the first call: an actor's constructor cannot await."""
        return await self._vocabulary.get("vocabulary", lambda: Vocabulary.create(self._settings))
