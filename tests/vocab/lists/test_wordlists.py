"""Word lists: what counts as a word, in which order, under which name."""

import json
import subprocess
import sys
import unicodedata
from functools import partial
from pathlib import Path

import pytest
import wordfreq

from vocab.errors import (
    EmptyWordListError,
    InvalidWordListError,
    UnknownLanguageError,
    UnsupportedScriptError,
    WordListFolderError,
)
from vocab.lists.entries import MAX_WORD_CHARS
from vocab.lists.levels import resolve_level
from vocab.lists.wordlists import WordList, check_known, known_languages, language_of, load_word_list, words_with

NO_NAMES = [
    *("xx", "EN", "En", "Pirate", "PIRATE", "e", "", ".", "..", "../secret", "/secret", "secret.txt", "pirate.txt"),
    *("../../etc/passwd", "/etc/passwd", "..\\secret", "a\0b", "pirate\0", "CON", "NUL", "%2e%2e", "%2e%2e%2fsecret"),
    *("ｅｎ", "еn", "pir\u0430te", "pir\u200bate", "en ", " en", "en\n", "es-", "-es", "*", "~", "$HOME", "C:pirate"),
    "x" * 10_240,
]
"""What no list is called, though the system might find a file by some of these; "еn" has a Cyrillic letter."""

OPENED_FILES = """
import json, sys
from pathlib import Path
from vocab.errors import UnknownLanguageError
from vocab.lists.wordlists import load_word_list

opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
opened_by_name = {}
for name in ["pirate", *json.loads(sys.argv[2])] * 2:  # first for what it imports
    opened.clear()
    try:
        load_word_list(name, Path(sys.argv[1]))
    except UnknownLanguageError:
        pass
    opened_by_name[name] = opened[:]
print(json.dumps(opened_by_name))
"""
"""Prints which files Python opens for each name; an audit hook cannot be taken out again, so this is a process."""


def words_of_file(folder: Path, content: str | bytes, name: str = "xx") -> tuple[str, ...]:
    data = content.encode() if isinstance(content, str) else content
    (folder / f"{name}.txt").write_bytes(data)
    return load_word_list(name, folder).words


class TestBuiltInLists:
    def test_words_keep_wordfreqs_order(self) -> None:
        word_list = load_word_list("en", None, source="wordfreq")
        assert word_list.source == "wordfreq"
        assert word_list.words[:5] == ("the", "to", "and", "of", "a")
        order = {word: rank for rank, word in enumerate(wordfreq.iter_wordlist("en"))}
        ranks = [order[word] for word in word_list.words if word in order]
        assert ranks == sorted(ranks)

    @pytest.mark.parametrize("lang", ["en", "sv", "tr", "fa", "uk"])
    def test_entries_are_made_of_letters_and_marks_with_apostrophes_and_hyphens_inside(self, lang: str) -> None:
        kept = set(load_word_list(lang, None, source="wordfreq").words)
        for entry in wordfreq.iter_wordlist(lang):
            is_word = all(unicodedata.category(char)[0] in "LM" or char in "'’-" for char in entry)
            is_word = is_word and entry[0] not in "'’-" and entry[-1] != "-"
            assert (unicodedata.normalize("NFC", entry) in kept) == is_word, entry

    def test_digits_and_symbols_are_no_words(self) -> None:
        words = load_word_list("en", None, source="wordfreq").words
        assert not {"0", "00", "u.s", "😂", "_", "1st"} & set(words)
        assert {"don't", "café", "ice-cream"} & set(words) >= {"don't", "café"}

    def test_a_list_that_was_read_is_not_kept(self) -> None:
        wordfreq.get_frequency_list.cache_clear()
        load_word_list("tr", None)
        assert wordfreq.get_frequency_list.cache_info().currsize == 0

    def test_words_are_nfc_and_distinct(self) -> None:
        # wordfreq's Greek list has entries in both forms.
        words = load_word_list("el", None).words
        assert all(unicodedata.is_normalized("NFC", word) for word in words)
        assert len(set(words)) == len(words)


class TestListFiles:
    def test_every_line_is_a_word(self, tmp_path: Path) -> None:
        lines = [
            "don't",
            "l’",
            "well-known",
            "in front of",
            'a "b"',
            "[x]",
            "c++",
            "3",
            ".",
            "\\",
            "日本",
            "x" * 60,
            "-",
        ]
        word_list = words_of_file(tmp_path, "\n".join(lines))
        assert word_list == tuple(lines)

    def test_comments_and_blank_lines_are_ignored(self, tmp_path: Path) -> None:
        assert words_of_file(tmp_path, "# the first\n\nthe\n   \n  # more\ncat\n\n") == ("the", "cat")

    def test_white_space_around_a_word_is_ignored_and_within_it_is_one_blank(self, tmp_path: Path) -> None:
        assert words_of_file(tmp_path, "  the \t\r\nin   front\u00a0of\r\n") == ("the", "in front of")

    def test_duplicates_keep_their_best_rank(self, tmp_path: Path) -> None:
        assert words_of_file(tmp_path, "b\na\nb\n  a\nc") == ("b", "a", "c")

    def test_words_become_nfc(self, tmp_path: Path) -> None:
        assert words_of_file(tmp_path, "cafe\u0301\ncaf\u00e9\nx") == ("caf\u00e9", "x")

    def test_a_byte_order_mark_is_no_part_of_the_first_word(self, tmp_path: Path) -> None:
        assert words_of_file(tmp_path, b"\xef\xbb\xbfthe\ncat") == ("the", "cat")

    def test_joiners_are_letters_inside_a_word(self, tmp_path: Path) -> None:
        assert words_of_file(tmp_path, "می\u200cشود\nक्\u200dया") == ("می\u200cشود", "क्\u200dया")

    def test_a_file_goes_before_wordfreqs_list(self, tmp_path: Path) -> None:
        assert words_of_file(tmp_path, "hello", "en") == ("hello",)
        assert load_word_list("en", tmp_path).source == "file"
        assert load_word_list("es", tmp_path).source == "cleaned"

    def test_who_asks_for_wordfreqs_list_gets_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "en.txt").write_text("hello")
        (tmp_path / "pirate.txt").write_text("arr")
        assert len(load_word_list("en", tmp_path, source="wordfreq").words) > 300_000
        with pytest.raises(UnknownLanguageError, match="'pirate'"):
            load_word_list("pirate", tmp_path, source="wordfreq")

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [
            (b"the\ncaf\xe9\n", "xx.txt, line 2: not UTF-8"),
            (b"the\n\xed\xa0\x80\n", "xx.txt, line 2: not UTF-8"),
            (b"\nthe\t12\n", r"xx.txt, line 2: control character U\+0009 at column 4"),
            (b"a\0b", r"line 1: control character U\+0000 at column 2"),
            (b"a\rb", r"line 1: control character U\+000D"),
            (b"#c\nab\x1b[0m", r"line 2: control character U\+001B"),
            ("a\u2028b", r"line 1: line separator U\+2028"),
            ("a\u2029b", r"line 1: paragraph separator U\+2029"),
            ("a\u200bb", r"line 1: invisible format character U\+200B"),
            ("a\u202eb", r"line 1: invisible format character U\+202E"),
            ("a\u00adb", r"line 1: invisible format character U\+00AD"),
            ("\ufeffa\n\ufeffb", r"line 2: invisible format character U\+FEFF at column 1"),
            ("a\u200d", r"line 1: invisible format character U\+200D at column 2"),
            ("\u200ca", r"line 1: invisible format character U\+200C at column 1"),
            ("x" * (MAX_WORD_CHARS + 1), "line 1: 1001 characters; a word has at most 1000"),
        ],
    )
    def test_a_line_that_cannot_be_a_word_is_named(self, tmp_path: Path, content: str | bytes, complaint: str) -> None:
        with pytest.raises(InvalidWordListError, match=complaint) as raised:
            words_of_file(tmp_path, content)
        assert str(tmp_path) not in str(raised.value)

    @pytest.mark.parametrize(
        ("content", "num_lines"),
        [("", 1), ("\n \n", 2), ("# nothing\n#\n", 2), ("\ufeff", 1), (" \n\t\r\n\u00a0\n#\n\n# end", 6)],
    )
    def test_a_file_without_words_is_refused(self, tmp_path: Path, content: str, num_lines: int) -> None:
        with pytest.raises(EmptyWordListError, match=rf"no word in xx\.txt, line 1 to {num_lines}: write one"):
            words_of_file(tmp_path, content)


class TestNames:
    def test_files_and_wordfreqs_languages_are_known(self, tmp_path: Path) -> None:
        for name in (
            "list.csv",
            "pirate.txt",
            "my-words.txt",
            "my_list.txt",
            "en_basic.txt",
            "km.txt",
            "bad name.txt",
            ".hidden.txt",
            "-x.txt",
        ):
            (tmp_path / name).write_text("word")
        (tmp_path / "folder.txt").mkdir()
        names = known_languages(tmp_path)
        assert names == sorted(names)
        assert {"pirate", "my-words", "my_list", "en_basic", "en", "ko", "ja", "zh-Hant"} <= set(names)
        assert not {"list", "bad name", ".hidden", "-x", "folder", "km", "my"} & set(names)

    def test_without_a_folder_wordfreqs_languages_are_known(self) -> None:
        assert len(known_languages(None)) == 44

    @pytest.mark.parametrize("is_file", [False, True])
    def test_a_folder_that_is_named_and_not_there_is_no_other_list(self, tmp_path: Path, is_file: bool) -> None:
        folder = tmp_path / "missing"
        if is_file:
            folder.write_text("the\n")
        for ask in (known_languages, partial(load_word_list, "en"), partial(check_known, "en")):
            with pytest.raises(WordListFolderError, match=r"missing' \(WORDLIST_DIR\) cannot be read"):
                ask(folder)
        with pytest.raises(WordListFolderError):
            resolve_level("grade-1", "en", folder)
        assert load_word_list("en", folder, source="wordfreq").source == "wordfreq"

    @pytest.mark.parametrize("name", NO_NAMES, ids=lambda name: ascii(name[:20]))
    def test_an_unknown_name_is_refused_with_the_known_ones(self, tmp_path: Path, name: str) -> None:
        folder = tmp_path / "lists"
        folder.mkdir()
        (folder / "pirate.txt").write_text("arr")
        (tmp_path / "secret.txt").write_text("secret")
        with pytest.raises(UnknownLanguageError, match=r"Known languages: .*en, .*pirate") as raised:
            load_word_list(name, folder)
        assert len(str(raised.value)) < 1000

    def test_no_file_is_opened_for_such_a_name(self, tmp_path: Path) -> None:
        folder = tmp_path / "lists"
        folder.mkdir()
        (folder / "pirate.txt").write_text("arr")
        (tmp_path / "secret.txt").write_text("secret")
        child = subprocess.run(
            [sys.executable, "-c", OPENED_FILES, str(folder), json.dumps(NO_NAMES)],
            capture_output=True,
            check=True,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        opened = json.loads(child.stdout)
        assert opened.pop("pirate") == [str(folder / "pirate.txt")]
        assert opened == {name: [] for name in NO_NAMES}

    @pytest.mark.parametrize("name", ["lo", "km", "my", "yue-HK"])
    def test_a_language_without_a_dictionary_is_refused_even_with_a_file(self, tmp_path: Path, name: str) -> None:
        (tmp_path / f"{name}.txt").write_text("word")
        with pytest.raises(UnsupportedScriptError, match="without spaces"):
            load_word_list(name, tmp_path)

    def test_a_file_of_words_without_spaces_has_no_marks(self, tmp_path: Path) -> None:
        (tmp_path / "zh_school.txt").write_text("# words\n中国\n你好。\n", encoding="utf-8")
        with pytest.raises(InvalidWordListError, match=r"zh_school\.txt, line 3: '你好。' has the mark '。'"):
            load_word_list("zh_school", tmp_path)

    @pytest.mark.parametrize(
        ("name", "language"), [("en", "en"), ("pt-BR", "pt"), ("fr_children", "fr"), ("TR", "tr"), ("pirate", "pirate")]
    )
    def test_the_first_part_of_a_name_is_its_language(self, name: str, language: str) -> None:
        assert language_of(name) == language
        assert WordList(name, ("x",), "file").language == language


class TestRanks:
    plain = WordList("xx", ("a", "b", "c"), "file")
    shared = WordList("xx", ("a", "b", "c", "d"), "file", (1, 1, 2, 3))

    def test_a_word_has_the_rank_of_its_place_unless_the_list_says_otherwise(self) -> None:
        assert list(self.plain.ranked()) == [(1, "a"), (2, "b"), (3, "c")]
        assert list(self.shared.ranked()) == [(1, "a"), (1, "b"), (2, "c"), (3, "d")]
        assert (self.plain.num_ranks, self.shared.num_ranks) == (3, 3)

    def test_the_first_ranks_are_a_list(self) -> None:
        assert self.plain.up_to(2).words == ("a", "b")
        assert list(self.shared.up_to(1).ranked()) == [(1, "a"), (1, "b")]
        assert self.plain.up_to(3) is self.plain
        assert self.shared.up_to(99) is self.shared

    def test_without_a_word_those_behind_it_move_up(self) -> None:
        assert list(self.plain.without({"a"}).ranked()) == [(1, "b"), (2, "c")]
        assert list(self.shared.without({"a"}).ranked()) == [(1, "b"), (2, "c"), (3, "d")]
        assert list(self.shared.without({"c", "x"}).ranked()) == [(1, "a"), (1, "b"), (2, "d")]


class TestDigest:
    def test_it_names_language_and_words_in_their_order(self) -> None:
        lists = [
            WordList("en", ("a", "b"), "file"),
            WordList("en", ("b", "a"), "file"),
            WordList("en", ("a b",), "file"),
            WordList("es", ("a", "b"), "file"),
            WordList("en", ("a",), "file"),
        ]
        assert len({word_list.digest for word_list in lists}) == len(lists)
        assert all(len(word_list.digest) == 64 for word_list in lists)

    def test_it_depends_on_shared_ranks(self) -> None:
        words = ("a", "b", "c")
        digests = {WordList("en", words, "file", ranks).digest for ranks in (None, (1, 1, 2), (1, 2, 2), (1, 2, 3))}
        assert len(digests) == 4

    def test_it_does_not_depend_on_the_source(self) -> None:
        assert WordList("en", ("a",), "file").digest == WordList("en", ("a",), "wordfreq").digest


def test_a_name_is_known_or_refused_without_reading_its_list(tmp_path: Path) -> None:
    (tmp_path / "pets.txt").write_text("")
    for name in ("pets", "es"):
        check_known(name, tmp_path)
    for name in ("Pets", "../pets", "pets.txt"):
        with pytest.raises(UnknownLanguageError, match=r"Known languages: .*es.*pets"):
            check_known(name, tmp_path)
    with pytest.raises(UnsupportedScriptError):
        check_known("km", tmp_path)


SEARCHED = WordList("de", ("haus", "Straße", "aushaus", "Haustür"), "file")


def test_words_that_begin_so_come_first() -> None:
    assert words_with(SEARCHED, "HAUS") == [(1, "haus"), (4, "Haustür"), (3, "aushaus")]
    assert words_with(SEARCHED, "strasse") == [(2, "Straße")]
    assert words_with(SEARCHED, "x") == []


def test_all_words_stay_in_their_order() -> None:
    assert words_with(SEARCHED, "") == [(1, "haus"), (2, "Straße"), (3, "aushaus"), (4, "Haustür")]
