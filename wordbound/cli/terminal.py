"""What commands show besides their result: all of it on standard error, and what moves only on a terminal."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordbound.cli.commands import InputError

if TYPE_CHECKING:
    from rich.progress import Progress


def note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Waiting:
    """A line that moves while nothing else is shown; nothing where standard error is no terminal."""

    def __init__(self, what: str) -> None:
        self._status: Any = None
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(what)
            self._status.start()

    def update(self, what: str) -> None:
        """Change the line, while it is there."""
        if self._status is not None:
            self._status.update(what)

    def stop(self) -> None:
        """Take the line away; once is enough, and more is no error."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def __enter__(self) -> "Waiting":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def progress(*columns: Any) -> "Progress":
    """Return a bar on standard error, which shows nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    shown = columns or (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*shown, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


@contextmanager
def whole_file(path: Path | None) -> Iterator[Any]:
    """Give something to write a text into: a file that is there whole or not at all, or standard output.

    Raises:
        InputError: The file cannot be written.
    """
    if path is None:
        yield sys.stdout
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
