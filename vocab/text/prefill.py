"""Where the text of a list goes on after a text that is not held to it: what a client wrote of an answer itself.

Only what such a text leaves behind counts: whether a blank must come, whether a sentence starts, which pairs are open.
Its words are any words, and marks that the list's texts do not have are passed over.
"""

import re
from typing import Final

from vocab.marks import BLANK, CLOSE_MARKS, LINE_BREAK, OPEN_MARKS, SENTENCE_MARKS, SPACED_DASHES
from vocab.text.elisions import is_elision
from vocab.text.gaps import GapAutomaton

_MARKS: Final = frozenset(BLANK + LINE_BREAK + CLOSE_MARKS + OPEN_MARKS)
_BETWEEN: Final = re.escape("".join(sorted(_MARKS)))
_PARTS: Final = re.compile(f"[^{_BETWEEN}]+|[{_BETWEEN}]")


def place_after(text: str, gaps: GapAutomaton, language: str) -> int:
    """Return the state of the gap automaton after a text whose last word, if it ends with one, is whole."""
    place = gaps.start
    for part in _PARTS.findall(text):
        is_dash = part in SPACED_DASHES and part in gaps.states[place].transitions
        is_mark = is_dash or part in _MARKS
        place = _after_mark(part, place, gaps) if is_mark else _after_word(part, place, gaps, language)
    return place


def last_word(text: str) -> str:
    """Return the word with which a text ends, without signs before it; empty where the text ends otherwise."""
    part: str = (_PARTS.findall(text) or [""])[-1]
    begins = next((place for place, char in enumerate(part) if char.isalpha()), len(part))
    return "" if part in _MARKS else part[begins:]


def _after_word(word: str, place: int, gaps: GapAutomaton, language: str) -> int:
    if word in SPACED_DASHES:
        # Of a list of points, or where the list's texts have no dashes.
        return place
    ends = gaps.contexts[gaps.states[place].context]
    is_elided = is_elision(word, language) and any(map(str.isalpha, word))
    return ends.after_elision if is_elided else ends.after_word


def _after_mark(mark: str, place: int, gaps: GapAutomaton) -> int:
    state = gaps.states[place]
    if mark in state.transitions:
        return state.transitions[mark]
    after_word = gaps.states[gaps.contexts[state.context].after_word].transitions
    if mark == LINE_BREAK:
        # After any text a line may break; what begins is a sentence.
        for end in SENTENCE_MARKS:
            if end in after_word and LINE_BREAK in (after_end := gaps.states[after_word[end]].transitions):
                return after_end[LINE_BREAK]
        return after_word.get(BLANK, place)
    if mark == BLANK:
        return place
    opened = gaps.states[after_word[BLANK]].transitions
    return after_word.get(mark, opened.get(mark, place))
