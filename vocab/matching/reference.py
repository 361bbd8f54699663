"""A request's constraint as a short text that travels to the engine in place of a grammar.

It is valid EBNF, so it passes an engine's validation, and matches only the empty text, so an engine without the plugin
generates nothing instead of free text.
"""

import json
import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from vocab.matching.controls import Controls
from vocab.matching.structure.schema import PreparedSchema
from vocab.options import ListOptions

MARK: Final = "# wordbound"
"""A comment in the first two lines of every reference."""

_VERSION: Final = 8
_PATTERN: Final = re.compile(r'root ::= ""\n# wordbound/(?P<version>\d{1,9}) (?P<fields>.*)\n')
_MARK_WITHIN: Final = 32

Token = Annotated[int, Field(ge=0, lt=2**31)]


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
    start: Annotated[tuple[int, ...], Field(min_length=1)] | None = None
    no_repeat: int | None = None
    seen: tuple[Token, ...] = ()
    min_tokens: int = 0
    place: int | None = None
    controls: Controls | None = None
    schema: PreparedSchema | None = None

    def to_ebnf(self) -> str:
        """Write the reference as EBNF: a rule for the empty text, and a comment with the fields in JSON."""
        fields = _FIELDS.dump_json(self, exclude_defaults=True, ensure_ascii=True).decode()
        return f'root ::= ""\n# wordbound/{_VERSION} {fields}\n'

    @classmethod
    def parse(cls, grammar: str) -> "GrammarReference | None":
        """Parse the reference in a grammar; None for an ordinary grammar.

        Raises:
            ValueError: It is a reference of another version of this package, or none that this one wrote.
        """
        match = _PATTERN.fullmatch(grammar)
        if match is None:
            return None
        if int(match["version"]) != _VERSION:
            raise ValueError(
                f"wordbound reference version {match['version']}, but this engine's plugin knows {_VERSION}: "
                "install the same version of the package everywhere"
            )
        try:
            return _FIELDS.validate_python(json.loads(match["fields"], parse_int=_int64))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "its fields"
            raise ValueError(f"this is no wordbound reference: {place}: {first['msg']}") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"this is no wordbound reference: {error}") from None


_FIELDS: Final = TypeAdapter(GrammarReference)


_COMPILED: Final = re.compile(r'root ::= ""\n# wordbound/xgrammar (?P<digest>[0-9a-f]{64})\n')


def write_compiled_grammar(digest: str) -> str:
    """Return the text that travels to the engine for xgrammar's grammar of a list: the digest of its artefact."""
    return f'root ::= ""\n# wordbound/xgrammar {digest}\n'


def parse_compiled_grammar(grammar: str) -> str | None:
    """Return the digest that ``write_compiled_grammar`` wrote; None for another grammar."""
    match = _COMPILED.fullmatch(grammar)
    return None if match is None else match["digest"]


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
    """Return whether a grammar is a reference, to a list or its grammar, of any version."""
    return MARK in grammar[:_MARK_WITHIN]


def _int64(digits: str) -> int:
    """Read an integer that compiled code can take."""
    if not -(2**63) <= (number := int(digits)) < 2**63:
        raise ValueError(f"{digits} is beyond 64 bits")
    return number
