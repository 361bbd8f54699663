"""How the words of a text are read aloud: Chinese in pinyin, Japanese in hiragana, each by a library of its own.

A word is read as a whole, so that 长 differs in 长大 (zhǎngdà) and 长城 (chángchéng). pypinyin has words of Chinese;
SudachiPy cuts a Japanese text into the words of its own dictionary, whose readings count where its cuts are ours.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeAlias

from vocab.errors import LanguageError

Readings: TypeAlias = Sequence[str | None]

_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "zh": ("pypinyin",),
    "zh-Hant": ("pypinyin",),
    "ja": ("sudachipy", "sudachidict_small"),
}

_MAX_CHARS: Final = 2_000
"""Of a text that SudachiPy reads at once: it takes no more than 49,149 bytes."""

_SENTENCE: Final = re.compile(rf"[^\n。！？]{{1,{_MAX_CHARS}}}[\n。！？]*|[\n。！？]+")

_sudachi: Final = Lock()


def has_readings(language: str) -> bool:
    """Return whether the words of a language have readings here: its library is installed."""
    packages = _PACKAGES.get(language, ())
    return bool(packages) and all(find_spec(package) is not None for package in packages)


def check_readings(language: str) -> None:
    """Refuse a language whose words have no readings here.

    Raises:
        LanguageError: It has none at all, or its library is not installed.
    """
    if language not in _PACKAGES:
        known = ", ".join(_PACKAGES)
        message = f"Words of {language!r} have no readings: choose a list of {known}, or leave them out."
        raise LanguageError(message, "readings")
    if not has_readings(language):
        raise LanguageError(
            f"Readings of {language!r} need a package that is not installed here: pip install 'wordbound[readings]'.",
            "readings",
        )


def reading_of(word: str, language: str) -> str | None:
    """Return the reading of a word by itself, as ``readings_of``, for a language that has readings here."""
    return _japanese(word, [(0, len(word))])[0] if language == "ja" else _pinyin(word, language)


def readings_of(text: str, spans: Sequence[tuple[int, int]], language: str) -> Readings:
    """Return the reading of each word of a text, by (start, end); None for one without Chinese characters, or unknown.

    Raises:
        LanguageError: As of ``check_readings``.
    """
    check_readings(language)
    if language == "ja":
        return _japanese(text, spans)
    read = cache(_pinyin)
    return [read(text[start:end], language) for start, end in spans]


_HAN: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")

_PARTICLES: Final = {"得": "de", "地": "de"}
"""A word alone is a particle nearly always, which pypinyin reads as the verb and the noun."""

_AFTER_APOSTROPHE: Final = frozenset("aāáǎàoōóǒòeēéěè")
"""A syllable that begins so is parted from the one before: Xī'ān."""


def _pinyin(word: str, language: str) -> str | None:
    """Return a word in pinyin, as one word; characters that are none of Chinese stay as they are."""
    if language == "zh-Hant":
        # pypinyin has most words in simplified characters only.
        word = word.translate(_simplified())
    if not _HAN.search(word):
        return None
    if word in _PARTICLES:
        return _PARTICLES[word]
    from pypinyin import Style, lazy_pinyin

    syllables: list[str] = lazy_pinyin(word, style=Style.TONE)
    if any(map(_HAN.search, syllables)):
        return None
    first, *others = syllables
    return first + "".join(f"'{one}" if one[:1] in _AFTER_APOSTROPHE else one for one in others)


@cache
def _simplified() -> Mapping[int, int]:
    """Return the simplified form of each traditional character: OpenCC's, as ``tools.lists`` has written them."""
    traditional, simplified = Path(__file__).with_name("simplified.txt").read_text(encoding="utf-8").splitlines()
    return str.maketrans(traditional, simplified)


_USUAL: Final = {"私": "わたし", "日本": "にほん", "明日": "あした", "昨日": "きのう", "何": "なに", "家": "いえ"}
"""Words of which SudachiPy has the formal reading, or another than learners meet first."""

_TO_HIRAGANA: Final = {code: code - 0x60 for code in range(0x30A1, 0x30F7)}


def _japanese(text: str, spans: Sequence[tuple[int, int]]) -> Readings:
    """Return the readings of Japanese words in hiragana, in their sentences where SudachiPy has the same words."""
    tokenize = _tokenizer()
    read_alone = cache(lambda word: _kana("".join(map(_reading, tokenize(word)))))
    starts, readings = _morphemes(text, tokenize)
    places = {start: number for number, start in enumerate(starts)}
    found: list[str | None] = []
    for start, end in spans:
        word = text[start:end]
        if not _HAN.search(word):
            found.append(None)
        elif start in places and end in places:
            found.append(_kana("".join(readings[places[start] : places[end]])))
        else:
            found.append(read_alone(word[:_MAX_CHARS]))
    return found


@cache
def _tokenizer() -> Callable[[str], Any]:
    from sudachipy import Dictionary, SplitMode

    tokenizer = Dictionary(dict="small").tokenizer()

    def tokenize(text: str) -> Any:
        # One text at a time.
        with _sudachi:
            return tokenizer.tokenize(text, SplitMode.A)

    return tokenize


def _morphemes(text: str, tokenize: Callable[[str], Any]) -> tuple[list[int], list[str]]:
    """Cut a text into SudachiPy's words: return where each begins, and the end of the text; and their readings."""
    starts, readings = list[int](), list[str]()
    parts = _SENTENCE.findall(text)
    offsets = accumulate(map(len, parts), initial=0)
    for offset, part in zip(offsets, parts, strict=False):
        for morpheme in tokenize(part):
            starts.append(offset + morpheme.begin())
            readings.append(_reading(morpheme))
    return [*starts, len(text)], readings


def _reading(morpheme: Any) -> str:
    """Return the reading of one of SudachiPy's words, in katakana but for ``_USUAL``."""
    reading: str = _USUAL.get(morpheme.surface()) or morpheme.reading_form()
    return reading


def _kana(reading: str) -> str | None:
    """Return a reading of SudachiPy in hiragana; None where it has another character, as for words unknown to it."""
    written = reading.translate(_TO_HIRAGANA)
    return written if written and all("\u3041" <= char <= "\u3096" or char == "ー" for char in written) else None
