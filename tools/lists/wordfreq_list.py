"""wordfreq's entries that are words, from which lists are made."""

import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import wordfreq

from vocab.marks import APOSTROPHES


def wordfreq_words(language: str) -> tuple[str, ...]:
    """Return the entries of wordfreq's list made of letters and marks, with apostrophes and hyphens inside, in NFC."""
    # wordfreq.iter_wordlist() gives the same entries, but keeps every list it has read for good.
    entries = chain.from_iterable(wordfreq.read_cBpack(wordfreq.available_languages("best")[language]))
    # One in a hundred entries is not all letters; those are looked at character by character.
    words: Iterator[str] = (
        unicodedata.normalize("NFC", entry) for entry in entries if entry.isalpha() or _is_word(entry)
    )
    if language == "el":
        words = map(_with_final_sigma, words)
    return tuple(dict.fromkeys(_with_apostrophes(words, language)))


def _with_final_sigma(word: str) -> str:
    # wordfreq has folded its words, and with that every ς became σ: "τησ". A word of one letter is an elision, "σ'".
    return word[:-1] + "ς" if word[-1] == "σ" and len(word) > 1 else word


def _is_word(entry: str) -> bool:
    joints = APOSTROPHES + "-"
    is_framed = entry[0] in joints or entry[-1] == "-"
    return not is_framed and all(char in joints or unicodedata.category(char)[0] in "LM" for char in entry)


# Looked up in wordfreq 3.1's lists, with their places in them. A stem is here when the language elides so in front of
# any word and the list has it; when it is the name of a letter or an abbreviation besides ("c", "m", "com"), that use
# is the rarer one. Left out: stems of one word that is listed whole (French "aujourd", "prud"), letters that only
# slang elides ("p'tit", "v'là"), misspellings ("parcequ", Italian "cel", "qual"), words of another language (Catalan
# "c" and "qu" are French), Catalan's clitics after a verb ("veure'l", listed whole), and stems that are everyday
# words without an apostrophe (French "grand", Italian "buon", "nessun", "alcun", "cent"). Italian "po'", "di'", "fa'"
# are cut short, not elided: they end a word, so they stay "po", "di", "fa".
_STEMS: Final = {
    # l 5, d 11, c 23, qu 27, j 34, n 35, s 40, t 65, m 66, ç 7043 ("ç'aurait"), jusqu 7105, ..., quoiqu 139342
    "fr": "l d c qu j n s t m ç jusqu quelqu lorsqu entr puisqu presqu quoiqu",
    # l 13, d 51, c 59 ("c'è"), n 240, s 344, m 408, dell 529, all 706, t 767, v 946, dall 2322, ..., sugl 200756
    "it": "l d c n s m t v ch gl all dell dall nell sull coll pell agl degl dagl negl sugl quest quell bell sant com "
    "cos dov dev anch neanch senz tutt tant quant quand mezz nient ogn sott pover gliel prim terz quart vent trent "
    "quarant cinquant",
    # l 7, d 8, s 28, m 74, t 93, n 144
    "ca": "l d s m t n",
}
STEMS: Final = {language: frozenset(stems.split()) for language, stems in _STEMS.items()}
"""Stems that are nothing but elisions, by language."""

_ALSO_WORDS: Final = {"it": frozenset({"un"})}
"""Words that are elided as well: "un anno", but "un'ora". wordfreq counts both as one entry (rank 9)."""


def _with_apostrophes(words: Iterable[str], language: str) -> Iterator[str]:
    """Restore the apostrophe of each bare stem of ``STEMS``, and put the elision of ``_ALSO_WORDS`` behind the word."""
    stems, also_words = STEMS.get(language, frozenset()), _ALSO_WORDS.get(language, frozenset())
    for word in words:
        yield word + "'" if word in stems else word
        if word in also_words:
            yield word + "'"
