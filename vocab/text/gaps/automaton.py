"""What may stand before, between and after words, numbers and the English 's included, as an automaton over characters.

The rules form a nondeterministic automaton (a blank may be a space or the beginning of " - "; a dash may join or open;
"3." may go on as a number), made deterministic by subset construction. With ``punctuation: standard`` each state is
there once for each way in which pairs of quotation marks and brackets can be open, after a word as before it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from vocab import marks
from vocab.arrays.numbers import Numbers
from vocab.lists.wordlists import unspaced_language
from vocab.marks import (
    MAX_OPEN_PAIRS,
    LanguageMarks,
    Marks,
    marks_of,
    marks_of_language,
    marks_of_unspaced,
)
from vocab.options import End, Layout, ListOptions
from vocab.text.forms import ELISION_LANGUAGES, POSSESSIVE_LANGUAGES
from vocab.text.gaps.rules import (
    CLOSING,
    COLON,
    END,
    NO_MARK,
    OPENING,
    SENTENCE,
    START,
    GapRules,
    Place,
    Step,
)
from vocab.text.gaps.unspaced import UnspacedRules

BEFORE_UNIT: Final = frozenset({"start", "start_blank", "space", "break", "open", "inverted"})
"""Where a word or a number may start."""

WORD_MAY_FOLLOW: Final = BEFORE_UNIT | {"elision"}


def possessive_steps(place: Place) -> Iterator[Step]:
    """Yield the steps of the English 's from a place: its apostrophe, then its letter."""
    if place.kind == "possessable":
        yield marks.APOSTROPHES, Place("apostrophe")
    if place.kind == "apostrophe":
        yield marks.POSSESSIVE_LETTER, Place("word")


def number_steps(place: Place) -> Iterator[Step]:
    """Yield the steps of a number from a place: digits, joints and the percent sign."""
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


_AFTER_FREE: Final = frozenset({"word", "possessable", "digits", "close"})


class UnpairedMarks(NamedTuple):
    """``punctuation`` ``full``, ``basic`` and ``none``: marks in short runs, unpaired."""

    marks: Marks
    layout: Layout
    numbers: bool
    end: End

    @property
    def pairs(self) -> tuple[str, ...]:
        return ()

    def is_complete(self, place: Place) -> bool:
        if self.end == "sentence":
            return place.kind == "close" and place.seen == END
        return place.kind in _AFTER_FREE

    def is_before_word(self, place: Place) -> bool:
        return place.kind in WORD_MAY_FOLLOW

    def steps(self, place: Place) -> Iterator[Step]:
        """Yield the steps from a place, as ``GapRules.steps``."""
        kind, run, seen = place
        yield from possessive_steps(place)
        if kind == "start":
            yield marks.BLANK, Place("start_blank", seen=seen)
        if kind in _AFTER_FREE:
            yield from self._gap_steps(place)
        if kind == "break" and run < marks.MAX_LINE_BREAKS:
            yield marks.LINE_BREAK, Place("break", run + 1, seen)
        if kind == "dash_blank":
            yield self.marks.spaced_dashes, Place("dash")
        if kind == "dash":
            yield marks.BLANK, Place("space")
        opened = run if kind == "open" else 0
        if kind in BEFORE_UNIT and opened < marks.MAX_OPEN_RUN:
            yield self.marks.open, Place("open", opened + 1, seen)
        if self.numbers:
            yield from number_steps(place)

    def _gap_steps(self, place: Place) -> Iterator[Step]:
        """Yield the characters that may follow a word or closing mark, and where to."""
        run, seen = (place.run, place.seen) if place.kind == "close" else (0, NO_MARK)
        if run < marks.MAX_CLOSE_RUN:
            for mark in self.marks.close:
                yield mark, Place("close", run + 1, self._seen_with(mark, seen))
        yield marks.BLANK, Place("space", seen=SENTENCE if seen >= SENTENCE else NO_MARK)
        if self.marks.spaced_dashes:
            yield marks.BLANK, Place("dash_blank")
        yield self.marks.joining_dashes, Place("space")
        if seen != NO_MARK or self.layout == "lines":
            yield marks.LINE_BREAK, Place("break", 1, SENTENCE)

    def _seen_with(self, mark: str, seen: int) -> int:
        """Return what a run of marks has seen with one more; ``END`` only where a text's end depends on it."""
        if mark in self.marks.sentence:
            return END if self.end == "sentence" else SENTENCE
        if mark in marks.CLOSING_QUOTES:
            return seen
        return max(min(seen, SENTENCE), COLON if mark == marks.COLON else NO_MARK)


_BEFORE_MARKS: Final = frozenset({"word", "possessable", "digits"})
"""Closing marks of pairs may have come; they change nothing but what is open."""

_ENDED: Final = frozenset({"stop", "question", "exclamation", "ended", "closed_end"})
"""After a sentence mark: the first three may be the first of several; after the last, a pair has closed."""

_AFTER_UNIT: Final = _BEFORE_MARKS | _ENDED | {"pause", "colon"}

_STOP: Final = "."
_EXCLAMATION: Final = "!"


class PairedMarks(NamedTuple):
    """``punctuation: standard``: few marks, and quotation marks and brackets in pairs.

    One character never stands for two marks, even one that opens and closes: it opens before a word, and closes after
    one.
    """

    marks: LanguageMarks
    layout: Layout
    numbers: bool
    end: End

    @property
    def pairs(self) -> tuple[str, ...]:
        return self.marks.pairs

    def is_complete(self, place: Place) -> bool:
        return place.kind in (_ENDED if self.end == "sentence" else _AFTER_UNIT)

    def is_before_word(self, place: Place) -> bool:
        return place.kind in WORD_MAY_FOLLOW

    def steps(self, place: Place) -> Iterator[Step]:
        """Yield the steps from a place, as ``GapRules.steps``."""
        yield from possessive_steps(place)
        if place.kind in BEFORE_UNIT:
            yield from self._opening(place)
        if place.kind in _AFTER_UNIT:
            yield from self._closing(place.kind)
            yield from self._gap(place.kind)
        yield from self._inside_gap(place)
        if self.numbers:
            yield from number_steps(place)

    def _opening(self, place: Place) -> Iterator[Step]:
        """Yield the steps before a word: a mark that opens a pair, and inverted marks."""
        kind, run, seen = place
        yield (OPENING,), Place("space", 0, seen)
        for number, mark in enumerate(self.marks.inverted):
            # ``run`` is a set: the two may stand together, either first.
            others, own = run if kind == "inverted" else 0, 1 << number
            if not others & own:
                yield mark, Place("inverted", others | own, seen)

    def _closing(self, kind: str) -> Iterator[Step]:
        """Yield the steps to a mark after a word or mark: one that closes a pair, a sentence mark, a pause."""
        yield (CLOSING,), Place("word" if kind in _BEFORE_MARKS else "closed_end" if kind in _ENDED else kind)
        if kind in _BEFORE_MARKS:
            yield from self._first_mark()
        elif kind == "closed_end":
            yield self.marks.pauses.replace(marks.COLON, ""), Place("pause")
        elif kind == "stop":
            yield _STOP, Place("dots")
        elif kind == "question":
            yield _EXCLAMATION, Place("ended")
        elif kind == "exclamation":
            yield self.marks.questions, Place("ended")

    def _first_mark(self) -> Iterator[Step]:
        """Yield the steps to the first sentence mark or pause after a word."""
        for mark in self.marks.sentence:
            kind = {_STOP: "stop", _EXCLAMATION: "exclamation"}.get(mark, "ended")
            yield mark, Place("question" if mark in self.marks.questions else kind)
        for mark in self.marks.pauses:
            # Only a line break tells the colon from the others.
            is_colon = mark == marks.COLON and self.layout == "prose"
            yield mark, Place("colon" if is_colon else "pause")

    def _gap(self, kind: str) -> Iterator[Step]:
        """Yield the steps that begin a gap after a word or mark: blank, dash or line break."""
        yield marks.BLANK, Place("space", seen=SENTENCE if kind in _ENDED else NO_MARK)
        yield marks.BLANK, Place("dash_blank")
        yield self.marks.joining_dashes, Place("space")
        if kind in _ENDED or kind == "colon" or self.layout == "lines":
            yield marks.LINE_BREAK, Place("break", 1, SENTENCE)

    def _inside_gap(self, place: Place) -> Iterator[Step]:
        """Yield the steps within a gap: after its blank, dash or line break, and further dots."""
        kind, run, seen = place
        if kind == "start":
            yield marks.BLANK, Place("space", seen=seen)
        if kind == "dots":
            yield _STOP, Place("ended")
        if kind == "dash_blank":
            yield self.marks.spaced_dashes, Place("dash")
        if kind == "dash":
            yield marks.BLANK, Place("space")
        if kind == "break":
            # After the last line break it is as after a blank.
            is_last = run + 1 == marks.MAX_LINE_BREAKS
            yield marks.LINE_BREAK, Place("space", 0, seen) if is_last else Place("break", run + 1, seen)


@dataclass(frozen=True)
class GapState:
    """A state of the gap automaton.

    Attributes:
        transitions: The next state's index by character.
        is_complete: Whether a text may stop here.
        word_may_start: Whether a word may start here.
        starts_sentence: Whether it would start a sentence.
        is_after_elision: Whether it stands directly after an elision, where only some words may start.
        context: Which pairs are open, an index of ``GapAutomaton.contexts``.
    """

    transitions: dict[str, int]
    is_complete: bool
    word_may_start: bool
    starts_sentence: bool
    is_after_elision: bool
    context: int


class WordEnds(NamedTuple):
    """Indices of the states after a word, after one that an 's may follow, and after an entry that joins the next."""

    after_word: int
    after_possessable: int
    after_elision: int


@dataclass(frozen=True)
class GapAutomaton:
    """The states between words, the one at the start of a text, and those that words lead to, by what is open.

    Nothing is open in the first context; without paired marks it is the only one.
    """

    states: tuple[GapState, ...]
    start: int
    contexts: tuple[WordEnds, ...]

    @property
    def after_word(self) -> int:
        return self.contexts[0].after_word

    @property
    def after_possessable(self) -> int:
        return self.contexts[0].after_possessable

    @property
    def after_elision(self) -> int:
        return self.contexts[0].after_elision


def build_gap_automaton(options: ListOptions, language: str) -> GapAutomaton:
    """Build the gap automaton of options, its states always in the same order; ``options.case`` is ignored."""
    if (unspaced := unspaced_language(language)) is not None:
        own = marks_of_unspaced(options.punctuation, unspaced)
        return _build(UnspacedRules(own, options.layout, options.numbers, options.end), False, False)
    if options.punctuation == "standard":
        paired = PairedMarks(marks_of_language(language), options.layout, options.numbers, options.end)
        return _build(paired, language in POSSESSIVE_LANGUAGES, language in ELISION_LANGUAGES)
    spelled = marks_of(options.punctuation, language)
    return _build(UnpairedMarks(spelled, options.layout, options.numbers, options.end), True, True)


@lru_cache(maxsize=64)
def _build(rules: GapRules, possessives: bool, elisions: bool) -> GapAutomaton:
    """Build a gap automaton: make the rules deterministic, with a state for each way that pairs are open.

    Words that an 's may follow, and elisions, are followed by states of their own where that is wanted.
    """
    kinds = "word", "possessable" if possessives else "word", "elision" if elisions else "word"
    (start, *ends), unpaired = _build_unpaired(rules, (START, *map(Place, kinds)))
    # A state, and the marks that must still come, each the closing one of an open pair, the innermost last.
    numbers: Numbers[tuple[int, str]] = Numbers()
    first = numbers[start, ""]
    contexts: Numbers[WordEnds] = Numbers()
    states: list[GapState] = []
    for number, open_pairs in numbers.in_order:
        state = unpaired[number]
        transitions: dict[str, int] = {}
        for character, target in state.transitions.items():
            if character == OPENING:
                for pair in rules.pairs:
                    if pair[1] not in open_pairs and len(open_pairs) < MAX_OPEN_PAIRS:
                        transitions[pair[0]] = numbers[target, open_pairs + pair[1]]
            elif character != CLOSING:
                transitions[character] = numbers[target, open_pairs]
            elif open_pairs:
                transitions[open_pairs[-1]] = numbers[target, open_pairs[:-1]]
        is_complete = state.is_complete and not open_pairs
        context = contexts[WordEnds(*(numbers[end, open_pairs] for end in ends))]
        states.append(replace(state, transitions=transitions, is_complete=is_complete, context=context))
    return GapAutomaton(tuple(states), first, tuple(contexts.in_order))


def _build_unpaired(rules: GapRules, starts: Iterable[Place]) -> tuple[list[int], list[GapState]]:
    """Determinize the gap rules over characters, with pairs still unpaired.

    ``OPENING`` and ``CLOSING`` count as characters. Also return the numbers of the given places.
    """
    numbers: Numbers[frozenset[Place]] = Numbers()
    numbered = [numbers[frozenset([place])] for place in starts]
    states: list[GapState] = []
    for places in numbers.in_order:
        reached: dict[str, set[Place]] = {}
        for place in places:
            for characters, target in rules.steps(place):
                for character in characters:
                    reached.setdefault(character, set()).add(target)
        open_to_words = [place for place in places if rules.is_before_word(place)]
        states.append(
            GapState(
                # In an order of its own, so that states have the same numbers in every process.
                {character: numbers[frozenset(reached[character])] for character in sorted(reached)},
                is_complete=any(map(rules.is_complete, places)),
                word_may_start=bool(open_to_words),
                starts_sentence=any(place.seen == SENTENCE for place in open_to_words),
                is_after_elision=any(place.kind == "elision" for place in open_to_words),
                context=0,
            )
        )
    return numbered, states
