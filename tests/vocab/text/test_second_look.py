"""A check looks once more at words that are unlisted as they are spelt; masks and readers stay exact."""

import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.checker import TextChecker
from vocab.text.reader import TextReader
from vocab.text.report import CheckedWord, TextReport

ENGLISH = (
    *("the", "cat", "don't", "well-known", "well", "fish", "office", "dog", "go", "rock-'n'-roll", "'em", "goin'"),
    *("rare-word", "elephant"),
)


def checked(text: str, lang: str, *words: str, n_words: int = 12, exclude: tuple[str, ...] = ()) -> TextReport:
    word_list = WordList(lang, words or ENGLISH, "file")
    checker = TextChecker(
        word_list, ListOptions(numbers=True, possessive=lang == "en"), n_words, ListChanges((), exclude)
    )
    return checker.check(text, folds=True)


def found(report: TextReport) -> list[tuple[str, int | None, str]]:
    return [(report.spelling(word), word.rank, word.reason) for word in report.words]


def is_known(word: CheckedWord) -> bool:
    return word.is_allowed or word.reason == "new"


KINDS = [
    *[("en", (), f"the don{mark}t", [f"don{mark}t"]) for mark in "´`‘ʼ′＇‛ʹ"],
    ("en", (), "the cat´s don`t", ["cat´s", "don`t"]),
    ("en", (), "´em goin‘ the", ["´em", "goin‘"]),
    ("en", (), "the fish´don`t", []),
    ("fr", ("l'", "homme", "aujourd'hui"), "l´homme aujourd‘hui", ["l´", "aujourd‘hui"]),
    ("it", ("dell'", "acqua"), "dell＇acqua dell‘acqua", ["dell＇", "dell‘"]),
    ("uk", ("п'ять",), "пʼять п´ять", ["пʼять", "п´ять"]),
    ("he", ("צ'יפס", "בית-ספר"), "צ׳יפס בית־ספר", ["צ׳יפס", "בית־ספר"]),
    ("en", ("well-known",), "well\u2010known well\u2011known", ["well\u2010known", "well\u2011known"]),
    ("en", ("well-known", "don't"), "well－known don´t\u2011well-known", ["well－known", "don´t"]),
    ("fr", ("peut-être",), "peut\u2011être Peut\u2010Être", ["peut\u2011être", "Peut\u2010Être"]),
    ("en", (), "ﬁsh oﬃce ﬁsh’s", ["ﬁsh", "oﬃce", "ﬁsh’s"]),
    ("nl", ("ijs", "vrij"), "ĳs vrĳ Ĳs", ["ĳs", "vrĳ", "Ĳs"]),
    ("sh", ("ljeto", "džep"), "ǉeto ǆep", ["ǉeto", "ǆep"]),
    ("en", ("congress",), "congreſs CONGRESS", ["congreſs"]),
    ("ca", ("col·lecció",), "coŀlecció col·lecció", ["coŀlecció"]),
    ("en", (), "ｄｏｇ Ｄｏｇ ｄｏｎ＇ｔ", ["ｄｏｇ", "Ｄｏｇ", "ｄｏｎ＇ｔ"]),
    ("ja", ("テレビ", "見る"), "ﾃﾚﾋﾞ見る", ["ﾃﾚﾋﾞ"]),
    ("ko", ("한",), "ﾡ ｈ", []),
    ("ar", ("كتاب", "مدرسة"), "كِتَاب كتـــاب مُدَرِّسَة ﻛﺘﺎﺏ", ["كِتَاب", "كتـــاب", "مُدَرِّسَة", "ﻛﺘﺎﺏ"]),
    ("fa", ("کتاب",), "کِتاب", ["کِتاب"]),
    ("ur", ("کتاب",), "کِتاب", ["کِتاب"]),
    ("he", ("שלום", "ספר"), "שָׁלוֹם סֵפֶר שלום", ["שָׁלוֹם", "סֵפֶר"]),
    ("de", ("Straße", "groß", "Maßstab"), "STRASSE GROSS MASSSTAB STRAẞE", ["STRASSE", "GROSS", "MASSSTAB"]),
    ("de", ("Fuß", "Straße"), "FUSS Strasse Fuss", ["FUSS"]),
    ("en", ("straße",), "STRASSE", []),
    ("de", ("Haustier", "Bundestag"), "Haus·tier Bundes·tag Haus‧tier", ["Haus·tier", "Bundes·tag", "Haus‧tier"]),
    ("de", ("Krankenhaus", "Straße"), "Kranken·haus STRAS·SE", ["Kranken·haus", "STRAS·SE"]),
]
"""A language, its words, a text, and what of it counts as listed in another spelling."""


@pytest.mark.parametrize(
    ("lang", "words", "text", "spelt"), KINDS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_words_count_as_listed_that_are_spelt_otherwise(
    lang: str, words: tuple[str, ...], text: str, spelt: list[str]
) -> None:
    report = checked(text, lang, *words)
    assert [word for word, _, reason in found(report) if reason == "spelling"] == spelt
    if not spelt:
        assert report.not_allowed
    word_list = WordList(lang, words or ENGLISH, "file")
    exact = TextChecker(word_list, ListOptions(numbers=True), 12)
    assert "spelling" not in {word.reason for word in exact.check(text).words}
    reader = TextReader(word_list, ListOptions(numbers=True, punctuation="full" if lang != "ja" else "standard"), 12)
    for word in spelt:
        assert not reader.is_text(word)


def test_they_are_reported_as_spelt_with_the_rank_of_their_entry_and_count_as_one_word_with_it() -> None:
    report = checked("The don´t, don't and DON‘T of 12 ｄｏｇ’s １２３.", "en")
    assert found(report) == [
        ("The", 1, "listed"), ("don´t", 3, "spelling"), ("don't", 3, "listed"), ("and", None, "unknown"),
        ("DON‘T", 3, "spelling"), ("of", None, "unknown"), ("12", None, "number"), ("ｄｏｇ’s", 8, "spelling"),
        ("１２３", None, "number"),
    ]  # fmt: skip
    assert (report.num_words, report.num_symbols, report.num_distinct_words, report.num_allowed) == (7, 0, 5, 5)


def test_what_the_list_knows_and_does_not_allow_is_said_of_a_word_that_is_unknown_as_spelt() -> None:
    assert found(checked("rare‑word ｅｌｅｐｈａｎｔ ｆｉｓｈ", "en", exclude=("fish",))) == [
        ("rare‑word", 13, "rare"),
        ("ｅｌｅｐｈａｎｔ", 14, "rare"),
        ("ｆｉｓｈ", 6, "excluded"),
    ]
    # A part that is listed stays listed.
    assert found(checked("cat‑elephant well‑word", "en", *ENGLISH, "cat-elephant")) == [
        ("cat", 2, "listed"), ("elephant", 14, "rare"), ("well", 5, "listed"), ("word", None, "unknown"),
    ]  # fmt: skip
    # "Masse" is rare, and may be meant.
    assert found(checked("MASSE", "de", "Masse", "Maße", n_words=1)) == [("MASSE", 1, "capitals")]


def test_what_is_long_is_not_looked_at_again() -> None:
    assert found(checked("ｄｏｇ" + "ｄ" * 100, "en"))[0][2] == "unknown"
    assert len(checked("don´t‑" * 50_000, "en").words) == 150_000
    assert len(checked("SS" * 50_000, "de", "ß").words) == 1


LIKELY = "catdongfishSstheel '’´`‘ʼ′＇\u2010\u2011·‧ﬁｄｏｇ\u064b\u0640\u05b8ß.,-1１😀"


@given(
    text=st.text(st.sampled_from(LIKELY), max_size=40) | st.text(max_size=20), lang=st.sampled_from(["en", "de", "fr"])
)
def test_no_word_that_is_listed_as_spelt_becomes_unlisted(text: str, lang: str) -> None:
    words = (*ENGLISH, "l'", "Straße", "Haustier", "a", "t", "do")
    checker = TextChecker(WordList(lang, words, "file"), ListOptions(numbers=True), 99, ListChanges(), ("fishes",))
    exact, again = checker.check(text).words, checker.check(text, folds=True).words

    def places(words: Sequence[CheckedWord]) -> set[int]:
        return {place for word in words if is_known(word) for place in range(word.start, word.end)}

    assert places(exact) <= places(again)
    assert all(one.end <= other.start for one, other in pairwise(again))
    # Letters that stand for an apostrophe are marks.
    letters = {place for place, char in enumerate(text) if char.isalnum() and char not in "ʼʻʹ"}
    assert letters <= {place for word in again for place in range(word.start, word.end)}


def test_neither_masks_nor_readers_know_of_it() -> None:
    program = (
        "import sys, vocab.text.reader, vocab.text.reading, vocab.text.grammar, vocab.automaton.trie_builder\n"
        "import vocab.matching.matcher\n"
        "print(sorted({'vocab.text.folding', 'vocab.text.endings', 'vocab.text.names'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_list_of_the_service_has_them_too() -> None:
    checker = TextChecker(load_word_list("de", None), ListOptions(), 20_000)
    report = checker.check("Die STRASSE, der Bundes·tag und das Kranken·haus.", folds=True)
    assert not report.not_allowed and report.coverage == 1
    assert [word for word, _, reason in found(report) if reason == "spelling"] == [
        "STRASSE",
        "Bundes·tag",
        "Kranken·haus",
    ]
