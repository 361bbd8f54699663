"""Any text without spaces is cut into words, each with its rank and why it counts or not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.segmented_oracle import MARKS
from tests.vocab.text.test_segmented_reader import World
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions, Segmentation
from vocab.text.changes import NO_CHANGES, ListChanges
from vocab.text.checker import TextChecker
from vocab.text.report import TextReport
from vocab.text.segmented.segmenter import Dictionary

WORDS = ("我们", "今天", "去", "中国", "中", "国", "DNA", "学校")
DICTIONARY = ("中国人", "人民")


def checker_of(
    words: tuple[str, ...] = WORDS,
    n_words: int = 7,
    segmentation: Segmentation = "longest",
    changes: ListChanges = NO_CHANGES,
    new_words: tuple[str, ...] = (),
    *,
    lang: str = "zh",
    dictionary: tuple[str, ...] = DICTIONARY,
    **options: Any,
) -> TextChecker:
    word_list, chosen = WordList(lang, words, "file"), ListOptions(segmentation=segmentation, **options)
    return TextChecker(word_list, chosen, n_words, changes, new_words, reference=Dictionary(dictionary))


def words_of(report: TextReport) -> list[tuple[str, int | None, str]]:
    return [(report.spelling(word), word.rank, word.reason) for word in report.words]


def test_each_word_has_its_place_rank_and_reason() -> None:
    report = checker_of(changes=ListChanges(("明天",), ("去",))).check("我们今天去学校，明天见！")
    assert words_of(report) == [
        ("我们", 1, "listed"),
        ("今天", 2, "listed"),
        ("去", 3, "excluded"),
        ("学校", 8, "rare"),
        ("明天", None, "added"),
        ("见", None, "unknown"),
    ]
    assert [(word.start, word.end) for word in report.words] == [(0, 2), (2, 4), (4, 5), (5, 7), (8, 10), (10, 11)]
    assert (report.num_words, report.num_allowed) == (6, 3)
    assert report.notes == {}


def test_the_longest_word_counts_also_where_it_is_not_listed() -> None:
    assert words_of(checker_of().check("中国人")) == [("中国人", None, "unknown")]
    assert words_of(checker_of(segmentation="any").check("中国人")) == [
        ("中国", 4, "listed"),
        ("人", None, "unknown"),
    ]


def test_in_any_way_what_is_not_listed_is_cut_by_the_dictionary() -> None:
    report = checker_of(segmentation="any").check("今天人民去")
    assert words_of(report) == [("今天", 2, "listed"), ("人民", None, "unknown"), ("去", 3, "listed")]


def test_characters_that_begin_no_word_are_one_word() -> None:
    report = checker_of().check("我们龘龘龘去，龘")
    assert [report.spelling(word) for word in report.words] == ["我们", "龘龘龘", "去", "龘"]


def test_latin_words_numbers_and_symbols_are_as_in_other_texts() -> None:
    report = checker_of(numbers=True).check("DNA的dna中 can't café 12.5 😀，(去)")
    assert words_of(report) == [
        ("DNA", 7, "listed"),
        ("的dna", None, "unknown"),
        ("中", 5, "listed"),
        ("can't", None, "unknown"),
        ("café", None, "unknown"),
        ("12.5", None, "number"),
        ("😀", None, "symbol"),
        ("去", 3, "listed"),
    ]
    assert words_of(checker_of(("dna",), 1).check("DNA")) == [("DNA", 1, "capitals")]


def test_words_declared_to_be_new_are_found() -> None:
    report = checker_of(new_words=("机器猫", "学校")).check("我们去学校，机器猫去")
    assert report.num_of_declared == {"机器猫": 1, "学校": 1}
    assert report.has_exactly_the_new_words


def test_hidden_characters_and_decomposed_ones_are_read_as_shown() -> None:
    thai = checker_of(("มา", "กิน"), 2, lang="th", dictionary=()).check("มา\u200bกิน มา")
    assert [(thai.spelling(word), word.rank) for word in thai.words] == [("มา", 1), ("กิน", 2), ("มา", 1)]
    japanese = checker_of(("がく", "か"), 2, lang="ja", dictionary=()).check("か\u3099くか")
    assert [(word.start, word.end, word.rank) for word in japanese.words] == [(0, 3, 1), (3, 4, 2)]
    # A compatibility ideograph is the unified one in NFC.
    assert words_of(checker_of(("豈",), 1).check("\uf900")) == [("\uf900", 1, "listed")]


def test_many_hidden_characters_are_a_symbol() -> None:
    report = checker_of().check("我们" + "\u200b" * 5 + "去")
    assert [word.reason for word in report.words] == ["listed", "symbol", "listed"]


def test_thai_blanks_and_signs_are_marks() -> None:
    report = checker_of(("มาก", "กิน"), 2, lang="th", dictionary=(), numbers=True).check("กินมากๆ 3.5 กิน.")
    assert [report.spelling(word) for word in report.words] == ["กิน", "มาก", "3.5", "กิน"]


def test_lemmas_are_not_known() -> None:
    report = checker_of().check("我们去", with_lemmas=True)
    assert report.lemmas == {"我们": None, "去": None}


@given(st.data())
def test_all_words_of_an_allowed_text_are_allowed_and_others_are_not(data: st.DataObject) -> None:
    world = World(data)
    text = data.draw(world.texts)
    report = world.checker.check(text)
    assert all(before.end <= after.start for before, after in zip(report.words, report.words[1:], strict=False))
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


@pytest.mark.parametrize("segmentation", ["longest", "any"])
def test_a_long_text_is_checked_in_a_moment(segmentation: Segmentation) -> None:
    text = "我们今天去中国人民DNA" * 8_000
    assert checker_of(segmentation=segmentation).check(text).num_words >= 6 * 8_000


def test_real_sentences_of_the_built_in_list() -> None:
    checker = TextChecker(WordList("zh", ("我们", "今天", "去"), "file"), ListOptions(), 3)
    report = checker.check("我们今天去北京大学。")
    assert [report.spelling(word) for word in report.words] == ["我们", "今天", "去", "北京大学"]
