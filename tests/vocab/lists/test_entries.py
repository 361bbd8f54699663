"""What may be a word: the lines of a list file and the words of a request follow the same rules."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.errors import EmptyWordListError, InvalidWordListError, UnknownLanguageError, UnsupportedScriptError
from vocab.lists.wordlists import inline_word_list, load_word_list

MAX_WORD_CHARS = 1_000

AS_WRITTEN = [
    *("don't", "l’", "well-known", 'a "b"', "[x]", "c++", "3", ".", "(", "—", "-", "'", "a\\b", "日本"),
    *("x ::= y | z*", "👩\u200d🚀", "שלום", "½", "می\u200cشود", "क्\u200dया"),
    *("é" * MAX_WORD_CHARS, "-" * MAX_WORD_CHARS),
]

NORMALIZED = [("  the \t", "the"), ("in   front\u00a0of", "in front of"), ("cafe\u0301", "caf\u00e9"), ("b", "b")]

INVISIBLE = {
    "control character": "\x07\r\t\0\x85\x1b",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "invisible format character": "\u200b\u202e\u00ad\u200f\ufeff",
}
JOINERS = "\u200c\u200d"


def file_words(folder: Path, content: str | bytes, name: str = "xx") -> tuple[str, ...]:
    (folder / f"{name}.txt").write_bytes(content.encode() if isinstance(content, str) else content)
    return load_word_list(name, folder).words


def test_words_are_normalized_and_keep_their_order_and_first_places(tmp_path: Path) -> None:
    entries = [*AS_WRITTEN, *(entry for entry, _ in NORMALIZED), "b", "café", " don't "]
    expected = (*AS_WRITTEN, *(word for _, word in NORMALIZED))
    assert inline_word_list(entries, None).words == expected
    # A file's apostrophes are read as one; a request's words stay as they are.
    assert file_words(tmp_path, "\r\n".join(entries)) == tuple(word.replace("’", "'") for word in expected)


def test_a_word_that_cannot_be_one_is_named_by_its_place(tmp_path: Path) -> None:
    faults = {
        f"a{char}b": f"{kind} U+{ord(char):04X} at column 2. Remove it."
        for kind, chars in INVISIBLE.items()
        for char in chars
    }
    for joiner in JOINERS:
        for entry, column in ((f"{joiner}a", 1), (f"a{joiner}", 2)):
            faults[entry] = f"invisible format character U+{ord(joiner):04X} at column {column}. Remove it."
    for length in (MAX_WORD_CHARS + 1, 10_240):
        faults["é" * length] = f"{length} characters; a word has at most 1000. Write each word by itself."
    for entry, complaint in faults.items():
        with pytest.raises(InvalidWordListError) as raised:
            inline_word_list(["the", "cat", entry, ""], None)
        assert str(raised.value) == f"words[2]: {complaint}"
        with pytest.raises(InvalidWordListError) as raised:
            file_words(tmp_path, f"#c\n\nthe\n{entry}\n\0")
        assert str(raised.value) == f"xx.txt, line 4: {complaint}"


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("a\nb", "control character U+000A at column 2. Remove it."),
        ("a\ud800", "surrogate U+D800 at column 2. Remove it."),
        ("", "an entry without a character. Remove it."),
        (" \u00a0 ", "an entry without a character. Remove it."),
    ],
)
def test_what_no_line_can_be_is_no_word_of_a_request(entry: str, complaint: str) -> None:
    with pytest.raises(InvalidWordListError) as raised:
        inline_word_list(["a", entry], None)
    assert str(raised.value) == f"words[1]: {complaint}"


@given(st.lists(st.text(max_size=5), min_size=1, max_size=5))
def test_what_is_accepted_is_accepted_again_and_stays(words: list[str]) -> None:
    try:
        cleaned = inline_word_list(words, None).words
    except InvalidWordListError:
        return
    assert inline_word_list(cleaned, None).words == cleaned
    assert all(unicodedata.is_normalized("NFC", word) and word for word in cleaned)


def test_a_file_may_have_comments_empty_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    assert file_words(tmp_path, "\ufeff# the first\n\nthe\n   \n  # more\ncat\n\n") == ("the", "cat")
    assert file_words(tmp_path, "\ufeffthe\ncat") == ("the", "cat")
    assert inline_word_list(["#1", "the"], None).words == ("#1", "the")
    with pytest.raises(InvalidWordListError, match=r"line 2: invisible format character U\+FEFF at column 1"):
        file_words(tmp_path, "\ufeffa\n\ufeffb")


@pytest.mark.parametrize("content", ["", "\n \n", "# nothing\n#\n", "\ufeff", " \n\t\r\n\u00a0\n#\n\n# end"])
def test_no_words_are_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(EmptyWordListError, match=r"no word in xx\.txt: write one"):
        file_words(tmp_path, content)
    with pytest.raises(EmptyWordListError, match="at least one"):
        inline_word_list([], "fr")


def test_a_request_may_name_the_language_of_its_words() -> None:
    plain = inline_word_list(["zebra"], None)
    assert (plain.lang, plain.source) == ("und", "inline")
    assert [inline_word_list(["x"], lang).language for lang in ("fr", "pt-BR", "cy")] == ["fr", "pt", "cy"]
    assert inline_word_list(["zebra"], "fr").digest != plain.digest
    for lang in ("", "../fr", "fr\n", "a\0b", "f r", "ｆｒ", "x" * 10_000):
        with pytest.raises(UnknownLanguageError, match="is no language tag") as raised:
            inline_word_list(["x"], lang)
        assert len(str(raised.value)) < 300
    for lang in ("lo", "km", "my", "wuu", "yue-Hant-HK"):
        with pytest.raises(UnsupportedScriptError, match="without spaces"):
            inline_word_list(["x"], lang)


def test_words_without_spaces_are_of_any_script_and_length_and_of_unified_ideographs() -> None:
    for lang, words in (
        ("zh", "中国 DNA AA制 3D 卡拉OK 我 你 😀 龘龘 C++ " + "中" * 60),
        ("zh-TW", "T恤 你好"),
        ("ja", "がく 々 サッカー ﾊﾝｶｸ"),
        ("th", "กิน น้ำ ไป"),
    ):
        assert inline_word_list(words.split(), lang).words == tuple(words.split())
    assert inline_word_list(["\uf900", "か\u3099"], "ja").words == ("豈", "が")


@pytest.mark.parametrize(
    ("lang", "word", "fault"),
    [
        ("zh", "中 国", "has a blank"),
        ("ja", "東京\u3000都", "has a blank"),
        ("zh-TW", "你好。", "has the mark '。'"),
        ("ja_n5", "「はい", "has the mark '「'"),
        ("th", "ต่างๆ", "has the mark 'ๆ'"),
        ("ja", "葛\U000e0100城", r"has U\+E0100"),
        ("zh", "❤\ufe0f", r"has U\+FE0F"),
        ("th", "กิน\u200dน", r"has U\+200D"),
        ("th", "\u0e48ก", r"begins with the combining mark U\+0E48"),
        ("zh", "\u0301", r"begins with the combining mark U\+0301"),
    ],
)
def test_what_cannot_stand_among_unparted_words_is_named(tmp_path: Path, lang: str, word: str, fault: str) -> None:
    with pytest.raises(InvalidWordListError, match=rf"^words\[1\]: .*{fault}"):
        inline_word_list(["a", word], lang)
    with pytest.raises(InvalidWordListError, match=rf"^{lang}\.txt, line 1: .*{fault}"):
        file_words(tmp_path, word, lang)
    assert inline_word_list([word], "en").words
