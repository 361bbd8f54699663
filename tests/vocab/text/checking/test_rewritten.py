"""Differences of texts."""

from vocab.text.checking.rewritten import Change, changes_between


def test_each_run_of_other_words_is_a_change() -> None:
    before, after = "He purchased a large house near here.", "He bought a very big house here."
    assert changes_between(before, after) == [
        Change(3, 12, "purchased", "bought"),
        Change(15, 20, "large", "very big"),
        Change(27, 31, "near", ""),
    ]


def test_a_change_may_be_that_of_a_longer_text() -> None:
    assert Change(3, 12, "purchased", "bought").moved(10) == Change(13, 22, "purchased", "bought")


def test_words_may_be_added_at_the_end_and_marks_do_not_count() -> None:
    assert changes_between("One, two.", "One two three!") == [Change(9, 9, "", "three")]
    assert changes_between("One.", "One!") == []
