"""What may stand before, between and after words, numbers and the English 's included, as an automaton over characters.

The rules form a nondeterministic automaton (a blank may be a space or the beginning of " - "; a dash may join or open;
"3." may go on as a number), made deterministic by subset construction. With ``punctuation: standard`` it also knows
which pairs of quotation marks and brackets are open, behind a word as before it.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from vocab.language_marks import marks_of_language
from vocab.marks import marks_of
from vocab.options import ListOptions
from vocab.text.elisions import ELISION_LANGUAGES
from vocab.text.forms import POSSESSIVE_LANGUAGES
from vocab.text.free_marks import FreeMarks
from vocab.text.gap_places import SENTENCE, START, WORD_MAY_FOLLOW, GapRules, Place
from vocab.text.paired_marks import PairedMarks


@dataclass(frozen=True)
class GapState:
    """A state of the gap automaton.

    Attributes:
        transitions: The next state's index by character.
        is_complete: Whether a text may stop here.
        word_may_start: Whether a word may start here.
        starts_sentence: Whether it would start a sentence.
        is_behind_elision: Whether it stands directly behind an elision, where only some words may start.
        context: Which pairs are open, an index of ``GapAutomaton.contexts``.
    """

    transitions: dict[str, int]
    is_complete: bool
    word_may_start: bool
    starts_sentence: bool
    is_behind_elision: bool
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
    """Build the automaton between words, always with the same states in the same order; ``options.case`` is ignored."""
    if options.punctuation == "standard":
        paired = PairedMarks(marks_of_language(language), options.layout, options.numbers, options.end)
        return _build(paired, language in POSSESSIVE_LANGUAGES, language in ELISION_LANGUAGES)
    spelled = marks_of(options.punctuation, language)
    return _build(FreeMarks(spelled, options.layout, options.numbers, options.end), True, True)


_Places = frozenset[Place]


@lru_cache(maxsize=64)
def _build(rules: GapRules, possessives: bool, elisions: bool) -> GapAutomaton:
    """Build the automaton, with states of their own after words with an 's and after elisions where they are wanted."""
    order: list[_Places] = []
    index: dict[_Places, int] = {}
    states: list[GapState] = []
    contexts: dict[str, tuple[int, WordEnds]] = {}
    alphabet = sorted(set(rules.alphabet()))

    def index_of(*places: Place) -> int:
        reached = frozenset(places)
        if reached not in index:
            index[reached] = len(order)
            order.append(reached)
        return index[reached]

    def context_of(open_pairs: str) -> int:
        if open_pairs not in contexts:
            after_word = index_of(Place("word", open_pairs=open_pairs))
            ends = WordEnds(
                after_word,
                index_of(Place("possessable", open_pairs=open_pairs)) if possessives else after_word,
                index_of(Place("elision", open_pairs=open_pairs)) if elisions else after_word,
            )
            contexts[open_pairs] = (len(contexts), ends)
        return contexts[open_pairs][0]

    start = index_of(START)
    while len(states) < len(order):
        places = order[len(states)]
        # Whatever way a text is read to its last mark, the same pairs are open.
        [open_pairs] = {place.open_pairs for place in places}
        context = context_of(open_pairs)
        transitions: dict[str, int] = {}
        for character in alphabet:
            reached = {target for place in places for target in rules.successors(place, character)}
            if reached:
                transitions[character] = index_of(*reached)
        open_to_words = [place for place in places if place.kind in WORD_MAY_FOLLOW]
        states.append(
            GapState(
                transitions,
                is_complete=any(map(rules.is_complete, places)),
                word_may_start=bool(open_to_words),
                starts_sentence=any(place.seen == SENTENCE for place in open_to_words),
                is_behind_elision=any(place.kind == "elision" for place in open_to_words),
                context=context,
            )
        )
    return GapAutomaton(tuple(states), start, tuple(ends for _, ends in contexts.values()))
