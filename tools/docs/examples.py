"""The blocks of code of a page, as its tests run them.

HTML comments before a block say how it is run:

- ``before``: shell commands that the reader need not see.
- ``exit``: the status that the commands end with, 0 without it.
- ``exact``: they print what the block shows, where ``…`` stands for anything.
- ``needs``: a package that is not the service's, with its version; it is run in an environment of its own.
- ``POST``: the route that a JSON body is for, chats without it.
- ``answer``: the members of what the program before it prints last.
- ``settings``, ``offline``: whose settings a YAML block has.
- ``run by``: the file of the tests that read the block here and run it, with what they need of their own.
- ``not run``: not at all, and why.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MARK: Final = re.compile(
    r"^<!-- (before|exact|exit|not run|run by|needs|POST|answer|settings|offline)\b:? ?(.*?) ?-->\n",
    re.MULTILINE | re.DOTALL,
)
_BLOCK: Final = re.compile(rf"((?:{_MARK.pattern})*)^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEREDOC: Final = re.compile(r"<<'?(\w+)'?")


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Attributes:
        page: The page's name.
        line: Where the block begins, from 1.
        language: As the fence names it.
        marks: What the comments before it say, by their first word.
    """

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a ``console`` block, and the output that the block shows."""

    text: str
    output: str


def blocks(page: str, markdown: str) -> Iterator[Block]:
    """Return the blocks of code of a page, in order; ``page`` is its name in messages."""
    for found in _BLOCK.finditer(markdown):
        marks = {mark[1]: mark[2] for mark in _MARK.finditer(found[1])}
        line = markdown.count("\n", 0, found.end(1)) + 1
        yield Block(page, line, found[4], found[5], marks)


def without_marks(markdown: str) -> str:
    """Return a page without the comments that only tests read."""
    return _MARK.sub("", markdown)


def commands(block: Block) -> list[Command]:
    """Return what is typed behind each ``$``, over as many lines as it takes, and the lines below it.

    Raises:
        ValueError: The block has no ``$``, or a command that does not end.
    """
    made: list[Command] = []
    lines = iter(block.text.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            if not made:
                raise ValueError(f"{block}: expected a line that begins with '$ '")
            made[-1] = Command(made[-1].text, f"{made[-1].output}{line}\n")
            continue
        typed = line.removeprefix("$ ")
        while not _is_whole(typed):
            following = next(lines, None)
            if following is None:
                raise ValueError(f"{block}: {typed!r} does not end")
            typed += f"\n{following}"
        made.append(Command(typed, ""))
    return made


def typed_text(block: Block) -> str:
    """Return all that is typed in a ``console`` block, without what it prints."""
    return "\n".join(command.text for command in commands(block))


def _is_whole(typed: str) -> bool:
    first, _, rest = typed.partition("\n")
    if heredoc := _HEREDOC.search(first):
        return rest.endswith(f"\n{heredoc[1]}")
    if typed.endswith("\\"):
        return False
    try:
        shlex.split(typed, comments=True)
    except ValueError:
        return False
    return True
