"""Japanese inflection by rule tables."""

import pytest

from vocab.lists.lemmas import group_by_lemma
from vocab.lists.levels import LevelRow, with_japanese_forms
from vocab.lists.wordlists import WordList, load_word_list, reference_dictionary


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("書く", "書か 書かない 書かれる 書き 書きます 書い 書いた 書いて 書け 書けば 書こ 書こう"),
        ("泳ぐ", "泳が 泳ぎ 泳い 泳いだ 泳いで 泳ごう"),
        ("話す", "話さ 話し 話した 話せ 話そう"),
        ("待つ", "待た 待ち 待っ 待って 待て 待とう"),
        ("死ぬ", "死な 死に 死ん 死んだ"),
        ("遊ぶ", "遊ば 遊び 遊ん 遊んで"),
        ("飲む", "飲ま 飲み 飲みました 飲ん 飲んだら 飲め 飲もう"),
        ("帰る", "帰ら 帰り 帰っ 帰れ 帰ろう"),
        ("買う", "買わ 買わない 買い 買っ 買えば 買おう"),
        ("食べる", "食べ 食べた 食べない 食べて 食べます 食べました 食べられる 食べよう 食べろ"),
        ("高い", "高く 高かった 高くない 高ければ 高さ"),
        ("勉強する", "勉強し 勉強した"),
    ],
)
def test_a_word_has_those_of_its_forms_that_are_listed(word: str, forms: str) -> None:
    [row] = with_japanese_forms([LevelRow(word, "N5")], {*forms.split(), word, "犬", "勉強"})
    assert set(row.forms) == set(forms.split())


def test_the_built_in_list_has_the_forms() -> None:
    forms_by_word = {
        "食べる": "食べ 食べよ",
        "切る": "切ら 切り 切っ",
        "着る": "着 着れ",
        "する": "し さ すれ",
        "来る": "来 来い",
        "行く": "行か 行っ",
        "高い": "高く 高かっ",
        "いい": "よく よかっ",
        "ない": "なく なかっ なけれ",
        "です": "でし でしょ",
    }
    listed = frozenset(reference_dictionary("ja"))
    uninflected = ("世界", "匂い", "東京", "そう", "違い", "書い", "犬", "る", "い", "猫")
    rows = with_japanese_forms([LevelRow(word) for word in (*forms_by_word, *uninflected)], listed)
    found = {row.word: row.forms for row in rows}
    for word, forms in forms_by_word.items():
        assert set(forms.split()) <= set(found[word]) and word not in found[word], word
    assert [word for word in uninflected if found[word]] == []


def test_a_list_of_whole_forms_is_grouped_as_well() -> None:
    words = ("食べました", "犬", "食べる", "食べ", "飲んだ", "飲まない", "飲む")
    grouped = group_by_lemma(WordList("ja_school", words, "file"))
    assert list(grouped.ranked()) == [
        (1, "食べました"), (1, "食べる"), (1, "食べ"), (2, "犬"), (3, "飲んだ"), (3, "飲まない"), (3, "飲む"),
    ]  # fmt: skip


def test_a_particle_is_no_form_of_a_rare_verb() -> None:
    words = ("から", "は", *map(str, range(100)), "かる", "かっ", "かり", "から", "はる")
    grouped = group_by_lemma(WordList("ja", tuple(dict.fromkeys(words)), "file"))
    ranks = {word: rank for rank, word in grouped.ranked()}
    assert len({ranks[word] for word in ("から", "は", "かる", "はる")}) == 4


def test_by_lemma_a_thousand_words_have_all_their_forms() -> None:
    word_list = load_word_list("ja", None)
    grouped = group_by_lemma(word_list)
    first = set(grouped.up_to(1_000).words)
    assert {"食べる", "食べ", "行く", "行っ", "行か", "書く", "書い", "大きい", "大きく"} <= first
    ranks = {word: rank for rank, word in grouped.ranked()}
    assert len({ranks[word] for word in ("ない", "なく", "なかっ", "なけれ")}) == 1
    assert ranks["いい"] == ranks["よく"] and ranks["なか"] > ranks["ない"]
    assert set(grouped.words) == set(word_list.words)
