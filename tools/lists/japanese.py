"""Which of wordfreq's Japanese entries are words.

wordfreq's entries are the morphemes that MeCab cut with IPADIC: "食べ" and "た". SudachiDict and JMdict decide.
Of words in hiragana those are left out that ``chance`` finds to be cut out of other words.
"""

import importlib
import lzma
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import wordfreq

from tools.lists.chance import cut_by_chance
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
"""With this ratio the longest match agrees best with SudachiPy and with unidic-lite: F1 0.892 and 0.899 on 2,000
sentences, 0.835 and 0.842 with all words."""


def japanese_judge(folder: Path, raw: Iterable[str]) -> Callable[[str], str]:
    """Return why an entry of wordfreq's list is left out; empty for a word."""
    known = _jmdict(folder)
    parts_of_speech = _sudachi(folder)
    by_dictionary = {entry: _reason(entry, known, parts_of_speech) for entry in raw}
    words = [entry for entry, reason in by_dictionary.items() if not reason]
    fragments = cut_by_chance(_shares(words), MAX_BY_CHANCE, lambda word: HIRAGANA.fullmatch(word) is not None)
    return lambda entry: by_dictionary[entry] or ("junk" if entry in fragments else "")


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


def _shares(words: Iterable[str]) -> dict[str, float]:
    """Return how often wordfreq has counted words, as shares of all."""
    buckets = wordfreq.read_cBpack(wordfreq.available_languages("best")["ja"])
    share = {word: 10 ** (-step / 100) for step, bucket in enumerate(buckets) for word in bucket}
    return {word: share[word] for word in words}


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
