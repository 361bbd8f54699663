"""The table of marks is whole, and fits what the library takes for marks."""

from vocab import marks
from vocab.lists.wordlists import known_languages, unspaced_language
from vocab.marks import LanguageMarks, marks_of_language

TABLE = marks._BY_LANGUAGE


def test_it_has_every_language_that_has_a_list_and_spaces() -> None:
    assert {lang for lang in known_languages(None) if unspaced_language(lang) is None} <= set(TABLE)


def test_each_mark_is_known_as_a_mark_in_every_language_and_stands_for_itself_alone() -> None:
    for own in {*TABLE.values(), LanguageMarks()}:
        behind_words = [*own.sentence, *own.pauses, *(pair[1] for pair in own.pairs)]
        before_words = [*own.inverted, *(pair[0] for pair in own.pairs)]
        assert set(before_words) <= set(marks.OPEN_MARKS)
        assert set(behind_words) <= set(marks.CLOSE_MARKS)
        assert set(own.spaced_dashes) <= set(marks.SPACED_DASHES)
        assert set(own.joining_dashes) <= set(marks.JOINING_DASH)
        assert len(set(behind_words)) == len(behind_words)
        assert len(set(before_words)) == len(before_words)
        assert not {*marks.CLOSE_MARKS, *marks.OPEN_MARKS} & set(marks.APOSTROPHES)
        assert all(len(pair) == 2 for pair in own.pairs)
        assert {".", "!", *own.questions} <= set(own.sentence)
        assert marks.COLON in own.pauses


def test_some_languages() -> None:
    assert marks_of_language("es").pairs == ("“”", "«»", '""', "()")
    quotes = {language: marks_of_language(language).quotes for language in ("de", "nl")}
    assert quotes == {"de": ("„“",), "nl": ("“”",)}
    assert [marks_of_language(language).inverted for language in ("gl", "nb")] == ["¿¡", ""]
    assert marks_of_language("el").questions == ";"
    assert marks_of_language("no such language") == marks_of_language("en")
    assert (marks_of_language("fa").joining_dashes, marks_of_language("fa").spaced_dashes) == ("", "-")
