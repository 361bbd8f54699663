"""Words that a request brings itself: which are refused, and how the message names them."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.errors import (
    EmptyWordListError,
    InvalidWordListError,
    UnknownLanguageError,
    UnsupportedScriptError,
    WordListError,
)
from vocab.lists.entries import MAX_WORD_CHARS, clean_words
from vocab.lists.wordlists import inline_word_list, load_word_list


class TestCleanWords:
    def test_words_keep_their_order_and_duplicates_their_first_place(self) -> None:
        assert clean_words(["b", "a", "b", " a "], "vocab.words") == ("b", "a")

    def test_words_become_nfc(self) -> None:
        assert clean_words(["cafe\u0301", "caf\u00e9"], "vocab.words") == ("caf\u00e9",)

    def test_blanks_around_a_word_are_ignored_and_runs_within_are_one_blank(self) -> None:
        assert clean_words(["  the ", "in \u00a0 front of"], "vocab.words") == ("the", "in front of")

    def test_every_visible_character_counts(self) -> None:
        words = (
            ".",
            "(",
            "—",
            "-",
            "'",
            "#1",
            'a "b"',
            "a\\b",
            "[x]",
            "x ::= y | z*",
            "👩\u200d🚀",
            "日本",
            "שלום",
            "½",
        )
        assert clean_words(words, "vocab.words") == words

    def test_joiners_are_letters_inside_a_word(self) -> None:
        assert clean_words(["می\u200cشود", "क्\u200dया"], "vocab.words") == ("می\u200cشود", "क्\u200dया")

    @pytest.mark.parametrize(
        ("entry", "complaint"),
        [
            ("a\x07b", "control character U+0007 at column 2. Remove it."),
            ("a\nb", "control character U+000A at column 2. Remove it."),
            ("a\rb", "control character U+000D at column 2. Remove it."),
            ("a\tb", "control character U+0009 at column 2. Remove it."),
            ("\0", "control character U+0000 at column 1. Remove it."),
            ("a\x85b", "control character U+0085 at column 2. Remove it."),
            ("a\u2028b", "line separator U+2028 at column 2. Remove it."),
            ("a\u2029b", "paragraph separator U+2029 at column 2. Remove it."),
            ("\u200fa", "invisible format character U+200F at column 1. Remove it."),
            ("a\u200bb", "invisible format character U+200B at column 2. Remove it."),
            ("\u200da", "invisible format character U+200D at column 1. Remove it."),
            ("a\u200c", "invisible format character U+200C at column 2. Remove it."),
            ("\ufeffa", "invisible format character U+FEFF at column 1. Remove it."),
            ("a\ud800", "surrogate U+D800 at column 2. Remove it."),
            ("", "an entry without a character. Remove it."),
            (" \u00a0 ", "an entry without a character. Remove it."),
            ("x" * 10_240, "10240 characters; a word has at most 1000. Write each word by itself."),
            ("é" * (MAX_WORD_CHARS + 1), "1001 characters; a word has at most 1000. Write each word by itself."),
        ],
    )
    def test_an_entry_that_cannot_be_a_word_is_named(self, entry: str, complaint: str) -> None:
        with pytest.raises(InvalidWordListError) as raised:
            clean_words(["the", "cat", entry, ""], "vocab.words")
        assert str(raised.value) == f"vocab.words[2]: {complaint}"

    def test_a_word_may_be_as_long_as_the_limit(self) -> None:
        assert clean_words(["é" * MAX_WORD_CHARS, "-" * MAX_WORD_CHARS], "x") == ("é" * 1000, "-" * 1000)

    @given(st.lists(st.text(max_size=5), max_size=5))
    def test_what_is_accepted_is_accepted_again_and_stays(self, words: list[str]) -> None:
        try:
            cleaned = clean_words(words, "x")
        except InvalidWordListError:
            return
        assert clean_words(cleaned, "x") == cleaned
        assert all(unicodedata.is_normalized("NFC", word) and word for word in cleaned)

    def test_the_rules_are_those_of_list_files(self, tmp_path: Path) -> None:
        entries = ["don't", "l’", "in  front of", "cafe\u0301", ".", "a\u200db", "日本", " x"]
        (tmp_path / "xx.txt").write_text("\n".join(entries))
        assert clean_words(entries, "x") == load_word_list("xx", tmp_path).words


class TestInlineWordList:
    def test_the_words_are_ranked_in_their_order(self) -> None:
        word_list = inline_word_list(["zebra", "cafe\u0301", "zebra"], None)
        assert list(word_list.ranked()) == [(1, "zebra"), (2, "caf\u00e9")]
        assert (word_list.lang, word_list.source) == ("und", "inline")

    def test_a_language_gives_the_rules_of_spelling(self) -> None:
        assert inline_word_list(["l'"], "fr").language == "fr"
        assert inline_word_list(["x"], "pt-BR").language == "pt"
        assert inline_word_list(["x"], "cy").language == "cy"
        assert inline_word_list(["x"], "fr").digest != inline_word_list(["x"], None).digest

    @pytest.mark.parametrize("lang", ["", "../fr", "fr\n", "a\0b", "f r", "ｆｒ", "x" * 10_000])
    def test_a_language_that_is_no_tag_is_refused(self, lang: str) -> None:
        with pytest.raises(UnknownLanguageError, match="is no language tag") as raised:
            inline_word_list(["x"], lang)
        assert len(str(raised.value)) < 300

    @pytest.mark.parametrize("lang", ["lo", "km", "my", "yue-HK"])
    def test_a_language_without_spaces_and_dictionary_is_refused(self, lang: str) -> None:
        with pytest.raises(UnsupportedScriptError, match="without spaces"):
            inline_word_list(["x"], lang)

    def test_words_of_such_a_script_are_words_like_others(self) -> None:
        assert inline_word_list(["日本", "語"], None).words == ("日本", "語")

    @pytest.mark.parametrize(
        ("lang", "words"),
        [
            ("zh", ["中国", "DNA", "AA制", "3D", "卡拉OK"]),
            ("zh", ["我", "你"]),
            ("zh", ["中" * 60]),
            ("ja", ["がく", "々", "サッカー", "ﾊﾝｶｸ"]),
            ("th", ["กิน", "น้ำ", "ไป"]),
            ("zh", ["😀", "龘龘", "C++"]),
        ],
    )
    def test_words_without_spaces_are_of_any_script_and_length(self, lang: str, words: list[str]) -> None:
        assert inline_word_list(words, lang).words == tuple(words)

    def test_compatibility_ideographs_become_unified_ones(self) -> None:
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
    def test_what_cannot_stand_among_unparted_words_is_named(self, lang: str, word: str, fault: str) -> None:
        with pytest.raises(InvalidWordListError, match=rf"^words\[1\]: .*{fault}"):
            inline_word_list(["a", word], lang)
        assert inline_word_list([word], "en").words

    def test_no_words_are_refused(self) -> None:
        with pytest.raises(EmptyWordListError, match="at least one"):
            inline_word_list([], "fr")

    def test_a_word_that_cannot_be_one_is_refused(self) -> None:
        with pytest.raises(WordListError, match=r"words\[1\]: control character"):
            inline_word_list(["a", "b\0"], None)
