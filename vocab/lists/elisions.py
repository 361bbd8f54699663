"""The entries of wordfreq's lists that are elisions with their apostrophe cut off: "l" of "l'homme".

wordfreq cuts "l'homme" into "l" and "homme", and does so in front of a vowel or h after one or two letters only:
"jusqu'à" and "dell'anno" stay whole entries, and the ranks of "jusqu" and "dell" come from texts that had a blank or
a quotation mark behind the apostrophe. Knows which stems stand for what; knows nothing of how an elision is joined to
the next word. List files are not its business: their words are taken as written.
"""

from collections.abc import Iterable, Iterator
from typing import Final

_APOSTROPHE: Final = "'"

# Looked up in wordfreq 3.1's lists, with their places in them. A stem is here when the language elides so in front of
# any word and the list has it; when it is the name of a letter or an abbreviation besides ("c", "m", "com"), that use
# is the rarer one. Left out: stems of one word that is listed whole (French "aujourd", "prud"), letters that only
# slang elides ("p'tit", "v'là"), misspellings ("parcequ", Italian "cel", "qual"), words of another language (Catalan
# "c" and "qu" are French), Catalan's clitics behind a verb ("veure'l", listed whole), and stems that are everyday
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


def with_apostrophes(words: Iterable[str], lang: str) -> Iterator[str]:
    """The words of wordfreq's list for one of the languages of ``STEMS``, each bare stem with its apostrophe back.

    A word that is elided as well is followed by its elision.
    """
    stems, also_words = STEMS[lang], _ALSO_WORDS.get(lang, frozenset())
    for word in words:
        yield word + _APOSTROPHE if word in stems else word
        if word in also_words:
            yield word + _APOSTROPHE
