"""The rank of a form, looked up, is the rank that the table of all forms gives it."""

import pytest

from tests.worlds import WORLDS, World
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import Case, ListOptions
from vocab.text.forms import FormRanks, is_elision, surface_forms

CASES: tuple[Case, ...] = ("auto", "sentence", "any", "listed")


def assert_same_as_table(word_list: WordList, options: ListOptions) -> None:
    forms = surface_forms(word_list, options)
    ranks = FormRanks(word_list, options)
    within = {form.text: form.rank for form in forms if not form.sentence_only}
    at_start = {form.text: form.rank for form in sorted(forms, key=lambda form: -form.rank)}
    for form in forms:
        assert ranks.rank(form.text, starts_sentence=False) == within.get(form.text)
        assert ranks.rank(form.text, starts_sentence=True) == at_start[form.text]
        assert is_elision(form.text, word_list.language) == form.elision
    assert {len(form.text) for form in forms} <= set(ranks.lengths)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_every_form_of_a_small_list_has_its_rank(world: World, case: Case) -> None:
    assert_same_as_table(WordList(world.lang, world.words, "file"), ListOptions(case))


@pytest.mark.parametrize("lang", ["en", "fr", "tr", "el", "hi"])
@pytest.mark.parametrize("case", ["auto", "sentence"])
def test_every_form_of_a_real_list_has_its_rank(lang: str, case: Case) -> None:
    words = load_word_list(lang, None).words[:5_000]
    assert_same_as_table(WordList(lang, words, "wordfreq"), ListOptions(case))


@pytest.mark.parametrize("text", ["'s", "’s", "x's", "the's's", "don't's", "cAt", "THE"])
def test_what_no_word_gives_has_no_rank(text: str) -> None:
    ranks = FormRanks(WordList("en", ("the", "don't", "cat"), "file"), ListOptions())
    assert ranks.rank(text, starts_sentence=True) is None


def test_words_behind_the_first_n_are_left_out() -> None:
    ranks = FormRanks(WordList("en", ("the", "cat", "England"), "file"), ListOptions(), 2)
    assert ranks.rank("Cat", starts_sentence=True) == 2
    assert ranks.rank("Cat", starts_sentence=False) is None
    assert ranks.rank("England", starts_sentence=True) is None
    assert ranks.lengths == [3, 5]


def test_words_may_share_a_rank_and_a_spelling_may_have_several() -> None:
    forms = WordList(
        "en", ("the", "see", "saw", "o'k", "Saw", "o’k", "i\u0307x", "\u0130x"), "file", (1, 2, 2, 3, 4, 5, 6, 7)
    )
    ranks = FormRanks(forms, ListOptions("sentence"))
    assert sorted(set(ranks.ranks("o’k", starts_sentence=False))) == [3, 5]
    assert sorted(set(ranks.ranks("Saw", starts_sentence=True))) == [2, 4]
    assert sorted(set(ranks.ranks("Saw's", starts_sentence=False))) == [4]
    assert sorted(set(ranks.ranks("\u0130x", starts_sentence=True))) == [6, 7]
    assert_same_as_table(forms, ListOptions("sentence"))
    assert FormRanks(forms, ListOptions(), 2).rank("seen", starts_sentence=False) is None
    assert FormRanks(forms, ListOptions(), 2).rank("saw", starts_sentence=False) == 2
    assert FormRanks(forms, ListOptions(), 2).rank("o'k", starts_sentence=False) is None


def test_there_may_be_no_words() -> None:
    ranks = FormRanks(WordList("en", (), "inline"), ListOptions("sentence"))
    assert ranks.lengths == []
    assert ranks.rank("'s", starts_sentence=True) is None
