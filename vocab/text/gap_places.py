"""The places between words, and what all kinds of punctuation have in common there: numbers and the English 's.

A place is a state of a nondeterministic automaton over characters; ``vocab.text.gaps`` makes it deterministic.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from vocab import marks

NO_MARK, COLON, SENTENCE, END = 0, 1, 2, 3
"""What a run of closing marks has seen; ``END`` is a sentence mark with nothing but quotes and brackets behind it."""


class Place(NamedTuple):
    """A state of the nondeterministic automaton.

    Attributes:
        kind: What was read last, such as "space" or "close".
        run: How much of it.
        seen: What its run of marks has seen; before a word, ``SENTENCE`` where a sentence starts.
        open_pairs: The marks that must still come, each the closing one of an open pair, the innermost last.
    """

    kind: str
    run: int = 0
    seen: int = NO_MARK
    open_pairs: str = ""


START: Final = Place("start", seen=SENTENCE)


class GapRules(Protocol):
    """The places of one kind of punctuation. Equal rules are equal, so that automata are built once."""

    def __hash__(self) -> int: ...

    def alphabet(self) -> str:
        """Return the characters that may follow any place."""

    def successors(self, place: Place, character: str) -> Iterator[Place]:
        """Yield the places that ``character`` leads to."""

    def is_complete(self, place: Place) -> bool:
        """Whether a text may stop there."""


BEFORE_UNIT: Final = frozenset({"start", "start_blank", "space", "break", "open", "inverted"})
"""Where a word or a number may start."""

WORD_MAY_FOLLOW: Final = BEFORE_UNIT | {"elision"}


def possessive_successors(place: Place, character: str) -> Iterator[Place]:
    if place.kind == "possessable" and character in marks.APOSTROPHES:
        yield Place("apostrophe", open_pairs=place.open_pairs)
    if place.kind == "apostrophe" and character == marks.POSSESSIVE_LETTER:
        yield Place("word", open_pairs=place.open_pairs)


def number_successors(place: Place, character: str) -> Iterator[Place]:
    # ``run`` counts the characters of a number: behind a joint there must be room for a digit.
    kind, run, _, open_pairs = place
    if character in marks.DIGITS:
        if kind in BEFORE_UNIT:
            yield Place("digits", 1, open_pairs=open_pairs)
        elif kind in ("digits", "joint") and run < marks.MAX_NUMBER_CHARS:
            yield Place("digits", run + 1, open_pairs=open_pairs)
    elif kind == "digits" and character in marks.NUMBER_JOINTS and run < marks.MAX_NUMBER_CHARS - 1:
        yield Place("joint", run + 1, open_pairs=open_pairs)
    elif kind == "digits" and character == marks.PERCENT and run < marks.MAX_NUMBER_CHARS:
        yield Place("word", open_pairs=open_pairs)


def common_alphabet(numbers: bool) -> str:
    digits = marks.DIGITS + marks.NUMBER_JOINTS + marks.PERCENT if numbers else ""
    return digits + marks.BLANK + marks.LINE_BREAK + marks.APOSTROPHES + marks.POSSESSIVE_LETTER
