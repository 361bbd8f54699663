"""A reader of answers: splits a text into words and looks each up in a ranked list.

It knows nothing of tokens, automata or the library: words come from wordfreq or from the caller, the splitter from
Unicode's categories. It is the last word on the promise that every word of an answer is listed.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import wordfreq

PUNCTUATION = '.!?…؟।:,;)]،؛"«»“”‹›¿¡([„—–- \n'
"""What may stand between words; any other character that is no part of a listed word is reported."""

ELISION_STEMS = {
    "fr": "c d entr j jusqu l lorsqu m n presqu puisqu qu quelqu quoiqu s t ç",
    "it": "agl all anch bell c ch cinquant coll com cos d dagl dall degl dell dev dov gl gliel l m mezz n neanch negl "
    "nell nient ogn pell pover prim quand quant quarant quart quell quest s sant senz sott sugl sull t tant terz trent "
    "tutt v vent",
    "ca": "d l m n s t",
}
"""Entries of wordfreq's that stand for the same with an apostrophe; Italian "un" stands for both."""

NEVER_LAST = "¿¡([„—–- \n"
"""A text that ends so was cut before its next word."""


def assert_only_listed_words(text: str, lang: str, n_words: int, words: Sequence[str] | None = None) -> None:
    """Fails naming the words that are not among the ``n_words`` most frequent, or a text that stops before a word."""
    unlisted = unlisted_words(text, lang, n_words, words)
    assert not unlisted, f"not among the first {n_words} words of {lang!r}: {unlisted} in {text!r}"
    assert text.strip(), "the text has no word"
    assert text[-1] not in NEVER_LAST or _ends_in_entry(text, lang, n_words, words), f"cut before a word: {text!r}"


def unlisted_words(text: str, lang: str, n_words: int, words: Sequence[str] | None = None) -> list[str]:
    """The words of ``text`` that are not listed, in their order; a cut word at the end is among them.

    A listed word may have a capital first letter, either apostrophe and, in English, the possessive 's.

    Args:
        text: The answer.
        lang: A language tag; without ``words`` it names wordfreq's list.
        n_words: How many of the words count.
        words: The list in rank order, when it is not wordfreq's.
    """
    listing = _listing(lang, n_words, None if words is None else tuple(words))
    return list(_with_fewest_unlisted(_straight(text), listing))


class _Listing(NamedTuple):
    """What counts as a word.

    Attributes:
        words: Entries that the splitter sees as one word.
        phrases: Entries with blanks, marks or symbols, and with a possessive where there is one.
        elisions: Entries that join the next word ("l'").
    """

    words: frozenset[str]
    phrases: tuple[str, ...]
    elisions: frozenset[str]
    lang: str


@lru_cache(maxsize=32)
def _listing(lang: str, n_words: int, words: tuple[str, ...] | None) -> _Listing:
    ranked = _wordfreq_words(lang) if words is None else words
    entries = list(islice(dict.fromkeys(unicodedata.normalize("NFC", word) for word in ranked), n_words))
    straight = {_straight(entry) for entry in entries}
    base = lang.split("-")[0]
    elisions = {entry for entry in straight if entry.endswith("'")} if base in ("fr", "it", "ca") else set()
    phrases = {entry for entry in straight if not all(map(_is_word_character, entry))}
    possessives = {phrase + "'s" for phrase in phrases if base == "en" and "'" not in phrase}
    return _Listing(
        words=frozenset(straight - elisions - phrases),
        phrases=tuple((phrases | possessives) - elisions),
        elisions=frozenset(elisions),
        lang=base,
    )


def _wordfreq_words(lang: str) -> Iterator[str]:
    stems = ELISION_STEMS.get(lang, "").split()
    for entry in wordfreq.iter_wordlist(lang):
        made_of_letters = all(unicodedata.category(char)[0] in "LM" or char in "'’-" for char in entry)
        if made_of_letters and entry[0] not in "'’-" and entry[-1] != "-":
            yield entry + "'" if entry in stems else entry
            if (lang, entry) == ("it", "un"):
                yield "un'"


def _straight(text: str) -> str:
    return text.replace("’", "'")


def _is_word_character(char: str) -> bool:
    return unicodedata.category(char)[0] in "LMN" or char in "'-\u200c\u200d"


def _with_fewest_unlisted(text: str, listing: _Listing) -> tuple[str, ...]:
    # From the end: the fewest unlisted words from each position on. Phrases overlap, so no greedy reading is right.
    best: list[tuple[str, ...]] = [()] * (len(text) + 1)
    for position in range(len(text) - 1, -1, -1):
        readings = [
            best[position + len(phrase)]
            for phrase in listing.phrases
            if _is_at(phrase, text, position, listing.lang) and _is_word_end(text, position + len(phrase))
        ]
        if not _is_word_character(text[position]):
            rest = best[position + 1]
            readings.append(rest if text[position] in PUNCTUATION else (text[position], *rest))
        else:
            end = _word_end(text, position)
            word, rest = text[position:end], best[end]
            is_dash = text[max(position - 1, 0) : end + 1] == " - "
            readings.append(rest if is_dash or _is_listed(word, listing) else (word, *rest))
            readings += [
                best[position + length]
                for length in range(1, end - position + 1)
                if _is_elision(text[position : position + length], listing) and _starts_word(text, position + length)
            ]
        best[position] = min(readings, key=len)
    return best[0]


def _word_end(text: str, position: int) -> int:
    while position < len(text) and _is_word_character(text[position]):
        position += 1
    return position


def _is_word_end(text: str, position: int) -> bool:
    inside = _is_word_character(text[position - 1]) and _is_word_character(text[position : position + 1] or " ")
    return not inside


def _starts_word(text: str, position: int) -> bool:
    return position < len(text) and text[position] not in PUNCTUATION


def _is_at(phrase: str, text: str, position: int, lang: str) -> bool:
    candidate = text[position : position + len(phrase)]
    return candidate == phrase or _with_small_first_letter(candidate, lang) == phrase


def _is_listed(word: str, listing: _Listing) -> bool:
    candidates = [word, _with_small_first_letter(word, listing.lang)]
    if listing.lang == "en" and word.endswith("'s"):
        candidates += [candidate[:-2] for candidate in candidates if "'" not in candidate[:-2]]
    return any(candidate in listing.words for candidate in candidates)


def _is_elision(text: str, listing: _Listing) -> bool:
    return text in listing.elisions or _with_small_first_letter(text, listing.lang) in listing.elisions


def _with_small_first_letter(word: str, lang: str) -> str:
    if lang in ("tr", "az") and word[0] in "İI":
        return {"İ": "i", "I": "ı"}[word[0]] + word[1:]
    return unicodedata.normalize("NFC", word[0].lower() + word[1:])


def _ends_in_entry(text: str, lang: str, n_words: int, words: Sequence[str] | None) -> bool:
    """Whether the last characters are a listed entry of their own ("so-", "-")."""
    listing = _listing(lang, n_words, None if words is None else tuple(words))
    return any(
        _straight(text).endswith(entry) for entry in (*listing.phrases, *listing.words) if entry[-1] in NEVER_LAST
    )
