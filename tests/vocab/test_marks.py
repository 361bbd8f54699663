"""The table of marks is whole, and fits what the library takes for marks."""

import pytest
import wordfreq

from vocab import marks
from vocab.marks import LanguageMarks, marks_of_language

TABLE = marks._BY_LANGUAGE
ALL_MARKS = {*TABLE.values(), LanguageMarks()}


def test_it_has_every_language_that_wordfreq_has_a_list_of_with_spaces() -> None:
    assert set(wordfreq.available_languages("small")) - {"ja", "zh"} <= set(TABLE)


@pytest.mark.parametrize("own", ALL_MARKS)
def test_each_mark_is_known_as_a_mark_in_every_language(own: LanguageMarks) -> None:
    opening, closing = ({pair[end] for pair in own.pairs} for end in (0, 1))
    assert opening <= set(marks.OPEN_MARKS)
    assert set(own.inverted) <= set(marks.OPEN_MARKS)
    assert {*closing, *own.sentence, *own.pauses} <= set(marks.CLOSE_MARKS)
    assert set(own.spaced_dashes) <= set(marks.SPACED_DASHES)
    assert set(own.joining_dashes) <= set(marks.JOINING_DASH)


@pytest.mark.parametrize("own", ALL_MARKS)
def test_no_mark_stands_for_two(own: LanguageMarks) -> None:
    behind_words = [*own.sentence, *own.pauses, *(pair[1] for pair in own.pairs)]
    before_words = [*own.inverted, *(pair[0] for pair in own.pairs)]
    assert len(set(behind_words)) == len(behind_words)
    assert len(set(before_words)) == len(before_words)
    assert not {*behind_words, *before_words} & set(marks.APOSTROPHES)
    assert all(len(pair) == 2 for pair in own.pairs)
    assert {".", "!"} <= set(own.sentence)
    assert set(own.questions) <= set(own.sentence)
    assert marks.COLON in own.pauses


def test_some_languages() -> None:
    assert marks_of_language("es").pairs == ("“”", "«»", '""', "()")
    assert marks_of_language("de").quotes == ("„“",)
    assert marks_of_language("nl").quotes == ("“”",)
    assert marks_of_language("gl").inverted == "¿¡"
    assert marks_of_language("nb").inverted == ""
    assert marks_of_language("el").questions == ";"
    assert marks_of_language("no such language") == marks_of_language("en")
    assert (marks_of_language("fa").joining_dashes, marks_of_language("fa").spaced_dashes) == ("", "-")
