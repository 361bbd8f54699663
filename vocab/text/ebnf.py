"""Parts of a grammar in EBNF, and the same grammar for Lark."""

import re
from collections.abc import Iterable
from typing import Final

_ESCAPES_IN_STRING: Final = str.maketrans({char: "\\" + char for char in '\\"'} | {"\n": "\\n"})
_ESCAPES_IN_CLASS: Final = str.maketrans({char: "\\" + char for char in "\\]^-"})

_QUOTED: Final = re.compile(r'("(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\])')
"""A string or a class of characters; splitting by it leaves names and operators between them."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_TEXT: Final = "TEXT"
"""Stands for the EBNF's ``root``."""


def ebnf_string(text: str) -> str:
    """Quote a text as a string of EBNF."""
    return f'"{text.translate(_ESCAPES_IN_STRING)}"'


def one_of(characters: str) -> str:
    """Write characters as an EBNF class."""
    return f"[{characters.translate(_ESCAPES_IN_CLASS)}]"


def alternatives(texts: Iterable[str]) -> str:
    """Write texts as EBNF alternatives."""
    return " | ".join(map(ebnf_string, texts))


def ebnf_to_lark(ebnf: str) -> str:
    """Rewrite a grammar of ``write_ebnf`` in Lark's syntax."""
    rules = (line.split(" ::= ", 1) for line in ebnf.removesuffix("\n").split("\n"))
    return f"start: {_TEXT}\n" + "".join(f"{_terminal(name)}: {_body(body)}\n" for name, body in rules)


def _terminal(name: str) -> str:
    """Return the name in Lark of an EBNF rule."""
    return _TEXT if name == "root" else name.upper().replace("-", "_")


def _body(body: str) -> str:
    """Rewrite the body of an EBNF rule in Lark's syntax."""
    parts = _QUOTED.split(body)
    parts[::2] = [_NAME.sub(lambda name: _terminal(name[0]), part) for part in parts[::2]]
    parts[1::2] = [part if part[0] == '"' else _regex(part) for part in parts[1::2]]
    return "".join(parts)


def _regex(characters: str) -> str:
    """Rewrite an EBNF class of characters as a regular expression of Lark."""
    # In a regular expression a bracket inside a class is escaped.
    return "/[" + characters[1:-1].replace("[", "\\[") + "]/"
