"""A reader of answers: splits a text into words and looks each up in a ranked list.

It imports nothing of the library; the splitter comes from Unicode's categories. It is the last word on the
promise that every word of an answer is listed.
"""

import re
from collections.abc import Sequence
from typing import Unpack

from tests.checked_lists import (
    PUNCTUATION,
    SENTENCE_MARKS,
    Listing,
    Rules,
    is_word_character,
    listing_of,
    straight_apostrophes,
    with_small_first_letter,
)
from tests.marks_checker import MARKS_OF_LANGUAGES, misplaced_marks

NUMBER = re.compile(r"[0-9]+(?:[.,:][0-9]+)*%?")
MOST_NUMBER_CHARACTERS = 16
CLOSING_QUOTES = r')\]"«»“”‹›'
SENTENCE_END = re.compile(rf"[{SENTENCE_MARKS}][{CLOSING_QUOTES}]*$")
BREAK_IN_PROSE = re.compile(rf"[{SENTENCE_MARKS}:][{SENTENCE_MARKS}:,;،؛{CLOSING_QUOTES}]{{0,3}}\n{{1,2}}(?!\n)")

NEVER_LAST = "¿¡([„—–- \n"
"""A text that ends so was cut before its next word."""


def assert_only_listed_words(
    text: str, lang: str, n_words: int, words: Sequence[str] | None = None, **rules: Unpack[Rules]
) -> None:
    """Fails naming the words that are not among the ``n_words`` most frequent, or a text that stops before a word, or,
    with ``end="sentence"``, inside a sentence, or, with ``punctuation="standard"``, marks that are out of place."""
    unlisted = unlisted_words(text, lang, n_words, words, **rules)
    assert not unlisted, f"not among the first {n_words} words of {lang!r}: {unlisted} in {text!r}"
    assert text.strip(), "the text has no word"
    listing = listing_of(lang, n_words, words, rules)
    assert text[-1] not in NEVER_LAST or _ends_in_entry(text, listing), f"cut before a word: {text!r}"
    if rules.get("end") == "sentence":
        assert _ends_sentence(text, listing), f"cut inside a sentence: {text!r}"
    if rules.get("punctuation") == "standard" and listing.lang in MARKS_OF_LANGUAGES and _has_plain_entries(listing):
        faults = misplaced_marks(text, listing.lang, layout=rules.get("layout", "lines"), entries=listing.phrases)
        assert not faults, f"marks: {faults} in {text!r}"
    if rules.get("layout") == "prose":
        assert "\n" not in BREAK_IN_PROSE.sub("", text), f"a line break inside a sentence: {text!r}"


def unlisted_words(
    text: str, lang: str, n_words: int, words: Sequence[str] | None = None, **rules: Unpack[Rules]
) -> list[str]:
    """The words of ``text`` that are not listed, in their order; a cut word at the end is among them.

    A listed word may have a capital first letter, either apostrophe and, in English, some the possessive 's. A mark or
    number that the rules do not allow is reported like a word.

    Args:
        text: The answer.
        lang: A language tag; without ``words`` it names a built-in list.
        n_words: How many of the words count.
        words: The list in rank order, when it is not built in. Where lemmas have ranks, all words that are allowed,
            and their number as ``n_words``.
        rules: What was asked for besides.
    """
    return list(_with_fewest_unlisted(straight_apostrophes(text), listing_of(lang, n_words, words, rules)))


def _with_fewest_unlisted(text: str, listing: Listing) -> tuple[str, ...]:
    # From the end: the fewest unlisted words from each position on. Phrases overlap, so no greedy reading is right.
    best: list[tuple[str, ...]] = [()] * (len(text) + 1)
    for position in range(len(text) - 1, -1, -1):
        readings = [
            best[position + len(phrase)]
            for phrase in listing.phrases
            if _is_entry(phrase, text, position, listing) and _is_word_end(text, position + len(phrase))
        ]
        number = NUMBER.match(text, position) if listing.numbers else None
        if number and len(number[0]) <= MOST_NUMBER_CHARACTERS and not _is_word_at(text, number.end()):
            readings.append(best[number.end()])
        if not is_word_character(text[position]):
            rest = best[position + 1]
            readings.append(rest if text[position] in listing.marks else (text[position], *rest))
        else:
            end = _word_end(text, position)
            word, rest = text[position:end], best[end]
            is_dash = text[max(position - 1, 0) : end + 1] == " - " and "-" in listing.marks
            is_listed = any(_is_entry(entry, text, position, listing) for entry in _entries_of(word, listing))
            readings.append(rest if is_dash or is_listed else (word, *rest))
            readings += [
                best[position + length]
                for length in range(1, end - position + 1)
                if _is_elision(text, position, length, listing) and _starts_word(text, position + length, listing)
            ]
        best[position] = min(readings, key=len)
    return best[0]


def _word_end(text: str, position: int) -> int:
    while position < len(text) and is_word_character(text[position]):
        position += 1
    return position


def _is_word_end(text: str, position: int) -> bool:
    return not (is_word_character(text[position - 1]) and _is_word_at(text, position))


def _is_word_at(text: str, position: int) -> bool:
    return is_word_character(text[position : position + 1] or " ")


def _starts_word(text: str, position: int, listing: Listing) -> bool:
    if text[position : position + 1] in PUNCTUATION:
        return any(_is_entry(phrase, text, position, listing) for phrase in listing.phrases)
    return True


def _entries_of(word: str, listing: Listing) -> set[str]:
    """The listed words that may be written ``word``, with its possessive where it has one."""
    candidates = {word, with_small_first_letter(word, listing.lang)}
    bases = {candidate.removesuffix("'s") for candidate in candidates if candidate.endswith("'s")}
    return candidates & listing.words | bases & listing.possessives


def _is_elision(text: str, position: int, length: int, listing: Listing) -> bool:
    word = text[position : position + length]
    candidates = {word, with_small_first_letter(word, listing.lang)} & listing.elisions
    return any(_is_entry(candidate, text, position, listing) for candidate in candidates)


def _is_entry(entry: str, text: str, position: int, listing: Listing) -> bool:
    """Whether ``text`` has the entry at ``position``, as listed or with a capital that may stand there."""
    written = text[position : position + len(entry)]
    if written == entry:
        return True
    if not written or with_small_first_letter(written, listing.lang) != entry:
        return False
    case = "sentence" if entry in listing.added and listing.case == "listed" else listing.case
    return case == "any" or (case == "sentence" and _starts_sentence(text[:position], listing))


def _starts_sentence(text: str, listing: Listing) -> bool:
    """Whether a sentence starts behind ``text``."""
    marks = listing.sentence_marks
    before = rf"(?:^ ?|[{marks}][{SENTENCE_MARKS}:,;،؛{CLOSING_QUOTES}]{{0,3}} |\n)"
    return re.search(rf'{before}[¿¡(\[„—"«»“”‹›]{{0,8}}$', text) is not None


def _ends_sentence(text: str, listing: Listing) -> bool:
    # The Greek question mark is a semicolon.
    return SENTENCE_END.search(text.replace(";", "?") if ";" in listing.sentence_marks else text) is not None


def _has_plain_entries(listing: Listing) -> bool:
    """Whether marks in a text are marks, and parts of no entries but abbreviations ("Mr.")."""
    return all(char in " ." or is_word_character(char) for entry in listing.phrases for char in entry)


def _ends_in_entry(text: str, listing: Listing) -> bool:
    """Whether the last characters are a listed entry of their own ("so-", "-")."""
    return any(
        straight_apostrophes(text).endswith(entry)
        for entry in (*listing.phrases, *listing.words)
        if entry[-1] in NEVER_LAST
    )
