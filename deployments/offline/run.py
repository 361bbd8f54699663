"""A run from its input to its summary; started again with the same arguments, it resumes.

The driver reads the input once, Ray Data carries what is not answered to the engines, and this process writes each
row that comes back to a part of the output.

``answer`` is for programs that have a dataset; ``answer_requests`` takes rows whose requests are made already. Both
read and write no files, and nothing runs before the dataset is consumed.
"""

import json
import os
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias
from uuid import uuid4

import ray
from ray.data import Dataset, TaskPoolStrategy
from ray.data.llm import build_processor, vLLMEngineProcessorConfig

from deployments.offline.config import OfflineConfig
from deployments.offline.engine import AnswerStage, Coordinator, engine_arguments
from deployments.offline.input import Input, look_through, read_piece
from deployments.offline.output import Parts, Result, claim_folder, find_output, only_run, with_result
from deployments.offline.row_requests import REQUEST, request_of
from deployments.replica.engine.configuration import GRAMMAR_CACHE, OFFLINE_STATISTICS, placement

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
    processor = build_processor(
        vLLMEngineProcessorConfig(
            model_source=settings.model_name,
            engine_kwargs=engine_arguments(settings),
            accelerator_type=settings.accelerator_type,
            # Ray Data's own task, beside the workers, takes a processor.
            placement_group_config=placement(settings, {"GPU": 1, "CPU": 1}),
            runtime_env={"env_vars": {**OFFLINE_STATISTICS, **GRAMMAR_CACHE, **settings.replica_env}},
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
    # The coordinator takes no processor: lists are compiled in processes of their own.
    coordinator = ray.remote(Coordinator).options(
        max_restarts=-1, max_task_retries=3, num_cpus=0, resources=settings.vocabulary_resources
    )
    stage = processor.stages[_STAGE]
    ours = {
        "settings": settings,
        "coordinator": coordinator.remote(settings),
        "num_rows": offline.rows_per_task * offline.tasks_per_engine,
    }
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


Done: TypeAlias = Mapping[str, set[int]]
"""By file, the rows that are in the output."""

Engines: TypeAlias = Callable[[Input, Done, OfflineConfig], Iterator[Result]]


@dataclass
class Summary:
    """What a run did; ``num_skipped`` rows were done by earlier runs.

    ``seconds`` include the start of the engines.
    """

    num_rows: int
    num_skipped: int = 0
    num_answers: int = 0
    num_errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def add(self, result: Result) -> None:
        """Count one row's answer or error, and its tokens."""
        if not result.is_answer:
            self.num_errors += 1
            return
        self.num_answers += 1
        usage = result.body.get("usage") or {}
        self.prompt_tokens += usage.get("prompt_tokens") or 0
        self.completion_tokens += usage.get("completion_tokens") or 0

    def as_text(self) -> str:
        rate = self.completion_tokens / self.seconds if self.seconds else 0.0
        return (
            f"{self.num_rows} rows: {self.num_answers} answered, {self.num_errors} errors, {self.num_skipped} done "
            f"before; {self.completion_tokens} tokens ({self.prompt_tokens} of prompts) in {self.seconds:.0f} s, "
            f"{rate:.1f} tokens/s"
        )


def run(source: str, output: str, config: OfflineConfig, engines: Engines | None = None) -> Summary:
    """Answer the rows without a result, write them in parts, and return the summary.

    ``engines`` replaces ``generate_results``.

    Raises:
        RefusedError: The run cannot begin, and nothing was changed.
        OSError: The output cannot be written; what was written before stays.
        RayError: Ray gave up, as when an engine does not keep to lists; what was written before stays.
    """
    begun = time.monotonic()
    folder = find_output(output, source, config.offline.allowed_roots)
    found = look_through(source, config)
    with only_run(folder):
        claim_folder(folder, found, config)
        parts = Parts(folder, found.format, found.input_columns)
        parts.clean()
        done: dict[str, set[int]] = defaultdict(set)
        for file, row in parts.done():
            done[file].add(row)
        num_rows = sum(piece.num_rows for piece in found.pieces)
        summary = Summary(num_rows, num_skipped=sum(map(len, done.values())))
        if summary.num_skipped < summary.num_rows:
            _write((engines or generate_results)(found, done, config), done, parts, summary, config)
        summary.seconds = time.monotonic() - begun
        folder.child("_summary.json").write([json.dumps(asdict(summary), indent=2).encode()])
    return summary


def generate_results(found: Input, done: Done, config: OfflineConfig) -> Iterator[Result]:
    """Start engines, and yield the result of each row that is not done."""
    if not ray.is_initialized():
        start_ray()
    pieces = [
        {"piece": pickle.dumps((piece, rows))}
        for piece in found.pieces
        if len(rows := done.get(piece.file, set()).intersection(piece.rows)) < piece.num_rows
    ]

    def read(item: dict[str, Any]) -> Iterable[dict[str, Any]]:
        piece, rows_done = pickle.loads(item["piece"])  # noqa: S301 - written above
        return read_piece(piece, rows_done, config)

    rows = ray.data.from_items(pieces, override_num_blocks=len(pieces)).flat_map(read, **SMALL_TASK)
    for batch in answer_requests(rows, config).iter_batches(batch_size=None, batch_format="pyarrow"):
        yield from map(Result.of, batch.to_pylist())


def start_ray(*, log_to_driver: bool = True) -> None:
    """Join the cluster that ``RAY_ADDRESS`` names or start Ray, for work without the service; show logs or not."""
    if os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=log_to_driver)
    else:
        # One more than there are, so that rows can be prepared beside engines that take all of them.
        ray.init(num_cpus=(os.cpu_count() or 1) + 1, include_dashboard=False, log_to_driver=log_to_driver)


def _write(results: Iterable[Result], done: Done, parts: Parts, summary: Summary, config: OfflineConfig) -> None:
    """Write results in parts as they come, and count them in the summary."""
    waiting: list[Result] = []
    written_at = time.monotonic()
    try:
        for result in results:
            # What Ray sends again after a death may come twice.
            if result.row in done[result.file]:
                continue
            done[result.file].add(result.row)
            waiting.append(result)
            summary.add(result)
            now = time.monotonic()
            if len(waiting) >= config.offline.part_rows or now - written_at >= config.offline.part_s:
                parts.write(waiting)
                waiting, written_at = [], now
    finally:
        # Worth keeping, whatever ended the run.
        parts.write(waiting)
