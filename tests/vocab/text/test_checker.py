"""A check finds what is listed in any text, and allows every text that the automaton does."""

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.changed_worlds import ALL_WORLDS
from tests.choices import TELLING_CHOICES, Choice, choice_id, choices
from tests.worlds import World
from vocab.errors import ListTooLargeError
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text import checker
from vocab.text.changes import ListChanges
from vocab.text.checker import TextChecker
from vocab.text.reader import TextReader
from vocab.text.report import Band, TextReport

ENGLISH = ("the", "I", "cat", "don't", "dog", "well-known", "Mr.", "in front of", "goin'", "elephant", "Anna")


def checked(
    text: str, *words: str, lang: str = "en", n_words: int = 9, changes: ListChanges | None = None
) -> TextReport:
    word_list = WordList(lang, words or ENGLISH, "file")
    return TextChecker(word_list, ListOptions(numbers=True, possessive=True), n_words, changes or ListChanges()).check(
        text
    )


def faults(text: str, report: TextReport) -> list[tuple[int, str, str]]:
    return [(word.start, text[word.start : word.end], word.reason) for word in report.not_allowed]


@pytest.mark.parametrize("choice", TELLING_CHOICES, ids=choice_id)
@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
def test_every_word_of_an_allowed_text_is_allowed(world: World, choice: Choice) -> None:
    judge, checker = world.judge(choice), checker_of(world, choice)
    for text in filter(judge.is_text, world.hand_picked_texts()):
        assert faults(text, checker.check(text)) == [], repr(text)


@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
@given(data=st.data(), choice=choices())
def test_every_word_of_a_random_allowed_text_is_allowed(world: World, data: st.DataObject, choice: Choice) -> None:
    text = data.draw(world.likely_texts())
    if world.judge(choice).is_text(text):
        assert faults(text, checker_of(world, choice).check(text)) == []


def checker_of(world: World, choice: Choice) -> TextChecker:
    word_list = WordList(world.lang, world.words, "file", world.ranks)
    changes = ListChanges(world.extra_words, world.exclude_words)
    return TextChecker(word_list, ListOptions(**choice), world.n_words, changes)


@given(text=st.text() | st.text("the cat's’-.12\n«é\u0301", max_size=40))
def test_every_letter_and_digit_is_in_one_word(text: str) -> None:
    words = checked(text).words
    covered = [place for word in words for place in range(word.start, word.end)]
    assert covered == sorted(set(covered))
    assert {place for place, char in enumerate(text) if char.isalnum()} <= set(covered)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("The cat. The dog!", []),
        ("THE CAT, The Cat", []),
        ("the horse", [(4, "horse", "unknown")]),
        ("the elephant", [(4, "elephant", "rare")]),
        ("the elephants’ cats", [(4, "elephants", "unknown"), (15, "cats", "unknown")]),
        ("the cat's dog’s", []),
        ("the horse's", [(4, "horse's", "unknown")]),
        ("I don’t. DON'T", []),
        ("well-known, well known", [(12, "well", "unknown"), (17, "known", "unknown")]),
        ("the dog-cat", [(4, "dog-cat", "unknown")]),
        ("the dog—cat", []),
        ("Mr. Cat in front of the dog", []),
        ("In front of", []),
        ("in front", [(0, "in", "unknown"), (3, "front", "unknown")]),
        ("in front office", [(0, "in", "unknown"), (3, "front", "unknown"), (9, "office", "unknown")]),
        ("‘the cat’ is goin’ 'the dog'", [(10, "is", "unknown")]),
        ("3 cats, 1,000.50 dogs", [(2, "cats", "unknown"), (17, "dogs", "unknown")]),
        ("the 3rd cat", [(4, "3rd", "unknown")]),
        ("i anna", [(0, "i", "rare"), (2, "anna", "rare")]),
        ("caté cat\u0301 cat_dog", [(0, "caté", "unknown"), (5, "cat\u0301", "unknown")]),
        ("zzz\r\n\tthe\u00a0yyy", [(0, "zzz", "unknown"), (10, "yyy", "unknown")]),
    ],
)
def test_words_that_are_not_allowed_are_found_where_they_are(text: str, expected: list[tuple[int, str, str]]) -> None:
    assert faults(text, checked(text)) == expected


@pytest.mark.parametrize(
    ("lang", "words", "text", "expected"),
    [
        ("fr", ["l'", "homme", "aujourd'hui"], "L’homme, l'arbre, aujourd’hui", [(11, "arbre", "unknown")]),
        ("fr", ["homme"], "l'homme", [(0, "l'homme", "unknown")]),
        ("it", ["dell'", "acqua"], "dell'acqua dell'anno", [(16, "anno", "unknown")]),
        ("nl", ["ijs", "bij"], "IJs bij IJS, ijs. Ijs", [(18, "Ijs", "unknown")]),
        ("tr", ["iyi", "ılık"], "İyi Ilık ISPARTA", [(9, "ISPARTA", "unknown")]),
        ("de", ["Hund", "der"], "Der Hund. der hund", [(14, "hund", "rare")]),
        ("hi", ["यह", "किताब"], "यह किताब है।", [(9, "है", "unknown")]),
        ("ru", ["кошка"], "Кошка, собака", [(7, "собака", "unknown")]),
        ("ar", ["هذا"], "هذا كتاب؟", [(4, "كتاب", "unknown")]),
    ],
)
def test_languages_have_their_own_rules(
    lang: str, words: Sequence[str], text: str, expected: list[tuple[int, str, str]]
) -> None:
    assert faults(text, checked(text, *words, lang=lang)) == expected


def test_added_words_are_allowed_and_left_out_ones_are_not() -> None:
    text = "The horse saw Elephant and the dogs."
    report = checked(text, changes=ListChanges(("horse", "elephant"), ("the",)))
    assert faults(text, report) == [
        (0, "The", "excluded"),
        (10, "saw", "unknown"),
        (23, "and", "unknown"),
        (27, "the", "excluded"),
        (31, "dogs", "unknown"),
    ]
    assert [word.rank for word in report.words] == [1, None, None, 10, None, 1, None]


def test_forms_of_one_entry_count_as_one_word_and_numbers_as_none() -> None:
    report = checked("The cat's 3 cats: THE cat, elephant. Cats 3!")
    assert (report.num_words, report.num_distinct_words) == (7, 4)
    assert (report.num_allowed, report.num_distinct_allowed) == (4, 2)
    assert report.coverage == pytest.approx(4 / 7)
    assert [band for band in report.bands if band.num_words] == [Band(500, 5, 3), Band(None, 2, 1)]


@pytest.mark.parametrize("piece", ["a", "l'", "l'a-", "1", "1.", "1,1a", "!)", "\u0301", "in front ", "Mr."])
def test_a_long_text_of_one_kind_is_read_in_one_pass(piece: str) -> None:
    # Whatever is tried again at every place would take hours.
    for lang in ("en", "fr"):
        report = checked(piece * 50_000 + "1a", *ENGLISH, "l'", lang=lang)
        assert report.words[-1].end == 50_000 * len(piece) + 2


@pytest.mark.parametrize("text", ["", "42 — …", "😀 👩\u200d🚀!"])
def test_a_text_without_words_has_no_coverage(text: str) -> None:
    report = checked(text)
    assert (report.num_words, report.coverage, report.coverage_with_new) == (0, None, None)
    assert len(report.not_allowed) == report.num_symbols


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ⓗⓔⓛⓛⓞ ⓜⓤⓡⓓⓔⓡ", [(0, "Ⓗⓔⓛⓛⓞ", "unknown"), (6, "ⓜⓤⓡⓓⓔⓡ", "unknown")]),
        ("the 🅼🆄🆁", [(4, "🅼🆄🆁", "unknown")]),
        ("the ⠓⠑⠇⠇⠕", [(4, "⠓⠑⠇⠇⠕", "unknown")]),
        ("the\U000e0068\U000e0065 cat", [(3, "\U000e0068\U000e0065", "symbol")]),
        ("the \u202ecat", [(4, "\u202e", "symbol")]),
        ("the\u200b\u200d\u200bcat", [(3, "\u200b\u200d\u200b", "symbol")]),
        ("the 😀 cat, 👩\u200d🚀❤\ufe0f!", [(4, "😀", "symbol"), (11, "👩\u200d🚀❤\ufe0f", "symbol")]),
        ("the + cat €", [(4, "+", "symbol"), (10, "€", "symbol")]),
        ("the 🇫🇷 \ue000", [(4, "🇫🇷", "symbol"), (7, "\ue000", "symbol")]),
    ],
)
def test_what_is_neither_word_number_nor_mark_counts_against_the_coverage(
    text: str, expected: list[tuple[int, str, str]]
) -> None:
    report = checked(text)
    assert faults(text, report) == expected
    assert report.coverage is not None and report.coverage < 1


@pytest.mark.parametrize("hidden", ["\u200b", "\u00ad", "\u2060", "\u200d", "\u200c", "\ufeff", "\ufe0f", "\u2066"])
def test_hidden_characters_join_the_letters_around_them(hidden: str) -> None:
    text = f"the cat{hidden}the c{hidden}at 1{hidden}2"
    assert faults(text, checked(text)) == [(4, f"cat{hidden}the", "unknown")]
    assert [word.reason for word in checked(text).words] == ["listed", "unknown", "listed", "number"]


@pytest.mark.parametrize(
    ("lang", "listed", "text", "reasons"),
    [
        ("fa", ["می\u200cشود", "او"], "او می\u200cشود می\u200cاو", ["listed", "listed", "unknown"]),
        ("fa", ["میشود"], "می\u200cشود", ["listed"]),
        ("hi", ["क्\u200dया", "यह"], "यह क्\u200dया।", ["listed", "listed"]),
    ],
)
def test_joiners_are_letters_where_entries_have_them(
    lang: str, listed: Sequence[str], text: str, reasons: list[str]
) -> None:
    assert [word.reason for word in checked(text, *listed, lang=lang).words] == reasons


def test_a_symbol_that_is_listed_is_a_word_and_one_between_sentences_is_of_neither() -> None:
    report = checked("cat + C# 😀 + € x", "cat", "+", "c#")
    reasons = [(report.spelling(word), word.reason) for word in report.words]
    assert reasons[:4] == [("cat", "listed"), ("+", "listed"), ("C#", "listed"), ("😀", "symbol")]
    assert reasons[4:] == [("+", "listed"), ("€", "symbol"), ("x", "unknown")]
    assert [word.reason for word in checked("A cat. 😀 The end", "a", "cat", "the", "end").words][-2:] == ["listed"] * 2


LIKELY = "catthe \u00ad\u200b\u200d\u202e\ufe0fⒽ🅼⠓😀🇫\U000e0041.,’-1,2"


@given(st.text(st.one_of(st.characters(), st.sampled_from(LIKELY))))
def test_every_character_that_is_shown_is_in_a_word_a_mark_or_a_blank(text: str) -> None:
    done, rest = 0, ""
    for word in checked(text).words:
        assert done <= word.start < word.end
        rest += text[done : word.start]
        done = word.end
    rest += text[done:]
    for char in rest:
        is_hidden = unicodedata.category(char) == "Cf" and char not in "\u202d\u202e" and char < "\U000e0000"
        is_variation = "\ufe00" <= char <= "\ufe0f" or "\u180b" <= char <= "\u180f"
        assert char.isspace() or unicodedata.category(char)[0] in "PZ" or is_hidden or is_variation, ascii(text)
    assert "\u200b" * 3 not in rest
    report = checked(text)
    assert (report.coverage == 1) == (report.num_words > 0 and not report.not_allowed)


def test_bands_hold_every_word_once() -> None:
    words = [f"w{i}" for i in range(12_000)]
    word_list = WordList("en", tuple(words), "file")
    report = TextChecker(word_list, ListOptions(), 1).check("w0 w499 w500 w9999 w10000 w11999 none")
    assert [(band.max_rank, band.num_words) for band in report.bands] == [
        (500, 2), (1_000, 1), (2_000, 0), (3_000, 0), (5_000, 0), (10_000, 1), (None, 3),
    ]  # fmt: skip


def test_entries_with_blanks_are_tried_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [f"a {'b' * length}" for length in range(1, 50)]
    text = "a c " * 10
    assert len(checked(text, "a", *entries).not_allowed) == 10
    monkeypatch.setattr(checker, "MAX_TRIES", 100)
    with pytest.raises(ListTooLargeError, match="begin with words of this text"):
        checked(text, "a", *entries)


def test_the_nearest_words_are_told_of_fewer_spellings_where_a_list_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(checked("aaa bbb ccc ddd aaa").notes) == 4
    monkeypatch.setattr(checker, "MAX_COMPARED", 3 * 9)
    assert len(checked("aaa bbb ccc ddd aaa").notes) == 3


def test_what_is_known_of_words_is_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "_MAX_KNOWN", 3)
    known = TextChecker(WordList("en", ENGLISH, "file"), ListOptions(), 9)
    text = "".join(f"w{number}{'.' * number}\n" for number in range(20))
    assert len(known.check(text).not_allowed) == 20
    assert len(known._known) <= 3
    assert len(known._starts) <= 3


@pytest.mark.parametrize("character", "Ⓗ🅼⠓😀+€\u00ad\u200b\u200d\u2060\u202e\ufe0f\U000e0041\ue000")
def test_no_answer_of_a_list_has_symbols_or_hidden_characters(character: str) -> None:
    reader = TextReader(WordList("en", ENGLISH, "file"), ListOptions(numbers=True, punctuation="full"), 9)
    assert reader.is_text("the cat")
    for text in (f"the{character}cat", f"the {character} cat", f"the cat{character}", f"c{character}at", character):
        followed = reader.follow()
        followed.add(f"{text} the")
        # Of a stream, nothing from there on is sent.
        assert not reader.is_text(text) and followed.num_whole <= text.index(character)


def test_an_abbreviation_beyond_n_is_one_word_unless_its_beginning_is_a_more_frequent_one() -> None:
    text = "the e.g. cat vs. am. the cat in front of"
    report = checked(text, "the", "cat", "e.g.", "am", "vs.", "am.", "in front of", n_words=2)
    found = [(text[word.start : word.end], word.rank) for word in report.not_allowed]
    assert found == [("e.g.", 3), ("vs.", 5), ("am", 4), ("in", None), ("front", None), ("of", None)]
