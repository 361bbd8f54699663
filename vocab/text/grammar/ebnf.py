"""Write the allowed texts of a list as EBNF, independently of the automaton, and so the oracle of its tests.

Used with ``MASK_ENGINE=xgrammar`` and by ``wordbound grammar``, for engines that are not ours. The dialect ``ebnf`` is
for xgrammar and llama.cpp (GBNF; build 11549 agrees with our definition on all texts of the tests). ``lark`` is for
llguidance, whose own conversion of GBNF reads word by word and greedily, and so refuses allowed texts: "3.", or
"in the" where "in front of" is listed. `docs/other-engines.md` shows each.

Give xgrammar the string itself (``xgrammar.GrammarCompiler.compile_grammar``): xgrammar 0.2.8 rejects listed letters
when the string has gone through ``Grammar.from_ebnf`` first.
"""

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal

from vocab import marks
from vocab.errors import EmptyWordListError
from vocab.language_marks import marks_of_language
from vocab.lists.attribution import attribution
from vocab.lists.wordlists import WordList
from vocab.marks import Marks, marks_of
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges, entries_left_out
from vocab.text.elisions import follows_elision
from vocab.text.forms import Form, resolve_case, surface_forms
from vocab.text.grammar.paired import paired_text_rules
from vocab.text.grammar.syntax import alternatives, ebnf_to_lark, one_of, string

Dialect = Literal["ebnf", "lark"]

_COMMENT: Final = {"ebnf": "# ", "lark": "// "}


def write_grammar(
    word_list: WordList, options: ListOptions, n_words: int, changes: ListChanges, dialect: Dialect
) -> str:
    """Return the grammar of all texts that the first ``n_words`` words of a list allow.

    Raises:
        VocabularyError: The list, the options or the changes allow no such texts; the message says what to change.
    """
    changes.check(word_list.language)
    ebnf = write_ebnf(word_list, options, n_words, changes)
    credit = attribution(word_list.source, is_by_lemma=word_list.ranks is not None)
    header = "".join(f"{_COMMENT[dialect]}{line}\n" for line in credit)
    return header + (ebnf_to_lark(ebnf) if dialect == "lark" else ebnf)


def write_ebnf(word_list: WordList, options: ListOptions, n_words: int, changes: ListChanges = NO_CHANGES) -> str:
    """Write the grammar of the texts of the words of rank ``n_words`` and better; its start is ``root``.

    Raises:
        EmptyWordListError: No text is possible, because each of these words is an elision or left out.
    """
    forms = _forms(word_list, options, n_words, changes)
    if all(form.elision for form in forms):
        if not options.numbers:
            raise EmptyWordListError(
                f"None of the first {n_words} words of {word_list.lang!r} may end a text. Ask for more words."
            )
        # A number follows no elision.
        forms = []
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
    # The first words give all forms of their ranks; only the case depends on the whole list.
    words = word_list.up_to(n_words)
    if changes.exclude_words:
        words = words.without(set(entries_left_out(words, changes.exclude_words)))
    forms = surface_forms(words, replace(options, case=resolve_case(word_list, options)))
    extra = WordList(word_list.lang, changes.extra_words, "inline")
    return forms + surface_forms(extra, replace(options, case="sentence"))


def _text_rules(spelled: Marks, options: ListOptions) -> dict[str, str]:
    """Write the rules of marks, blanks and breaks. ``start-gap`` leads to the start of a sentence, ``gap`` does not.

    xgrammar has no rule that matches nothing, so an empty one is left out and never named.
    """
    blank, breaks = string(marks.BLANK), f"{string(marks.LINE_BREAK)}{{1,{marks.MAX_LINE_BREAKS}}}"
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
    gaps = [f"{_run_of(not_sentence, marks.MAX_CLOSE_RUN)} {blank}" if not_sentence else blank]
    dashes = [*spelled.joining_dashes, *(f"{marks.BLANK}{dash}{marks.BLANK}" for dash in spelled.spaced_dashes)]
    if dashes:
        gaps.append(f"{closing}({alternatives(dashes)})")

    next_unit = "(start-gap start-unit | gap unit)*" if start_gaps else "(gap unit)*"
    end = "end-marks" if options.end == "sentence" else closing
    return {
        "root": f"{blank}? start-unit {next_unit} {end}".rstrip(),
        "start-gap": " | ".join(start_gaps),
        "gap": " | ".join(gaps),
        "close": _run_of(spelled.close, marks.MAX_CLOSE_RUN) if spelled.close else "",
        "sentence-marks": _run_with(spelled.sentence, spelled.close) if spelled.sentence else "",
        "break-marks": _run_with(before_break, spelled.close) if options.layout == "prose" and before_break else "",
        "end-marks": _run_ending(spelled) if options.end == "sentence" else "",
        "open": _run_of(spelled.open, marks.MAX_OPEN_RUN) if spelled.open else "",
    }


def _run_with(needed: str, close: str) -> str:
    """Write a run of closing marks that has one of ``needed``, by the position of the first of them."""
    other, any_mark = _without(close, needed), one_of(close)
    # Without other marks, the first mark is the first of those needed.
    positions = range(marks.MAX_CLOSE_RUN if other else 1)
    return " | ".join(
        " ".join([one_of(other)] * before + [one_of(needed)] + [f"{any_mark}?"] * (marks.MAX_CLOSE_RUN - 1 - before))
        for before in positions
    )


def _run_ending(spelled: Marks) -> str:
    """Write a run of closing marks whose last sentence mark has only quotes and brackets after it, by its position."""
    quotes = _retain(spelled.close, marks.CLOSING_QUOTES)
    behind = [f"{one_of(quotes)}?"] if quotes else []
    return " | ".join(
        " ".join(
            [one_of(spelled.close)] * before + [one_of(spelled.sentence)] + behind * (marks.MAX_CLOSE_RUN - 1 - before)
        )
        for before in range(marks.MAX_CLOSE_RUN)
    )


def _unit_rules(forms: list[Form], numbers: bool, opening: str, language: str) -> dict[str, str]:
    """Write the rules of words and numbers. Only the first part of a unit starts a sentence: the "L'" of "L'homme"."""
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
    """Return the forms allowed anywhere and those only for the start of a sentence, both sorted."""
    anywhere = {form.text for form in forms if not form.sentence_only}
    return sorted(anywhere), sorted({form.text for form in forms} - anywhere)


def _number_rules() -> dict[str, str]:
    """Write a rule for each number of characters left: EBNF counts repetitions, not characters."""
    digit, joint = one_of(marks.DIGITS), one_of(marks.NUMBER_JOINTS)
    rules = {"number": f"{digit} more-{marks.MAX_NUMBER_CHARS - 1}"}
    for room in range(marks.MAX_NUMBER_CHARS - 1, 1, -1):
        after_joint = f" more-{room - 2}" if room > 2 else ""
        rules[f"more-{room}"] = f"({digit} more-{room - 1} | {joint} {digit}{after_joint} | {string(marks.PERCENT)})?"
    return {**rules, "more-1": f"({digit} | {string(marks.PERCENT)})?"}


def _by_first_letter(texts: list[str]) -> str:
    """Group sorted alternatives by their first letters.

    On 10,000 Spanish words xgrammar compiles these in 0.4 s and fills a mask in 2.5 ms; a flat row of alternatives
    takes 2.9 s and 13 ms, a trie 2.5 s and 2.8 ms. On 1,000 words all are alike.
    """
    return " | ".join(_with_first_letter(letter, [*group]) for letter, group in groupby(texts, key=itemgetter(0)))


def _with_first_letter(letter: str, texts: list[str]) -> str:
    rests = [text[1:] for text in texts if text != letter]
    if not rests:
        return string(letter)
    return f"{string(letter)} ({alternatives(rests)}){'?' if len(rests) < len(texts) else ''}"


def _run_of(characters: str, most: int) -> str:
    return f"{one_of(characters)}{{0,{most}}}"


def _retain(characters: str, kept: str) -> str:
    return "".join(char for char in characters if char in kept)


def _without(characters: str, removed: str) -> str:
    return "".join(char for char in characters if char not in removed)
