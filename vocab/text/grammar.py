"""Write the allowed texts of a list as EBNF, independently of the automaton, and so the oracle of its tests.

Used by ``wordbound grammar``, for engines that are not ours, and with ``MASK_ENGINE=xgrammar``, for which
``vocab.compiler.grammars`` compiles it. The dialect ``ebnf`` is for xgrammar and llama.cpp (GBNF; build 11549 agrees
with our definition on all texts of the tests). ``lark`` is for llguidance, whose own conversion of GBNF reads word by
word and greedily, and so refuses allowed texts: "3.", or "in the" where "in front of" is listed.
`docs/other-engines.md` shows each.

Give xgrammar the string itself (``xgrammar.GrammarCompiler.compile_grammar``): xgrammar 0.2.8 rejects listed letters
when the string has gone through ``Grammar.from_ebnf`` first.
"""

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal

from vocab import marks
from vocab.errors import EmptyWordListError, OptionsError, SegmentationError
from vocab.lists.credits import attribution
from vocab.lists.wordlists import WordList
from vocab.marks import marks_of, marks_of_language
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges, entries_left_out
from vocab.text.ebnf import (
    alternatives,
    ebnf_string,
    ebnf_to_lark,
    one_of,
    paired_text_rules,
    unpaired_text_rules,
    unspaced_rules,
)
from vocab.text.forms import Form, decide_possessive, follows_elision, resolve_case, surface_forms
from vocab.text.gaps.automaton import build_gap_automaton

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
        SegmentationError: The texts are those of a dictionary's longest match, which a grammar cannot say.
    """
    if word_list.is_unspaced and options.segmentation == "longest":
        raise SegmentationError(
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
    language = word_list.language
    if word_list.is_unspaced:
        rules = unspaced_rules(build_gap_automaton(options, language), [form.text for form in forms])
    elif options.punctuation == "standard":
        rules = _unit_rules(forms, options.numbers, "", language)
        starts_differ = bool(rules["start-word"] or rules["start-elision"])
        if not starts_differ:
            del rules["start-unit"]
        rules = paired_text_rules(marks_of_language(language), options, starts_differ=starts_differ) | rules
    else:
        spelled = marks_of(options.punctuation, language)
        rules = unpaired_text_rules(spelled, options)
        rules |= _unit_rules(forms, options.numbers, "open " if spelled.open else "", language)
    return "".join(f"{name} ::= {body}\n" for name, body in rules.items() if body)


def _forms(word_list: WordList, options: ListOptions, n_words: int, changes: ListChanges) -> list[Form]:
    # The first words give all forms of their ranks; only the case depends on the whole list.
    options = decide_possessive(options, word_list.language, word_list.source)
    words = word_list.up_to(n_words)
    if changes.exclude_words:
        words = words.without(set(entries_left_out(words, changes.exclude_words)))
    forms = surface_forms(words, replace(options, case=resolve_case(word_list, options)))
    extra = WordList(word_list.lang, changes.extra_words, "inline")
    return forms + surface_forms(extra, replace(options, case="sentence"))


def _unit_rules(forms: list[Form], numbers: bool, opening: str, language: str) -> dict[str, str]:
    """Write the rules of words and numbers; only the first part of a unit starts a sentence: the "L'" of "L'homme"."""
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
        **(_number_rules() if numbers else {}),
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
    rests = [text[1:] for text in texts if text != letter]
    if not rests:
        return ebnf_string(letter)
    return f"{ebnf_string(letter)} ({alternatives(rests)}){'?' if len(rests) < len(texts) else ''}"
