"""The checker finds what is not listed, and the recogniser's table is the library's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import recogniser
from tests.checker import assert_only_listed_words, unlisted_words
from tests.recogniser import Recogniser
from tests.worlds import WORLDS, World
from vocab import marks

WORDS = ("the", "cat", "well-known", "don't", "in front of", "London", "i", "goin'", "c++", "3")


def assert_caught(text: str, lang: str, n_words: int, words: tuple[str, ...] | None = None) -> None:
    with pytest.raises(AssertionError):
        assert_only_listed_words(text, lang, n_words, words)


@pytest.mark.parametrize(
    "text",
    [
        "The cat.",
        "“The cat’s”—in front of London’s cat?!",
        "Don’t, cat: don't;\n\nin front of - the (well-known) cat",
        "In front of's c++ 3 I",
        "Goin' in front of the cat",
        "C++…",
    ],
)
def test_it_accepts_listed_words(text: str) -> None:
    assert unlisted_words(text, "en", 10, WORDS) == []
    assert_only_listed_words(text, "en", 10, WORDS)


@pytest.mark.parametrize(
    ("text", "unlisted"),
    [
        ("the dog", ["dog"]),
        ("THE cAt", ["THE", "cAt"]),
        ("the ca", ["ca"]),
        ("the in front o", ["in", "front", "o"]),
        ("the well-", ["well-"]),
        ("well known", ["well", "known"]),
        ("-cat cat-", ["-cat", "cat-"]),
        ("london", ["london"]),
        ("don't's 'the'", ["don't's", "'the'"]),
        ("the cat_the", ["_"]),
        ("the 4 ★ \t cat", ["4", "★", "\t"]),
        ("c+ c", ["c", "+", "c"]),
        ("thé the\u0301", ["thé", "the\u0301"]),
        ("cat3 33", ["cat3", "33"]),
        ("the dog saw the dog", ["dog", "saw", "dog"]),
    ],
)
def test_it_names_unlisted_words_in_their_order(text: str, unlisted: list[str]) -> None:
    assert unlisted_words(text, "en", 10, WORDS) == unlisted
    assert_caught(text, "en", 10, WORDS)


def test_only_the_first_n_words_count() -> None:
    assert unlisted_words("the cat", "en", 1, WORDS) == ["cat"]
    assert unlisted_words("the cat", "en", 10**9, WORDS) == []


def test_duplicates_take_no_rank() -> None:
    assert unlisted_words("a b", "xx", 2, ("a", "a", "b")) == []


def test_wordfreqs_words_are_ranked_as_they_are_kept() -> None:
    assert unlisted_words("The cat sat on the mat.", "en", 100) == ["cat", "sat", "mat"]
    assert unlisted_words("Çok güzel bir gün, İstanbul!", "tr", 1000) == []
    assert unlisted_words("0 00 u.s", "en", 10**9) == ["0", "00"]


def test_elisions_join_the_next_word_and_end_nothing() -> None:
    words = ("l'", "homme", "d’", "un", "aujourd'hui")
    assert unlisted_words("L’homme d'un l'd'homme aujourd’hui", "fr", 5, words) == []
    assert unlisted_words("l' homme l'", "fr", 5, words) == ["l'", "l'"]
    assert unlisted_words("l'(homme)", "fr", 5, words) == ["l'"]
    assert unlisted_words("l'homme", "de", 5, words) == ["l'homme"]


def test_turkish_capitals_keep_their_dots() -> None:
    assert unlisted_words("İğne Ilık", "tr", 2, ("iğne", "ılık")) == []
    assert unlisted_words("Iğne İlık", "tr", 2, ("iğne", "ılık")) == ["Iğne", "İlık"]


def test_overlapping_phrases_are_read_in_the_way_that_fits() -> None:
    assert unlisted_words("a b c", "xx", 3, ("a", "a b", "b c")) == []
    assert unlisted_words("a b", "xx", 3, ("a b c", "b", "x")) == ["a"]


@pytest.mark.parametrize("text", ["", " ", "the ", "the cat (", "the cat —", "the -", "the.\n", "¿"])
def test_a_text_that_stops_before_a_word_is_caught(text: str) -> None:
    assert unlisted_words(text, "en", 10, WORDS) in ([], ["-"])
    assert_caught(text, "en", 10, WORDS)


def test_an_entry_may_end_like_a_mark() -> None:
    assert_only_listed_words("a so-", "xx", 2, ("a", "so-"))
    assert_only_listed_words("a (", "xx", 2, ("a", "("))
    assert_caught("a (", "xx", 1, ("a", "("))


@pytest.mark.parametrize("world", WORLDS, ids=str)
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_it_accepts_every_allowed_text(world: World, data: st.DataObject) -> None:
    text = data.draw(world.likely_texts())
    if Recogniser(world.words, world.n_words, world.lang, "any", "lines").is_text(text):
        assert_only_listed_words(text, world.lang, world.n_words, world.words)


def test_the_recognisers_table_is_the_librarys() -> None:
    assert set(recogniser.SENTENCE_MARKS) == set(marks.SENTENCE_MARKS)
    assert set(recogniser.CLOSE_MARKS) == set(marks.CLOSE_MARKS)
    assert set(recogniser.OPEN_MARKS) == set(marks.OPEN_MARKS)
    assert set(recogniser.APOSTROPHES) == set(marks.APOSTROPHES)
    spaced = {f" {dash} " for dash in marks.SPACED_DASHES}
    assert set(recogniser.DASH_GAPS) == {marks.JOINING_DASH} | spaced
    assert tuple(marks.LINE_BREAK * num for num in range(1, marks.MAX_LINE_BREAKS + 1)) == recogniser.LINE_BREAK_GAPS
    assert (recogniser.MOST_CLOSE_MARKS, recogniser.MOST_OPEN_MARKS) == (marks.MAX_CLOSE_RUN, marks.MAX_OPEN_RUN)


@pytest.mark.parametrize(
    ("text", "is_text", "is_prefix"),
    [
        ("", False, True),
        ("the", True, True),
        ("Th", False, True),
        ("the.", True, True),
        ("the. ", False, True),
        ("th.", False, False),
        ("the  cat", False, False),
    ],
)
def test_the_recogniser_tells_texts_from_their_beginnings(text: str, is_text: bool, is_prefix: bool) -> None:
    assert recogniser.is_text(text, ["the", "cat"], 2, lang="en") is is_text
    assert recogniser.is_prefix_of_text(text, ["the", "cat"], 2, lang="en") is is_prefix


def test_elisions_alone_begin_no_text() -> None:
    assert not recogniser.is_prefix_of_text("", ["l'"], 1, lang="fr")
    assert not recogniser.is_prefix_of_text("l'", ["l'", "un"], 1, lang="fr")
    assert recogniser.is_prefix_of_text("l'", ["l'", "un"], 2, lang="fr")
