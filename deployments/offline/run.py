"""A run from its input to its summary; started again with the same arguments, it resumes.

The driver reads the input once, Ray Data carries what is not answered to the engines, and this process writes each
row that comes back to a part of the output.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

import ray

from deployments.offline.config import OfflineConfig
from deployments.offline.parts import Parts, Result, claim_folder, only_run
from deployments.offline.pieces import Input, Piece, look_through, read_piece
from deployments.offline.pipeline import SMALL_TASK, answer_requests
from deployments.offline.row_requests import ANSWER
from deployments.offline.source import find_output, find_source

SUMMARY_NAME: Final = "_summary.json"

Done: TypeAlias = Mapping[str, set[int]]
"""By file, the rows that are in the output."""

Engines: TypeAlias = Callable[[Input, Done, OfflineConfig], Iterator[Result]]


@dataclass
class Summary:
    """What a run did; ``num_skipped`` rows were done by earlier runs.

    ``seconds`` include the start of the engines, ``answering_s`` are from the first answer to the last.
    """

    num_rows: int
    num_skipped: int = 0
    num_answers: int = 0
    num_errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    answering_s: float = 0.0

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
    roots = config.offline.allowed_roots
    folder = find_output(output, source, roots)
    found = look_through(find_source(source, roots), config)
    with only_run(folder):
        claim_folder(folder, found, config)
        parts = Parts(folder, found.format, found.input_columns)
        parts.clean()
        done: dict[str, set[int]] = defaultdict(set)
        for file, row, _ in parts.done():
            done[file].add(row)
        summary = Summary(found.num_rows, num_skipped=sum(map(len, done.values())))
        if summary.num_skipped < summary.num_rows:
            _write(_drop_repeated((engines or generate_results)(found, done, config), done), parts, summary, config)
        summary.seconds = time.monotonic() - begun
        folder.child(SUMMARY_NAME).write([json.dumps(asdict(summary), indent=2).encode()])
    return summary


def generate_results(found: Input, done: Done, config: OfflineConfig) -> Iterator[Result]:
    """Start engines, and yield the result of each row that is not done."""
    if not ray.is_initialized():
        start_ray()
    pieces = [
        {"piece": piece.to_json(), "done": json.dumps(sorted(rows))}
        for piece in found.pieces
        if len(rows := done.get(piece.file, set()).intersection(piece.rows)) < piece.num_rows
    ]

    def read(item: dict[str, Any]) -> Iterable[dict[str, Any]]:
        return read_piece(Piece.from_json(item["piece"]), frozenset(json.loads(item["done"])), config)

    rows = ray.data.from_items(pieces, override_num_blocks=len(pieces)).flat_map(read, **SMALL_TASK)
    for batch in answer_requests(rows, config).iter_batches(batch_size=None, batch_format="pyarrow"):
        for row in batch.to_pylist():
            yield _result(row)


def start_ray(*, log_to_driver: bool = True) -> None:
    """Join the cluster that ``RAY_ADDRESS`` names or start Ray, for work without the service; show logs or not."""
    if os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=log_to_driver)
    else:
        # One more than there are, so that rows can be prepared beside engines that take all of them.
        ray.init(num_cpus=(os.cpu_count() or 1) + 1, include_dashboard=False, log_to_driver=log_to_driver)


def _result(row: dict[str, Any]) -> Result:
    """Make a result from a row that Ray Data returned."""
    answer = json.loads(row[ANSWER])
    body = json.loads(answer["body"])
    return Result(
        file=row["file"],
        row=row["row"],
        custom_id=row["custom_id"] or None,
        input_columns=json.loads(row["input_columns"]),
        status=answer["status"],
        body=body if answer["status"] == 200 else body["error"],
    )


def _drop_repeated(results: Iterable[Result], done: Mapping[str, set[int]]) -> Iterator[Result]:
    """Drop results of rows that have one: what Ray sends again after a death may come twice."""
    for result in results:
        rows = done[result.file]
        if result.row not in rows:
            rows.add(result.row)
            yield result


def _write(results: Iterable[Result], parts: Parts, summary: Summary, config: OfflineConfig) -> None:
    """Write results in parts as they come, and count them in the summary."""
    waiting: list[Result] = []
    written_at = first_at = time.monotonic()
    try:
        for result in results:
            first_at = first_at if summary.num_answers + summary.num_errors else time.monotonic()
            waiting.append(result)
            summary.add(result)
            now = time.monotonic()
            summary.answering_s = now - first_at
            if len(waiting) >= config.offline.part_rows or now - written_at >= config.offline.part_s:
                parts.write(waiting)
                waiting, written_at = [], now
    finally:
        _write_rest(parts, waiting)


def _write_rest(parts: Parts, waiting: list[Result]) -> None:
    """Write the results that are in no part yet."""
    # Worth keeping, whatever ended the run.
    if waiting:
        parts.write(waiting)
