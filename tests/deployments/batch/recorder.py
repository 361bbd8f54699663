"""A process that works on a batch and may be killed: ``python -m tests.deployments.batch.recorder URL WHAT``.

``record`` records 1000 lines of the batch ``batch_1`` from two threads; ``finish`` dies inside the transaction that
finishes it.
"""

import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from deployments.batch.state.records import OPEN, FileRecord
from deployments.batch.state.store import BatchStore
from tests.deployments.batch.remembered import a_file, a_result

NUM_LINES = 1000


class DeadlyFiles(Sequence[FileRecord]):
    """Two files, of which the second is never reached."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Iterator[FileRecord]:
        yield a_file("file-out")
        os.kill(os.getpid(), signal.SIGKILL)


def record_all(store: BatchStore) -> None:
    missing = sorted(set(range(1, NUM_LINES + 1)) - store.recorded_lines("batch_1"))
    random.shuffle(missing)
    for start in range(0, len(missing), 3):
        lines = missing[start : start + 3]
        store.add_attempts("batch_1", lines)
        store.record("batch_1", [a_result(line, f"by {os.getpid()}", is_error=line % 3 == 0) for line in lines])


if __name__ == "__main__":
    store = BatchStore(sys.argv[1])
    if sys.argv[2] == "finish":
        store.finish("batch_1", only_from=OPEN, files=DeadlyFiles(), status="completed")
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(record_all, [store, store]))
