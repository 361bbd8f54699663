"""Surface forms: the ways in which a text may write a listed word, and the rank of each."""

import unicodedata
from itertools import product
from typing import get_args

import pytest

from vocab.lists.wordlists import Source, WordList, load_word_list
from vocab.options import Case, ListOptions
from vocab.text.forms import FormRanks, follows_elision, is_elision, resolve_case, surface_forms

CASES: tuple[Case, ...] = ("auto", "sentence", "any", "listed")
LETTERS = "ßa ŉa ﬁn ΐa 3d -a 日本 ⅷ ⓐ \u0345a"

# Language, case, the list (_ stands for a blank), its forms that may stand anywhere, and those for starts of sentences;
# each with a rank other than 1 if it has one.
FORMS: list[tuple[str, Case, str, str, str]] = [
    ("xx", "any", "cat dog", "cat Cat dog=2 Dog=2", ""),
    ("xx", "listed", "cat London", "cat London=2", ""),
    # The more frequent word gives a form its rank, but a rarer one may stand where the better may not.
    ("xx", "any", "will Will may May", "will Will may=3 May=3", ""),
    ("xx", "sentence", "will Will", "will Will=2", "Will"),
    ("xx", "sentence", "Will will", "Will will=2", ""),
    ("en", "listed", "cat cat's", "cat cat's cat’s", ""),
    ("en", "listed", "it it's", "it it's=2 it’s=2", ""),
    # A capital is a titlecase letter of one code point.
    ("xx", "sentence", "éa ñu ǆep ώρα ÿx ია ᾳx", "éa ñu=2 ǆep=3 ώρα=4 ÿx=5 ია=6 ᾳx=7", "Éa Ñu=2 ǅep=3 Ώρα=4 Ÿx=5 ᾼx=7"),
    ("xx", "any", LETTERS, " ".join(f"{word}={rank}" for rank, word in enumerate(LETTERS.split(), 1)), ""),
    *((lang, "sentence", "iğne ılık", "iğne ılık=2", "İğne Ilık=2") for lang in ("tr", "az", "tr-TR", "tr_school")),
    ("de", "sentence", "iğne", "iğne", "Iğne"),
    # In Dutch ij is one letter.
    *((lang, "sentence", "ijs i bij", "ijs i=2 bij=3", "IJs I=2 Bij=3") for lang in ("nl", "nl-BE", "nl_school")),
    ("nl", "any", "ij IJsland Ijs", "ij IJ IJsland=2 Ijs=3", ""),
    ("de", "sentence", "ijs", "ijs", "Ijs"),
    ("xx", "sentence", "i\u0307x", "i\u0307x", "\u0130x"),
    # Either apostrophe may be written, all alike or as listed; English words without one carry the possessive.
    ("xx", "listed", "a'b’c", "a'b’c a'b'c a’b’c", ""),
    ("en", "sentence", "cat don’t", "cat cat's cat’s don't=2 don’t=2", "Cat Cat's Cat’s Don't=2 Don’t=2"),
    ("en-GB", "listed", "in_front", "in_front in_front's in_front’s", ""),
    # Some words take none, by their capital, which words may share; an entry goes by its last word.
    ("en", "any", "the ſhe s", "the The ſhe=2 She=2 s=3 S=3 s's=3 s’s=3 S's=3 S’s=3", ""),
    ("en", "listed", "in_of In_OF of_in", "in_of In_OF=2 In_OF's=2 In_OF’s=2 of_in=3", ""),
    ("de", "listed", "kat", "kat", ""),
]


def ranks_by_text(spelled: str) -> dict[str, int]:
    forms = (form.replace("_", " ").partition("=") for form in spelled.split(" ") if form)
    return {text: int(rank or 1) for text, _, rank in forms}


@pytest.mark.parametrize(("lang", "case", "words", "anywhere", "at_start"), FORMS)
def test_a_list_has_these_forms(lang: str, case: Case, words: str, anywhere: str, at_start: str) -> None:
    word_list = WordList(lang, tuple(word.replace("_", " ") for word in words.split()), "file")
    forms = surface_forms(word_list, ListOptions(case, possessive=True))
    assert {form.text: form.rank for form in forms if not form.sentence_only} == ranks_by_text(anywhere)
    assert {form.text: form.rank for form in forms if form.sentence_only} == ranks_by_text(at_start)


def test_the_possessive_can_be_left_out() -> None:
    for source, possessive in product(get_args(Source), (None, True, False)):
        forms = surface_forms(WordList("en", ("cat",), source), ListOptions("listed", possessive=possessive))
        takes_it = possessive or (possessive is None and source == "cleaned")
        assert [form.text for form in forms] == ["cat", "cat's", "cat’s"][: 3 if takes_it else 1]


def test_auto_asks_whether_the_list_has_capitals() -> None:
    for words in ("the London", "the iPhone", "ǅ"):
        assert resolve_case(WordList("xx", tuple(words.split()), "file"), ListOptions()) == "sentence"
    for words in ("the cat", "ℝ 日本 3 ß ა"):
        assert resolve_case(WordList("xx", tuple(words.split()), "file"), ListOptions()) == "any"
    for case in CASES[1:]:
        assert resolve_case(WordList("xx", ("the", "London"), "file"), ListOptions(case)) == case
    for lang in ("en", "de", "fi", "fa"):
        expected = "any" if lang == "fa" else "sentence"
        assert resolve_case(load_word_list(lang, None), ListOptions()) == expected


def assert_same_as_table(word_list: WordList, options: ListOptions) -> None:
    """Each form has one text and rank, the rank that is looked up; and all are NFC, in the order of ranks."""
    forms = surface_forms(word_list, options)
    assert all(form.text and unicodedata.is_normalized("NFC", form.text) for form in forms)
    assert len({(form.text, form.sentence_only) for form in forms}) == len(forms)
    assert [form.rank for form in forms] == sorted(form.rank for form in forms)
    table = FormRanks(word_list, options)
    within = {form.text: form.rank for form in forms if not form.sentence_only}
    at_start = {form.text: form.rank for form in sorted(forms, key=lambda form: -form.rank)}
    for form in forms:
        for starts, expected in ((False, within.get(form.text)), (True, at_start[form.text])):
            ranks = table.ranks(form.text, starts_sentence=starts, possessive=bool(options.possessive))
            assert min(ranks, default=None) == expected
        assert is_elision(form.text, word_list.language) == form.elision


@pytest.mark.parametrize("lang", ["en", "fr", "nl", "tr", "el", "hi"])
def test_every_form_of_a_real_list_has_its_rank(lang: str) -> None:
    for case in CASES[:2]:
        for possessive in (True, False) if lang == "en" else (False,):
            assert_same_as_table(load_word_list(lang, None).up_to(5_000), ListOptions(case, possessive=possessive))


def test_what_no_word_gives_has_no_rank() -> None:
    ranks = FormRanks(WordList("en", ("the", "don't", "cat"), "file"), ListOptions())
    for text in ("'s", "’s", "x's", "cat's's", "don't's", "the's", "The’s", "cAt", "THE"):
        assert list(ranks.ranks(text, starts_sentence=True, possessive=True)) == []
    empty = FormRanks(WordList("en", (), "inline"), ListOptions("sentence"))
    assert list(empty.ranks("'s", starts_sentence=True, possessive=True)) == []


def test_a_spelling_may_have_several_ranks() -> None:
    words = ("the", "see", "saw", "o'k", "Saw", "o’k", "i\u0307x", "\u0130x")
    options = ListOptions("sentence", possessive=True)
    forms = WordList("en", words, "file", (1, 2, 2, 3, 4, 5, 6, 7))
    ranks = FormRanks(forms, options)
    expected = {("o’k", False): [3, 5], ("Saw", True): [2, 4], ("Saw's", False): [4], ("\u0130x", True): [6, 7]}
    for (text, starts), of_text in expected.items():
        assert sorted(set(ranks.ranks(text, starts_sentence=starts, possessive=True))) == of_text
    assert_same_as_table(forms, options)


def test_a_final_apostrophe_elides_in_french_italian_and_catalan_and_is_a_letter_elsewhere() -> None:
    for lang in ("fr", "it", "ca", "fr-CA", "en", "de", "frr"):
        forms = surface_forms(WordList(lang, ("l'", "l'un", "x"), "file"), ListOptions("sentence"))
        elisions = {(form.text, form.sentence_only) for form in forms if form.elision}
        expected = {("l'", False), ("l’", False), ("L'", True), ("L’", True)}
        assert elisions == (expected if lang[:3] in ("fr", "it", "ca", "fr-") else set())


ELIDED = {
    "fr": """homme heure histoire hôpital hôtel habitude hiver humain herbe huile huître hameçon héroïne héroïnes
        héroïque héroïsme habit haleine hallucination harmonie hésiter heureux hier hélas hélice hypothèse hygiène
        humeur humble horizon horloge hormone horreur hommage honneur honnête honorable hospitalité hostile hôte
        hydrogène hirondelle hippopotame hibernation yeux Yonne y Yves œil œuvre âme Être île un oublier ouest ouvrir
        usine entr' E\u0301tat""",
    "it": "uomo ora è hotel Etna",
    "ca": "home illa ànima història Eva",
}
NOT_ELIDED = {
    "fr": """hache haie haine haïr halle hall hamac hameau hamster hanche handicap hangar hanter harcèlement hardi harem
        hareng haricot harnais harpe hasard hâte hausse haut hautbois havre hennir hérisson hérissons hernie héron héros
        herse hêtre heurter hibou hideux hiérarchie hippie hisser hobby hocher hockey homard Hollande hollandais Hongrie
        hongrois honte honteux hoquet hors hotte houle housse huche huer huées Huguenots huit huitième hurler hurlement
        hussard hutte onze onzième oui ouistiti yaourt yoga yacht chat le qu' 3D""",
    "it": "donna yogurt chi",
    "ca": "dona iogurt hiena",
    "en": "hour",
}


def test_a_language_elides_before_vowels_and_silent_hs_alone() -> None:
    for lang, words in ELIDED.items():
        assert [word for word in words.split() if not follows_elision(word, lang)] == []
    for lang, words in NOT_ELIDED.items():
        assert [word for word in words.split() if follows_elision(word, lang)] == []


@pytest.mark.slow
@pytest.mark.parallel
def test_a_whole_list_has_its_forms() -> None:
    """No time is asserted, for other tests may run beside it."""
    word_list = load_word_list("en", None, safe=False)
    assert len(word_list.words) == 100_000
    forms = surface_forms(word_list, ListOptions())
    assert set(word_list.words) <= {form.text for form in forms}
    assert len({(form.text, form.sentence_only) for form in forms}) == len(forms) > 500_000
    # And no other word has.
    listed = {word.lower() for word in word_list.words}
    assert all({text, text.removesuffix("'s")} & listed for text in (f.text.replace("’", "'").lower() for f in forms))
