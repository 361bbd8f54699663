"""Write strings and classes of characters in EBNF."""

from collections.abc import Iterable
from typing import Final

_ESCAPES_IN_STRING: Final = str.maketrans({char: "\\" + char for char in '\\"'} | {"\n": "\\n"})
_ESCAPES_IN_CLASS: Final = str.maketrans({char: "\\" + char for char in "\\]^-"})


def string(text: str) -> str:
    return f'"{text.translate(_ESCAPES_IN_STRING)}"'


def one_of(characters: str) -> str:
    return f"[{characters.translate(_ESCAPES_IN_CLASS)}]"


def alternatives(texts: Iterable[str]) -> str:
    return " | ".join(map(string, texts))
