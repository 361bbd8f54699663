"""Words of a list are found by a part of them."""

from vocab.lists.search import words_with
from vocab.lists.wordlists import WordList

WORDS = WordList("de", ("haus", "Straße", "aushaus", "Haustür"), "file")


def test_words_that_begin_so_come_first() -> None:
    assert words_with(WORDS, "HAUS") == [(1, "haus"), (4, "Haustür"), (3, "aushaus")]
    assert words_with(WORDS, "strasse") == [(2, "Straße")]
    assert words_with(WORDS, "x") == []


def test_all_words_stay_in_their_order() -> None:
    assert words_with(WORDS, "") == [(1, "haus"), (2, "Straße"), (3, "aushaus"), (4, "Haustür")]
