"""Which marks the printed prose of a language has: those of ``punctuation: standard``.

Derived from the Unicode CLDR, version 48.2 (npm package cldr-misc-full 48.2.0, licence Unicode-3.0, © Unicode, Inc.):
from ``characters.punctuation``, the exemplar set, and ``delimiters`` of each language, by these rules.

- . ! … : are everywhere; so are ? , ; unless the exemplar set has marks of its own instead (؟ ، ؛). The Greek question
  mark is ; and there is no other semicolon. Bengali, Hindi and Nepali have the danda, Urdu has ۔.
- – and — are there where the exemplar set has them, ¿ and ¡ where it has both.
- Quotation marks are the pair of ``delimiters`` and the alternate one. A pair of single marks is left out, for ' and ’
  are apostrophes here; “ ” stand in for the Dutch one. Arabic, Spanish and Galician have the « » of their exemplar
  sets: Arabic instead of ” “, which its set lacks, the others besides. Serbo-Croatian has the marks of Bosnian.
"""

from typing import Final, NamedTuple

_TYPEWRITER: Final = '""'
_ROUND: Final = "()"


class LanguageMarks(NamedTuple):
    """The marks of a language, each a string of single characters, perhaps empty.

    Attributes:
        quotes: Pairs of quotation marks; each opens with its first character and closes with its second.
        dashes: Those that join words with a blank on either side, besides the hyphen; — also joins without blanks.
        inverted: Precede a word or what opens before it.
        sentence: End a sentence.
        questions: Those of them that may stand beside "!".
        pauses: Follow a word within a sentence; the colon is one.
    """

    quotes: tuple[str, ...] = ("“”",)
    dashes: str = "–—"
    inverted: str = ""
    sentence: str = ".!?…"
    questions: str = "?"
    pauses: str = ",;:"

    @property
    def pairs(self) -> tuple[str, ...]:
        """The pairs of quotation marks and brackets; no two of them close alike."""
        return (*self.quotes, _TYPEWRITER, _ROUND)

    @property
    def joining_dashes(self) -> str:
        return "—" if "—" in self.dashes else ""

    @property
    def spaced_dashes(self) -> str:
        return self.dashes + "-"


_FALLBACK: Final = LanguageMarks()
"""Of a list without a language, and of languages not named here."""

_ARABIC: Final = LanguageMarks(("«»",), sentence=".!؟…", questions="؟", pauses="،؛:")

_BY_LANGUAGES: Final = {
    "af az cy en fil ga id lv ms mr nl pt sq ta tr vi": _FALLBACK,
    "bn hi": LanguageMarks(sentence=".!?…।"),
    "ne": LanguageMarks(dashes="—", sentence=".!?…।"),
    "da": LanguageMarks(dashes="–"),
    "ko": LanguageMarks(dashes="—", inverted="¿¡"),
    "sw": LanguageMarks(dashes=""),
    "es gl": LanguageMarks(("“”", "«»"), inverted="¿¡"),
    "ast ca": LanguageMarks(("«»", "“”"), inverted="¿¡"),
    "eu kk": LanguageMarks(("«»", "“”")),
    "it": LanguageMarks(("«»", "“”"), "—"),
    "fr": LanguageMarks(("«»",), "–—"),
    "nb nn no": LanguageMarks(("«»",), "–"),
    "bg de hr is lt mk": LanguageMarks(("„“",)),
    "cs et sk sl": LanguageMarks(("„“",), "–"),
    "ka": LanguageMarks(("„“", "«»")),
    "be": LanguageMarks(("«»", "„“"), ""),
    "ru": LanguageMarks(("«»", "„“")),
    "uk": LanguageMarks(("«»", "„“"), "–"),
    "bs sh": LanguageMarks(("„”",)),
    "sr": LanguageMarks(("„”",), "–"),
    "pl ro": LanguageMarks(("„”", "«»")),
    "hu": LanguageMarks(("„”", "»«"), "–"),
    "he sv": LanguageMarks(("””",)),
    "fi": LanguageMarks(("””",), "–"),
    "el": LanguageMarks(("«»", "“”"), sentence=".!;…", questions=";", pauses=",:"),
    "ar": _ARABIC,
    "fa": _ARABIC._replace(quotes=("«»", "‹›"), dashes=""),
    "ur": _ARABIC._replace(quotes=("”“",), dashes="", sentence=".!؟…۔"),
}

_BY_LANGUAGE: Final = {language: marks for languages, marks in _BY_LANGUAGES.items() for language in languages.split()}


def marks_of_language(language: str) -> LanguageMarks:
    """Return the marks of a language ("es" of "es-MX").

    A new mark must also be in ``vocab.marks.CLOSE_MARKS`` or ``OPEN_MARKS``. Compiled words may begin with an opening
    mark: for a new one, increment ``FORMAT_VERSION`` of ``vocab.automaton.words``.
    """
    return _BY_LANGUAGE.get(language, _FALLBACK)
