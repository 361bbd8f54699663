"""A request's constraint as a short text that travels to the engine in place of a grammar.

It is valid EBNF, so it passes an engine's validation, and matches only the empty text, so an engine without the plugin
generates nothing instead of free text.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Self

from vocab.matching import controls
from vocab.matching.controls import Controls
from vocab.matching.structure.schema import PreparedSchema
from vocab.options import ListOptions

MARK: Final = "# wordbound"
"""A comment in the first two lines of every grammar of ours, references and others."""

_VERSION: Final = 7
_ANY_VERSION: Final = re.compile(r'root ::= ""\n# wordbound/(?P<version>\d{1,9}) .*\n')
_PATTERN: Final = re.compile(
    r'root ::= ""\n'
    rf"# wordbound/{_VERSION} list=(?P<digest>[0-9a-f]{{64}}) changes=(?P<changes>[0-9a-f]{{64}}|-) "
    r"options=(?P<options>[a-z]+(?:\.[a-z01]+){4,5}) n=(?P<n_words>\d{1,19}) max=(?P<max_tokens>\d{1,19}|-) "
    r"at=(?P<start>-?\d{1,19}(?:\.-?\d{1,19})*|-) norepeat=(?P<no_repeat>\d{1,3}|-) "
    r"seen=(?P<seen>\d{1,10}(?:\.\d{1,10})*|-) min=(?P<min_tokens>\d{1,19}) behind=(?P<place>\d{1,9}|-) "
    rf"controls=(?P<controls>{controls.PATTERN}|-) schema=(?P<schema>-|\[.*\])\n"
)
_NOTHING: Final = "-"
_MARK_WITHIN: Final = 32


@dataclass(frozen=True, slots=True)
class GrammarReference:
    """A list and how a request uses it.

    Attributes:
        digest: The artefact of the list.
        options: What may stand between its words.
        n_words: How many of its words count.
        max_tokens: The budget within which the text ends with a whole word, counted from ``start``; None for none.
        changes: The artefact of the words added and left out; None where there are none.
        start: The state in which the text goes on; None where it begins.
        no_repeat: How many tokens in a row may not come twice; None for any number.
        seen: The tokens before ``start``, or the last of them, for ``no_repeat``.
        min_tokens: The text does not end before, counted from ``start``, unless nothing else may come.
        place: The state of the gap automaton after what the client wrote, where the text begins; None where nothing
            stands before it.
        controls: What its author asks beyond the list; None for nothing.
        schema: The answer is JSON of this schema, whose strings are texts of the list; None for one text.
    """

    digest: str
    options: ListOptions
    n_words: int
    max_tokens: int | None = None
    changes: str | None = None
    start: tuple[int, ...] | None = None
    no_repeat: int | None = None
    seen: tuple[int, ...] = ()
    min_tokens: int = 0
    place: int | None = None
    controls: Controls | None = None
    schema: PreparedSchema | None = None

    def to_ebnf(self) -> str:
        """Write the reference as EBNF: a rule for the empty text, and a comment with the fields."""
        values = {
            "list": self.digest,
            "changes": self.changes,
            "options": _write_options(self.options),
            "n": self.n_words,
            "max": self.max_tokens,
            "at": None if self.start is None else ".".join(map(str, self.start)),
            "norepeat": self.no_repeat,
            "seen": ".".join(map(str, self.seen)) or None,
            "min": self.min_tokens,
            "behind": self.place,
            "controls": None if self.controls is None else self.controls.to_text(),
            "schema": None if self.schema is None else self.schema.to_text(),
        }
        spelled = " ".join(f"{name}={_NOTHING if value is None else value}" for name, value in values.items())
        return f'root ::= ""\n# wordbound/{_VERSION} {spelled}\n'

    @classmethod
    def parse(cls, grammar: str) -> Self | None:
        """Parse the reference in a grammar; None for an ordinary grammar.

        Raises:
            ValueError: It is a reference of another version of this package.
        """
        match = _PATTERN.fullmatch(grammar)
        if match is not None:
            return cls(
                match["digest"],
                _read_options(match["options"]),
                int(match["n_words"]),
                _number(match["max_tokens"]),
                None if match["changes"] == _NOTHING else match["changes"],
                _numbers(match["start"]),
                _number(match["no_repeat"]),
                _numbers(match["seen"]) or (),
                int(match["min_tokens"]),
                _number(match["place"]),
                None if match["controls"] == _NOTHING else Controls.from_text(match["controls"]),
                None if match["schema"] == _NOTHING else PreparedSchema.from_text(match["schema"]),
            )
        other = _ANY_VERSION.fullmatch(grammar)
        if other is not None and int(other["version"]) != _VERSION:
            raise ValueError(
                f"wordbound reference version {other['version']}, but this engine's plugin knows {_VERSION}: "
                "install the same version of the package everywhere"
            )
        return None


_CLIENTS: Final = "# A grammar of the client's own, as it came.\n"
"""Before it, so that none is taken for one of ours; longer than ``_MARK_WITHIN``."""

_LARK: Final = re.compile(r'root ::= ""\n# llguidance/lark (?P<text>".*")\n')


def is_lark(grammar: str) -> bool:
    """Return whether a client's grammar is in Lark, and not in EBNF, whose rules have ``::=``."""
    return "::=" not in grammar


def write_client_grammar(grammar: str) -> str:
    """Return the text of a client's own grammar, in EBNF or Lark, that travels to the engine.

    Lark travels in a comment of an EBNF grammar of the empty text, as references do.
    """
    if is_lark(grammar):
        return f'root ::= ""\n# llguidance/lark {json.dumps(grammar)}\n'
    return _CLIENTS + grammar


def parse_lark(grammar: str) -> str | None:
    """Return the Lark grammar that ``write_client_grammar`` wrote; None for another grammar."""
    match = _LARK.fullmatch(grammar)
    return None if match is None else str(json.loads(match["text"]))


def is_ours(grammar: str) -> bool:
    """Return whether a grammar is one of this package's, of any kind and version."""
    return MARK in grammar[:_MARK_WITHIN]


def _number(text: str) -> int | None:
    return None if text == _NOTHING else int(text)


def _numbers(text: str) -> tuple[int, ...] | None:
    return None if text == _NOTHING else tuple(map(int, text.split(".")))


def _write_options(options: ListOptions) -> str:
    return ".".join(str(int(value)) if isinstance(value, bool) else value for value in options.as_dict().values())


def _read_options(text: str) -> ListOptions:
    values: list[Any] = text.split(".")
    # The last one, ``segmentation``, is written only where it is not the default.
    fields = dict(zip(ListOptions.__slots__, values, strict=False))
    return ListOptions(**{**fields, "numbers": fields["numbers"] == "1"})
