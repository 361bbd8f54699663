"""A request's constraint as a short text that travels to the engine in place of a grammar.

It is valid EBNF, so it passes an engine's validation, and matches only the empty text, so an engine without the plugin
generates nothing instead of free text.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

MARK: Final = "# wordbound"
"""A comment in the first two lines of every grammar of ours, references and others."""

_VERSION: Final = 3
_ANY_VERSION: Final = re.compile(r'root ::= ""\n# wordbound/(?P<version>\d{1,9}) .{0,100000}\n')
_PATTERN: Final = re.compile(
    r'root ::= ""\n'
    rf"# wordbound/{_VERSION} list=(?P<digest>[0-9a-f]{{64}}) without=(?P<without>[0-9a-f]{{64}}|-) "
    r"extra=(?P<extra>[0-9a-f]{64}|-) n=(?P<n_words>\d{1,19}) max=(?P<max_tokens>\d{1,19}|-) "
    r"at=(?P<start>\d{1,40}|-) norepeat=(?P<no_repeat>\d{1,3}|-) seen=(?P<seen>\d{1,10}(?:\.\d{1,10})*|-)\n"
)
_NOTHING: Final = "-"
_MARK_WITHIN: Final = 32


@dataclass(frozen=True, slots=True)
class GrammarReference:
    """An automaton and how a request uses it.

    Attributes:
        digest: The artefact of the list.
        n_words: How many of its words count.
        max_tokens: The budget within which the text ends with a whole word, counted from ``start``; None for none.
        without: The artefact of the words left out.
        extra: The artefact of the words added, an automaton of their own.
        start: The state in which the text goes on; None where it begins.
        no_repeat: How many tokens in a row may not come twice; None for any number.
        seen: The tokens before ``start``, or the last of them, for ``no_repeat``.
    """

    digest: str
    n_words: int
    max_tokens: int | None = None
    without: str | None = None
    extra: str | None = None
    start: int | None = None
    no_repeat: int | None = None
    seen: tuple[int, ...] = ()

    def to_ebnf(self) -> str:
        seen = ".".join(map(str, self.seen))
        return (
            f'root ::= ""\n# wordbound/{_VERSION} list={self.digest} without={self.without or _NOTHING} '
            f"extra={self.extra or _NOTHING} n={self.n_words} max={_shown(self.max_tokens)} "
            f"at={_shown(self.start)} norepeat={_shown(self.no_repeat)} seen={seen or _NOTHING}\n"
        )

    @classmethod
    def parse(cls, grammar: str) -> Self | None:
        """Return the reference in a grammar, or None for an ordinary grammar.

        Raises:
            ValueError: It is a reference of another version of this package.
        """
        match = _PATTERN.fullmatch(grammar)
        if match is not None:
            seen = match["seen"]
            return cls(
                match["digest"],
                int(match["n_words"]),
                _number(match["max_tokens"]),
                _text(match["without"]),
                _text(match["extra"]),
                _number(match["start"]),
                _number(match["no_repeat"]),
                () if seen == _NOTHING else tuple(map(int, seen.split("."))),
            )
        other = _ANY_VERSION.fullmatch(grammar)
        if other is not None and int(other["version"]) != _VERSION:
            raise ValueError(
                f"wordbound reference version {other['version']}, but this engine's plugin knows {_VERSION}: "
                "install the same version of the package everywhere"
            )
        return None


def is_ours(grammar: str) -> bool:
    """Whether a grammar is one of ours, of any kind and version."""
    return MARK in grammar[:_MARK_WITHIN]


def _shown(number: int | None) -> str:
    return _NOTHING if number is None else str(number)


def _number(text: str) -> int | None:
    return None if text == _NOTHING else int(text)


def _text(text: str) -> str | None:
    return None if text == _NOTHING else text
