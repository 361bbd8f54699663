"""Lists of languages written without spaces: how they are named, and what is a word of them.

``samples`` has 200 entries of each language, drawn at random from wordfreq's first 5,000 of Chinese and Japanese and
from the list's own of the others, and judged from knowledge of the language. "!a" is no word of the dictionary: another
script, a numeral with its measure word, or words beside each other.
"""

import re
from functools import lru_cache
from pathlib import Path

import pytest

from vocab.errors import UnknownLanguageError
from vocab.lists.credits import attribution
from vocab.lists.wordlists import known_languages, list_name, load_word_list, reference_dictionary, unspaced_language

SCRIPT = {
    "ja": r"[\u3041-\u3096\u30a1-\u30fa\u30fc\u3005\u3400-\u9fff]+",
    "th": r"[\u0e01-\u0e2e\u0e30-\u0e3a\u0e40-\u0e4e]+",
    "zh": r"[\u3400-\u9fff\U00020000-\U0003ffff]+",
    "zh-Hant": r"[\u3400-\u9fff\U00020000-\U0003ffff]+",
}


@lru_cache(maxsize=8)
def words_of(lang: str, *, safe: bool = True) -> tuple[str, ...]:
    return load_word_list(lang, None, safe=safe).words


@pytest.mark.parametrize(
    ("language", "names"),
    [
        ("zh", "zh zh-CN zh-Hans zh-SG zh-Hans-HK zh_hsk1"),
        ("zh-Hant", "zh-Hant zh-TW zh-HK zh-MO zh-Hant-TW zh-Hant_school"),
        ("ja", "ja ja-JP ja_n5"),
        ("th", "th th-TH th_school"),
        (None, "en ko yue zhx my-words school_zh"),
    ],
)
def test_a_tag_or_a_files_name_says_which_language_it_is(language: str | None, names: str) -> None:
    assert {unspaced_language(name) for name in names.split()} == {language}


@pytest.mark.parametrize(("tag", "lang"), [("zh-CN", "zh"), ("zh-TW", "zh-Hant"), ("ja-JP", "ja"), ("th-TH", "th")])
def test_a_tag_of_a_region_means_the_languages_list(tmp_path: Path, tag: str, lang: str) -> None:
    word_list = load_word_list(tag, None)
    assert (word_list.lang, word_list.source) == (lang, "cleaned")
    assert word_list.digest == load_word_list(lang, None).digest
    assert lang in known_languages(None)
    assert list_name(tag, tmp_path) == lang


def test_a_file_goes_before_the_list_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "zh-TW.txt").write_text("一\n二\n", encoding="utf-8")
    (tmp_path / "ja.txt").write_text("犬\n", encoding="utf-8")
    assert load_word_list("zh-TW", tmp_path).words == ("一", "二")
    assert load_word_list("ja-JP", tmp_path).words == ("犬",)
    assert load_word_list("zh-HK", tmp_path).source == "cleaned"
    assert len(reference_dictionary("ja")) > 90_000


def test_a_dictionary_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownLanguageError, match="no reference dictionary of 'en'"):
        reference_dictionary("en")


@pytest.mark.parametrize("lang", SCRIPT)
def test_the_dictionary_has_the_words_of_a_sample_in_one_script_and_unsafe_ones(lang: str) -> None:
    sample = (Path(__file__).parent / f"samples/{lang}.txt").read_text(encoding="utf-8").split()
    assert len(sample) == 200
    dictionary = reference_dictionary(lang + "_school")
    listed = set(dictionary)
    assert [entry for entry in sample if (entry[0] == "!") == (entry.lstrip("!") in listed)] == []
    assert len(listed) == len(dictionary)
    assert [word for word in dictionary if not re.fullmatch(SCRIPT[lang], word)] == []
    unsafe = words_of(lang, safe=False)
    assert dictionary[: len(unsafe)] == unsafe
    assert set(words_of(lang)) < listed


def test_simplified_words_are_no_traditional_ones_in_parts() -> None:
    assert {"最后", "最後", "后"} <= set(reference_dictionary("zh-Hant"))
    assert "最后" not in words_of("zh-Hant")


@pytest.mark.parametrize(
    ("lang", "size", "first", "listed", "not_listed"),
    [
        ("zh", 130_000, "的 是 在 了 我", "学习 电脑 图书馆 什么 一个 葡萄 的 我 你", "學習 這是 三个 毛泽东 约翰"),
        ("zh-Hant", 135_000, "的 是 在 了 我", "學習 電腦 圖書館 後 后 裡 裏 台灣 臺灣 頭髮 麵", "学习 万 听 头 约 爱"),
        ("ja", 99_000, "の に て は", "食べる 食べ た ます 図書館 東京 という し", "てい ー 々 ぇ 次郎 健"),
        ("th", 35_000, "ที่ การ เป็น", "กิน ข้าว โรงเรียน ประเทศ ไทย ๆ ณ", "ก ข คนที สุ เย็ด"),
    ],
)  # fmt: skip
def test_everyday_words_are_listed_and_fragments_are_not(
    lang: str, size: int, first: str, listed: str, not_listed: str
) -> None:
    words = words_of(lang)
    assert size < len(words) < 1.1 * size
    assert set(first.split()) <= set(words[:20])
    assert [word for word in listed.split() if word not in words] == []
    assert [word for word in not_listed.split() if word in words] == []


@pytest.mark.parametrize(
    ("lang", "credited"),
    [("zh", "CC-CEDICT"), ("zh-Hant", "OpenCC"), ("ja", "JMdict"), ("th", "PyThaiNLP"), ("en", "wordfreq")],
)
def test_a_lists_sources_are_named(lang: str, credited: str) -> None:
    lines = attribution("cleaned", lang, is_by_lemma=False)
    assert credited in " ".join(lines)
    assert "".join(lines).isascii()
    assert max(map(len, lines)) <= 120
    assert ("wordfreq" in " ".join(lines)) == (lang != "th")
    assert attribution("file", lang, is_by_lemma=False) == ()
