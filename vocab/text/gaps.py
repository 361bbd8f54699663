"""What may stand before, between and after words, numbers and the English 's included, as an automaton over characters.

The rules form a nondeterministic automaton (a blank may be a space or the beginning of " - "; a dash may join or open;
"3." may go on as a number), made deterministic by subset construction.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from vocab import marks
from vocab.marks import Marks, marks_of
from vocab.options import End, Layout, ListOptions

_NO_MARK, _COLON, _SENTENCE, _END = 0, 1, 2, 3
"""What a run of closing marks has seen; ``_END`` is a sentence mark with nothing but quotes and brackets behind it."""


class _Place(NamedTuple):
    """A state of the nondeterministic automaton: its kind, a run length, and what its run of marks has seen."""

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
    """A state of the gap automaton; ``transitions`` has the next state's index by character."""

    transitions: dict[str, int]
    is_complete: bool
    word_may_start: bool
    starts_sentence: bool


@dataclass(frozen=True)
class GapAutomaton:
    """The states between words, and indices of four: at the start of a text, after a word, after a word that an 's may
    follow, and after an entry that joins the next word."""

    states: tuple[GapState, ...]
    start: int
    after_word: int
    after_possessable: int
    after_elision: int


def build_gap_automaton(options: ListOptions, language: str) -> GapAutomaton:
    """Build the automaton between words, always with the same states in the same order; ``options.case`` is ignored."""
    return _build(_Rules(marks_of(options.punctuation, language), options.layout, options.numbers, options.end))


class _Rules(NamedTuple):
    """The options that matter between words."""

    marks: Marks
    layout: Layout
    numbers: bool
    end: End

    def is_complete(self, place: _Place) -> bool:
        if self.end == "sentence":
            return place.kind == "close" and place.seen == _END
        return place.kind in _AFTER_UNIT

    def alphabet(self) -> list[str]:
        own = "".join(self.marks) + (marks.DIGITS + marks.NUMBER_JOINTS + marks.PERCENT if self.numbers else "")
        return sorted({*own, *marks.BLANK, *marks.LINE_BREAK, *marks.APOSTROPHES, *marks.POSSESSIVE_LETTER})


@lru_cache(maxsize=64)
def _build(rules: _Rules) -> GapAutomaton:
    order: list[_Places] = [frozenset({place}) for place in (_START, _WORD, _POSSESSABLE, _ELISION)]
    index = {places: i for i, places in enumerate(order)}
    states: list[GapState] = []
    alphabet = rules.alphabet()
    while len(states) < len(order):
        places = order[len(states)]
        transitions: dict[str, int] = {}
        for character in alphabet:
            reached = frozenset(target for place in places for target in _successors(place, character, rules))
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
                is_complete=any(map(rules.is_complete, places)),
                word_may_start=bool(open_to_words),
                starts_sentence=any(place.seen == _SENTENCE for place in open_to_words),
            )
        )
    return GapAutomaton(tuple(states), start=0, after_word=1, after_possessable=2, after_elision=3)


_BEFORE_UNIT: Final = frozenset({"start", "start_blank", "space", "break", "open"})
_WORD_MAY_FOLLOW: Final = _BEFORE_UNIT | {"elision"}
_AFTER_UNIT: Final = frozenset({"word", "possessable", "digits", "close"})


def _successors(place: _Place, character: str, rules: _Rules) -> Iterator[_Place]:
    kind, run, seen = place
    if kind == "start" and character == marks.BLANK:
        yield _Place("start_blank", seen=seen)
    if kind == "possessable" and character in marks.APOSTROPHES:
        yield _Place("apostrophe")
    if kind == "apostrophe" and character == marks.POSSESSIVE_LETTER:
        yield _WORD
    if kind in _AFTER_UNIT:
        yield from _gap_successors(place, character, rules)
    if kind == "break" and character == marks.LINE_BREAK and run < marks.MAX_LINE_BREAKS:
        yield _Place("break", run + 1, seen)
    if kind == "dash_blank" and character in rules.marks.spaced_dashes:
        yield _Place("dash")
    if kind == "dash" and character == marks.BLANK:
        yield _Place("space")
    if kind in _BEFORE_UNIT and character in rules.marks.open:
        opened = run if kind == "open" else 0
        if opened < marks.MAX_OPEN_RUN:
            yield _Place("open", opened + 1, seen)
    if rules.numbers:
        yield from _number_successors(place, character)


def _gap_successors(place: _Place, character: str, rules: _Rules) -> Iterator[_Place]:
    run, seen = (place.run, place.seen) if place.kind == "close" else (0, _NO_MARK)
    starts_sentence = seen >= _SENTENCE
    if character in rules.marks.close and run < marks.MAX_CLOSE_RUN:
        yield _Place("close", run + 1, _seen_with(character, seen, rules))
    if character == marks.BLANK:
        yield _Place("space", seen=_SENTENCE if starts_sentence else _NO_MARK)
        if rules.marks.spaced_dashes:
            yield _Place("dash_blank")
    if character in rules.marks.joining_dashes:
        yield _Place("space")
    if character == marks.LINE_BREAK and (seen != _NO_MARK or rules.layout == "lines"):
        yield _Place("break", 1, _SENTENCE)


def _seen_with(mark: str, seen: int, rules: _Rules) -> int:
    """Return what a run of closing marks has seen with one more; ``_END`` only where a text's end depends on it."""
    if mark in rules.marks.sentence:
        return _END if rules.end == "sentence" else _SENTENCE
    if mark in marks.CLOSING_QUOTES:
        return seen
    return max(min(seen, _SENTENCE), _COLON if mark == marks.COLON else _NO_MARK)


def _number_successors(place: _Place, character: str) -> Iterator[_Place]:
    # ``run`` counts the characters of a number: behind a joint there must be room for a digit.
    kind, run, _ = place
    if character in marks.DIGITS:
        if kind in _BEFORE_UNIT:
            yield _Place("digits", 1)
        elif kind in ("digits", "joint") and run < marks.MAX_NUMBER_CHARS:
            yield _Place("digits", run + 1)
    elif kind == "digits" and character in marks.NUMBER_JOINTS and run < marks.MAX_NUMBER_CHARS - 1:
        yield _Place("joint", run + 1)
    elif kind == "digits" and character == marks.PERCENT and run < marks.MAX_NUMBER_CHARS:
        yield _WORD
