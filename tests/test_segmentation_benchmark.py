"""The benchmark of the longest match: how two segmentations are compared."""

import pytest

from benchmarks import segmentation
from benchmarks.segmentation import compare, differences, longest_match, spans_of

WORDS = ("研究", "研究生", "生命", "的", "起源", "命")


def test_the_longest_word_is_taken_and_what_begins_none_stands_alone() -> None:
    assert list(longest_match("研究生命的X起源", frozenset(WORDS), 3)) == ["研究生", "命", "的", "X", "起源"]


def test_pieces_have_spans() -> None:
    assert spans_of(["研究", "生命"]) == [(0, 2), (2, 4)]
    assert spans_of([]) == []


def test_the_smallest_stretches_that_differ_are_shown() -> None:
    found = differences("研究生命的起源", ["研究生", "命", "的", "起源"], ["研究", "生命", "的", "起", "源"])
    assert list(found) == [("研究生 命", "研究 生命"), ("起源", "起 源")]


def test_equal_words_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "reference_dictionary", lambda _: WORDS)
    others = {"研究生命的起源": ["研究", "生命", "的", "起源"], "起源": ["起源"], "鑫": ["鑫"]}
    report = compare("zh", ["研究生命的起源。", "起源 abc 鑫"], others.__getitem__)
    assert (report["num_words"], report["num_other_words"]) == (6, 6)
    assert report["f1"] == round(4 / 6, 4)
    assert report["unknown_chars"] == round(1 / 10, 5)
    assert report["differences"] == ["研究生 命 | 研究 生命 (1)"]
