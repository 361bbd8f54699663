"""``wordbound chat``: talk with a running service in the words of a list.

How frequent each word of an answer is shows by a colour, and by a mark after it.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from vocab.errors import VocabularyError
from vocab.lists.wordlists import NO_LANGUAGE, load_word_list, read_list_file
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from wordbound.cli import InputError, explain
from wordbound.cli.asking import (
    MaxTokensOption,
    QualityOption,
    UrlOption,
    connect,
    note,
    search_for_quality,
    waiting,
)
from wordbound.cli.options import NamedList, ServiceList
from wordbound.cli.write import StreamedAnswer, summary_of
from wordbound.client import DEFAULT_URL, Client
from wordbound.routes import drop_none

if TYPE_CHECKING:
    from rich.text import Text

    from vocab.text.checker import TextChecker

HELP: Final = "/words N: from now on in N words; /new: begin anew; /quit: end; Ctrl-C stops an answer"


def chat(
    named: ServiceList,
    max_tokens: MaxTokensOption = None,
    quality: QualityOption = "fast",
    plain: Annotated[
        bool, typer.Option("--plain", help="Neither colours nor marks that show how frequent words are.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """On a terminal each word shows by its colour and a mark after it how frequent it is. Lines of standard input are
    what is said; /words N changes how many words are used, /new begins anew, /quit ends.
    """
    is_terminal = sys.stdin.isatty()
    with connect(url) as service:
        body = drop_none({"max_tokens": max_tokens})
        talk = Talk(service, named, body, search_for_quality(quality), shows_ranks=not plain and sys.stdout.isatty())
        if is_terminal:
            note(HELP)
            with suppress(ImportError):
                # Gives `input` the arrow keys and the lines before.
                import readline  # noqa: F401
        while (line := _read(is_terminal)) is not None:
            if not line.strip():
                continue
            try:
                if talk.handle_line(line.strip()):
                    return
            except Exception as error:
                explained = explain(error)
                if not is_terminal or explained is None:
                    raise
                note(explained[0])


@dataclass
class Talk:
    """A conversation of ``wordbound chat``: its messages, and the options of the next request.

    ``body`` has members of each request; ``search`` is ``vocab.search``.
    """

    service: Client
    named: NamedList
    body: Mapping[str, Any]
    search: Mapping[str, int] | None = None
    shows_ranks: bool = False
    said: list[dict[str, str]] = field(default_factory=list)
    painter: "RankPainter | None" = None

    def __post_init__(self) -> None:
        self._set_word_options(self.named)
        if self.painter is not None:
            note(f"ranks: {', '.join(legend())}")

    def handle_line(self, line: str) -> bool:
        """Send a line to the service and show its answer, or run a /command; return whether it was /quit.

        Raises:
            InputError: There is no such command.
            ServiceError: The service cannot be reached, or refuses. What was said before stays in both cases.
        """
        if not line.startswith("/"):
            self._answer(line)
            return False
        command, _, rest = line.partition(" ")
        if command == "/words":
            if not (rest.strip().isdecimal() and len(rest) <= 9 and int(rest)):
                raise InputError("/words takes a number, such as /words 2000")
            self._set_word_options(replace(self.named, words=int(rest), level=None))
            note(f"from now on in {int(rest):,} words")
        elif command == "/new":
            self.said.clear()
            note("nothing was said so far")
        elif command != "/quit":
            raise InputError(f"there is no {command}; {HELP}")
        return command == "/quit"

    def _set_word_options(self, named: NamedList) -> None:
        self._vocab = drop_none({**named.to_vocab(), "search": self.search})
        self.named = named
        if not self.shows_ranks:
            return
        try:
            self.painter = RankPainter(_checker(named, self._vocab.get("extra_words", ())))
        except VocabularyError:
            self.painter, self.shows_ranks = None, False
            note(f"no ranks are shown, for this machine has no list {named.lang or named.level!r}, only the service")

    def _answer(self, line: str) -> None:
        """Show the service's streamed answer to a message, and add both to the conversation."""
        messages = [*self.said, {"role": "user", "content": line}]
        answer = StreamedAnswer()
        show, end = _printer(self.painter)
        try:
            with waiting("thinking") as spinner:
                for piece in answer.read(self.service, {**self.body, "messages": messages, "vocab": self._vocab}):
                    spinner.stop()
                    show(piece)
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
        finally:
            end()
            print(flush=True)
        # An answer that was stopped is a part of the talk as far as it came.
        if answer.text:
            self.said = [*messages, {"role": "assistant", "content": answer.text}]
        for message in summary_of(answer.block, answer.reason):
            note(message)


def _printer(painter: "RankPainter | None") -> tuple[Callable[[str], None], Callable[[], None]]:
    """Return what prints a piece of an answer, coloured by rank where there is a painter, and what prints its rest."""
    if painter is None:
        return partial(print, end="", flush=True), lambda: None
    from rich.console import Console

    show = partial(Console(highlight=False).print, end="", soft_wrap=True)
    return (lambda piece: show(painter.paint(piece))), (lambda: show(painter.paint("", is_last=True)))


def _read(is_terminal: bool) -> str | None:
    try:
        return input("> ") if is_terminal else input()
    except EOFError:
        if is_terminal:
            print()
        return None
    except UnicodeDecodeError:
        raise InputError("standard input: not a text in UTF-8") from None


class Band(NamedTuple):
    """Ranks up to a highest one (None: all others), with the mark and colour of their words."""

    max_rank: int | None
    mark: str
    style: str


BANDS: Final = (
    Band(500, "", ""),
    Band(1_000, "¹", "cyan"),
    Band(2_000, "²", "green"),
    Band(5_000, "³", "yellow"),
    Band(None, "⁴", "magenta"),
)
"""The steps of graded readers' first levels, of which each asks for about twice the words of the one before."""

ADDED: Final = Band(None, "⁺", "underline")
"""Names and words that were added to the list."""


def _checker(named: NamedList, added: Sequence[str]) -> "TextChecker":
    """Create a checker by the list of this machine; VocabularyError where it has none of that name."""
    from vocab.text.checker import TextChecker

    lang = named.lang or NO_LANGUAGE
    word_list = load_word_list(lang, None) if named.list_file is None else read_list_file(named.list_file, lang)
    changes = ListChanges(tuple(added), ())
    options = ListOptions(numbers=True, possessive=named.possessive)
    return TextChecker(word_list, options, named.words or word_list.num_ranks, changes)


class RankPainter:
    """Colours and marks the words of a streamed answer by their ranks."""

    def __init__(self, checker: "TextChecker") -> None:
        self._checker = checker
        self._held = ""

    def paint(self, piece: str, *, is_last: bool = False) -> "Text":
        """Add a piece of the answer; return the whole words that can be shown so far, coloured."""
        from rich.text import Text

        text = self._held + piece
        # Of the last word the next piece may bring more.
        end = len(text) if is_last else max(text.rfind(" "), text.rfind("\n")) + 1
        text, self._held = text[:end], text[end:]
        painted, done = Text(), 0
        for word in self._checker.check(text).words:
            band = _band(word.rank, word.reason)
            painted.append(text[done : word.start])
            painted.append(text[word.start : word.end] + band.mark, band.style)
            done = word.end
        painted.append(text[done:])
        return painted


def legend() -> Iterator[str]:
    """Yield, for each mark, the ranks that it stands for."""
    least = 1
    for band in BANDS:
        most = f"{least:,} to {band.max_rank:,}" if band.max_rank else f"from {least:,}"
        yield f"{band.mark} {most}" if band.mark else f"no mark {most}"
        least = (band.max_rank or 0) + 1
    yield f"{ADDED.mark} added"


def _band(rank: int | None, reason: Any) -> Band:
    if reason == "added":
        return ADDED
    if reason == "number":
        return BANDS[0]
    return next(band for band in BANDS if band.max_rank is None or (rank is not None and rank <= band.max_rank))
