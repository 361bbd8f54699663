"""Progress bars for steps that other processes make: what they have written is counted once a second."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from tqdm import tqdm

_INTERVAL_S: Final = 1.0
_LOG_INTERVAL_S: Final = 60.0
"""Between two lines where the output is a file and not a terminal."""


@contextmanager
def progress_bar(label: str, total: int, poll: Callable[[], tuple[int, str]]) -> Iterator[None]:
    """Show a bar while the body runs.

    Args:
        label: What is counted.
        total: Of all.
        poll: Returns how many are done, and what is shown beside the bar. Called from a thread of its own.
    """
    has_ended = Event()
    interval = _INTERVAL_S if sys.stderr.isatty() else _LOG_INTERVAL_S

    def show() -> None:
        with tqdm(total=total, desc=label, mininterval=interval, initial=poll()[0], dynamic_ncols=True) as bar:
            while True:
                is_last = has_ended.wait(_INTERVAL_S)
                done, beside = poll()
                bar.set_postfix_str(beside, refresh=False)
                bar.update(done - bar.n)
                if is_last:
                    return

    thread = Thread(target=show)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
