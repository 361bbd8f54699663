"""The engines of a run as a step of a Ray Data pipeline: rows in, rows with answers out.

``answer`` is for programs that have a dataset; ``answer_requests`` takes rows whose requests are made already.
Nothing here reads or writes files, and nothing runs before the dataset is consumed.
"""

from typing import Any, Final
from uuid import uuid4

from ray.data import Dataset, TaskPoolStrategy
from ray.data.llm import build_processor, vLLMEngineProcessorConfig

from deployments.offline.config import OfflineConfig
from deployments.offline.coordinator import start_coordinator
from deployments.offline.engine_stage import AnswerStage
from deployments.offline.replica import engine_arguments
from deployments.offline.rows import REQUEST, request_of, with_result
from deployments.replica.engine.engine import OFFLINE_STATISTICS

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
    """Return the dataset with a column ``ANSWER`` in place of ``REQUEST``."""
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
    split = dataset.repartition(target_num_rows_per_block=num_rows)
    # Ray 2.60 takes a whole processor for this, which may never come free, and has no public way to say otherwise.
    operator = split._logical_plan.dag
    operator.ray_remote_args["num_cpus"] = SMALL_TASK["num_cpus"]
    object.__setattr__(operator, "compute", SMALL_TASK["compute"])
    return split
