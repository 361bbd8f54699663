"""What may stand before, between and after words, numbers and the English 's included, as an automaton over characters.

The rules form a nondeterministic automaton (a blank may be a space or the beginning of " - "; a dash may join or open;
"3." may go on as a number), made deterministic by subset construction. With ``punctuation: standard`` each state is
there once for each way in which pairs of quotation marks and brackets can be open, after a word as before it.

A text that another began is walked through with any words (``place_after``): only what it leaves counts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from vocab import marks
from vocab.arrays.interner import Interner
from vocab.lists.wordlists import unspaced_language
from vocab.options import ListOptions
from vocab.text.forms import ELISION_LANGUAGES, is_elision
from vocab.text.gaps.rules import (
    CLOSING,
    INSIDE_UNIT,
    OPENING,
    SENTENCE,
    START,
    GapPlace,
    GapRules,
    PairedMarks,
    UnpairedMarks,
    UnspacedRules,
)


@dataclass(frozen=True)
class GapState:
    """A state of the gap automaton.

    Attributes:
        transitions: The next state's index by character.
        is_complete: Whether a text may stop here.
        ends_unit: Whether a word, a number or a closing mark ends here, be it inside a sentence or an open pair.
        is_inside_unit: Whether something is begun here: a number that a digit must follow, an 's, an elision.
        word_may_start: Whether a word may start here.
        starts_sentence: Whether it would start a sentence.
        is_after_elision: Whether it stands directly after an elision, where only some words may start.
        context: Which pairs are open, an index of ``GapAutomaton.contexts``.
    """

    transitions: dict[str, int]
    is_complete: bool
    ends_unit: bool
    is_inside_unit: bool
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


def build_gap_automaton(options: ListOptions, language: str) -> GapAutomaton:
    """Build the gap automaton of options, its states always in the same order.

    ``options.case`` is ignored, and ``options.possessive`` is decided (``decide_possessive``).
    """
    shared = options.layout, options.numbers, options.end
    if (unspaced := unspaced_language(language)) is not None:
        own = marks.marks_of_unspaced(options.punctuation, unspaced)
        return _build(UnspacedRules(*shared, own), False, False)
    if options.punctuation == "standard":
        paired = PairedMarks(*shared, marks.marks_of_language(language))
        return _build(paired, bool(options.possessive), language in ELISION_LANGUAGES)
    spelled = marks.marks_of(options.punctuation, language)
    return _build(UnpairedMarks(*shared, spelled), bool(options.possessive), True)


@lru_cache(maxsize=64)
def _build(rules: GapRules, possessives: bool, elisions: bool) -> GapAutomaton:
    """Build a gap automaton: make the rules deterministic, with a state for each way that pairs are open.

    Words that an 's may follow, and elisions, are followed by states of their own where that is wanted.
    """
    kinds = "word", "possessable" if possessives else "word", "elision" if elisions else "word"
    (start, *ends), unpaired = _build_unpaired(rules, (START, *map(GapPlace, kinds)))
    # A state, and the marks that must still come, each the closing one of an open pair, the innermost last.
    numbers: Interner[tuple[int, str]] = Interner()
    first = numbers[start, ""]
    contexts: Interner[WordEnds] = Interner()
    states: list[GapState] = []
    for number, open_pairs in numbers.in_order:
        state = unpaired[number]
        transitions: dict[str, int] = {}
        for character, target in state.transitions.items():
            if character == OPENING:
                for pair in rules.pairs:
                    if pair[1] not in open_pairs and len(open_pairs) < marks.MAX_OPEN_PAIRS:
                        transitions[pair[0]] = numbers[target, open_pairs + pair[1]]
            elif character != CLOSING:
                transitions[character] = numbers[target, open_pairs]
            elif open_pairs:
                transitions[open_pairs[-1]] = numbers[target, open_pairs[:-1]]
        is_complete = state.is_complete and not open_pairs
        context = contexts[WordEnds(*(numbers[end, open_pairs] for end in ends))]
        states.append(replace(state, transitions=transitions, is_complete=is_complete, context=context))
    return GapAutomaton(tuple(states), first, tuple(contexts.in_order))


def _build_unpaired(rules: GapRules, starts: Iterable[GapPlace]) -> tuple[list[int], list[GapState]]:
    """Determinize the gap rules over characters, with pairs still unpaired.

    ``OPENING`` and ``CLOSING`` count as characters. Also return the numbers of the given places.
    """
    numbers: Interner[frozenset[GapPlace]] = Interner()
    numbered = [numbers[frozenset([place])] for place in starts]
    states: list[GapState] = []
    for places in numbers.in_order:
        reached: dict[str, set[GapPlace]] = {}
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
                ends_unit=any(map(rules.ends_unit, places)),
                is_inside_unit=all(place.kind in INSIDE_UNIT for place in places),
                word_may_start=bool(open_to_words),
                starts_sentence=any(place.seen == SENTENCE for place in open_to_words),
                is_after_elision=any(place.kind == "elision" for place in open_to_words),
                context=0,
            )
        )
    return numbered, states


def _parts_of(text: str, language: str) -> list[tuple[str, bool]]:
    """Split a text into marks and what stands between them; return each part with whether it is a mark."""
    known = {*marks.BLANK, *marks.LINE_BREAK, *marks.CLOSE_MARKS, *marks.OPEN_MARKS, *marks.unspaced_marks(language)}
    between = re.escape("".join(sorted(known)))
    return [(part, part in known) for part in re.findall(f"[^{between}]+|[{between}]", text)]


def place_after(text: str, gaps: GapAutomaton, language: str, start: int | None = None) -> int:
    """Return the gap state after a prefill, whose last word, if it ends with one, is whole.

    It begins at the gap state ``start``, by default that of a new text.

    The text is not held to the list: what a client wrote of an answer itself. Only what it leaves counts:
    whether a blank must come, whether a sentence starts, which pairs are open. Its words are any words, and marks
    that the list's texts do not have are passed over.
    """
    place = gaps.start if start is None else start
    for part, is_mark in _parts_of(text, language):
        is_mark |= part in marks.SPACED_DASHES and part in gaps.states[place].transitions
        place = _after_mark(part, place, gaps) if is_mark else _after_word(part, place, gaps, language)
    return place


def last_word(text: str, language: str) -> str:
    """Return the word with which a text ends, without signs before it; empty where the text ends otherwise.

    In a language without spaces it is all that stands after the last mark.
    """
    part, is_mark = (_parts_of(text, language) or [("", True)])[-1]
    begins = next((place for place, char in enumerate(part) if char.isalpha()), len(part))
    return "" if is_mark else part[begins:]


def _after_word(word: str, place: int, gaps: GapAutomaton, language: str) -> int:
    """Return the gap state after a word of any kind, listed or not."""
    if word in marks.SPACED_DASHES:
        # Of a list of points, or where the list's texts have no dashes.
        return place
    ends = gaps.contexts[gaps.states[place].context]
    is_elided = is_elision(word, language) and any(map(str.isalpha, word))
    return ends.after_elision if is_elided else ends.after_word


def _after_mark(mark: str, place: int, gaps: GapAutomaton) -> int:
    """Return the gap state after a mark; one that may not come here counts as after a word, or is passed over."""
    state = gaps.states[place]
    if mark in state.transitions:
        return state.transitions[mark]
    after_word = gaps.states[gaps.contexts[state.context].after_word].transitions
    if mark == marks.LINE_BREAK:
        # After any text a line may break; what begins is a sentence.
        for end in marks.SENTENCE_MARKS + marks.UNSPACED_SENTENCE_MARKS:
            if end in after_word and marks.LINE_BREAK in (after_end := gaps.states[after_word[end]].transitions):
                return after_end[marks.LINE_BREAK]
        return after_word.get(marks.BLANK, place)
    if mark == marks.BLANK:
        return place
    opened = gaps.states[after_word[marks.BLANK]].transitions if marks.BLANK in after_word else {}
    return after_word.get(mark, opened.get(mark, place))
