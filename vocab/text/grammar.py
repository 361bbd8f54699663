"""Write the allowed texts of a list as EBNF, independently of the automaton, and so the oracle of its tests.

Used with ``MASK_ENGINE=xgrammar`` and by ``wordbound grammar``, for engines that are not ours. The dialect ``ebnf`` is
for xgrammar and llama.cpp (GBNF; build 11549 agrees with our definition on all texts of the tests). ``lark`` is for
llguidance, whose own conversion of GBNF reads word by word and greedily, and so refuses allowed texts: "3.", or
"in the" where "in front of" is listed. `docs/other-engines.md` shows each.

Give xgrammar the string itself (``xgrammar.GrammarCompiler.compile_grammar``): xgrammar 0.2.8 rejects listed letters
when the string has gone through ``Grammar.from_ebnf`` first.

With ``punctuation: standard`` pairs are nested rules, where ``vocab.text.gaps`` has a string of open pairs; they share
no code, and no rule is recursive, so that the whole can also be read as one regular expression. A *phrase* is a word
or a number with the marks and the gap after it, and may open pairs; a *text* inside of them is a row of phrases of
which the last closes them. What may stand after a closing mark is written where it is known what stood before it, so a
parser that follows all alternatives at once has few: of 1,000 English words 400 outside of pairs (``full``: 200),
1,800 inside of two. With rules by how a text in a pair ends there were 60,000 inside of one.
"""

from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, groupby
from operator import itemgetter
from typing import Final, Literal

from vocab import marks
from vocab.errors import EmptyWordListError, OptionsError
from vocab.lists.credits import attribution
from vocab.lists.wordlists import WordList
from vocab.marks import LanguageMarks, Marks, marks_of, marks_of_language
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges, entries_left_out
from vocab.text.ebnf import alternatives, ebnf_string, ebnf_to_lark, one_of
from vocab.text.forms import Form, follows_elision, resolve_case, surface_forms
from vocab.text.gaps.automaton import build_gap_automaton
from vocab.text.segmented.grammar import segmented_grammar

_Pairs = tuple[str, ...]
"""Pairs that are open, the innermost last."""

_UNENDED: Final = ("bare", "pause", "colon")
_ENDINGS: Final = (*_UNENDED, "end")
"""How marks after a word end: not at all, with a comma and its like, with a colon, or with a sentence mark."""

_LAST: Final = "last"
"""Instead of a gap: nothing follows."""


def paired_text_rules(own: LanguageMarks, options: ListOptions, *, starts_differ: bool) -> dict[str, str]:
    """Write all EBNF rules of paired marks but ``start-unit`` and ``unit`` (words and numbers); the first is ``root``.

    Without ``starts_differ`` the two are the same, and only ``unit`` is named.
    """
    writer = _Writer(own, options, starts_differ)
    root = f"{ebnf_string(marks.BLANK)}? {writer.text((), (), 'start', _LAST)}"
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
            "blank": ebnf_string(marks.BLANK),
            "break": f"{ebnf_string(marks.LINE_BREAK)}{{1,{marks.MAX_LINE_BREAKS}}}",
            "dash": alternatives(dashes),
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
        """Write the EBNF of one phrase: a word or number with what follows it, or a pair that opens."""
        unit = "start-unit" if place == "start" and self.starts_differ else "unit"
        kinds = [f"{unit} {self._tail_rule(closing, then)}"]
        if len(around) < marks.MAX_OPEN_PAIRS:
            for pair in self.own.pairs:
                if pair not in around:
                    inside = self._rule("text", (*around, pair), (*closing, pair), place, then)
                    kinds.append(f"{ebnf_string(pair[0])} {inside}")
        return f"inverted? ({' | '.join(kinds)})" if self.own.inverted else " | ".join(kinds)

    def _rule(self, kind: str, around: _Pairs, closing: _Pairs, place: str, then: str) -> str:
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


Dialect = Literal["ebnf", "lark"]

_COMMENT: Final = {"ebnf": "# ", "lark": "// "}


def write_grammar(
    word_list: WordList, options: ListOptions, n_words: int, changes: ListChanges, dialect: Dialect
) -> str:
    """Return the grammar of all texts that the first ``n_words`` words of a list allow.

    Raises:
        VocabularyError: The list, the options or the changes allow no such texts, or the dialect cannot say which; the
            message says what to change.
    """
    changes.check(word_list.language)
    if dialect == "lark" and word_list.is_unspaced:
        raise OptionsError(
            "Texts without spaces between words cannot be written for Lark, whose terminals are not recursive: take "
            "the dialect 'ebnf'."
        )
    ebnf = write_ebnf(word_list, options, n_words, changes)
    credit = attribution(word_list.source, word_list.lang, is_by_lemma=word_list.ranks is not None)
    header = "".join(f"{_COMMENT[dialect]}{line}\n" for line in credit)
    return header + (ebnf_to_lark(ebnf) if dialect == "lark" else ebnf)


def write_ebnf(word_list: WordList, options: ListOptions, n_words: int, changes: ListChanges = NO_CHANGES) -> str:
    """Write the EBNF grammar of the texts of words of rank ``n_words`` and better; its start is ``root``.

    Raises:
        EmptyWordListError: No text is possible, because each of these words is an elision or left out.
        OptionsError: The texts are those of a dictionary's longest match, which a grammar cannot say.
    """
    if word_list.is_unspaced and options.segmentation == "longest":
        raise OptionsError(
            "A grammar cannot say that each word is the longest one of a dictionary: ask for texts that can be cut "
            "into listed words in any way, with the segmentation 'any'."
        )
    forms = _forms(word_list, options, n_words, changes)
    if all(form.elision for form in forms):
        if not options.numbers:
            raise EmptyWordListError(
                f"None of the first {n_words} words of {word_list.lang!r} may end a text. Ask for more words."
            )
        # A number follows no elision.
        forms = []
    if word_list.is_unspaced:
        return segmented_grammar(build_gap_automaton(options, word_list.language), [form.text for form in forms])
    if options.punctuation == "standard":
        unit_rules = _unit_rules(forms, options.numbers, "", word_list.language)
        starts_differ = bool(unit_rules["start-word"] or unit_rules["start-elision"])
        if not starts_differ:
            del unit_rules["start-unit"]
        text_rules = paired_text_rules(marks_of_language(word_list.language), options, starts_differ=starts_differ)
    else:
        spelled = marks_of(options.punctuation, word_list.language)
        unit_rules = _unit_rules(forms, options.numbers, "open " if spelled.open else "", word_list.language)
        text_rules = _text_rules(spelled, options)
    rules = {**text_rules, **unit_rules, **(_number_rules() if options.numbers else {})}
    return "".join(f"{name} ::= {body}\n" for name, body in rules.items() if body)


def _forms(word_list: WordList, options: ListOptions, n_words: int, changes: ListChanges) -> list[Form]:
    """Return the forms of the first ``n_words`` words, less those left out, then those of added words."""
    # The first words give all forms of their ranks; only the case depends on the whole list.
    words = word_list.up_to(n_words)
    if changes.exclude_words:
        words = words.without(set(entries_left_out(words, changes.exclude_words)))
    forms = surface_forms(words, replace(options, case=resolve_case(word_list, options)))
    extra = WordList(word_list.lang, changes.extra_words, "inline")
    return forms + surface_forms(extra, replace(options, case="sentence"))


def _text_rules(spelled: Marks, options: ListOptions) -> dict[str, str]:
    """Write the EBNF rules of marks, blanks and breaks. ``start-gap`` leads to a sentence's start, ``gap`` does not.

    xgrammar has no rule that matches nothing, so an empty one is left out and never named.
    """
    blank, breaks = ebnf_string(marks.BLANK), f"{ebnf_string(marks.LINE_BREAK)}{{1,{marks.MAX_LINE_BREAKS}}}"
    closing = "close " if spelled.close else ""
    before_break = _retain(spelled.close, marks.SENTENCE_MARKS + marks.COLON)

    start_gaps = []
    if spelled.sentence:
        start_gaps.append(f"sentence-marks {blank}")
    if options.layout == "lines":
        start_gaps.append(f"{closing}{breaks}")
    elif before_break:
        start_gaps.append(f"break-marks {breaks}")
    not_sentence = _without(spelled.close, spelled.sentence)
    gaps = [f"{_repeat_up_to(not_sentence, marks.MAX_CLOSE_RUN)} {blank}" if not_sentence else blank]
    dashes = [*spelled.joining_dashes, *(f"{marks.BLANK}{dash}{marks.BLANK}" for dash in spelled.spaced_dashes)]
    if dashes:
        gaps.append(f"{closing}({alternatives(dashes)})")

    next_unit = "(start-gap start-unit | gap unit)*" if start_gaps else "(gap unit)*"
    end = "end-marks" if options.end == "sentence" else closing
    return {
        "root": f"{blank}? start-unit {next_unit} {end}".rstrip(),
        "start-gap": " | ".join(start_gaps),
        "gap": " | ".join(gaps),
        "close": _repeat_up_to(spelled.close, marks.MAX_CLOSE_RUN) if spelled.close else "",
        "sentence-marks": _marks_with(spelled.sentence, spelled.close) if spelled.sentence else "",
        "break-marks": _marks_with(before_break, spelled.close) if options.layout == "prose" and before_break else "",
        "end-marks": _end_marks_rule(spelled) if options.end == "sentence" else "",
        "open": _repeat_up_to(spelled.open, marks.MAX_OPEN_RUN) if spelled.open else "",
    }


def _marks_with(needed: str, close: str) -> str:
    """Return the EBNF of a run of closing marks that has one of ``needed``, by the position of the first of them."""
    other, any_mark = _without(close, needed), one_of(close)
    # Without other marks, the first mark is the first of those needed.
    positions = range(marks.MAX_CLOSE_RUN if other else 1)
    return " | ".join(
        " ".join([one_of(other)] * before + [one_of(needed)] + [f"{any_mark}?"] * (marks.MAX_CLOSE_RUN - 1 - before))
        for before in positions
    )


def _end_marks_rule(spelled: Marks) -> str:
    """Return the grammar rule of the marks that end a text.

    Its last sentence mark has only quotes and brackets after it; there is an alternative for each of its positions.
    """
    quotes = _retain(spelled.close, marks.CLOSING_QUOTES)
    quotes_after = [f"{one_of(quotes)}?"] if quotes else []
    return " | ".join(
        " ".join(
            [one_of(spelled.close)] * before
            + [one_of(spelled.sentence)]
            + quotes_after * (marks.MAX_CLOSE_RUN - 1 - before)
        )
        for before in range(marks.MAX_CLOSE_RUN)
    )


def _unit_rules(forms: list[Form], numbers: bool, opening: str, language: str) -> dict[str, str]:
    """Write the EBNF rules of words and numbers.

    Only the first part of a unit starts a sentence: the "L'" of "L'homme".
    """
    anywhere, at_start = _texts([form for form in forms if not form.elision])
    elided = [text for text in anywhere if follows_elision(text, language)]
    # An elision without a word that may follow it is never written.
    elisions, elisions_at_start = _texts([form for form in forms if form.elision and elided])
    rules = {
        "word": _by_first_letter(anywhere),
        "start-word": _by_first_letter(at_start),
        "elided-word": _by_first_letter(elided) if elisions or elisions_at_start else "",
        "elision": _by_first_letter(elisions),
        "start-elision": _by_first_letter(elisions_at_start),
        "elided-elision": _by_first_letter([text for text in elisions if follows_elision(text, language)]),
    }
    elided_unit = "elided-elision* elided-word" if rules["elided-elision"] else "elided-word"
    units = [*["word"] * bool(anywhere), *[f"elision {elided_unit}"] * bool(elisions), *["number"] * numbers]
    start_units = [name for name in ("word", "start-word") if rules[name]]
    first_elisions = [name for name in ("elision", "start-elision") if rules[name]]
    if first_elisions:
        start_units.append(f"({' | '.join(first_elisions)}) {elided_unit}")
    start_units += ["number"] * numbers
    return {
        "start-unit": f"{opening}({' | '.join(start_units)})",
        "unit": f"{opening}({' | '.join(units)})",
        **rules,
    }


def _texts(forms: list[Form]) -> tuple[list[str], list[str]]:
    """Return the texts of forms allowed anywhere, and of those only for the start of a sentence, both sorted."""
    anywhere = {form.text for form in forms if not form.sentence_only}
    return sorted(anywhere), sorted({form.text for form in forms} - anywhere)


def _number_rules() -> dict[str, str]:
    """Write an EBNF rule for each number of characters left: EBNF counts repetitions, not characters."""
    digit, joint = one_of(marks.DIGITS), one_of(marks.NUMBER_JOINTS)
    rules = {"number": f"{digit} more-{marks.MAX_NUMBER_CHARS - 1}"}
    for room in range(marks.MAX_NUMBER_CHARS - 1, 1, -1):
        after_joint = f" more-{room - 2}" if room > 2 else ""
        rules[f"more-{room}"] = (
            f"({digit} more-{room - 1} | {joint} {digit}{after_joint} | {ebnf_string(marks.PERCENT)})?"
        )
    return {**rules, "more-1": f"({digit} | {ebnf_string(marks.PERCENT)})?"}


def _by_first_letter(texts: list[str]) -> str:
    """Write sorted texts as EBNF alternatives, grouped by their first letters.

    On 10,000 Spanish words xgrammar compiles these in 0.4 s and fills a mask in 2.5 ms; a flat row of alternatives
    takes 2.9 s and 13 ms, a trie 2.5 s and 2.8 ms. On 1,000 words all are alike.
    """
    return " | ".join(_with_first_letter(letter, [*group]) for letter, group in groupby(texts, key=itemgetter(0)))


def _with_first_letter(letter: str, texts: list[str]) -> str:
    """Write the texts of one first letter in EBNF: the letter, then alternatives for the rest."""
    rests = [text[1:] for text in texts if text != letter]
    if not rests:
        return ebnf_string(letter)
    return f"{ebnf_string(letter)} ({alternatives(rests)}){'?' if len(rests) < len(texts) else ''}"


def _repeat_up_to(characters: str, most: int) -> str:
    """Write the EBNF of a run of at most ``most`` characters, perhaps empty."""
    return f"{one_of(characters)}{{0,{most}}}"


def _retain(characters: str, kept: str) -> str:
    return "".join(char for char in characters if char in kept)


def _without(characters: str, removed: str) -> str:
    return "".join(char for char in characters if char not in removed)
