"""What commands ask a service with: its client, the options of a text beside its list, and a text that is read."""

import sys
from collections.abc import Sequence
from pathlib import Path
from time import sleep
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer

from wordbound.cli import InputError
from wordbound.client import URL_VARIABLE, Client

STANDARD_INPUT: Final = "-"

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


def must_use_of(options: Sequence[str] | None, *, any_form: bool = False) -> list[dict[str, Any]] | None:
    """Parse ``--must-use`` options (``storm``, or ``sea:3`` for three times) into ``vocab.must_use``; None without any.

    With ``any_form`` every form of the same lemma counts.

    Raises:
        InputError: There is no word, or no number after a colon.
    """
    made = []
    for option in options or ():
        word, colon, count = option.partition(":")
        if not word.strip() or (colon and not (count.isdecimal() and len(count) <= 9 and int(count))):
            raise InputError(f"--must-use takes WORD or WORD:COUNT, such as sea:3, and not {option!r}")
        form = {"any_form": True} if any_form else {}
        made.append({"word": word.strip(), "count": int(count) if colon else 1, **form})
    return made or None


def new_words_of(option: str | None) -> dict[str, Any] | None:
    """Parse ``--new-words`` (``N``, ``N:PER_100`` or ``N:PER_100:MAX``) into ``vocab.new_words``.

    Raises:
        InputError: It is no such thing.
    """
    if option is None:
        return None
    kinds: tuple[tuple[str, type[int] | type[float]], ...] = (("n_words", int), ("per_100", float), ("max", int))
    parts = option.split(":")
    try:
        made = {name: kind(part) for (name, kind), part in zip(kinds, parts, strict=False)}
    except ValueError:
        made = {}
    # NaN is not above 0 either.
    if not made or len(made) < len(parts) or not all(number > 0 for number in made.values()):
        raise InputError(
            f"--new-words takes N, N:PER_100 or N:PER_100:MAX, such as 3000:2:10, and not {option!r}"
        ) from None
    return made


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
