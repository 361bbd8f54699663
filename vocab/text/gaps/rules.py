"""What the rules of gaps are made of: places, and the steps between them by characters."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

NO_MARK, COLON, SENTENCE, END = 0, 1, 2, 3
"""What a run of closing marks has seen; ``END`` is a sentence mark with nothing but quotes and brackets after it."""

OPENING, CLOSING = "opening", "closing"
"""Stand for a mark that opens a pair, and for the one that must close the innermost."""


class Place(NamedTuple):
    """A state of the gap rules, before they are made deterministic.

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
    """The rules of gaps for one kind of punctuation. Equal rules are equal, so that automata are built once."""

    def __hash__(self) -> int: ...

    @property
    def pairs(self) -> tuple[str, ...]:
        """Return the marks that open and close, two characters each."""

    def steps(self, place: Place) -> Iterator[Step]:
        """Yield the steps from a place: the characters that may follow, and the place after each."""

    def is_complete(self, place: Place) -> bool:
        """Return whether a text may stop at a place, if nothing is open."""

    def is_before_word(self, place: Place) -> bool:
        """Return whether a word may begin at a place."""
