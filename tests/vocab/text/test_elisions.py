"""Before which words French, Italian and Catalan elide."""

import pytest

from vocab.text.forms import follows_elision, is_elision

NOT_ELIDED = """
hache haie haine haïr halle hall hamac hameau hamster hanche handicap hangar hanter harcèlement hardi harem hareng
haricot harnais harpe hasard hâte hausse haut hautbois havre hennir hérisson hernie héron héros herse hêtre heurter
hibou hideux hiérarchie hippie hisser hobby hocher hockey homard Hollande hollandais Hongrie hongrois honte honteux
hoquet hors hotte houle housse huche huer huées Huguenots huit huitième hurler hurlement hussard hutte onze onzième oui
ouistiti yaourt yoga yacht chat le qu' 3D
"""
ELIDED = """
homme heure histoire hôpital hôtel habitude hiver humain herbe huile huître hameçon héroïne héroïque héroïsme habit
haleine hallucination harmonie hésiter heureux hier hélas hélice hypothèse hygiène humeur humble horizon horloge
hormone horreur hommage honneur honnête honorable hospitalité hostile hôte hydrogène hirondelle hippopotame hibernation
yeux Yonne y Yves œil œuvre âme Être île un oublier ouest ouvrir usine entr' E\u0301tat
"""


@pytest.mark.parametrize("word", NOT_ELIDED.split())
def test_french_elides_before_no_consonant_and_no_sounded_h(word: str) -> None:
    assert not follows_elision(word, "fr")


@pytest.mark.parametrize("word", ELIDED.split())
def test_french_elides_before_vowels_and_silent_h(word: str) -> None:
    assert follows_elision(word, "fr")


def test_a_plural_has_the_h_of_its_singular() -> None:
    assert not follows_elision("hérissons", "fr")
    assert follows_elision("héroïnes", "fr")


@pytest.mark.parametrize(
    ("lang", "elided", "not_elided"),
    [("it", "uomo ora è hotel Etna", "donna yogurt chi"), ("ca", "home illa ànima història Eva", "dona iogurt hiena")],
)
def test_italian_and_catalan_have_silent_hs_only(lang: str, elided: str, not_elided: str) -> None:
    assert all(follows_elision(word, lang) for word in elided.split())
    assert not any(follows_elision(word, lang) for word in not_elided.split())


def test_other_languages_elide_nothing() -> None:
    assert not follows_elision("hour", "en")
    assert not is_elision("goin'", "en")
    assert is_elision("l’", "fr")
