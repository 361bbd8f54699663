"""Which of wordfreq's Japanese entries are words.

wordfreq's entries are the morphemes that MeCab cut with IPADIC: "食べ" and "た". SudachiDict and JMdict decide.
Words in hiragana are a danger to the longest match: with "てい" listed, "ている" is cut into "てい" and "る". One that
is rarer than the chance that it is cut out of other words is left out; its parts are words of their own.
"""

import importlib
import lzma
import re
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import wordfreq

from tools.lists.evidence import python_path
from tools.lists.packages import python_folder

JAPANESE: Final = re.compile(r"[\u3041-\u3096\u30a1-\u30fa\u30fc\u3005\u3400-\u9fff]+")
HIRAGANA: Final = re.compile(r"[\u3041-\u3096\u30fc]+")
_KANA: Final = re.compile(r"[\u3041-\u30ff]")

SINGLE_KANA: Final = frozenset("のにてはがたをでしとなもだかんよさねういやばおごずれらへぞぜわせきけみえつぬこ")
"""Particles, prefixes, and parts of verbs: "れ" of "行かれた"."""

_NO_WORDS: Final = frozenset({"補助記号", "記号", "空白"})
"""SudachiDict's parts of speech of marks."""

MAX_BY_CHANCE: Final = 0.5
"""How much likelier than a hiragana word the words may be, by chance, that it would be cut out of. With 0.5 the longest
match agrees best with SudachiPy and with unidic-lite (F1 0.892 and 0.899; 0.835 and 0.842 with all words)."""

_MAX_PREFIX: Final = 8


def japanese_judge(folder: Path, raw: Iterable[str]) -> Callable[[str], str]:
    """Return why an entry of wordfreq's list is left out; empty for a word."""
    known = _jmdict(folder)
    parts_of_speech = _sudachi(folder)
    by_dictionary = {entry: _reason(entry, known, parts_of_speech) for entry in raw}
    cut_by_chance = _cut_by_chance([entry for entry, reason in by_dictionary.items() if not reason])
    return lambda entry: by_dictionary[entry] or ("junk" if entry in cut_by_chance else "")


def _reason(entry: str, known: frozenset[str], parts_of_speech: Callable[[str], list[tuple[str, ...]]]) -> str:
    if not JAPANESE.fullmatch(entry):
        return "letter"
    if len(entry) == 1 and not (entry in SINGLE_KANA or entry.isascii() or not _KANA.match(entry)):
        return "junk"
    found = [pos for pos in parts_of_speech(entry) if pos[0] not in _NO_WORDS]
    if not found:
        return "" if entry in known else "unknown"
    is_name = all(pos[1] == "固有名詞" and pos[2] != "地名" for pos in found)
    is_person = all(pos[2] == "人名" for pos in found)
    return "name" if is_name and (is_person or entry not in known) else ""


def _cut_by_chance(words: list[str]) -> set[str]:
    """Return the hiragana words that the longest match would rather cut out of others than find."""
    buckets = wordfreq.read_cBpack(wordfreq.available_languages("best")["ja"])
    share = {word: 10 ** (-step / 100) for step, bucket in enumerate(buckets) for word in bucket}
    listed = set(words)
    begin: defaultdict[str, float] = defaultdict(float)
    for word in words:
        for end in range(1, min(len(word), _MAX_PREFIX) + 1):
            begin[word[:end]] += share[word]
    return {
        word
        for word in words
        if HIRAGANA.fullmatch(word) and _chance(word, share, listed, begin) > MAX_BY_CHANCE * share[word]
    }


def _chance(word: str, share: Mapping[str, float], listed: set[str], begin: Mapping[str, float]) -> float:
    """Return how often a word's letters would be two words, or one and the start of another, by chance."""
    return sum(share[word[:cut]] * begin[word[cut:]] for cut in range(1, len(word)) if word[:cut] in listed)


def _jmdict(folder: Path) -> frozenset[str]:
    packed = python_folder(folder) / "jamdict_data" / "jamdict.db.xz"
    with tempfile.NamedTemporaryFile(suffix=".db") as file, lzma.open(packed) as data:
        while block := data.read(1 << 24):
            file.write(block)
        file.flush()
        base = sqlite3.connect(file.name)
        words = frozenset(word for table in ("Kanji", "Kana") for (word,) in base.execute(f"SELECT text FROM {table}"))  # noqa: S608
        base.close()
    return words


def _sudachi(folder: Path) -> Callable[[str], list[tuple[str, ...]]]:
    """Return what finds the parts of speech of a word in SudachiDict."""
    with python_path(folder):
        dictionary: Any = importlib.import_module("sudachipy").Dictionary(dict="core")
    return lambda word: [morpheme.part_of_speech() for morpheme in dictionary.lookup(word)]
