"""The places between words, and what all kinds of punctuation have in common there: numbers and the English 's.

A place is a state of a nondeterministic automaton over characters; ``vocab.text.gaps`` makes it deterministic, and
keeps the marks that must still come to close what is open.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

from vocab import marks

NO_MARK, COLON, SENTENCE, END = 0, 1, 2, 3
"""What a run of closing marks has seen; ``END`` is a sentence mark with nothing but quotes and brackets after it."""

OPENING, CLOSING = "opening", "closing"
"""Stand for a mark that opens a pair, and for the one that must close the innermost."""


class Place(NamedTuple):
    """A state of the nondeterministic automaton.

    Attributes:
        kind: What was read last, such as "space" or "close".
        run: How much of it.
        seen: What its run of marks has seen; before a word, ``SENTENCE`` where a sentence starts.
    """

    kind: str
    run: int = 0
    seen: int = NO_MARK


START: Final = Place("start", seen=SENTENCE)

Step: TypeAlias = tuple[Iterable[str], Place]
"""Characters, ``OPENING`` or ``CLOSING``, and the place that each of them leads to."""


class GapRules(Protocol):
    """The places of one kind of punctuation. Equal rules are equal, so that automata are built once."""

    def __hash__(self) -> int: ...

    @property
    def pairs(self) -> tuple[str, ...]:
        """The marks that open and close, two characters each."""

    def steps(self, place: Place) -> Iterator[Step]:
        """Yield what may follow a place."""

    def is_complete(self, place: Place) -> bool:
        """Whether a text may stop there, if nothing is open."""


BEFORE_UNIT: Final = frozenset({"start", "start_blank", "space", "break", "open", "inverted"})
"""Where a word or a number may start."""

WORD_MAY_FOLLOW: Final = BEFORE_UNIT | {"elision"}


def possessive_steps(place: Place) -> Iterator[Step]:
    if place.kind == "possessable":
        yield marks.APOSTROPHES, Place("apostrophe")
    if place.kind == "apostrophe":
        yield marks.POSSESSIVE_LETTER, Place("word")


def number_steps(place: Place) -> Iterator[Step]:
    # ``run`` counts the characters of a number: after a joint there must be room for a digit.
    kind, run, _ = place
    if kind in BEFORE_UNIT:
        yield marks.DIGITS, Place("digits", 1)
    if kind in ("digits", "joint") and run < marks.MAX_NUMBER_CHARS:
        yield marks.DIGITS, Place("digits", run + 1)
    if kind == "digits" and run < marks.MAX_NUMBER_CHARS - 1:
        yield marks.NUMBER_JOINTS, Place("joint", run + 1)
    if kind == "digits" and run < marks.MAX_NUMBER_CHARS:
        yield marks.PERCENT, Place("word")
