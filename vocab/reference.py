"""A request's constraint as a short text that travels to the engine in place of a grammar.

It is valid EBNF, so that it passes an engine's validation, and it matches the empty text only: an engine that does
not know it generates nothing instead of free text.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

_VERSION: Final = 1
_PATTERN: Final = re.compile(
    r'root ::= ""\n'
    r"# wordbound/(?P<version>\d+) list=(?P<digest>[0-9a-f]{64}) n=(?P<n_words>\d{1,19}) "
    r"max=(?P<max_tokens>\d{1,19}|-)\n"
)


@dataclass(frozen=True, slots=True)
class GrammarReference:
    """Names the automaton and what a request wants of it.

    Attributes:
        digest: The artefact.
        n_words: How many of its words count.
        max_tokens: The budget of tokens within which the text ends with a whole word; None where it is not known.
    """

    digest: str
    n_words: int
    max_tokens: int | None = None

    def to_ebnf(self) -> str:
        budget = "-" if self.max_tokens is None else self.max_tokens
        return f'root ::= ""\n# wordbound/{_VERSION} list={self.digest} n={self.n_words} max={budget}\n'

    @classmethod
    def parse(cls, grammar: str) -> Self | None:
        """The reference in a grammar, or None where the grammar is an ordinary one.

        Raises:
            ValueError: It is a reference of another version of this package.
        """
        match = _PATTERN.fullmatch(grammar)
        if match is None:
            return None
        if int(match["version"]) != _VERSION:
            raise ValueError(
                f"wordbound reference version {match['version']}, but this engine's plugin knows {_VERSION}"
            )
        budget = None if match["max_tokens"] == "-" else int(match["max_tokens"])
        return cls(match["digest"], int(match["n_words"]), budget)
