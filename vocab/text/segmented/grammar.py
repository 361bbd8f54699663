"""Write as EBNF the texts without spaces that can be cut into listed words in any way.

A rule for each state of the gap automaton, which leads to the next one. After a Latin letter a state is there again,
where no word begins with another.
"""

import string
from collections.abc import Sequence
from itertools import product

from vocab.text.ebnf import alternatives
from vocab.text.gaps.automaton import GapAutomaton

_Kind = tuple[bool, bool]
"""Whether a word begins with a Latin letter, and whether it ends with one."""


def segmented_grammar(gaps: GapAutomaton, words: Sequence[str]) -> str:
    """Return the grammar of the texts of these words; its start is ``root``."""
    of_kind: dict[_Kind, list[str]] = {}
    for word in words:
        of_kind.setdefault((word[0] in string.ascii_letters, word[-1] in string.ascii_letters), []).append(word)
    rules = {"root": _state(gaps.start, is_after_letter=False)}
    for number, is_after_letter in product(range(len(gaps.states)), (False, True)):
        if body := _body(number, gaps, of_kind, is_after_letter=is_after_letter):
            rules[_state(number, is_after_letter=is_after_letter)] = body
    rules |= {_words(kind): alternatives(texts) for kind, texts in of_kind.items()}
    return "".join(f"{name} ::= {body}\n" for name, body in rules.items())


def _body(number: int, gaps: GapAutomaton, of_kind: dict[_Kind, list[str]], *, is_after_letter: bool) -> str:
    """Return what may come from a state on; empty for a state after a letter that no word leads to."""
    state = gaps.states[number]
    if is_after_letter and number not in {context.after_word for context in gaps.contexts}:
        return ""
    characters: dict[int, list[str]] = {}
    for character, target in state.transitions.items():
        characters.setdefault(target, []).append(character)
    ways = [f"({alternatives(some)}) {_state(target, is_after_letter=False)}" for target, some in characters.items()]
    if state.word_may_start:
        after = gaps.contexts[state.context].after_word
        ways += [
            f"{_words(kind)} {_state(after, is_after_letter=kind[1])}"
            for kind in of_kind
            if not (is_after_letter and kind[0])
        ]
    # xgrammar has no empty alternative.
    return f"({' | '.join(ways)})?" if state.is_complete else " | ".join(ways)


def _state(number: int, *, is_after_letter: bool) -> str:
    return f"state-{number}{'-letter' if is_after_letter else ''}"


def _words(kind: _Kind) -> str:
    return "-".join(("word", *("letter" if is_letter else "other" for is_letter in kind)))
