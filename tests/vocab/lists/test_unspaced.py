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
from vocab.lists.wordlists import load_word_list, reference_dictionary

SCRIPT = {
    "ja": r"[\u3041-\u3096\u30a1-\u30fa\u30fc\u3005\u3400-\u9fff]+",
    "th": r"[\u0e01-\u0e2e\u0e30-\u0e3a\u0e40-\u0e4e]+",
    "zh": r"[\u3400-\u9fff\U00020000-\U0003ffff]+",
    "zh-Hant": r"[\u3400-\u9fff\U00020000-\U0003ffff]+",
}


@lru_cache(maxsize=8)
def words_of(lang: str, *, safe: bool = True) -> tuple[str, ...]:
    return load_word_list(lang, None, safe=safe).words


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
