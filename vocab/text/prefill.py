"""What a text leaves that another began: its last word, and the gap state after it."""

import re
from typing import Final

from vocab.marks import (
    BLANK,
    CLOSE_MARKS,
    LINE_BREAK,
    OPEN_MARKS,
    SENTENCE_MARKS,
    SPACED_DASHES,
    UNSPACED_SENTENCE_MARKS,
    unspaced_marks,
)
from vocab.text.forms import is_elision
from vocab.text.gaps.automaton import GapAutomaton

_MARKS: Final = frozenset(BLANK + LINE_BREAK + CLOSE_MARKS + OPEN_MARKS)


def _parts_of(text: str, language: str) -> list[tuple[str, bool]]:
    """Split a text into marks and what stands between them; return each part with whether it is a mark."""
    own = unspaced_marks(language)
    between = re.escape("".join(sorted(_MARKS | own)))
    parts = re.findall(f"[^{between}]+|[{between}]", text)
    return [(part, part in _MARKS or part in own) for part in parts]


def place_after(text: str, gaps: GapAutomaton, language: str, start: int | None = None) -> int:
    """Return the gap state after a prefill, whose last word, if it ends with one, is whole.

    It begins at the gap state ``start``, by default that of a new text.

    The text is not held to the list: what a client wrote of an answer itself. Only what it leaves counts:
    whether a blank must come, whether a sentence starts, which pairs are open. Its words are any words, and marks
    that the list's texts do not have are passed over.
    """
    place = gaps.start if start is None else start
    for part, is_mark in _parts_of(text, language):
        is_mark |= part in SPACED_DASHES and part in gaps.states[place].transitions
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
    if word in SPACED_DASHES:
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
    if mark == LINE_BREAK:
        # After any text a line may break; what begins is a sentence.
        for end in SENTENCE_MARKS + UNSPACED_SENTENCE_MARKS:
            if end in after_word and LINE_BREAK in (after_end := gaps.states[after_word[end]].transitions):
                return after_end[LINE_BREAK]
        return after_word.get(BLANK, place)
    if mark == BLANK:
        return place
    opened = gaps.states[after_word[BLANK]].transitions if BLANK in after_word else {}
    return after_word.get(mark, opened.get(mark, place))
