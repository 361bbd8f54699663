"""Added and new words count with the endings of their language where a check is asked for it."""

import pytest

from vocab.errors import LanguageError
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.checker import TextChecker
from vocab.text.report import TextReport

KINDS = [
    ("tr", ["Ali", "kitap", "İzmir"], "Ali'nin Ali’ye kitabı kitaplarında İzmir'den ALİ'NİN Ali´de", "Alice kitaplık"),
    ("fi", ["Anni", "Matti", "Helsinki", "Virtanen"], "Annin Annille Matin Helsingissä Virtasen Virtasta", "Annika"),
    ("et", ["Jaan", "Anna"], "Jaani Jaanile Annaga Annast", "Annabel"),
    ("hu", ["Anna", "Péter"], "Annának Annát Péterrel Péterhez Péter", "Annamari"),
    ("en", ["gnome", "Ali", "pony"], "gnomes Gnomes ponies Ali's Ali’s", "gnomic"),
    ("de", ["Anna", "Kobold"], "Annas Kobolds Kobolde Kobolden", "Koboldchen"),
    ("sv", ["Anna", "troll"], "Annas troll trollet trollens", "trolla"),
    ("nb", ["Anna", "nisse"], "Annas nissen nisser", "nisselue"),
    ("da", ["Anna", "nisse"], "Annas nissen nisserne", "nissehue"),
    ("nl", ["Anna", "kabouter"], "Anna's kabouters", "kabouterland"),
    ("ru", ["Анна", "Иван", "Андрей", "Мария", "Толстой"], "Анны Анне Ивану Андрея Марии Марией Толстого", "Аннушка"),
    ("uk", ["Оксана", "Андрій"], "Оксани Оксані Андрієві Андрія", "Оксанка"),
    ("pl", ["Anna", "Marek", "Barbara", "Jan"], "Anny Annie Annę Marka Markowi Barbarze Janem", "Anita"),
    ("cs", ["Anna", "Lenka", "Marek"], "Anny Anně Lence Marka Markovi", "Anička"),
    ("sk", ["Anna", "Jano"], "Anny Annou Jana", "Anička"),
    ("sl", ["Ana", "Janez"], "Ane Ano Janeza", "Anica"),
    ("hr", ["Ana", "Ivan"], "Ane Ani Ivana Ivanom", "Anica"),
    ("lt", ["Jonas", "Rasa"], "Jono Jonui Joną Rasos", "Jonukas"),
    ("lv", ["Anna", "Jānis"], "Annas Annai Jāni", "Anniņa"),
    ("el", ["Μαρία", "Γιάννης", "Νίκος"], "Μαρίας Γιάννη Νίκου Νίκο", "Μαράκι"),
    ("ko", ["안나"], "안나는 안나가 안나에게", "안나라"),
    ("it", ["gnomo", "fata"], "gnomi fate", "gnomico"),
    ("es", ["duende", "pared"], "duendes paredes", "duendecillo"),
]
"""A language, words that are added, forms of theirs, and words that are none."""


def checked(lang: str, added: list[str], text: str, *new: str, inflected: bool = True) -> TextReport:
    word_list = WordList(lang, ("word",), "file")
    checker = TextChecker(word_list, ListOptions(), 1, ListChanges(tuple(added)), new, inflected=inflected)
    return checker.check(text, folds=True)


@pytest.mark.parametrize(
    ("lang", "added", "forms", "others"), KINDS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_added_words_count_with_their_endings(lang: str, added: list[str], forms: str, others: str) -> None:
    report = checked(lang, added, forms)
    assert [report.spelling(word) for word in report.not_allowed] == []
    assert {word.reason for word in report.words} == {"added"}
    assert report.num_distinct_words == len(added)
    assert len(checked(lang, added, others).not_allowed) == len(others.split())
    assert checked(lang, added, forms, inflected=False).not_allowed


def test_new_words_count_with_their_endings_and_listed_ones_stay_as_they_are() -> None:
    report = checked("fi", [], "Annin word words Annille", "Anni")
    assert [(report.spelling(word), word.reason) for word in report.words] == [
        ("Annin", "new"), ("word", "listed"), ("words", "unknown"), ("Annille", "new"),
    ]  # fmt: skip
    assert report.num_of_declared == {"Anni": 2}


def test_a_language_without_endings_is_refused() -> None:
    for lang in ("zh", "th", "und", "xx"):
        with pytest.raises(LanguageError, match="leave it out, or name a list of be bg"):
            checked(lang, ["a"], "a")
