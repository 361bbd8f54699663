"""How the longest match cuts sentences into words, beside a segmenter that weighs them.

``python -m benchmarks segmentation --lang zh --sentences FILE``, one sentence a line. The other segmenters are jieba
(zh; zh-Hant with OpenCC), SudachiPy in mode A with sudachidict-core or fugashi with unidic-lite (ja), and pythainlp's
newmm or attacut (th); none is a dependency. Prints JSON: the share of equal words (F1 of their spans), the share of
characters that no word covers, and the commonest differences, as ours and theirs.
"""

import argparse
import importlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from vocab.lists.wordlists import reference_dictionary

Segmenter = Callable[[str], Sequence[str]]
"""Cuts a text into pieces that are, one after the other, as long as it is."""

LETTERS: Final = {
    "zh": r"[\u3400-\u9fff]+",
    "zh-Hant": r"[\u3400-\u9fff]+",
    "ja": r"[\u3041-\u3096\u30a1-\u30fa\u30fc\u3005\u3400-\u9fff]+",
    "th": r"[\u0e01-\u0e2e\u0e30-\u0e3a\u0e40-\u0e45\u0e47-\u0e4e]+",
}
"""Runs of what a language's words are made of; nothing else is compared."""

SEGMENTERS: Final = {
    "zh": ("jieba",),
    "zh-Hant": ("jieba",),
    "ja": ("sudachi", "unidic"),
    "th": ("newmm", "attacut"),
}

NUM_DIFFERENCES: Final = 20


def longest_match(text: str, words: frozenset[str], max_chars: int) -> Iterator[str]:
    """Cut a text from left to right into the longest words; a character that begins none is a piece."""
    start = 0
    while start < len(text):
        ends = range(min(len(text), start + max_chars), start + 1, -1)
        end = next((end for end in ends if text[start:end] in words), start + 1)
        yield text[start:end]
        start = end


def load_segmenter(name: str, language: str) -> Segmenter:
    """Import a segmenter by its name."""
    if name == "jieba":
        jieba = importlib.import_module("jieba")
        jieba.setLogLevel("ERROR")
        cut: Segmenter = jieba.lcut
        if language == "zh":
            return cut
        # jieba's dictionary is in simplified characters, of which there are as many.
        convert = importlib.import_module("opencc").OpenCC("t2s").convert
        return lambda text: cut("".join(map(convert, text)))
    if name == "sudachi":
        sudachipy = importlib.import_module("sudachipy")
        tokenizer = sudachipy.Dictionary(dict="core").tokenizer(mode=sudachipy.SplitMode.A)
        return lambda text: [morpheme.surface() for morpheme in tokenizer.tokenize(text)]
    if name == "unidic":
        tagger: Any = importlib.import_module("fugashi").Tagger()
        return lambda text: [word.surface for word in tagger(text)]
    tokenize = importlib.import_module("pythainlp.tokenize").word_tokenize
    return lambda text: list(tokenize(text, engine=name))


def spans_of(pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Return where pieces stand that follow each other."""
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    return list(pairwise(ends))


def differences(run: str, ours: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the smallest stretches of a run that two segmenters cut in different ways, as each cuts them."""
    cuts = [{start for start, _ in spans_of(pieces)} | {len(run)} for pieces in (ours, theirs)]
    for start, end in pairwise(sorted(cuts[0] & cuts[1])):
        cut = [" ".join(_cut(run, start, end, marks)) for marks in cuts]
        if cut[0] != cut[1]:
            yield cut[0], cut[1]


def _cut(run: str, start: int, end: int, marks: set[int]) -> Iterator[str]:
    inner = [start, *sorted(mark for mark in marks if start < mark < end), end]
    return (run[first:last] for first, last in pairwise(inner))


def compare(language: str, sentences: Sequence[str], segment: Segmenter) -> dict[str, Any]:
    """Compare the longest match over a language's dictionary with another segmenter on the same runs of letters."""
    words = frozenset(reference_dictionary(language))
    max_chars = max(map(len, words))
    runs = [run for sentence in sentences for run in re.findall(LETTERS[language], sentence)]
    counts: Counter[str] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    for run in runs:
        ours, theirs = list(longest_match(run, words, max_chars)), list(segment(run))
        counts["equal"] += len(set(spans_of(ours)) & set(spans_of(theirs)))
        counts["ours"] += len(ours)
        counts["theirs"] += len(theirs)
        counts["unknown"] += sum(len(word) == 1 and word not in words for word in ours)
        counts["chars"] += len(run)
        found.update(differences(run, ours, theirs))
    precision, recall = counts["equal"] / counts["ours"], counts["equal"] / counts["theirs"]
    return {
        "num_sentences": len(sentences),
        "num_words": counts["ours"],
        "num_other_words": counts["theirs"],
        "f1": round(2 * precision * recall / (precision + recall), 4),
        "precision": round(precision, 4),
        "recall": round(recall, 4),
        "unknown_chars": round(counts["unknown"] / counts["chars"], 5),
        "differences": [
            f"{ours} | {theirs} ({number})" for (ours, theirs), number in found.most_common(NUM_DIFFERENCES)
        ],
    }


def main(arguments: list[str]) -> None:
    command = argparse.ArgumentParser(prog="python -m benchmarks segmentation", description=__doc__)
    command.add_argument("--lang", required=True, choices=sorted(SEGMENTERS))
    command.add_argument("--sentences", required=True, type=Path, help="a file of sentences, one a line")
    command.add_argument("--segmenter", help="instead of the first of the language")
    asked = command.parse_args(arguments)
    name = asked.segmenter or SEGMENTERS[asked.lang][0]
    sentences = [line for line in asked.sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    report = {"lang": asked.lang, "segmenter": name, **compare(asked.lang, sentences, load_segmenter(name, asked.lang))}
    print(json.dumps(report, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
