"""Word lists: what counts as a word, in which order, under which name."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from vocab.errors import UnknownLanguageError, UnsupportedScriptError, WordListFolderError
from vocab.lists.levels import resolve_level
from vocab.lists.wordlists import (
    WordList,
    known_languages,
    language_of,
    list_name,
    load_word_list,
    words_with,
)

NO_NAMES = [
    *("xx", "XX", "Pirate", "PIRATE", "e", "", ".", "..", "../secret", "/secret", "secret.txt", "pirate.txt"),
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of lists, beside a file that is none of them."""
    (tmp_path / "secret.txt").write_text("secret")
    lists = tmp_path / "lists"
    lists.mkdir()
    for name in ("pirate", "my-words", "my_list", "en_basic", "km", "lo", "my", "yue-HK", "bad name", ".hidden", "-x"):
        (lists / f"{name}.txt").write_text("arr")
    (lists / "list.csv").write_text("word")
    (lists / "folder.txt").mkdir()
    return lists


@pytest.mark.parametrize(
    ("lang", "first", "listed", "not_listed"),
    [
        ("fr", "de la le et l' à les est", "d' c' qu' j' jusqu' puisqu' y a ô homme aujourd'hui jusqu'à grand",
         "l d c qu j jusqu un'"),
        ("it", "di e che", "l' d' c' un un' all' dell' quest' mezz' ch' è a i o po buon nessun dell'anno",
         "l d c dell all"),
        ("ca", "de la", "l' d' s' m' t' n' a o un se'n veure'l", "l d s m t n c qu un'"),
    ],
)  # fmt: skip
def test_a_stem_of_an_elision_has_its_apostrophe_in_its_place(
    lang: str, first: str, listed: str, not_listed: str
) -> None:
    words = load_word_list(lang, None).words
    assert words[: len(first.split())] == tuple(first.split())
    assert set(listed.split()) <= set(words)
    assert not set(not_listed.split()) & set(words)


class TestNames:
    def test_files_and_languages_are_known(self, folder: Path) -> None:
        names = known_languages(folder)
        assert names == sorted(names)
        assert {"pirate", "my-words", "my_list", "en_basic", "en", "ko", "ja", "zh-Hant"} <= set(names)
        assert not {"list", "bad name", ".hidden", "-x", "folder", "km", "my"} & set(names)
        assert len(known_languages(None)) == 44

    def test_a_file_goes_before_a_built_in_list_and_is_taken_as_written(self, folder: Path) -> None:
        (folder / "fr.txt").write_text("l\nd'\nqu")
        found = load_word_list("fr", folder)
        assert (found.words, found.source) == (("l", "d'", "qu"), "file")
        assert load_word_list("es", folder).source == "cleaned"

    @pytest.mark.fault(76)
    @pytest.mark.parametrize("is_file", [False, True])
    def test_a_folder_that_is_named_and_not_there_is_no_other_list(self, tmp_path: Path, is_file: bool) -> None:
        folder = tmp_path / "missing"
        if is_file:
            folder.write_text("the\n")
        for ask in (known_languages, partial(load_word_list, "en"), partial(list_name, "en")):
            with pytest.raises(WordListFolderError, match=r"missing' \(WORDLIST_DIR\) cannot be read"):
                ask(folder)
        with pytest.raises(WordListFolderError):
            resolve_level("grade-1", "en", folder)

    def test_an_unknown_name_is_refused_with_the_known_ones(self, folder: Path) -> None:
        for name in NO_NAMES:
            for ask in (load_word_list, list_name):
                with pytest.raises(UnknownLanguageError, match=r"Known languages: .*en, .*pirate") as raised:
                    ask(name, folder)
                assert len(str(raised.value)) < 1000

    @pytest.mark.fault(25)
    def test_no_file_is_opened_for_such_a_name(self, folder: Path) -> None:
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

    def test_a_name_is_known_without_reading_its_list(self, folder: Path) -> None:
        (folder / "pets.txt").write_text("")
        for name in ("pets", "es"):
            assert list_name(name, folder) == name

    @pytest.mark.parametrize("name", ["lo", "km", "my", "wuu", "yue", "yue-HK", "yue-Hant-HK"])
    def test_a_language_without_a_dictionary_is_refused_even_with_a_file(self, folder: Path, name: str) -> None:
        for ask in (load_word_list, list_name):
            with pytest.raises(UnsupportedScriptError, match=r"without spaces.*no dictionary .* zh, zh-Hant, ja or th"):
                ask(name, folder)

    def test_the_first_part_of_a_name_is_its_language(self) -> None:
        names = {"en": "en", "pt-BR": "pt", "fr_children": "fr", "TR": "tr", "pirate": "pirate", "zhx": "zhx"}
        names |= dict.fromkeys(("zh", "zh-CN", "zh-Hans", "zh-SG", "zh-Hans-HK", "zh_hsk1"), "zh")
        names |= dict.fromkeys(("zh-TW", "zh-HK", "zh-MO", "zh-Hant-TW", "zh-Hant_school"), "zh-Hant")
        names |= {"ja-JP": "ja", "ja_n5": "ja", "th-TH": "th", "th_school": "th", "school_zh": "school", "yue": "yue"}
        assert {name: language_of(name) for name in names} == names
        assert WordList("pt-BR", ("x",), "file").language == "pt"
        unspaced = [name for name in names if WordList(name, ("x",), "file").is_unspaced]
        assert unspaced == [name for name, language in names.items() if language in ("zh", "zh-Hant", "ja", "th")]


def test_words_have_the_ranks_of_their_places_or_their_own() -> None:
    plain = WordList("xx", ("a", "b", "c"), "file")
    shared = WordList("xx", ("a", "b", "c", "d"), "file", (1, 1, 2, 3))
    assert list(plain.ranked()) == [(1, "a"), (2, "b"), (3, "c")]
    assert list(shared.ranked()) == [(1, "a"), (1, "b"), (2, "c"), (3, "d")]
    assert (plain.num_ranks, shared.num_ranks) == (3, 3)
    assert plain.up_to(2).words == ("a", "b")
    assert list(shared.up_to(1).ranked()) == [(1, "a"), (1, "b")]
    assert plain.up_to(3) is plain and shared.up_to(99) is shared
    # Those behind it move up.
    assert list(plain.without({"a"}).ranked()) == [(1, "b"), (2, "c")]
    assert list(shared.without({"a"}).ranked()) == [(1, "b"), (2, "c"), (3, "d")]
    assert list(shared.without({"c", "x"}).ranked()) == [(1, "a"), (1, "b"), (2, "d")]


def test_a_digest_is_of_name_words_and_ranks_but_not_of_the_source() -> None:
    words = ("a", "b", "c")
    lists = [WordList("en", words, "file", ranks) for ranks in (None, (1, 1, 2), (1, 2, 2), (1, 2, 3))]
    others = [("en", ("b", "a", "c")), ("en", ("a b", "c")), ("es", words), ("en", ("a", "b"))]
    digests = {word_list.digest for word_list in (*lists, *(WordList(*other, "file") for other in others))}
    assert len(digests) == 8 and set(map(len, digests)) == {64}
    assert WordList("en", words, "cleaned").digest == lists[0].digest


def test_a_search_finds_first_what_begins_so() -> None:
    searched = WordList("de", ("haus", "Straße", "aushaus", "Haustür"), "file")
    assert words_with(searched, "HAUS") == [(1, "haus"), (4, "Haustür"), (3, "aushaus")]
    assert words_with(searched, "strasse") == [(2, "Straße")]
    assert words_with(searched, "x") == []
    assert words_with(searched, "") == [*searched.ranked()]
