"""``wordbound chat``: talk with a running service in the words of a list."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from wordbound.cli.asking import (
    ExcludeWordsOption,
    ExtraWordsOption,
    LangOption,
    LevelOption,
    ListOption,
    MaxTokensOption,
    NamedWords,
    NamesOption,
    QualityOption,
    UrlOption,
    WordsOption,
    drop_none,
    search_of,
)
from wordbound.cli.commands import CommandError, InputError
from wordbound.cli.service import DEFAULT_URL, Service
from wordbound.cli.terminal import Waiting, note
from wordbound.cli.write import CHAT, summary_of

if TYPE_CHECKING:
    from wordbound.cli.bands import Painter

HELP: Final = "/words N: from now on in N words; /new: begin anew; /quit: end; Ctrl-C stops an answer"
PROMPT: Final = "> "


def chat(
    lang: LangOption = None,
    words: WordsOption = None,
    level: LevelOption = None,
    list_file: ListOption = None,
    names: NamesOption = None,
    extra_words: ExtraWordsOption = None,
    exclude_words: ExcludeWordsOption = None,
    max_tokens: MaxTokensOption = None,
    quality: QualityOption = "fast",
    plain: Annotated[
        bool, typer.Option("--plain", help="Neither colours nor marks that show how frequent words are.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Talk with a running service in the words of a list.

    On a terminal each word shows by its colour and a mark after it how frequent it is. Lines of standard input are
    what is said; /words N changes how many words are used, /new begins anew, /quit ends.
    """
    named = NamedWords(lang, words, list_file, names, extra_words, exclude_words, level)
    is_terminal = sys.stdin.isatty()
    with Service(url) as service:
        body = drop_none({"max_tokens": max_tokens})
        talk = Talk(service, named, body, search_of(quality), shows_ranks=not plain and sys.stdout.isatty())
        if is_terminal:
            note(HELP)
            with suppress(ImportError):
                # Gives `input` the arrow keys and the lines before.
                import readline  # noqa: F401
        while (line := _read(is_terminal)) is not None:
            if not line.strip():
                continue
            try:
                if talk.hear(line.strip()):
                    return
            except CommandError as error:
                if not is_terminal:
                    raise
                note(str(error))


@dataclass
class Talk:
    """What was said so far, and how the next answer is asked for.

    ``body`` has members of each request; ``search`` is ``vocab.search``.
    """

    service: Service
    named: NamedWords
    body: Mapping[str, Any]
    search: Mapping[str, int] | None = None
    shows_ranks: bool = False
    said: list[dict[str, str]] = field(default_factory=list)
    painter: "Painter | None" = None

    def __post_init__(self) -> None:
        self._take(self.named)

    def hear(self, line: str) -> bool:
        """Answer a line, or do what it commands; return whether it ends the talk.

        Raises:
            InputError: There is no such command, or the service says that the request is wrong.
            ServiceError: It cannot be reached, or refuses. What was said before stays in both cases.
        """
        if not line.startswith("/"):
            self._answer(line)
            return False
        command, _, rest = line.partition(" ")
        if command == "/words":
            if not (rest.strip().isdecimal() and int(rest)):
                raise InputError("/words takes a number, such as /words 2000")
            self._take(replace(self.named, words=int(rest), level=None))
            note(f"from now on in {int(rest):,} words")
        elif command == "/new":
            self.said.clear()
            note("nothing was said so far")
        elif command != "/quit":
            raise InputError(f"there is no {command}; {HELP}")
        return command == "/quit"

    def _take(self, named: NamedWords) -> None:
        self._vocab = named.members() | drop_none({"search": self.search})
        self.named = named
        if self.shows_ranks:
            self._load_ranks()

    def _load_ranks(self) -> None:
        from vocab.errors import VocabularyError
        from wordbound.cli.bands import Painter, legend

        added = self._vocab.get("extra_words", [])
        try:
            is_first = self.painter is None
            self.painter = Painter.of(self.named.lang, self.named.list_file, self.named.words, added)
            if is_first:
                note(f"ranks: {', '.join(legend())}")
        except VocabularyError:
            self.shows_ranks = False
            name = self.named.lang or self.named.level
            note(f"no ranks are shown, for this machine has no list {name!r}, only the service")

    def _answer(self, line: str) -> None:
        messages = [*self.said, {"role": "user", "content": line}]
        text = ""
        block: Mapping[str, Any] = {}
        reason = None
        show = _Output(self.painter if self.shows_ranks else None)
        try:
            with Waiting("thinking") as waiting:
                for chunk in self.service.events(CHAT, {**self.body, "messages": messages, "vocab": self._vocab}):
                    block = chunk.get("vocab") or block
                    for choice in chunk.get("choices", ()):
                        reason = choice.get("finish_reason") or reason
                        if piece := choice.get("delta", {}).get("content") or "":
                            waiting.stop()
                            text += piece
                            show.piece(piece)
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
        finally:
            show.end()
        # An answer that was stopped is a part of the talk as far as it came.
        if text:
            self.said = [*messages, {"role": "assistant", "content": text}]
        for message in summary_of(block, reason):
            note(message)


class _Output:
    """Shows the pieces of an answer, painted where there is a painter."""

    def __init__(self, painter: "Painter | None") -> None:
        self._painter = painter
        self._console: Any = None
        if painter is not None:
            from rich.console import Console

            self._console = Console(highlight=False)

    def piece(self, piece: str) -> None:
        if self._painter is None:
            print(piece, end="", flush=True)
        else:
            self._console.print(self._painter.paint(piece), end="", soft_wrap=True)

    def end(self) -> None:
        if self._painter is not None:
            self._console.print(self._painter.rest(), end="", soft_wrap=True)
        print(flush=True)


def _read(is_terminal: bool) -> str | None:
    """Return the next line; None at the end."""
    try:
        return input(PROMPT) if is_terminal else input()
    except EOFError:
        if is_terminal:
            print()
        return None
    except UnicodeDecodeError:
        raise InputError("standard input: not a text in UTF-8") from None
