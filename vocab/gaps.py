"""What may stand before, between and after words, the English 's among it, as a deterministic automaton.

Its letters are characters. It knows the marks and the layout; it knows nothing of words, bytes or tokens. The
definition is written down as a nondeterministic automaton (a blank may be a space or the beginning of " - "; a dash
may join or open) and made deterministic by subset construction.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from vocab import marks
from vocab.options import Layout

_NO_MARK, _COLON, _SENTENCE = 0, 1, 2


class _Place(NamedTuple):
    """One reading of where a text stands: the kind of place, a run length, and what its run of marks has seen."""

    kind: str
    run: int = 0
    seen: int = _NO_MARK


_START: Final = _Place("start", seen=_SENTENCE)
_WORD: Final = _Place("word")
_POSSESSABLE: Final = _Place("possessable")
_ELISION: Final = _Place("elision")

_Places = frozenset[_Place]


@dataclass(frozen=True)
class GapState:
    """A state of the gap automaton.

    Attributes:
        transitions: The next state's index for each character allowed.
        is_complete: Whether a text may end here.
        word_may_start: Whether a word may start here.
        starts_sentence: Whether such a word starts a sentence.
    """

    transitions: dict[str, int]
    is_complete: bool
    word_may_start: bool
    starts_sentence: bool


@dataclass(frozen=True)
class GapAutomaton:
    """The states between words, and indices into them.

    Attributes:
        states: All states.
        start: The state of the empty text.
        after_word: That after a word.
        after_possessable: That after a word which an 's may follow.
        after_elision: That after an entry which joins the next word.
    """

    states: tuple[GapState, ...]
    start: int
    after_word: int
    after_possessable: int
    after_elision: int


def build_gap_automaton(layout: Layout, *, sentences_matter: bool) -> GapAutomaton:
    """Builds the automaton between words.

    Args:
        layout: Where line breaks are allowed.
        sentences_matter: Whether some form may stand only at the start of a sentence. Where it is false the places
            within a sentence and at its start are the same states.
    """
    order: list[_Places] = [frozenset({place}) for place in (_START, _WORD, _POSSESSABLE, _ELISION)]
    index = {places: i for i, places in enumerate(order)}
    states: list[GapState] = []
    while len(states) < len(order):
        places = order[len(states)]
        transitions: dict[str, int] = {}
        for character in _ALPHABET:
            reached = frozenset(
                target if sentences_matter else _forget_sentence(target)
                for place in places
                for target in _successors(place, character, layout)
            )
            if not reached:
                continue
            if reached not in index:
                index[reached] = len(order)
                order.append(reached)
            transitions[character] = index[reached]
        open_to_words = [place for place in places if place.kind in _WORD_MAY_FOLLOW]
        states.append(
            GapState(
                transitions,
                is_complete=any(place.kind in ("word", "possessable", "close") for place in places),
                word_may_start=bool(open_to_words),
                starts_sentence=any(place.seen == _SENTENCE for place in open_to_words),
            )
        )
    return GapAutomaton(tuple(states), start=0, after_word=1, after_possessable=2, after_elision=3)


_ALPHABET: Final = sorted(
    {
        *(marks.BLANK + marks.LINE_BREAK + marks.CLOSE_MARKS + marks.OPEN_MARKS),
        *(marks.JOINING_DASH + marks.SPACED_DASHES + marks.APOSTROPHES + marks.POSSESSIVE_LETTER),
    }
)
_WORD_MAY_FOLLOW: Final = frozenset({"start", "start_blank", "space", "break", "open", "elision"})


def _successors(place: _Place, character: str, layout: Layout) -> list[_Place]:
    kind, run, seen = place
    reached: list[_Place] = []
    if kind == "start" and character == marks.BLANK:
        reached.append(_Place("start_blank", seen=seen))
    if kind == "possessable" and character in marks.APOSTROPHES:
        reached.append(_Place("apostrophe"))
    if kind == "apostrophe" and character == marks.POSSESSIVE_LETTER:
        reached.append(_WORD)
    if kind in ("word", "possessable", "close"):
        if character in marks.CLOSE_MARKS and run < marks.MAX_CLOSE_RUN:
            reached.append(_Place("close", run + 1, max(seen, _weight(character))))
        if character == marks.BLANK:
            reached.append(_Place("space", seen=_SENTENCE if seen == _SENTENCE else _NO_MARK))
            reached.append(_Place("dash_blank"))
        if character == marks.JOINING_DASH:
            reached.append(_Place("space"))
        if character == marks.LINE_BREAK and (seen != _NO_MARK or layout == "lines"):
            reached.append(_Place("break", 1, _SENTENCE))
    if kind == "break" and character == marks.LINE_BREAK and run < marks.MAX_LINE_BREAKS:
        reached.append(_Place("break", run + 1, seen))
    if kind == "dash_blank" and character in marks.SPACED_DASHES:
        reached.append(_Place("dash"))
    if kind == "dash" and character == marks.BLANK:
        reached.append(_Place("space"))
    if kind in ("start", "start_blank", "space", "break", "open") and character in marks.OPEN_MARKS:
        opened = run if kind == "open" else 0
        if opened < marks.MAX_OPEN_RUN:
            reached.append(_Place("open", opened + 1, seen))
    return reached


def _weight(mark: str) -> int:
    if mark in marks.SENTENCE_MARKS:
        return _SENTENCE
    return _COLON if mark == marks.COLON else _NO_MARK


def _forget_sentence(place: _Place) -> _Place:
    """The same place where sentence starts are of no consequence; in a run of closing marks they allow line breaks."""
    if place.kind == "close":
        return place._replace(seen=min(place.seen, _COLON))
    return place._replace(seen=_NO_MARK)
