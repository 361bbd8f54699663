"""What commands show besides their result: all of it on standard error, and what moves only on a terminal."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordbound.cli import InputError

if TYPE_CHECKING:
    from rich.progress import Progress


def note(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


class Waiting:
    """A spinner with a line of text on standard error; nothing where that is no terminal."""

    def __init__(self, what: str) -> None:
        self._status: Any = None
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(what)
            self._status.start()

    def update(self, what: str) -> None:
        """Change the text of the spinner while it is shown."""
        if self._status is not None:
            self._status.update(what)

    def stop(self) -> None:
        """Remove the spinner; it may be called again."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def __enter__(self) -> "Waiting":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def progress(*columns: Any) -> "Progress":
    """Create a progress bar on standard error, which shows nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    shown = columns or (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*shown, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


@contextmanager
def open_whole(path: Path | None, *, is_binary: bool = False) -> Iterator[Any]:
    """Open a file that is written whole or not at all; yield standard output where ``path`` is None.

    Raises:
        InputError: The file cannot be written.
    """
    if path is None:
        yield sys.stdout
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") if is_binary else part.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
