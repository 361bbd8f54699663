"""Build the lists of languages written without spaces: which entries are words of the reference dictionary.

``chinese``, ``japanese`` and ``thai`` decide on each entry; what a person wrote down goes before that. In ``by_hand``
such a language has ``[junk]``, entries that are left out; ``[words]``, entries that stay; ``[added]``, words with the
place that they get (``word=150``); ``[unsafe]`` and ``[harmless]``.
"""

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Final

from tools.lists.chinese import Traditional, chinese_judge, traditional_forms, write_simplified
from tools.lists.hand import Hand, read_hand
from tools.lists.japanese import japanese_judge
from tools.lists.packages import npm_folder, read_json
from tools.lists.page import Row
from tools.lists.thai import thai_words
from tools.lists.wordfreq_list import wordfreq_words
from tools.lists.writing import write_list

_OTHER_PLACE: Final = 5
"""How much rarer a word is that is another one's in simplified characters: 后, queen, beside 後."""

UNSPACED: Final = ("ja", "th", "zh", "zh-Hant")


def build_unspaced(language: str, packages: Path) -> Row:
    """Build and write the list of one language; return what the documentation says of it.

    Traditional Chinese has the table of simplified characters besides.
    """
    if language == "zh-Hant":
        write_simplified(packages)
    hand = read_hand(language)
    return (_build_stored if language == "th" else _build_judged)(language, packages, hand)


def _build_stored(language: str, packages: Path, hand: Hand) -> Row:
    """Build a list that wordfreq has not."""
    reasons: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    words: list[str] = []
    for word, reason in thai_words(packages):
        if word in hand.words or not (reason := "junk" if word in hand.junk else reason):
            words.append(word)
        else:
            _count(reasons, examples, reason, word)
    for word, place in sorted(hand.added.items(), key=lambda pair: pair[1]):
        words.insert(place, word)
    words = list(dict.fromkeys(words))
    counts = write_list(language, words, frozenset(_unsafe(words, language, packages, hand)))
    return Row(language, len(words) + sum(reasons.values()), len(hand.added), *counts, reasons, examples)


def _build_judged(language: str, packages: Path, hand: Hand) -> Row:
    """Build a list from wordfreq's entries."""
    is_traditional = language == "zh-Hant"
    base = "zh" if is_traditional else language
    raw = wordfreq_words(base)
    judge = japanese_judge(packages, raw) if base == "ja" else chinese_judge(packages)
    forms = traditional_forms(packages) if is_traditional else None
    base_hand = read_hand(base)
    reasons: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    words: list[tuple[int, str]] = []
    added = [
        (place, form)
        for word, place in base_hand.added.items()
        for form in (forms(word).regional if forms is not None else (word,))
    ]
    spelled: set[str] = {word for _, word in added}
    for index, entry in enumerate(raw):
        reason = "" if entry in base_hand.words else "junk" if entry in base_hand.junk else judge(entry)
        found = forms(entry) if forms is not None else Traditional((entry,), ())
        regional = [word for word in found.regional if word not in hand.junk or word in hand.words]
        if reason or not regional:
            _count(reasons, examples, reason or "junk", entry)
            continue
        usual, *variants = regional
        words.append((index, usual))
        added += [(index + 1, word) for word in variants]
        added += [(_OTHER_PLACE * (index + 1), word) for word in found.others if word not in hand.junk]
        spelled.update(found.regional, found.others)
    spelled -= hand.junk
    placed = merge(sorted(added, key=itemgetter(0)), words, key=itemgetter(0))
    unsafe = frozenset(_unsafe(spelled, language, packages, hand))
    counts = write_list(language, dict.fromkeys(word for _, word in placed), unsafe)
    return Row(language, len(raw), len(added), *counts, reasons, examples)


def _count(reasons: Counter[str], examples: dict[str, list[str]], reason: str, entry: str) -> None:
    reasons[reason] += 1
    examples.setdefault(reason, []).append(entry)


def _unsafe(words: Iterable[str], language: str, packages: Path, hand: Hand) -> Iterator[str]:
    """Yield the words that the profanity lists name."""
    file = npm_folder(packages, "naughty-words") / f"{language.partition('-')[0]}.json"
    named = set(read_json(file))
    if language == "zh-Hant":
        forms = traditional_forms(packages)
        named |= {form for word in named for form in forms(word).regional}
        simplified = read_hand("zh")
        hand = replace(
            hand,
            harmless=hand.harmless | {form for word in simplified.harmless for form in forms(word).regional},
            unsafe=hand.unsafe | {form for word in simplified.unsafe for form in forms(word).regional},
        )
    is_named = re.compile("|".join(map(fnmatch.translate, sorted(hand.unsafe | {"-"})))).match
    for word in words:
        if word not in hand.harmless and (word in named or is_named(word)):
            yield word
