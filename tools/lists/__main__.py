"""Build the built-in lists: ``python -m tools.lists [LANGUAGE...]``, by default all of them.

Writes ``vocab/lists/data/<language>.xz`` and the table of ``tools/lists/counts.md``; for traditional Chinese also
``vocab/simplified.txt``. The packages are fetched into ``~/.cache/wordbound/lists`` on the first run, 700 MB.
"""

import argparse
import fnmatch
import json
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeAlias

from tools.lists.evidence import COUNTRIES, Evidence, english_words, foreign_words, gather, steps_of, unaccented_words
from tools.lists.hand import FULL, Hand, fold, read_hand
from tools.lists.judge import Judge
from tools.lists.korean import build_korean
from tools.lists.packages import fetch, npm_folder, read_json
from tools.lists.page import Row, write_table
from tools.lists.unspaced import UNSPACED, build_unspaced
from tools.lists.wordfreq_list import wordfreq_words
from tools.lists.writing import write_list
from vocab.lists.cleaned import FOLDER, MAX_RANKS

StepOf: TypeAlias = Callable[[str], int]
"""An entry's step in wordfreq's list, which has 100 for each power of ten that a word is rarer; 0 for no entry."""

PACKAGES: Final = Path("~/.cache/wordbound/lists").expanduser()

MAX_HYPHENED: Final = 650
"""wordfreq's step up to which words with hyphens are added, three uses in ten million words: rarer ones are guesses."""

_HYPHEN_STEPS: Final = 150
"""By how much a word with a hyphen is rarer than its rarest part: 30 times."""

MIN_HYPHENED: Final = 520
"""One use in 200,000 words, rank 10,000: the dictionaries have "yo-yo", and more frequent ones are added by hand."""


def main(arguments: list[str]) -> None:
    command = argparse.ArgumentParser(prog="python -m tools.lists", description="Build the built-in word lists.")
    command.add_argument("languages", nargs="*", metavar="LANGUAGE", help="default: all")
    command.add_argument("--packages", type=Path, default=PACKAGES, help="folder of the packages (%(default)s)")
    asked = command.parse_args(arguments)
    fetch(asked.packages)
    FOLDER.mkdir(exist_ok=True)
    for language in asked.languages or sorted((*COUNTRIES, *UNSPACED)):
        if language == "ko":
            row = build_korean(asked.packages)
        else:
            row = (build_unspaced if language in UNSPACED else build)(language, asked.packages)
        print(json.dumps(row.as_dict(), ensure_ascii=False))
        write_table(row)


def build(language: str, packages: Path) -> Row:
    """Build and write the list of one language; return what the documentation says of it."""
    raw = wordfreq_words(language)
    step_of = _steps(language)
    hand, evidence = read_hand(language), gather(language, packages)
    if language in FULL:
        foreign = frozenset() if language == "en" else english_words(packages)
    else:
        foreign = foreign_words(language, packages).union(unaccented_words(raw, evidence.small))
    judge = Judge(evidence, hand, foreign)
    words: list[tuple[int, str]] = []
    added: list[tuple[int, str]] = []
    reasons: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for place, entry in enumerate(raw):
        reason, found = judge.spellings(entry)
        if not found:
            reasons[reason] += 1
            examples.setdefault(reason, []).append(entry)
            continue
        words.append((place, found[0].text))
        added += [(step_of(entry) + other.steps, other.text) for other in found[1:]]
        reasons["both"] += len(found) > 1
        reasons["capital"] += found[0].text != entry
    spelled = {word for _, word in words}
    added += [(step, word) for step, word in _hyphened(evidence, hand, step_of) if word not in spelled]
    listed = {*spelled, *(word for _, word in added)}
    unsafe = frozenset(_unsafe(listed, language, packages, hand, evidence))
    steps = [step_of(entry) for entry in raw]
    placed = merge(sorted((bisect_right(steps, step), word) for step, word in added), words, key=itemgetter(0))
    counts = write_list(language, islice(dict.fromkeys(word for _, word in placed), MAX_RANKS), unsafe)
    return Row(language, len(raw), len(added), *counts, reasons, examples)


def _steps(language: str) -> StepOf:
    step_of = steps_of(language)
    return lambda entry: step_of.get(entry, step_of.get(entry.rstrip("'"), step_of.get(entry.replace("ς", "σ"), 0)))


def _hyphened(evidence: Evidence, hand: Hand, step_of: StepOf) -> Iterable[tuple[int, str]]:
    """Yield the added words by hand, and the dictionaries' words with a hyphen, each rarer than its rarest part."""
    yield from ((_rarest(word, step_of) + steps, word) for word, steps in hand.added.items())
    for word in evidence.small | evidence.proper:
        parts = fold(word).split("-")
        is_plain = all(len(part) > 1 and part.isalpha() for part in parts) and fold(word) not in hand.junk
        if len(parts) > 1 and word not in hand.added and is_plain:
            of_class = next((steps for pattern, steps in hand.classes.items() if pattern.match(word)), None)
            rarest = _rarest(word, step_of)
            step = max(rarest + _HYPHEN_STEPS, MIN_HYPHENED) if of_class is None else rarest + of_class
            if step <= MAX_HYPHENED and "'" not in word and min(map(step_of, parts)) > 0:
                yield step, word


def _rarest(word: str, step_of: StepOf) -> int:
    """Return the step of the rarest part of a word; of an abbreviation that wordfreq has whole ("e.g"), its own."""
    plain = fold(word).replace(" ", "").rstrip(".")
    parts = [part for part in re.split("[-'.]", fold(word).replace(" ", "")) if part]
    # Parts of one letter are counted with much else, but some words have no other: Romanian "s-a".
    longer = [part for part in parts if len(part) > 1] or parts
    return step_of(plain) or max(step_of(part) or MAX_HYPHENED for part in longer)


def _unsafe(listed: set[str], language: str, packages: Path, hand: Hand, evidence: Evidence) -> Iterable[str]:
    """Return the listed words that the profanity lists name, and all other forms of their lemmas."""
    file = npm_folder(packages, "naughty-words") / f"{'no' if language == 'nb' else language}.json"
    named = {fold(word) for word in (read_json(file) if file.is_file() else ())} - hand.harmless
    # Where nobody has read what the lemmas bring, "Ramona" could be a form of a verb.
    roots = {evidence.lemma(word) for word in named} - hand.harmless if language in FULL else set()
    is_named = re.compile("|".join(map(fnmatch.translate, sorted(hand.unsafe | {"-"})))).match
    for word in listed:
        plain = fold(word)
        parts = re.split("[-']", plain)
        if plain not in hand.harmless and (
            plain in named
            or (roots and evidence.lemma(word) in roots)
            or any(part in named or is_named(part) for part in parts)
        ):
            yield word


if __name__ == "__main__":
    main(sys.argv[1:])
