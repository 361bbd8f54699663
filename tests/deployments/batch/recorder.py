"""A process that works on a batch and may be killed: ``python -m tests.deployments.batch.recorder URL WHAT``.

``record`` records 1000 lines of the batch ``batch_1`` from two threads; ``finish`` dies inside the transaction that
finishes it.
"""

import os
import random
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import event

from deployments.batch.models import OPEN, Attempts, File, LineResult
from deployments.batch.store import BatchStore

NUM_LINES = 1000


def record_all(store: BatchStore) -> None:
    batch = store.batch(None, "batch_1")
    assert batch is not None
    missing = sorted(set(range(1, NUM_LINES + 1)) - store.recorded_lines(batch, 1, NUM_LINES))
    random.shuffle(missing)
    for start in range(0, len(missing), 3):
        lines = missing[start : start + 3]
        for line in lines:
            store.add_attempt("batch_1", line)
        results = [LineResult(line=line, is_error=line % 3 == 0, record=f"by {os.getpid()}") for line in lines]
        store.record("batch_1", results)


def die_before_the_second_delete(_connection: object, _cursor: object, statement: str, *_: object) -> None:
    if statement.startswith("DELETE") and Attempts.__tablename__ in statement:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    store = BatchStore(sys.argv[1])
    if sys.argv[2] == "finish":
        event.listen(store._engine, "before_cursor_execute", die_before_the_second_delete)
        file = File(id="file-out", owner="anna", purpose="batch", filename="o", num_bytes=1, created_at=100)
        store.finish("batch_1", only_from=OPEN, files=[file], status="completed")
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(record_all, [store, store]))
