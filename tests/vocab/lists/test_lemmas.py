"""Ranks that count lemmas: which words share one, and in which order they come."""

from functools import cache
from pathlib import Path

import pytest

from vocab.errors import NoLemmasError
from vocab.lists.lemmas import KnownLemmas, group_by_lemma, lemma_languages
from vocab.lists.wordlists import WordList, known_languages, load_word_list


@cache
def ranks_of(lang: str) -> dict[str, int]:
    return {word: rank for rank, word in group_by_lemma(load_word_list(lang, None, source="wordfreq")).ranked()}


def grouped(words: str, lang: str = "es") -> list[tuple[int, str]]:
    return list(group_by_lemma(WordList(lang, tuple(words.split()), "file")).ranked())


class TestBuiltInLists:
    @pytest.mark.parametrize(
        ("lang", "forms"),
        [
            ("es", "comer comió comiendo comía"),
            ("es", "casa casas"),
            ("tr", "ev evler evlerde evinde"),
            ("tr", "istanbul istanbul'da"),
        ],
    )
    def test_the_forms_of_a_lemma_share_its_rank(self, lang: str, forms: str) -> None:
        ranks = ranks_of(lang)
        assert len({ranks[form] for form in forms.split()}) == 1, [ranks[form] for form in forms.split()]

    def test_different_lemmas_have_different_ranks(self) -> None:
        ranks = ranks_of("es")
        assert len({ranks[word] for word in ("comer", "casa", "perro", "niño")}) == 4

    def test_words_and_their_number_stay(self) -> None:
        forms = load_word_list("tr", None, source="wordfreq")
        lemmas = group_by_lemma(forms)
        assert sorted(forms.words) == sorted(lemmas.words)
        assert (lemmas.lang, lemmas.source) == ("tr", "wordfreq")
        assert lemmas.num_ranks < len(forms.words) / 2
        assert lemmas.digest != forms.digest

    def test_lemmas_are_ranked_by_their_first_form(self) -> None:
        forms, ranks = load_word_list("tr", None, source="wordfreq"), ranks_of("tr")
        first_met = list(dict.fromkeys(ranks[word] for word in forms.words))
        assert first_met == list(range(1, len(first_met) + 1))

    @pytest.mark.parametrize("lang", ["ko", "ta", "vi"])
    def test_a_language_without_lemmas_is_refused_with_those_that_have_them(self, lang: str) -> None:
        with pytest.raises(NoLemmasError, match=r"unit 'lemma'.*de, .*es, .*sh, "):
            group_by_lemma(load_word_list(lang, None))

    def test_most_languages_have_lemmas(self) -> None:
        without = set(known_languages(None)) - set(lemma_languages())
        assert without - {"zh", "zh-Hant", "ja", "th"} == {"bn", "ko", "ta", "ur", "vi"}


@pytest.mark.parametrize("lang", ["zh", "ja", "th"])
def test_words_without_spaces_have_no_lemmas(lang: str) -> None:
    with pytest.raises(NoLemmasError, match="leave out unit 'lemma'"):
        group_by_lemma(WordList(lang, ("中",), "cleaned"))
    assert KnownLemmas(lang).of("中") is None


class TestGrouping:
    @pytest.mark.parametrize(
        ("lang", "words"),
        [
            ("en", "go went goes going"),
            ("en", "child children children's"),
            ("it", "l' il la"),
            ("it", "un un' una"),
            ("ca", "d' de"),
            ("fr", "jusqu' jusque"),
        ],
    )
    def test_forms_share_a_rank(self, lang: str, words: str) -> None:
        assert grouped(words, lang) == [(1, word) for word in words.split()]

    def test_a_word_is_no_form_of_what_is_left_without_its_apostrophe(self) -> None:
        assert grouped("its it's", "en") == [(1, "its"), (2, "it's")]

    def test_a_lemma_keeps_its_words_in_their_order(self) -> None:
        assert grouped("el casas perro comió casa comer") == [
            (1, "el"), (2, "casas"), (2, "casa"), (3, "perro"), (4, "comió"), (4, "comer"),
        ]  # fmt: skip

    def test_a_lemma_that_the_list_lacks_is_not_added(self) -> None:
        assert grouped("comió comiste") == [(1, "comió"), (1, "comiste")]

    def test_words_that_nobody_knows_are_their_own_lemma(self) -> None:
        assert grouped("xqzt xqzu 3 . c++ 👩") == [*enumerate(("xqzt", "xqzu", "3", ".", "c++", "👩"), start=1)]

    def test_phrases_are_their_own_lemma(self) -> None:
        word_list = WordList("es", ("las casas", "casas", "la casa"), "file")
        assert group_by_lemma(word_list).ranks == (1, 2, 3)

    def test_german_nouns_are_found_without_their_capitals(self) -> None:
        assert grouped("haus gehen häuser ging häusern", "de") == [
            (1, "haus"), (1, "häuser"), (1, "häusern"), (2, "gehen"), (2, "ging"),
        ]  # fmt: skip

    def test_german_words_are_found_without_their_eszett(self) -> None:
        assert grouped("strasse füsse fuss strassen lassen lässt", "de") == [
            (1, "strasse"), (1, "strassen"), (2, "füsse"), (2, "fuss"), (3, "lassen"), (3, "lässt"),
        ]  # fmt: skip

    def test_a_word_of_two_lemmas_has_the_rank_of_the_first(self) -> None:
        # "macht" is the noun, or a form of "machen".
        ranks = {word: rank for rank, word in grouped("machen x macht mächte", "de")}
        assert ranks["macht"] == ranks["machen"] == 1
        assert ranks["mächte"] == 3

    def test_a_lemma_without_words_of_its_own_takes_no_rank(self) -> None:
        assert grouped("machen macht und", "de") == [(1, "machen"), (1, "macht"), (2, "und")]

    def test_a_list_with_capitals_keeps_them_apart(self) -> None:
        assert grouped("Häuser haus Haus Weg weg", "de") == [
            (1, "Häuser"), (1, "Haus"), (2, "haus"), (3, "Weg"), (4, "weg"),
        ]  # fmt: skip

    def test_finnish_cases(self) -> None:
        assert grouped("talo mennä talossa talot meni", "fi") == [
            (1, "talo"), (1, "talossa"), (1, "talot"), (2, "mennä"), (2, "meni"),
        ]  # fmt: skip

    def test_turkish_keeps_its_two_letters_i_apart(self) -> None:
        ranks = {word: rank for rank, word in grouped("ılık ilik evler ev", "tr")}
        assert ranks["ılık"] != ranks["ilik"]
        assert ranks["evler"] == ranks["ev"]

    def test_a_file_of_a_known_language_has_lemmas(self, tmp_path: Path) -> None:
        (tmp_path / "es_basic.txt").write_text("casas\nel\ncasa")
        word_list = group_by_lemma(load_word_list("es_basic", tmp_path))
        assert (word_list.words, word_list.ranks, word_list.source) == (("casas", "casa", "el"), (1, 1, 2), "file")

    def test_serbian_and_croatian_share_a_dictionary(self) -> None:
        assert grouped("kuća kuće", "sh") == grouped("kuća kuće", "hr") == [(1, "kuća"), (1, "kuće")]
