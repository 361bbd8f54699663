"""Which entries of a list a word to leave out means, and which changes contradict one another."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.errors import OptionsError
from vocab.lists.wordlists import WordList, load_word_list
from vocab.text.changes import NO_CHANGES, ListChanges, entries_left_out, fold, ranks_left_out


@pytest.mark.parametrize(
    ("lang", "words", "excluded", "meant"),
    [
        ("en", "may can May MAY o’clock o'clock maybe", "May", "may May MAY"),
        ("en", "may can May MAY o’clock o'clock maybe", "O’CLOCK can", "can o’clock o'clock"),
        ("en", "may can", "the", ""),
        ("en", "may can", "", ""),
        ("de", "Maße Masse MASSE MAẞE", "maße", "Maße MAẞE"),
        ("en", "it's it its", "it", "it's it"),
        ("en", "it's it its", "it's", "it's"),
        ("xx", "it's it its", "it", "it"),
        ("es", "ílk ilk", "ilk", "ilk"),
        ("tr", "ılık ilik Ilık İlik ILIK", "ılık", "ılık Ilık"),
        ("tr", "iğne İğne ığne", "İğne", "iğne İğne"),
        ("nl", "ijs IJs ijzer", "IJs", "ijs IJs"),
        # A capital that melts with its mark is a capital.
        ("xx", "i\u0307x \u0130x ix", "\u0130x", "i\u0307x \u0130x"),
    ],
)
def test_a_word_means_its_spellings_with_capitals_and_apostrophes_and_no_other_word(
    lang: str, words: str, excluded: str, meant: str
) -> None:
    word_list = WordList(lang, tuple(words.split()), "file")
    assert entries_left_out(word_list, tuple(excluded.split())) == tuple(meant.split())


def test_words_of_one_rank_are_left_out_together() -> None:
    forms = WordList("en", ("the", "see", "saw", "seen", "Saw", "cat"), "file", (1, 2, 2, 2, 3, 4))
    assert entries_left_out(forms, ("SEEN",)) == ("see", "saw", "seen")
    assert entries_left_out(forms, ("saw",)) == ("see", "saw", "seen", "Saw")
    assert ranks_left_out(forms, ("saw", "cat")) == {2, 3, 4}
    assert ranks_left_out(forms, ()) == frozenset()


@pytest.mark.parametrize("lang", ["tr", "el", "de", "fr"])
def test_on_a_real_list_it_finds_what_folding_each_word_finds(lang: str) -> None:
    word_list = load_word_list(lang, None).up_to(3_000)
    by_folding: dict[str, list[str]] = {}
    for word in word_list.words:
        by_folding.setdefault(fold(word, lang), []).append(word)
    for word in word_list.words[::50]:
        capital = word.upper() if lang != "tr" else word
        assert word in entries_left_out(word_list, (word,))
        assert list(entries_left_out(word_list, (capital,))) == by_folding.get(fold(capital, lang), [])


@given(
    st.lists(st.text("iIıİ\u0307sSßẞſσςΣ'’kK\u212aéÉ", min_size=1, max_size=3), min_size=1),
    st.sampled_from(["tr", "xx"]),
)
def test_the_quick_look_misses_nothing(words: list[str], lang: str) -> None:
    listed = tuple(dict.fromkeys(unicodedata.normalize("NFC", word) for word in words))
    expected = tuple(word for word in listed if fold(word, lang) == fold(listed[0], lang))
    assert entries_left_out(WordList(lang, listed, "file"), listed[:1]) == expected


def test_changes_are_true_where_there_are_some_and_refused_where_they_contradict() -> None:
    assert not NO_CHANGES
    assert ListChanges(extra_words=("a",)) and ListChanges(exclude_words=("a",))
    ListChanges(("Eva",), ("ana",)).check("es")
    with pytest.raises(OptionsError, match="'Ana' is in both extra_words and exclude_words"):
        ListChanges(("Eva", "Ana"), ("ana",)).check("es")
