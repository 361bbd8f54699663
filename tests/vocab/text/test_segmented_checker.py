"""Any text without spaces is cut into words, each with its rank and why it counts or not."""

from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.segmented_oracle import MARKS
from tests.vocab.text.test_segmented_reader import World
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions, Segmentation
from vocab.text.changes import ListChanges
from vocab.text.checker import TextChecker
from vocab.text.reader import Dictionary
from vocab.text.report import TextReport

CHINESE = ("我们", "今天", "去", "中国", "中", "国", "DNA", "学校")
ANY: dict[str, Any] = {"segmentation": "any"}


def check(
    text: str,
    words: tuple[str, ...] = CHINESE,
    lang: str = "zh",
    extra_words: tuple[str, ...] = (),
    exclude_words: tuple[str, ...] = (),
    new_words: tuple[str, ...] = (),
    **options: Any,
) -> TextReport:
    """Check a text against the first seven words at most; the dictionary has two more."""
    checker = TextChecker(
        WordList(lang, words, "file"),
        ListOptions(numbers=True, **options),
        7,
        ListChanges(extra_words, exclude_words),
        new_words,
        reference=Dictionary(("中国人", "人民")),
    )
    return checker.check(text, with_lemmas=True)


# Options, a text, and its words: each with its rank, 0 for none, and why it counts or not.
CHECKED: dict[str, tuple[dict[str, Any], str, str]] = {
    "each word": ({"extra_words": ("明天",), "exclude_words": ("去",)}, "我们今天去学校，明天见！",
        "我们 1 listed, 今天 2 listed, 去 3 excluded, 学校 8 rare, 明天 0 added, 见 0 unknown"),
    "the longest counts": ({}, "中国人", "中国人 0 unknown"),
    "the longest or any": (ANY, "中国人", "中国 4 listed, 人 0 unknown"),
    "what is not listed is cut by the dictionary": (ANY, "今天人民去", "今天 2 listed, 人民 0 unknown, 去 3 listed"),
    "characters that begin no word": ({}, "我们龘龘龘去，龘",
        "我们 1 listed, 龘龘龘 0 unknown, 去 3 listed, 龘 0 unknown"),
    "Latin words, numbers and symbols": ({}, "DNA的dna中 can't café 12.5 😀，(去)",
        "DNA 7 listed, 的dna 0 unknown, 中 5 listed, can't 0 unknown, café 0 unknown, 12.5 0 number, 😀 0 symbol, "
        "去 3 listed"),
    "capitals": ({"words": ("dna",)}, "DNA", "DNA 1 capitals"),
    "a hidden character": ({"words": ("มา", "กิน"), "lang": "th"}, "มา\u200bกิน มา",
        "มา 1 listed, กิน 2 listed, มา 1 listed"),
    "a combining mark": ({"words": ("がく", "か"), "lang": "ja"}, "か\u3099くか", "か\u3099く 1 listed, か 2 listed"),
    "a compatibility ideograph": ({"words": ("豈",)}, "\uf900", "\uf900 1 listed"),
    "many hidden characters": ({}, "我们\u200b\u200b\u200b\u200b\u200b去",
        "我们 1 listed, \u200b\u200b\u200b\u200b\u200b 0 symbol, 去 3 listed"),
    "Thai blanks and signs": ({"words": ("มาก", "กิน"), "lang": "th"}, "กินมากๆ 3.5 กิน.",
        "กิน 2 listed, มาก 1 listed, 3.5 0 number, กิน 2 listed"),
    "new words": ({"new_words": ("机器猫", "学校")}, "我们去学校，机器猫去",
        "我们 1 listed, 去 3 listed, 学校 8 new, 机器猫 0 new, 去 3 listed"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKED)
def test_each_word_has_its_place_rank_and_reason(name: str) -> None:
    options, text, expected = CHECKED[name]
    report = check(text, **options)
    assert ", ".join(f"{report.spelling(word)} {word.rank or 0} {word.reason}" for word in report.words) == expected
    assert report.notes == {}
    assert report.lemmas is not None and set(report.lemmas.values()) == {None}
    assert report.has_exactly_the_new_words or name != "new words"


@given(st.data())
def test_all_words_of_an_allowed_text_are_allowed_and_others_are_not(data: st.DataObject) -> None:
    world = World(data)
    text = data.draw(world.texts)
    report = world.checker.check(text)
    assert all(before.end <= after.start for before, after in pairwise(report.words))
    seen = {place for word in report.words for place in range(word.start, word.end)}
    marks = set("".join((*MARKS[world.lang].pairs, *MARKS[world.lang][1:6], " \n.,")))
    assert all(place in seen or char in marks for place, char in enumerate(text))
    if world.oracle.is_text(text):
        assert all(word.is_allowed for word in report.words)
        if not world.oracle.numbers:
            spans = [(word.start, word.end) for word in world.reader.words(text)]
            assert [(word.start, word.end) for word in report.words] == spans
    allowed = [text[word.start : word.end] for word in report.words if word.is_allowed and not word.is_number]
    assert all(word in world.oracle.listed or word.isascii() for word in allowed)


@pytest.mark.parametrize("segmentation", get_args(Segmentation))
def test_a_long_text_is_checked_in_a_moment(segmentation: Segmentation) -> None:
    assert check("我们今天去中国人民DNA" * 8_000, segmentation=segmentation).num_words >= 6 * 8_000


def test_real_sentences_are_cut_by_the_built_in_list() -> None:
    report = TextChecker(WordList("zh", ("我们", "今天", "去"), "file"), ListOptions(), 3).check("我们今天去北京大学。")
    assert [report.spelling(word) for word in report.words] == ["我们", "今天", "去", "北京大学"]
