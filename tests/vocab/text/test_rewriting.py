"""Names in texts, and differences of texts."""

from deployments.replica.word_tools.rewrite import Change, changes_between
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.checker import TextChecker


def test_names_are_unlisted_words_whose_capital_no_sentence_gave_them() -> None:
    words = ("the", "a", "man", "saw", "was", "here", "Alice", "dog", "Paris", "walrus", "it")
    checker = TextChecker(WordList("en", words, "file"), ListOptions(), 6)
    names_by_text = {
        "The man saw Alice. A dog was here.": ["Alice"],
        "Walrus was here. It saw Bob's dog.": ["Bob's"],
        "Alice was here.": ["Alice"],
        "Xylo was here. The man saw Xylo’s dog.": ["Xylo", "Xylo’s"],
        "Xylo was here.": [],
        "“Walrus was here,” a man saw.\nQwerty": [],
        "THE DOG": ["DOG"],
    }
    assert {text: [*checker.check(text, keep_names=True).names] for text in names_by_text} == names_by_text


def test_each_run_of_other_words_is_a_change_and_marks_are_none() -> None:
    bought = Change(3, 12, "purchased", "bought")
    before, after = "He purchased a large house near here.", "He bought a very big house here."
    assert changes_between(before, after) == [
        bought, Change(15, 20, "large", "very big"), Change(27, 31, "near", ""),
    ]  # fmt: skip
    assert changes_between("One, two.", "One two three!") == [Change(9, 9, "", "three")]
    assert changes_between("One.", "One!") == []
    # It may be that of a longer text.
    assert bought.shift(10) == Change(13, 22, "purchased", "bought")
