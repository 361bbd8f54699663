"""One batch from wherever it is to its end: its lines are counted, answered in rounds, and its files written.

What is recorded is done and the rest is done again, so a run may end anywhere and another go on. It may take hours and
blocks its thread. How lines reach an engine is not known here.
"""

import logging

from deployments.batch.state.contents import ContentsMissingError
from deployments.batch.state.records import TERMINAL, BatchRecord
from deployments.batch.worker import ending, results
from deployments.batch.worker.lines import LineFault
from deployments.batch.worker.rounds import Round
from deployments.batch.worker.tools import CHUNK, Tools

logger = logging.getLogger("ray.serve")


def run_batch(tools: Tools, batch_id: str) -> None:
    """Returns when the batch is at its end, or is not there any more, or the process is about to end.

    Raises:
        StoreError: The database does not work.
        ContentsError: A file cannot be read or written; nothing of it is there.
    """
    try:
        _run(tools, batch_id)
    except ContentsMissingError:
        batch = tools.store.batch(None, batch_id)
        if batch is not None and batch.status not in TERMINAL:
            ending.fail(tools, batch, "input_file_missing", "The input file is not there any more: upload it again.")


def _run(tools: Tools, batch_id: str) -> None:
    while not tools.is_stopping():
        batch = tools.store.batch(None, batch_id)
        if batch is None or batch.status in TERMINAL:
            return
        if batch.status == "cancelling":
            ending.give_up(tools, batch, "cancelled")
            continue
        if batch.status == "validating":
            if tools.clock() >= batch.deadline:
                ending.give_up(tools, batch, "expired")
            else:
                _count(tools, batch)
            continue
        recorded = tools.store.recorded_lines(batch_id)
        if len(recorded) == batch.total:
            ending.complete(tools, batch)
        elif tools.clock() >= batch.deadline:
            ending.give_up(tools, batch, "expired")
        else:
            Round(tools, batch).run(recorded)


def _count(tools: Tools, batch: BatchRecord) -> None:
    """Records the faulty lines, and how many there are of all."""
    total, faults = 0, []
    for item in tools.lines(batch):
        total += 1
        if total > tools.settings.limits.max_lines:
            most = tools.settings.limits.max_lines
            ending.fail(tools, batch, "too_many_lines", f"The file has more than {most} lines: divide it.")
            return
        if isinstance(item, LineFault):
            faults.append(results.faulty(batch, item))
        if len(faults) >= CHUNK:
            tools.store.record(batch.id, faults)
            faults.clear()
    tools.store.record(batch.id, faults)
    if total == 0:
        ending.fail(tools, batch, "empty_file", "The file has no line: put one request on each.")
        return
    logger.info("%s begins: %d lines", batch.id, total)
    tools.store.update_batch(
        batch.id, only_from=["validating"], status="in_progress", total=total, in_progress_at=tools.now()
    )
