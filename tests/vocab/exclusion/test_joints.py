import pytest

from vocab.exclusion.joints import Joints, can_tell, excluded_forms


def test_a_word_is_excluded_with_a_capital_with_a_small_letter_and_with_either_apostrophe() -> None:
    assert excluded_forms(("sol", "Ana"), "es") == {"sol", "Sol", "ana", "Ana"}
    assert excluded_forms(("o'Neil",), "es") == {f"{o}{apostrophe}Neil" for o in "oO" for apostrophe in "'’"}
    assert excluded_forms(("İzmir", "ılık"), "tr") == {"İzmir", "izmir", "ılık", "Ilık"}
    assert excluded_forms(("3m", "ß"), "de") == {"3m", "ß"}


def test_an_english_possessive_is_found_with_its_word() -> None:
    assert excluded_forms(("dog", "dog's"), "en") == {"dog", "Dog"}
    assert "dog's" in excluded_forms(("dog's",), "en")
    assert "dog's" in excluded_forms(("dog", "dog's"), "es")


@pytest.mark.parametrize(
    ("form", "language", "numbers", "expected"),
    [
        ("sol", "es", True, True),
        ("c'est", "es", False, True),
        ("c'est", "fr", False, False),
        ("don't", "en", False, True),
        ("it's", "en", False, False),
        ("well-known", "en", False, True),
        ("-", "es", False, False),
        ("por favor", "es", False, False),
        ("etc.", "es", False, False),
        ("¿qué", "es", False, False),
        ("3m", "es", False, True),
        ("3m", "es", True, False),
    ],
)
def test_words_that_could_be_read_as_something_else_cannot_be_told(
    form: str, language: str, numbers: bool, expected: bool
) -> None:
    assert can_tell((form,), Joints.of(language), numbers=numbers) == expected
