"""Parts of a grammar in EBNF: the rules of what stands around words and numbers; and the same grammar for Lark.

With ``punctuation: standard`` pairs are nested rules, where ``vocab.text.gaps`` has a string of open pairs; they share
no code, and no rule is recursive, so that the whole can also be read as one regular expression. A *phrase* is a word
or a number with the marks and the gap after it, and may open pairs; a *text* inside of them is a row of phrases of
which the last closes them. What may stand after a closing mark is written where it is known what stood before it, so a
parser that follows all alternatives at once has few: of 1,000 English words 400 outside of pairs (``full``: 200),
1,800 inside of two. With rules by how a text in a pair ends there were 60,000 inside of one.

xgrammar has no rule and no alternative that matches nothing: an empty rule is left out and never named.
"""

import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from typing import Final

from vocab import marks
from vocab.marks import LanguageMarks, Marks
from vocab.options import ListOptions
from vocab.text.gaps.automaton import GapAutomaton

_ESCAPES_IN_STRING: Final = str.maketrans({char: "\\" + char for char in '\\"'} | {"\n": "\\n"})
_ESCAPES_IN_CLASS: Final = str.maketrans({char: "\\" + char for char in "\\]^-"})


def ebnf_string(text: str) -> str:
    """Quote a text as a string of EBNF."""
    return f'"{text.translate(_ESCAPES_IN_STRING)}"'


def one_of(characters: str) -> str:
    """Write characters as an EBNF class."""
    return f"[{characters.translate(_ESCAPES_IN_CLASS)}]"


def alternatives(texts: Iterable[str]) -> str:
    """Write texts as EBNF alternatives."""
    return " | ".join(map(ebnf_string, texts))


_BREAKS: Final = f"{ebnf_string(marks.LINE_BREAK)}{{1,{marks.MAX_LINE_BREAKS}}}"


def _dashes(own: LanguageMarks | Marks) -> list[str]:
    return [*own.joining_dashes, *(f"{marks.BLANK}{dash}{marks.BLANK}" for dash in own.spaced_dashes)]


def unpaired_text_rules(spelled: Marks, options: ListOptions) -> dict[str, str]:
    """Write the rules of marks in runs, blanks and breaks; the first is ``root``.

    ``start-gap`` leads to a sentence's start, ``gap`` does not.
    """
    blank = ebnf_string(marks.BLANK)
    closing = "close " if spelled.close else ""
    before_break = _retain(spelled.close, marks.SENTENCE_MARKS + marks.COLON)
    not_sentence = _without(spelled.close, spelled.sentence)

    start_gaps = []
    if spelled.sentence:
        start_gaps.append(f"sentence-marks {blank}")
    if options.layout == "lines":
        start_gaps.append(f"{closing}{_BREAKS}")
    elif before_break:
        start_gaps.append(f"break-marks {_BREAKS}")
    gaps = [f"{_repeat_up_to(not_sentence, marks.MAX_CLOSE_RUN)} {blank}" if not_sentence else blank]
    if dashes := _dashes(spelled):
        gaps.append(f"{closing}({alternatives(dashes)})")

    # Only quotes and brackets stand behind the last sentence mark of a text.
    quotes = _retain(spelled.close, marks.CLOSING_QUOTES)
    next_unit = "(start-gap start-unit | gap unit)*" if start_gaps else "(gap unit)*"
    end = "end-marks" if options.end == "sentence" else closing
    break_marks = _run_with(_without(spelled.close, before_break), before_break, spelled.close)
    return {
        "root": f"{blank}? start-unit {next_unit} {end}".rstrip(),
        "start-gap": " | ".join(start_gaps),
        "gap": " | ".join(gaps),
        "close": _repeat_up_to(spelled.close, marks.MAX_CLOSE_RUN) if spelled.close else "",
        "sentence-marks": _run_with(not_sentence, spelled.sentence, spelled.close),
        "break-marks": break_marks if options.layout == "prose" else "",
        "end-marks": _run_with(spelled.close, spelled.sentence, quotes) if options.end == "sentence" else "",
        "open": _repeat_up_to(spelled.open, marks.MAX_OPEN_RUN) if spelled.open else "",
    }


def _run_with(before: str, needed: str, after: str) -> str:
    """Write a run of closing marks that has one of ``needed``, by its position; what stands on either side is given."""
    # Without marks before it, it is the first.
    positions = range(marks.MAX_CLOSE_RUN if before else 1) if needed else ()
    following = [f"{one_of(after)}?"] if after else []
    return " | ".join(
        " ".join([one_of(before)] * place + [one_of(needed)] + following * (marks.MAX_CLOSE_RUN - 1 - place))
        for place in positions
    )


def _repeat_up_to(characters: str, most: int) -> str:
    return f"{one_of(characters)}{{0,{most}}}"


def _retain(characters: str, kept: str) -> str:
    return "".join(char for char in characters if char in kept)


def _without(characters: str, removed: str) -> str:
    return "".join(char for char in characters if char not in removed)


_Pairs = tuple[str, ...]
"""Pairs that are open, the innermost last."""

_UNENDED: Final = ("bare", "pause", "colon")
_ENDINGS: Final = (*_UNENDED, "end")
"""How marks after a word end: not at all, with a comma and its like, with a colon, or with a sentence mark."""

_LAST: Final = "last"
"""Instead of a gap: nothing follows."""


def paired_text_rules(own: LanguageMarks, options: ListOptions, *, starts_differ: bool) -> dict[str, str]:
    """Write the rules of paired marks, blanks and breaks; the first is ``root``.

    Without ``starts_differ`` words are the same at the start of a sentence, and only ``unit`` is named.
    """
    writer = _PairedRules(own, options, starts_differ)
    root = f"{ebnf_string(marks.BLANK)}? {writer.text((), (), 'start', _LAST)}"
    return {"root": root, **writer.rules}


@dataclass
class _PairedRules:
    """Write the rules that are asked for, and those that they name.

    A phrase is told apart by the pairs around it, by those that it closes, by whether it starts a sentence (``start``)
    or stands within one (``inner``), and by what it leads to.
    """

    own: LanguageMarks
    options: ListOptions
    starts_differ: bool
    rules: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = self.own
        questions = [pair for mark in own.questions for pair in (f"{mark}!", f"!{mark}")]
        self.rules |= {
            "blank": ebnf_string(marks.BLANK),
            "break": _BREAKS,
            "dash": alternatives(_dashes(own)),
            "pause": one_of(own.pauses.replace(marks.COLON, "")),
            "colon": ebnf_string(marks.COLON),
            "end": f"{one_of(own.sentence)} | {alternatives(['...', *questions])}",
        }
        if own.inverted:
            first, second = map(ebnf_string, own.inverted)
            self.rules["inverted"] = f"{first} {second}? | {second} {first}?"

    def text(self, around: _Pairs, closing: _Pairs, place: str, then: str) -> str:
        """Return the EBNF of a text's phrases, the last of which closes the pairs ``closing``."""

        def link(kind: str, place: str) -> str:
            return self._named("phrase", around, (), place, kind)

        def last(place: str) -> str:
            return self._phrase(around, closing, place, then)

        if not self.starts_differ:
            return f"{link('link', place)}* ({last(place)})"
        within, over = link("within", "inner"), link("over", "inner")
        if place == "inner":
            return f"{within}* ({last('inner')} | {over} {self._named('text', around, closing, 'start', then)})"
        sentence = f"{link('over', 'start')} | {link('within', 'start')} {within}* {over}"
        return f"({sentence})* ({last('start')} | {link('within', 'start')} {within}* ({last('inner')}))"

    def _phrase(self, around: _Pairs, closing: _Pairs, place: str, then: str) -> str:
        unit = "start-unit" if place == "start" and self.starts_differ else "unit"
        kinds = [f"{unit} {self._tail_rule(closing, then)}"]
        if len(around) < marks.MAX_OPEN_PAIRS:
            for pair in self.own.pairs:
                if pair not in around:
                    inside = self._named("text", (*around, pair), (*closing, pair), place, then)
                    kinds.append(f"{ebnf_string(pair[0])} {inside}")
        return f"inverted? ({' | '.join(kinds)})" if self.own.inverted else " | ".join(kinds)

    def _named(self, kind: str, around: _Pairs, closing: _Pairs, place: str, then: str) -> str:
        """Return the name of the rule of a phrase or text, which is written if it is not there."""
        numbers = [str(self.own.pairs.index(pair)) for pair in around]
        if len(around) == marks.MAX_OPEN_PAIRS:
            # Nothing opens here, so pairs that are not closed make no difference.
            numbers = ["x"] * (len(around) - len(closing)) + numbers[len(around) - len(closing) :]
        name = "-".join([kind, *numbers, *(["closing"] * len(closing)), place, then])
        if name not in self.rules:
            self.rules[name] = ""
            body = self.text if kind == "text" else self._phrase
            self.rules[name] = body(around, closing, place, then)
        return name

    def _tail_rule(self, closing: _Pairs, then: str) -> str:
        """Write the rule of what follows a word: closing marks and a gap; return its name."""
        name = "-".join(["tail", *(str(self.own.pairs.index(pair)) for pair in closing), then])
        parts = []
        for gap, endings in self._gaps(then).items():
            # xgrammar has no empty alternative.
            runs = [run for ending in endings for run in self._runs(closing, ending)]
            parts.append(f"({' | '.join(filter(None, runs))}){'' if all(runs) else '?'} {gap}".rstrip())
        self.rules[name] = " | ".join(parts)
        return name

    def _gaps(self, then: str) -> dict[str, tuple[str, ...]]:
        """Return the EBNF of gaps before the next phrase, each with how the marks before it may end."""
        before_break = _ENDINGS if self.options.layout == "lines" else ("colon", "end")
        if then == _LAST:
            return {"": ("end",) if self.options.end == "sentence" else _ENDINGS}
        if then == "within":
            return {"(blank | dash)": _UNENDED, "dash": ("end",)}
        if then == "over":
            return {"blank": ("end",), "break": before_break}
        return {"(blank | dash)": _ENDINGS, "break": before_break}

    def _runs(self, closing: _Pairs, ending: str) -> list[str]:
        """Write the closing marks of these pairs in EBNF, with at most one other mark among them.

        Also with an ``end`` and a pause after a pair that closes on it.
        """
        closed = [ebnf_string(pair[1]) for pair in reversed(closing)]
        if ending == "bare":
            return [" ".join(closed)]
        runs = [" ".join([*closed[:at], ending, *closed[at:]]) for at in range(len(closed) + 1)]
        if ending == "pause":
            for at, later in combinations_with_replacement(range(len(closed) + 1), 2):
                if at < later:
                    runs.append(" ".join([*closed[:at], "end", *closed[at:later], "pause", *closed[later:]]))
        return runs


_Kind = tuple[bool, bool]
"""Whether a word begins with a Latin letter, and whether it ends with one."""


def unspaced_rules(gaps: GapAutomaton, words: Sequence[str]) -> dict[str, str]:
    """Write the grammar of texts without spaces that can be cut into these words in any way; the first is ``root``.

    A rule for each state of the gap automaton leads to the next one. After a Latin letter a state is there again, where
    no word begins with another.
    """
    of_kind: dict[_Kind, list[str]] = {}
    for word in words:
        of_kind.setdefault((word[0] in string.ascii_letters, word[-1] in string.ascii_letters), []).append(word)
    rules = {"root": _state(gaps.start)}
    for number, is_after_letter in product(range(len(gaps.states)), (False, True)):
        if not is_after_letter or number in {context.after_word for context in gaps.contexts}:
            rules[_state(number, is_after_letter)] = _state_body(number, gaps, of_kind, is_after_letter)
    return rules | {_words(kind): alternatives(texts) for kind, texts in of_kind.items()}


def _state_body(number: int, gaps: GapAutomaton, kinds: Iterable[_Kind], is_after_letter: bool) -> str:
    """Write what may come from a state on."""
    state = gaps.states[number]
    characters: dict[int, list[str]] = {}
    for character, target in state.transitions.items():
        characters.setdefault(target, []).append(character)
    ways = [f"({alternatives(some)}) {_state(target)}" for target, some in characters.items()]
    if state.word_may_start:
        after = gaps.contexts[state.context].after_word
        allowed = [kind for kind in kinds if not (is_after_letter and kind[0])]
        ways += [f"{_words(kind)} {_state(after, kind[1])}" for kind in allowed]
    return f"({' | '.join(ways)})?" if state.is_complete else " | ".join(ways)


def _state(number: int, is_after_letter: bool = False) -> str:
    return f"state-{number}{'-letter' if is_after_letter else ''}"


def _words(kind: _Kind) -> str:
    return "-".join(("word", *("letter" if is_letter else "other" for is_letter in kind)))


_QUOTED: Final = re.compile(r'("(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\])')
"""A string or a class of characters; splitting by it leaves names and operators between them."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_TEXT: Final = "TEXT"
"""Stands for the EBNF's ``root``."""


def ebnf_to_lark(ebnf: str) -> str:
    """Rewrite a grammar of ``write_ebnf`` in Lark's syntax."""
    rules = (line.split(" ::= ", 1) for line in ebnf.removesuffix("\n").split("\n"))
    return f"start: {_TEXT}\n" + "".join(f"{_terminal(name)}: {_lark_body(body)}\n" for name, body in rules)


def _terminal(name: str) -> str:
    return _TEXT if name == "root" else name.upper().replace("-", "_")


def _lark_body(body: str) -> str:
    parts = _QUOTED.split(body)
    parts[::2] = [_NAME.sub(lambda name: _terminal(name[0]), part) for part in parts[::2]]
    parts[1::2] = [part if part[0] == '"' else _regex(part) for part in parts[1::2]]
    return "".join(parts)


def _regex(characters: str) -> str:
    # In a regular expression a bracket inside a class is escaped.
    return "/[" + characters[1:-1].replace("[", "\\[") + "]/"
