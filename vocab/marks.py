"""The marks that a text may have besides its words: those of the printed prose of a language, and those of all.

``punctuation: standard`` has those of a language, the other kinds have a choice of all.

The marks of languages are derived from the Unicode CLDR, version 48.2 (npm package cldr-misc-full 48.2.0, licence
Unicode-3.0, © Unicode, Inc.): from ``characters.punctuation``, the exemplar set, and ``delimiters`` of each language,
by these rules.

- . ! … : are everywhere; so are ? , ; unless the exemplar set has marks of its own instead (؟ ، ؛). The Greek question
  mark is ; and there is no other semicolon. Bengali, Hindi and Nepali have the danda, Urdu has ۔.
- – and — are there where the exemplar set has them, ¿ and ¡ where it has both.
- Quotation marks are the pair of ``delimiters`` and the alternate one. A pair of single marks is left out, for ' and ’
  are apostrophes here; “ ” stand in for the Dutch one. Arabic, Spanish and Galician have the « » of their exemplar
  sets: Arabic instead of ” “, which its set lacks, the others besides. Serbo-Croatian has the marks of Bosnian.
"""

from typing import Final, Literal, NamedTuple

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
        """Return the pairs of quotation marks and brackets; no two of them close alike."""
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
    """Return the marks of a language's printed prose ("es" of "es-MX"), for ``punctuation: standard``.

    A new mark must also be in ``vocab.marks.CLOSE_MARKS`` or ``OPEN_MARKS``. Compiled words may begin with an opening
    mark: for a new one, increment ``FORMAT_VERSION`` of ``vocab.automaton.compiled_list``.
    """
    return _BY_LANGUAGE.get(language, _FALLBACK)


class UnspacedMarks(NamedTuple):
    """The marks of a language that is written without spaces between words, each a string of single characters.

    Attributes:
        pairs: Quotation marks and brackets; each opens with its first character and closes with its second.
        sentence: End a sentence.
        exclamations: Those of them of which two may stand together.
        pauses: Follow a word within a sentence.
        dash: Stands twice between words.
        repeat: Follow a word, once: the Thai sign of repetition.
        has_blanks: Whether a blank may stand after a word or mark.
        ends_bare: Whether a sentence may end without a mark.
    """

    pairs: tuple[str, ...] = ()
    sentence: str = ""
    exclamations: str = ""
    pauses: str = ""
    dash: str = ""
    repeat: str = ""
    has_blanks: bool = False
    ends_bare: bool = False


_CHINESE: Final = UnspacedMarks(("“”", "‘’", "《》", "（）"), "。！？…", "！？", "，、；：", "—")
_UNSPACED: Final = {
    "zh": _CHINESE,
    "zh-Hant": _CHINESE._replace(pairs=("「」", "『』", "《》", "（）")),
    "ja": UnspacedMarks(("「」", "『』", "（）"), "。！？…", "！？", "、：", "―"),
    "th": UnspacedMarks(("“”", "()"), ".!?…", "!?", ",:", "", "ๆฯ", has_blanks=True, ends_bare=True),
}


def marks_of_unspaced(punctuation: Literal["standard", "full", "basic", "none"], language: str) -> UnspacedMarks:
    """Return the marks of ``zh``, ``zh-Hant``, ``ja`` or ``th``; those of ``full`` are those of ``standard``.

    Of the exemplar sets of the CLDR, those that printed prose has. They are full-width but for Thai.
    """
    own = _UNSPACED[language]
    if punctuation == "none":
        return UnspacedMarks(has_blanks=own.has_blanks, ends_bare=True)
    if punctuation == "basic":
        return own._replace(pairs=(), pauses=own.pauses[:1], dash="")
    return own


def unspaced_marks(language: str) -> frozenset[str]:
    """Return all marks of ``zh``, ``zh-Hant``, ``ja`` or ``th``, and the wide blank; none of any other language."""
    if language not in _UNSPACED:
        return frozenset()
    own = _UNSPACED[language]
    return frozenset("".join((*own.pairs, own.sentence, own.pauses, own.dash, own.repeat, WIDE_BLANK)))


WIDE_BLANK: Final = "\u3000"
UNSPACED_SENTENCE_MARKS: Final = "。！？"
"""End a sentence in Chinese and Japanese, besides …, which other languages have too."""

# The apostrophes are no quotation marks: a word may end in one, so a closing mark of the same shape would make the end
# of a word ambiguous.
_FULL_SENTENCE_MARKS: Final = ".!?…؟।"
SENTENCE_MARKS: Final = _FULL_SENTENCE_MARKS + "۔"
"""Closing marks that end a sentence in any language, but for the Greek question mark, which looks like a semicolon."""

COLON: Final = ":"
"""Allows a line break after it, as a sentence mark does, but does not end a sentence."""

CLOSING_QUOTES: Final = ")]" + '"«»“”‹›'
"""Closing brackets and quotation marks: a sentence mark before them still ends the sentence."""

_PAUSES_AND_QUOTES: Final = COLON + ",;،؛" + CLOSING_QUOTES
CLOSE_MARKS: Final = SENTENCE_MARKS + _PAUSES_AND_QUOTES
"""Marks that may follow a word, whatever the language and the options; at most ``MAX_CLOSE_RUN`` in a row."""

OPEN_MARKS: Final = "¿¡([„—" + '"«»“”‹›'
"""Marks that may precede a word, at most ``MAX_OPEN_RUN`` in a row. Quotation marks both open and close: German writes
»so«, Swedish ”so”."""

JOINING_DASH: Final = "—"
"""Joins two words without blanks."""

SPACED_DASHES: Final = "—–-"
"""Join two words with one blank on either side."""

BLANK: Final = " "
LINE_BREAK: Final = "\n"
APOSTROPHES: Final = "'’"
POSSESSIVE_LETTER: Final = "s"
"""Follows an apostrophe in the English possessive."""

MAX_OPEN_PAIRS: Final = 2
"""Pairs of ``standard`` open at once, one inside the other."""

MAX_CLOSE_RUN: Final = 4
MAX_OPEN_RUN: Final = 2
MAX_LINE_BREAKS: Final = 2

DIGITS: Final = "0123456789"
NUMBER_JOINTS: Final = ".,:"
"""Stand between two digits of a number, one at a time: "1,000", "3.14", "10:30"."""
PERCENT: Final = "%"
"""May be the last character of a number."""
MAX_NUMBER_CHARS: Final = 16
"""Of a whole number with its joints: room for "1,000,000,000.00", not for an endless run of digits."""


class Marks(NamedTuple):
    """The marks of a punctuation without pairs, each a string of single characters, perhaps empty."""

    sentence: str
    close: str
    open: str
    joining_dashes: str
    spaced_dashes: str


_FULL: Final = Marks(
    _FULL_SENTENCE_MARKS, _FULL_SENTENCE_MARKS + _PAUSES_AND_QUOTES, OPEN_MARKS, JOINING_DASH, SPACED_DASHES
)
_NONE: Final = Marks("", "", "", "", "")
_ARABIC_LANGUAGES: Final = frozenset({"ar", "fa", "ur"})
_DANDA_LANGUAGES: Final = frozenset({"hi", "bn", "mr", "ne"})


def marks_of(punctuation: Literal["full", "basic", "none"], language: str) -> Marks:
    """Return the marks of ``punctuation``; only the basic ones depend on the language ("es" of "es-MX").

    The marks of ``standard`` are those of ``marks_of_language``.

    A new mark must also be in ``CLOSE_MARKS`` or ``OPEN_MARKS``, which the reader uses for every language. Compiled
    lists keep the marks they were made with: increment ``FORMAT_VERSION`` of ``vocab.automaton.compiled_list``.
    """
    if punctuation == "full":
        return _FULL
    if punctuation == "none":
        return _NONE
    sentence, comma = ".!?…", ","
    if language in _ARABIC_LANGUAGES:
        sentence, comma = sentence + "؟", comma + "،"
    if language in _DANDA_LANGUAGES:
        sentence += "।"
    return Marks(sentence, sentence + comma, "¿¡", "", "")
