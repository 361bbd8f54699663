"""What commands share that ask a service: its client, options and files of a text, and what is shown meanwhile.

Whatever is shown besides a result is on standard error, and what moves only on a terminal.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import typer

from wordbound.cli import STANDARD_INPUT, InputError
from wordbound.client import URL_VARIABLE, Client

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status

MAX_RETRIES: Final = 4
"""Of a request to a busy service: they are four minutes at most."""

SEARCH_WIDTH: Final = 4
"""Of ``--quality better``: the sentence search of docs/quality.md, which takes four times as long and can be read as it
grows."""

Quality: TypeAlias = Literal["fast", "better"]

UrlOption: TypeAlias = Annotated[
    str,
    typer.Option("--url", envvar=URL_VARIABLE, metavar="URL", help="Where the service is."),
]
MaxTokensOption: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="The longest answer; a word takes about 1.3 in English.")
]
QualityOption: TypeAlias = Annotated[
    Quality, typer.Option(help="better: choose among four at each sentence, for four times the time.")
]
SeedOption: TypeAlias = Annotated[int | None, typer.Option(metavar="N", help="The same number gives the same text.")]
KeepNamesOption: TypeAlias = Annotated[
    bool, typer.Option("--keep-names/--no-keep-names", help="Let names in the text count as listed.")
]
OutOption: TypeAlias = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Where to; the terminal, if not given.")
]


def connect(url: str) -> Client:
    """Create a client of the service at ``url``, with the key of the environment and more patience than usual.

    Raises:
        InputError: It is no address, or there is no key.
    """
    try:
        return Client(url, max_retries=MAX_RETRIES, sleep=_wait)
    except ValueError as error:
        raise InputError(str(error)) from None


def _wait(wait_s: float) -> None:
    if sys.stderr.isatty():
        print(f"the service is busy; asking again in {wait_s:.0f} s", file=sys.stderr)
    sleep(wait_s)


def search_for_quality(quality: Quality) -> dict[str, int] | None:
    """Return ``vocab.search`` of ``--quality better``; None for ``fast``."""
    return {"width": SEARCH_WIDTH} if quality == "better" else None


def read_text(name: str) -> str:
    """Read a text in UTF-8 from a file or, for ``-``, from standard input.

    Raises:
        InputError: It is no text in UTF-8, or is empty.
        OSError: It cannot be read.
    """
    data = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name}: not a text in UTF-8; save it as plain text first") from None
    if not text.strip():
        raise InputError(f"{'standard input' if name == STANDARD_INPUT else name}: there is no text")
    return text


def note(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def waiting(what: str) -> "Status":
    """Create a spinner with a line of text on standard error, which shows nothing where that is no terminal."""
    from rich.console import Console

    return Console(stderr=True, force_terminal=sys.stderr.isatty()).status(what)


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
