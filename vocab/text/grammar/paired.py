"""Write the texts of ``punctuation: standard`` as EBNF: marks of a language, quotation marks and brackets in pairs.

Pairs are nested rules here, and a string of open pairs in ``vocab.text.gaps``; they share no code. No
rule is recursive, so that the whole can also be read as one regular expression.

A *phrase* is a word or a number with the marks and the gap after it. It may open pairs; a *text* inside of them is a
row of phrases of which the last closes them. So what stands after a closing mark (a comma? a line break?) is written
where it is known what stood before it, and a parser that follows all alternatives at once, as llama.cpp's, has few of
them: of 1,000 English words 400 outside of pairs, where ``full`` has 200, and 1,800 inside of two. With rules by how a
text in a pair ends there were 60,000 inside of one.
"""

from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Final

from vocab import marks
from vocab.language_marks import LanguageMarks
from vocab.options import ListOptions
from vocab.text.grammar.syntax import alternatives, one_of, string

_Pairs = tuple[str, ...]
"""Pairs that are open, the innermost last."""

_UNENDED: Final = ("bare", "pause", "colon")
_ENDINGS: Final = (*_UNENDED, "end")
"""How marks after a word end: not at all, with a comma and its like, with a colon, or with a sentence mark."""

_LAST: Final = "last"
"""Instead of a gap: nothing follows."""


def paired_text_rules(own: LanguageMarks, options: ListOptions, *, starts_differ: bool) -> dict[str, str]:
    """Write all rules but those of words and numbers, which are ``start-unit`` and ``unit``; the first is ``root``.

    Without ``starts_differ`` the two are the same, and only ``unit`` is named.
    """
    writer = _Writer(own, options, starts_differ)
    root = f"{string(marks.BLANK)}? {writer.text((), (), 'start', _LAST)}"
    return {"root": root, **writer.rules}


@dataclass
class _Writer:
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
        dashes = [*own.joining_dashes, *(f"{marks.BLANK}{dash}{marks.BLANK}" for dash in own.spaced_dashes)]
        self.rules |= {
            "blank": string(marks.BLANK),
            "break": f"{string(marks.LINE_BREAK)}{{1,{marks.MAX_LINE_BREAKS}}}",
            "dash": alternatives(dashes),
            "pause": one_of(own.pauses.replace(marks.COLON, "")),
            "colon": string(marks.COLON),
            "end": f"{one_of(own.sentence)} | {alternatives(['...', *questions])}",
        }
        if own.inverted:
            first, second = map(string, own.inverted)
            self.rules["inverted"] = f"{first} {second}? | {second} {first}?"

    def text(self, around: _Pairs, closing: _Pairs, place: str, then: str) -> str:
        """Write phrases of which the last closes the pairs ``closing``."""

        def link(kind: str, place: str) -> str:
            return self._rule("phrase", around, (), place, kind)

        def last(place: str) -> str:
            return self._phrase(around, closing, place, then)

        if not self.starts_differ:
            return f"{link('link', place)}* ({last(place)})"
        within, over = link("within", "inner"), link("over", "inner")
        if place == "inner":
            return f"{within}* ({last('inner')} | {over} {self._rule('text', around, closing, 'start', then)})"
        sentence = f"{link('over', 'start')} | {link('within', 'start')} {within}* {over}"
        return f"({sentence})* ({last('start')} | {link('within', 'start')} {within}* ({last('inner')}))"

    def _phrase(self, around: _Pairs, closing: _Pairs, place: str, then: str) -> str:
        unit = "start-unit" if place == "start" and self.starts_differ else "unit"
        kinds = [f"{unit} {self._tail_rule(closing, then)}"]
        if len(around) < marks.MAX_OPEN_PAIRS:
            for pair in self.own.pairs:
                if pair not in around:
                    inside = self._rule("text", (*around, pair), (*closing, pair), place, then)
                    kinds.append(f"{string(pair[0])} {inside}")
        return f"inverted? ({' | '.join(kinds)})" if self.own.inverted else " | ".join(kinds)

    def _rule(self, kind: str, around: _Pairs, closing: _Pairs, place: str, then: str) -> str:
        """Return the name of a rule, which is written if it is not there."""
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
        name = "-".join(["tail", *(str(self.own.pairs.index(pair)) for pair in closing), then])
        parts = []
        for gap, endings in self._gaps(then).items():
            # xgrammar has no empty alternative.
            runs = [run for ending in endings for run in self._runs(closing, ending)]
            parts.append(f"({' | '.join(filter(None, runs))}){'' if all(runs) else '?'} {gap}".rstrip())
        self.rules[name] = " | ".join(parts)
        return name

    def _gaps(self, then: str) -> dict[str, tuple[str, ...]]:
        """Write what parts a phrase from the next one, and say how the marks before it end."""
        before_break = _ENDINGS if self.options.layout == "lines" else ("colon", "end")
        if then == _LAST:
            return {"": ("end",) if self.options.end == "sentence" else _ENDINGS}
        if then == "within":
            return {"(blank | dash)": _UNENDED, "dash": ("end",)}
        if then == "over":
            return {"blank": ("end",), "break": before_break}
        return {"(blank | dash)": _ENDINGS, "break": before_break}

    def _runs(self, closing: _Pairs, ending: str) -> list[str]:
        """Write the closing marks of these pairs with at most one other mark among them, or with an ``end`` and a pause
        after a pair that closes on it."""
        closed = [string(pair[1]) for pair in reversed(closing)]
        if ending == "bare":
            return [" ".join(closed)]
        runs = [" ".join([*closed[:at], ending, *closed[at:]]) for at in range(len(closed) + 1)]
        if ending == "pause":
            for at, behind in combinations_with_replacement(range(len(closed) + 1), 2):
                if at < behind:
                    runs.append(" ".join([*closed[:at], "end", *closed[at:behind], "pause", *closed[behind:]]))
        return runs
