"""Surface forms: the ways in which a text may write a listed word."""

import unicodedata

import pytest

from tests.worlds import WORLDS, World
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import Case, ListOptions
from vocab.text.forms import Form, resolve_case, surface_forms


def forms_of(*words: str, lang: str = "xx", case: Case = "auto") -> set[tuple[str, int]]:
    """(text, rank) of the forms usable anywhere."""
    forms = surface_forms(WordList(lang, words, "file"), ListOptions(case))
    return {(form.text, form.rank) for form in forms if not form.sentence_only}


def start_forms_of(*words: str, lang: str = "xx", case: Case = "sentence") -> set[tuple[str, int]]:
    """(text, rank) of the forms for the start of a sentence only."""
    forms = surface_forms(WordList(lang, words, "file"), ListOptions(case))
    return {(form.text, form.rank) for form in forms if form.sentence_only}


class TestCase:
    @pytest.mark.parametrize(
        ("words", "case"),
        [
            (("the", "cat"), "any"),
            (("the", "London"), "sentence"),
            (("the", "iPhone"), "sentence"),
            (("ǅ",), "sentence"),
            (("ℝ", "日本", "3", "ß", "ა"), "any"),
        ],
    )
    def test_auto_asks_whether_the_list_has_capitals(self, words: tuple[str, ...], case: str) -> None:
        assert resolve_case(WordList("xx", words, "file"), ListOptions()) == case

    @pytest.mark.parametrize("lang", ["en", "de", "fr", "uk", "ko"])
    def test_auto_is_any_for_wordfreqs_lists(self, lang: str) -> None:
        assert resolve_case(load_word_list(lang, None, source="wordfreq"), ListOptions()) == "any"

    @pytest.mark.parametrize(("lang", "case"), [("en", "sentence"), ("de", "sentence"), ("fi", "any"), ("uk", "any")])
    def test_auto_is_sentence_for_lists_with_their_capitals(self, lang: str, case: str) -> None:
        assert resolve_case(load_word_list(lang, None), ListOptions()) == case

    @pytest.mark.parametrize("case", ["sentence", "any", "listed"])
    def test_what_is_asked_for_is_what_counts(self, case: Case) -> None:
        assert resolve_case(WordList("xx", ("the", "London"), "file"), ListOptions(case)) == case

    def test_any_puts_capitals_anywhere(self) -> None:
        assert forms_of("cat", "dog") == {("cat", 1), ("Cat", 1), ("dog", 2), ("Dog", 2)}

    def test_sentence_puts_capitals_where_a_sentence_starts(self) -> None:
        assert forms_of("cat", case="sentence") == {("cat", 1)}
        assert start_forms_of("cat") == {("Cat", 1)}

    def test_listed_adds_no_capitals(self) -> None:
        assert forms_of("cat", "London", case="listed") == {("cat", 1), ("London", 2)}
        assert start_forms_of("cat", case="listed") == set()

    def test_capitals_of_the_list_are_kept(self) -> None:
        assert forms_of("London", "McDonald") == {("London", 1), ("McDonald", 2)}
        assert start_forms_of("London", "McDonald") == set()


class TestBestRank:
    def test_the_more_frequent_word_gives_a_form_its_rank(self) -> None:
        assert forms_of("will", "Will", "may", "May", case="any") == {
            ("will", 1), ("Will", 1), ("may", 3), ("May", 3),
        }  # fmt: skip
        assert ("May", 1) in forms_of("May", "may", case="any")

    def test_a_form_for_sentence_starts_stands_beside_a_rarer_one(self) -> None:
        assert forms_of("will", "Will", case="sentence") == {("will", 1), ("Will", 2)}
        assert start_forms_of("will", "Will") == {("Will", 1)}

    def test_a_form_for_sentence_starts_that_is_rarer_is_superfluous(self) -> None:
        assert start_forms_of("Will", "will") == set()

    def test_a_possessive_that_is_listed_has_the_better_rank(self) -> None:
        assert ("it's", 1) in forms_of("it's", "it", lang="en")
        assert ("it's", 1) in forms_of("it", "it's", lang="en")

    def test_words_that_share_a_rank_give_their_forms_this_rank(self) -> None:
        lemmas = WordList("xx", ("be", "is", "Be", "are"), "file", (1, 1, 2, 2))
        forms = {(form.text, form.rank) for form in surface_forms(lemmas, ListOptions("any"))}
        assert forms == {("be", 1), ("is", 1), ("Be", 1), ("Is", 1), ("are", 2), ("Are", 2)}


class TestCapitals:
    @pytest.mark.parametrize(
        ("word", "capital"),
        [("éa", "Éa"), ("ñu", "Ñu"), ("ǆep", "ǅep"), ("ώρα", "Ώρα"), ("ÿx", "Ÿx"), ("ია", None), ("ᾳx", "ᾼx")],
    )
    def test_it_is_the_titlecase_of_one_code_point(self, word: str, capital: str | None) -> None:
        assert start_forms_of(word) == (set() if capital is None else {(capital, 1)})

    @pytest.mark.parametrize("word", ["ßa", "ŉa", "ﬁn", "ΐa", "3d", "-a", "'s", "日本", "ⅷ", "ⓐ", "\u0345a"])
    def test_there_is_none_where_there_is_no_such_code_point_or_no_letter(self, word: str) -> None:
        assert all(text[0] == word[0] or text[0] in "'’" for text, _ in forms_of(word, case="any"))
        assert start_forms_of(word) == set()

    @pytest.mark.parametrize("lang", ["tr", "az", "tr-TR", "tr_school"])
    def test_turkish_i_keeps_its_dot(self, lang: str) -> None:
        assert start_forms_of("iğne", "ılık", lang=lang) == {("İğne", 1), ("Ilık", 2)}

    def test_other_is_have_no_dot(self) -> None:
        assert start_forms_of("iğne", lang="de") == {("Iğne", 1)}

    def test_a_capital_and_its_mark_become_one_code_point(self) -> None:
        assert start_forms_of("i\u0307x") == {("\u0130x", 1)}


class TestApostrophes:
    @pytest.mark.parametrize("word", ["don't", "don’t"])
    def test_either_may_be_written(self, word: str) -> None:
        assert forms_of(word, case="listed") == {("don't", 1), ("don’t", 1)}

    def test_several_are_written_alike_or_as_listed(self) -> None:
        assert forms_of("a'b’c", case="listed") == {("a'b’c", 1), ("a'b'c", 1), ("a’b’c", 1)}

    def test_english_words_carry_the_possessive(self) -> None:
        assert forms_of("cat", lang="en", case="listed") == {("cat", 1), ("cat's", 1), ("cat’s", 1)}
        assert forms_of("in front", lang="en-GB", case="listed") >= {("in front's", 1)}
        assert start_forms_of("cat", lang="en") == {("Cat", 1), ("Cat's", 1), ("Cat’s", 1)}

    def test_the_possessive_can_be_left_out(self) -> None:
        forms = surface_forms(WordList("en", ("cat",), "file"), ListOptions("listed"), with_possessives=False)
        assert [form.text for form in forms] == ["cat"]

    def test_a_word_with_an_apostrophe_carries_none(self) -> None:
        assert forms_of("don't", lang="en", case="listed") == {("don't", 1), ("don’t", 1)}

    def test_other_languages_have_no_possessive(self) -> None:
        assert forms_of("kat", lang="de", case="listed") == {("kat", 1)}


class TestElisions:
    @pytest.mark.parametrize("lang", ["fr", "it", "ca", "fr-CA"])
    def test_a_final_apostrophe_elides_in_french_italian_and_catalan(self, lang: str) -> None:
        forms = surface_forms(WordList(lang, ("l'", "l'un", "x"), "file"), ListOptions("sentence"))
        assert {form.text for form in forms if form.elision} == {"l'", "l’", "L'", "L’"}
        assert Form("L’", 1, sentence_only=True, elision=True) in forms

    @pytest.mark.parametrize("lang", ["en", "de", "frr"])
    def test_elsewhere_it_is_a_letter(self, lang: str) -> None:
        forms = surface_forms(WordList(lang, ("goin'",), "file"), ListOptions())
        assert not any(form.elision for form in forms)


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_forms_are_nfc_distinct_and_in_rank_order(world: World) -> None:
    forms = surface_forms(WordList(world.lang, world.words, "file"), ListOptions("sentence"))
    assert all(form.text and unicodedata.is_normalized("NFC", form.text) for form in forms)
    assert len({(form.text, form.sentence_only) for form in forms}) == len(forms)
    assert [form.rank for form in forms] == sorted(form.rank for form in forms)


@pytest.mark.slow
@pytest.mark.parallel
def test_a_whole_list_has_its_forms() -> None:
    """Takes 2.5 s on one core of the design's machine; no time is asserted, for other tests may run beside it."""
    word_list = load_word_list("en", None, source="wordfreq")
    assert len(word_list.words) == 311_740
    assert len(surface_forms(word_list, ListOptions())) == 1_760_834
