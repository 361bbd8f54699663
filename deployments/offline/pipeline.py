"""The engines of a run as a step of a Ray Data pipeline: rows in, rows with answers out.

``answer`` is for programs that have a dataset; ``answer_requests`` takes rows whose requests are made already.
Nothing here reads or writes files, and nothing runs before the dataset is consumed.
"""

from collections.abc import Collection
from typing import Any, Final
from uuid import uuid4

import ray
from ray.data import Dataset, TaskPoolStrategy
from ray.data.llm import build_processor, vLLMEngineProcessorConfig

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.offline.config import OfflineConfig
from deployments.offline.engine_stage import AnswerStage, engine_arguments
from deployments.offline.row_requests import REQUEST, request_of, with_result
from deployments.replica.engine.configuration import OFFLINE_STATISTICS
from deployments.settings.keys import NO_OWNER
from deployments.settings.service import Settings
from deployments.single_flight import SingleFlight
from deployments.vocabulary.deployment import Vocabulary
from vocab.errors import VocabularyError

SMALL_TASK: Final[dict[str, Any]] = {"num_cpus": 0.25, "compute": TaskPoolStrategy(size=2)}
"""For what prepares rows: one core is enough for many engines, which may take all processors. Without a bound, Ray Data
starts as many processes as fit."""

_STAGE: Final = "vLLMEngineStage"


def answer(dataset: Dataset, config: OfflineConfig) -> Dataset:
    """Return the dataset with an answer, or an error, in each row.

    Rows are chat requests, lines of OpenAI's batches, or whatever ``offline.columns`` maps to requests. Their
    columns stay, and four are added: ``answer`` (the text of the first choice), ``completion`` (the chat completion,
    as JSON), ``error`` (OpenAI's error, as JSON) and ``status`` (as HTTP's). Of the first three, those that do not
    apply are null. The order of rows may change.
    """

    def prepare(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, REQUEST: request_of(row, config, uuid4().hex)}

    return answer_requests(dataset.map(prepare, **SMALL_TASK), config).map(with_result, **SMALL_TASK)


def answer_requests(dataset: Dataset, config: OfflineConfig) -> Dataset:
    """Return the dataset with the engines' answers: a column ``ANSWER`` in place of ``REQUEST``."""
    settings, offline = config.settings, config.offline
    bundles = settings.placement_bundles
    processor = build_processor(
        vLLMEngineProcessorConfig(
            model_source=settings.model_name,
            engine_kwargs=engine_arguments(settings),
            accelerator_type=settings.accelerator_type,
            placement_group_config=None if bundles is None else {"bundles": bundles},
            runtime_env={"env_vars": {**OFFLINE_STATISTICS, **settings.replica_env}},
            batch_size=offline.rows_per_task,
            max_concurrent_batches=offline.tasks_per_engine,
            concurrency=(1, offline.engines),
            log_engine_metrics=False,
            # The replica does what these do.
            chat_template_stage=False,
            tokenize_stage=False,
            detokenize_stage=False,
        ),
        preprocess=lambda _: {},
        postprocess=lambda row: {name: value for name, value in row.items() if name != REQUEST},
        preprocess_map_kwargs=SMALL_TASK,
        postprocess_map_kwargs=SMALL_TASK,
    )
    stage = processor.stages[_STAGE]
    ours = {"settings": settings, "coordinator": start_coordinator(settings), "max_attempts": offline.max_attempts}
    processor.stages[_STAGE] = stage.model_copy(
        update={"fn": AnswerStage, "fn_constructor_kwargs": {**stage.fn_constructor_kwargs, **ours}}
    )
    # The rows of a task come back together, so tasks are small.
    return processor(_in_blocks(dataset, offline.rows_per_task))


def _in_blocks(dataset: Dataset, num_rows: int) -> Dataset:
    """Divide a dataset into blocks of ``num_rows`` rows, by tasks that take little of a processor."""
    split = dataset.repartition(target_num_rows_per_block=num_rows)
    # Ray 2.60 takes a whole processor for this, which may never come free, and has no public way to say otherwise.
    operator = split._logical_plan.dag
    operator.ray_remote_args["num_cpus"] = SMALL_TASK["num_cpus"]
    object.__setattr__(operator, "compute", SMALL_TASK["compute"])
    return split


_NUM_CPUS: Final = 0
"""It shares a core with an engine; lists are compiled in processes of their own."""


class Attempts:
    """Counts how often each row was begun and did not end."""

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}

    def begin_new(self, rows: Collection[str]) -> dict[str, int]:
        """Record the rows that never began before; return how often the others did."""
        suspects = {row: self._begun[row] for row in rows if row in self._begun}
        for row in rows:
            self._begun.setdefault(row, 1)
        return suspects

    def begin(self, row: str) -> None:
        """Count one more attempt of a row."""
        self._begun[row] = self._begun.get(row, 0) + 1

    def end(self, rows: Collection[str]) -> None:
        """Forget rows that have ended."""
        for row in rows:
            self._begun.pop(row, None)


class Coordinator:
    """The actor that the engines of a run share: resolves lists, and records which rows were under way when one died.

    A process that dies cannot report its rows, so each is recorded before it begins, and removed when it ends.
    ``deployments.vocabulary.deployment`` documents the results and errors of its first three methods."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._attempts = Attempts()
        self._vocabulary = SingleFlight(1)

    async def resolve(self, spec: VocabularySpec) -> ResolvedVocabulary:
        return await (await self._get_vocabulary()).resolve(spec)

    async def resolve_or_refuse(
        self, spec: VocabularySpec, owner: str = NO_OWNER
    ) -> ResolvedVocabulary | VocabularyError:
        return await (await self._get_vocabulary()).resolve_or_refuse(spec, owner)

    async def fetch(self, digest: str) -> bytes:
        return await (await self._get_vocabulary()).fetch(digest)

    async def begin_new(self, rows: Collection[str]) -> dict[str, int]:
        return self._attempts.begin_new(rows)

    async def begin(self, row: str) -> None:
        self._attempts.begin(row)

    async def end(self, rows: Collection[str]) -> None:
        self._attempts.end(rows)

    async def _get_vocabulary(self) -> Vocabulary:
        """Return the vocabulary, made at the first call: an actor's constructor cannot await."""
        return await self._vocabulary.get("vocabulary", lambda: Vocabulary.create(self._settings))


def start_coordinator(settings: Settings) -> Any:
    """Start the coordinator, an actor that lives as long as the returned handle."""
    options = {"num_cpus": _NUM_CPUS, "resources": settings.vocabulary_resources}
    return ray.remote(Coordinator).options(max_restarts=-1, max_task_retries=3, **options).remote(settings)
