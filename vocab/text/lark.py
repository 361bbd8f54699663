"""A list's EBNF as a grammar for llguidance: one terminal of its Lark dialect.

llguidance reads terminals greedily and does not go back: as rules, the "in" of "in the" would be lost as the beginning
of a listed "in front of", and "3." as that of a number. As one terminal the whole text is one regular expression, and
exact. Knows the grammars of ``vocab.text.ebnf`` and no others.
"""

import re
from typing import Final

_QUOTED: Final = re.compile(r'("(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\])')
"""A string or a class of characters; splitting by it leaves names and operators between them."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_TEXT: Final = "TEXT"
"""Stands for the EBNF's ``root``."""


def ebnf_to_lark(ebnf: str) -> str:
    """Rewrites a grammar that ``write_ebnf`` has written."""
    rules = (line.split(" ::= ", 1) for line in ebnf.removesuffix("\n").split("\n"))
    return f"start: {_TEXT}\n" + "".join(f"{_terminal(name)}: {_body(body)}\n" for name, body in rules)


def _terminal(name: str) -> str:
    return _TEXT if name == "root" else name.upper().replace("-", "_")


def _body(body: str) -> str:
    parts = _QUOTED.split(body)
    parts[::2] = [_NAME.sub(lambda name: _terminal(name[0]), part) for part in parts[::2]]
    parts[1::2] = [part if part[0] == '"' else _regex(part) for part in parts[1::2]]
    return "".join(parts)


def _regex(characters: str) -> str:
    """A class of characters as a regular expression, where a bracket inside is escaped."""
    return "/[" + characters[1:-1].replace("[", "\\[") + "]/"
