"""Ranks that count lemmas: which words share one, and in which order they come."""

from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest

from vocab.errors import NoLemmasError
from vocab.lists.lemmas import group_by_lemma, lemma_languages, rank_by_lemma
from vocab.lists.wordlists import WordList, inline_word_list, known_languages, load_word_list

# Language, the words of a list (_ stands for a blank), and the same by their ranks.
GROUPED = [
    ("en", "go went goes going", "go went goes going"),
    ("en", "child children children's", "child children children's"),
    ("it", "l' il la", "l' il la"),
    ("it", "un un' una", "un un' una"),
    ("ca", "d' de", "d' de"),
    ("fr", "jusqu' jusque", "jusqu' jusque"),
    # A word is no form of what is left without its apostrophe.
    ("en", "its it's", "its | it's"),
    # A lemma keeps its words in their order, and is where its first word is.
    ("es", "el casas perro comió casa comer", "el | casas casa | perro | comió comer"),
    # A lemma that the list lacks is not added.
    ("es", "comió comiste", "comió comiste"),
    ("es", "xqzt xqzu 3 . c++ 👩", "xqzt | xqzu | 3 | . | c++ | 👩"),
    ("es", "las_casas casas la_casa", "las_casas | casas | la_casa"),
    # German nouns are found without their capitals and ß.
    ("de", "haus gehen häuser ging häusern", "haus häuser häusern | gehen ging"),
    ("de", "strasse füsse fuss strassen lassen lässt", "strasse strassen | füsse fuss | lassen lässt"),
    # "macht" is the noun, or a form of "machen": the first of the two counts, and the other leaves no hole.
    ("de", "machen x macht mächte", "machen macht | x | mächte"),
    ("de", "machen macht und", "machen macht | und"),
    # A list with capitals keeps them apart.
    ("de", "Häuser haus Haus Weg weg", "Häuser Haus | haus | Weg | weg"),
    ("fi", "talo mennä talossa talot meni", "talo talossa talot | mennä meni"),
    ("tr", "ılık ilik evler ev", "ılık | ilik | evler ev"),
    ("sh", "kuća kuće", "kuća kuće"),
    ("hr", "kuća kuće", "kuća kuće"),
]


@pytest.mark.parametrize(("lang", "words", "expected"), GROUPED)
def test_the_forms_of_a_lemma_share_its_rank(lang: str, words: str, expected: str) -> None:
    word_list = WordList(lang, tuple(word.replace("_", " ") for word in words.split()), "file")
    ranked = list(group_by_lemma(word_list).ranked())
    groups = [[word for _, word in group] for _, group in groupby(ranked, key=itemgetter(0))]
    assert " | ".join(" ".join(word.replace(" ", "_") for word in group) for group in groups) == expected
    assert [rank for rank, _ in groupby(rank for rank, _ in ranked)] == [*range(1, len(groups) + 1)]


@pytest.mark.parametrize(
    ("lang", "lemmas"),
    [("es", "comer comió comiendo comía | casa casas | perro | niño"),
     ("tr", "ev evler evlerde evinde | İstanbul İstanbul'da")],
)  # fmt: skip
def test_a_built_in_list_keeps_its_words_and_ranks_lemmas_by_their_first_form(lang: str, lemmas: str) -> None:
    forms = load_word_list(lang, None)
    grouped = group_by_lemma(forms)
    ranks = {word: rank for rank, word in grouped.ranked()}
    of_lemmas = [{ranks[form] for form in lemma.split()} for lemma in lemmas.split(" | ")]
    assert all(len(of_lemma) == 1 for of_lemma in of_lemmas)
    assert len(set[int]().union(*of_lemmas)) == len(of_lemmas)
    first_met = list(dict.fromkeys(ranks[word] for word in forms.words))
    assert first_met == list(range(1, len(first_met) + 1))
    assert sorted(forms.words) == sorted(grouped.words)
    assert (grouped.lang, grouped.source) == (lang, "cleaned")
    assert grouped.num_ranks < len(forms.words)
    assert grouped.digest != forms.digest


def test_a_file_of_a_known_language_has_lemmas(tmp_path: Path) -> None:
    (tmp_path / "es_basic.txt").write_text("casas\nel\ncasa")
    word_list = group_by_lemma(load_word_list("es_basic", tmp_path))
    assert (word_list.words, word_list.ranks, word_list.source) == (("casas", "casa", "el"), (1, 1, 2), "file")


@pytest.mark.parametrize(
    ("lang", "words", "forms", "not_listed"),
    [
        ("en", "go dog be leave", "went going gone dogs were am left", "god loved"),
        ("en-GB", "child", "children", "childish"),
        ("de", "gehen Hund stehen Straße", "ging gegangen Hunde gestanden Straßen", "hunde vergangen"),
        ("es", "ir casa bueno", "vamos casas buena", "casar"),
        ("fi", "talo", "talossa", "talvi"),
        ("hr", "kuća", "kuće", "kućni"),
        ("ja", "食べる 高い", "食べ 高く", "飲む"),
        # A form is no headword.
        ("en", "went", "", "go going"),
    ],
)
def test_a_list_of_ones_own_gets_the_forms_of_its_headwords(lang: str, words: str, forms: str, not_listed: str) -> None:
    own = words.split()
    ranked = rank_by_lemma(inline_word_list(own, lang))
    ranks = {word: rank for rank, word in ranked.ranked()}
    assert {word: ranks[word] for word in own} == {word: rank for rank, word in enumerate(own, 1)}
    assert ranks.keys() >= set(forms.split())
    assert not ranks.keys() & set(not_listed.split())
    assert ranked.num_ranks == len(own) and list(ranked.ranks or ()) == sorted(ranked.ranks or ())


def test_a_built_in_list_is_grouped_and_a_language_without_lemmas_or_list_is_refused() -> None:
    built_in = load_word_list("es", None).up_to(300)
    assert rank_by_lemma(built_in) == group_by_lemma(built_in)
    for lang in ("ko", "th", "cy", None):
        with pytest.raises(NoLemmasError, match="leave out unit 'lemma'"):
            rank_by_lemma(inline_word_list(["x"], lang))


def test_a_language_without_lemmas_is_refused_with_those_that_have_them() -> None:
    without = {"bn", "ko", "ta", "th", "ur", "vi", "zh", "zh-Hant"}
    assert set(known_languages(None)) - set(lemma_languages()) == without
    for lang in ("ko", "ta", "vi", "zh", "th"):
        with pytest.raises(NoLemmasError, match=r"leave out unit 'lemma'.*de, .*es, .*sh, "):
            group_by_lemma(WordList(lang, ("中",), "cleaned"))
