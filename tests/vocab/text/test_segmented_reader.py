"""Texts without spaces: the reader allows what the oracle allows, and cuts only between words."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.segmented_oracle import SegmentedOracle
from vocab.errors import PrefillError
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions, Segmentation
from vocab.text.changes import NO_CHANGES, ListChanges
from vocab.text.checker import TextChecker
from vocab.text.reader import UNKNOWN_FOLLOWING, Coverage, Dictionary, TextReader

LETTERS = "中国ab"
WORDS = st.text(LETTERS, min_size=1, max_size=3)
SEGMENTATIONS: st.SearchStrategy[Segmentation] = st.sampled_from(get_args(Segmentation))
CHINESE = ("我们", "去", "中国", "中", "国", "人", "中国人", "DNA", "A", "B")


def reader_of(
    words: tuple[str, ...],
    dictionary: tuple[str, ...] = (),
    segmentation: Segmentation = "longest",
    *,
    lang: str = "zh",
    n_words: int = 100,
    changes: ListChanges = NO_CHANGES,
    **options: Any,
) -> TextReader:
    word_list = WordList(lang, words, "file")
    chosen = ListOptions(segmentation=segmentation, **options)
    return TextReader(word_list, chosen, n_words, changes=changes, reference=Dictionary(dictionary))


class World:
    """A random list with its dictionary, as a reader and as the oracle see it."""

    def __init__(self, data: st.DataObject) -> None:
        words = data.draw(st.lists(WORDS, min_size=2, max_size=10, unique=True))
        others = data.draw(st.lists(WORDS, max_size=8))
        segmentation = data.draw(SEGMENTATIONS)
        lang = data.draw(st.sampled_from(["zh", "zh-Hant", "ja", "th"]))
        options: dict[str, Any] = {
            "numbers": data.draw(st.booleans()),
            "layout": data.draw(st.sampled_from(["prose", "lines"])),
            "end": data.draw(st.sampled_from(["word", "word", "sentence"])),
        }
        n_words = data.draw(st.integers(1, len(words)))
        added = tuple(data.draw(st.lists(WORDS, max_size=2, unique=True)))
        left_out = tuple(word for word in data.draw(st.lists(st.sampled_from(words), max_size=2)) if word not in added)
        listed = ({*words[:n_words]} - {*left_out}) | {*added}
        changes = ListChanges(added, tuple(dict.fromkeys(left_out)))
        self.lang = lang
        self.reader = reader_of(
            tuple(words), tuple(others), segmentation, lang=lang, n_words=n_words, changes=changes, **options
        )
        self.oracle = SegmentedOracle(lang, {*words, *others, *added}, listed, segmentation, **options)
        word_list, chosen = WordList(lang, tuple(words), "file"), ListOptions(segmentation=segmentation, **options)
        self.checker = TextChecker(word_list, chosen, n_words, changes, reference=Dictionary(others))
        marks = {"zh": "。…，“”—！\n", "zh-Hant": "。…，「」《》！\n", "ja": "。…、「」―！\n", "th": ".…, ()ๆ!\n"}[lang]
        part = st.sampled_from([*sorted(listed or {"中"}), *words, *marks, *"12."])
        self.texts = st.lists(part, max_size=8).map("".join)


@given(st.data())
def test_it_agrees_with_the_oracle_on_random_texts_of_random_lists(data: st.DataObject) -> None:
    world = World(data)
    text = data.draw(world.texts)
    assert world.reader.is_text(text) == world.oracle.is_text(text)


@given(st.data())
def test_a_cut_leaves_a_text_and_cuts_no_word_of_the_whole(data: st.DataObject) -> None:
    world = World(data)
    text, following = data.draw(world.texts), data.draw(world.texts)
    length = world.reader.whole_prefix_length(text, following)
    assert length == 0 or world.oracle.is_text(text[:length])
    if world.oracle.is_text(text) and not following:
        assert length == len(text)
    if world.oracle.is_text(text + following):
        words = world.reader.words(text + following)
        assert not any(word.start < length < word.end for word in words)
    unknown = world.reader.whole_prefix_length(text, UNKNOWN_FOLLOWING)
    assert unknown == 0 or world.oracle.is_text(text[:unknown])
    if world.oracle.segmentation == "longest":
        assert not any(start < unknown < end for start, end in world.oracle.words(text + following))


@given(st.data())
def test_what_is_followed_as_whole_never_changes(data: st.DataObject) -> None:
    world = World(data)
    text = data.draw(world.texts)
    followed, lengths, is_begun, place = world.reader.follow(), [], True, 0
    while place < len(text) and is_begun:
        size = data.draw(st.integers(1, 3))
        is_begun = followed.add(text[place : place + size])
        place += size
        read, complete = text[:place], followed.num_complete
        assert complete == world.reader.whole_prefix_length(read, UNKNOWN_FOLLOWING) <= followed.num_whole
        assert complete == 0 or world.oracle.is_text(text[:complete])
        assert followed.whole_prefix_length() == world.reader.whole_prefix_length(read)
        lengths.append((min(place, len(text)), followed.num_whole))
    if not world.oracle.is_text(text):
        return
    assert is_begun
    assert followed.is_whole
    assert followed.coverage() == world.reader.coverage(text)
    words = world.reader.words(text)
    for written, whole in lengths:
        assert whole <= written
        assert not any(word.start < whole < word.end for word in words)
    assert [whole for _, whole in lengths] == sorted(whole for _, whole in lengths)


@given(st.data())
def test_words_of_a_text_are_listed_and_those_of_the_longest_match(data: st.DataObject) -> None:
    world = World(data)
    text = data.draw(world.texts)
    if not world.oracle.is_text(text):
        return
    spans = [(word.start, word.end) for word in world.reader.words(text)]
    assert {text[start:end] for start, end in spans} <= set(world.oracle.listed)
    if world.oracle.segmentation == "longest":
        assert spans == world.oracle.words(text)
    assert world.reader.coverage(text).num_words == len(spans)


# How texts are cut; the list and the dictionary's other words; what is written with them; what is refused.
CUT: list[tuple[Segmentation, str, str, str, str]] = [
    ("longest", "我们 去 中 国", "中国", "我们去。 国中", "我们去中国。 我们去龘。"),
    ("longest", "dna 中", "", "中dna", "Dna"),
    ("longest", "机器猫侠 飞龘", "机器", "飞龘机器猫侠。", "机器猫"),
    ("longest", "中" * 60 + " 去", "", "去" + "中" * 60, "中" * 59),
    ("longest", "AA制 T恤 卡拉OK 3D", "", "卡拉OK，AA制T恤3D", "卡拉OKT恤"),
    ("longest", "豈 が", "", "豈が", "\uf900が"),
    ("longest", "😀 去", "", "去😀", "😀\u200d"),
    ("longest", "か 去", "", "去か", "か\u309a"),
    ("longest", "葛 去", "", "去葛", "葛\U000e0100"),
    ("any", "我们 去 中 国", "中国", "我们去中国。", "我们去龘。"),
]


def test_the_longest_words_must_be_listed_or_any_way_into_listed_ones_counts() -> None:
    for segmentation, words, dictionary, written, refused in CUT:
        reader = reader_of(tuple(words.split()), tuple(dictionary.split()), segmentation, case="any")
        assert [text for text in written.split() if not reader.is_text(text)] == []
        assert [text for text in refused.split() if reader.is_text(text)] == []


def test_the_reading_in_any_way_has_the_most_frequent_words_then_the_fewest() -> None:
    reader = reader_of(("中", "国", "国人", "中国", "人"), ("中国",), "any")
    assert [[word.number for word in reader.words(text)] for text in ("中国", "中国人")] == [[1, 2], [1, 3]]
    assert reader.coverage("中国中国。") == Coverage(4, 2, 2)


@pytest.mark.parametrize(
    ("options", "text", "following", "kept"),
    [
        ({}, "我们去中", "国", "我们去"),
        ({}, "我们去中", "去", "我们去中"),
        ({}, "我们去中", UNKNOWN_FOLLOWING, "我们去"),
        ({}, "我们去。", UNKNOWN_FOLLOWING, "我们去。"),
        ({"numbers": True}, "去1", "2中", "去"),
        ({"numbers": True}, "去12", UNKNOWN_FOLLOWING, "去"),
        ({"numbers": True}, "去12", "中", "去12"),
        # A whole sentence where that is asked for.
        ({"end": "sentence"}, "我们去。中国", "", "我们去。"),
        ({}, "我们去中国。" * 2_000, "", "我们去中国。" * 2_000),
    ],
)
def test_a_text_is_cut_before_a_word_or_number_that_goes_on(
    options: dict[str, Any], text: str, following: str, kept: str
) -> None:
    assert text[: reader_of(CHINESE, **options).whole_prefix_length(text, following)] == kept


def test_a_word_that_may_be_longer_is_not_yet_whole_and_what_begins_no_text_is_noticed() -> None:
    followed = reader_of(CHINESE).follow()
    lengths = [followed.num_whole for char in "我们去中国人DNA。" if followed.add(char)]
    assert lengths == [0, 2, 3, 3, 3, 6, 6, 6, 6, 10]
    for words, begun, no_text in ((CHINESE, "我们", "龘"), (CHINESE, "A", "B"), (("中国", "人"), "中国", "人")):
        followed = reader_of(words, ("中国人",)).follow()
        assert followed.add(begun)
        assert not followed.add(no_text)


def test_a_text_is_settled_where_no_later_character_can_lengthen_its_last_word() -> None:
    followed = reader_of(("我", "我们", "去", "DNA"), ("我们的",)).follow()
    found = [followed.add(part) and followed.is_settled for part in ("我", "们", "去", "DNA", "，", "去")]
    assert found == [False, False, True, False, True, True]


@pytest.mark.parametrize(
    ("lang", "before", "follows", "does_not_follow"),
    [
        ("zh", "我们去", "中国", "「中国"),
        ("zh", "他说：“", "我们。”", "我们。"),
        ("zh", "你好。", "我们", "。"),
        ("zh", "标题\n", "我们", "，我们"),
        ("zh", "你好, ", "我们", "  我们"),
        ("zh-Hant", "他說：「", "我们」", "我们"),
        ("th", "สวัสดี ", "我们", " 我们"),
        ("th", "สวัสดี", " 我们", "  我们"),
    ],
)
def test_a_text_goes_on_after_another(lang: str, before: str, follows: str, does_not_follow: str) -> None:
    reader = reader_of(CHINESE, lang=lang).after(before)
    assert reader.is_text(follows)
    assert not reader.is_text(does_not_follow)


def test_a_text_that_breaks_off_inside_a_word_cannot_go_on() -> None:
    reader = reader_of(("มาก", "สวัสดี"), lang="th")
    with pytest.raises(PrefillError, match="inside a word"):
        reader.after("มากสวัส")
    assert reader.after("มากสวัส", is_whole=True).is_text("มาก")
    assert reader.after("มากสวัสดี").is_text("มาก")
    assert reader_of(CHINESE).after("中").is_text("国")
    assert reader_of(("中国", "国人")).after("中国").is_text("国人")


def test_real_sentences_of_the_built_in_list() -> None:
    reader = TextReader(WordList("zh", ("我们", "今天", "去", "北京", "大学", "北", "京"), "file"), ListOptions(), 7)
    assert reader.is_text("我们今天去北京。")
    # The dictionary has the whole name.
    assert not reader.is_text("我们去北京大学。")


def test_a_thai_sentence_goes_on_after_a_pause_and_its_blank() -> None:
    reader = TextReader(WordList("th", ("กา", "ขา"), "file"), ListOptions(), 2)
    starts = [word.starts_sentence for word in reader.words("กา, ขา: กา ขา. กาขา")]
    assert starts == [True, False, False, True, True, False]
