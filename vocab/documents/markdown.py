"""Markdown without its markup: blanks take its place, so that lines, columns and offsets are those of the file."""

import re
from collections.abc import Iterator
from typing import Final

_FENCE: Final = re.compile(r"[ \t>]*(?:[-*+][ \t]+)?(`{3,}|~{3,})")
_FRONT_MATTER: Final = {"---": ("---", "..."), "+++": ("+++",)}
"""The first line of a file's own data, and its last."""

# Each ends at a bound, or at the next mark of its kind, so that no text takes more than one pass.
_MARKUP: Final = re.compile(
    r"""
    <!--.{0,10000}?-->                                # a comment
    | (?<!`)(?P<ticks>`{1,8})(?!`)[^\n]{1,300}?(?<!`)(?P=ticks)(?!`)   # code
    | </?[A-Za-z][^<>]*>                              # a tag, or <https://…>
    | (?<=\])\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)    # where a link leads
    | (?<=\])\[[^\]\n]*\]                             # the name of where a link leads
    | ^[ ]{0,3}\[(?!\^)[^\]\n]+\]:[^\n]*              # what such a name means
    | \b(?:https?://|www\.)[^\s<>)\]]+
    | &(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#x[0-9A-Fa-f]{1,6});
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_VISIBLE: Final = re.compile(r"[^\n\r]")


def without_markup(text: str) -> str:
    """Return a Markdown text with blanks in place of front matter, code, tags, comments, and where links lead."""
    prose = "".join(_without_blocks(text.splitlines(keepends=True)))
    return _MARKUP.sub(lambda match: _blank(match[0]), prose)


def _without_blocks(lines: list[str]) -> Iterator[str]:
    """Yield the lines, those of front matter and fenced code as blanks."""
    closing: tuple[str, ...] = ()
    if lines and (closing := _FRONT_MATTER.get(lines[0].rstrip(), ())):
        # Without an end it is a line across the page.
        closing = closing if any(line.rstrip() in closing for line in lines[1:]) else ()
    is_front = bool(closing)
    fence = ""
    for number, line in enumerate(lines):
        is_blank = is_front or bool(fence)
        if is_front:
            is_front = number == 0 or line.rstrip() not in closing
        elif match := _FENCE.match(line):
            if not fence:
                # "```a```" is code within a line.
                fence = match[1] if "`" not in line[match.end() :] else ""
            elif match[1].startswith(fence) and not line[match.end() :].strip():
                fence = ""
            is_blank = is_blank or bool(fence)
        yield _blank(line) if is_blank else line


def _blank(text: str) -> str:
    """Return a text with a blank in place of each character but line ends."""
    return _VISIBLE.sub(" ", text)
