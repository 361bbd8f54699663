"""The checker finds what is not listed, and the recogniser's table is the library's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import checked_lists, recogniser
from tests.changed_worlds import ALL_WORLDS
from tests.checked_lists import Rules, built_in_words
from tests.checker import assert_only_listed_words, unlisted_words
from tests.choices import TELLING_CHOICES, Choice, choice_id, choices
from tests.worlds import World
from vocab import marks
from vocab.lists.wordlists import load_word_list
from vocab.marks import marks_of_language

WORDS = ("the", "cat", "well-known", "don't", "in front of", "London", "i", "goin'", "c++", "3")


def assert_caught(text: str, lang: str, n_words: int, words: tuple[str, ...] | None = None) -> None:
    with pytest.raises(AssertionError):
        assert_only_listed_words(text, lang, n_words, words)


@pytest.mark.parametrize(
    "text",
    [
        "The cat.",
        "“The cat’s”—in front of London’s cat?!",
        "Don’t, cat: don't;\n\nin front of - the (well-known) cat",
        "In front of c++'s 3 I",
        "Goin' in front of the cat",
        "C++…",
    ],
)
def test_it_accepts_listed_words(text: str) -> None:
    assert unlisted_words(text, "en", 10, WORDS, possessive=True) == []
    assert_only_listed_words(text, "en", 10, WORDS, possessive=True)


@pytest.mark.parametrize(
    ("text", "unlisted"),
    [
        ("the cat's", ["cat's"]),
        ("the dog", ["dog"]),
        ("THE cAt", ["THE", "cAt"]),
        ("the ca", ["ca"]),
        ("the in front o", ["in", "front", "o"]),
        ("the well-", ["well-"]),
        ("well known", ["well", "known"]),
        ("-cat cat-", ["-cat", "cat-"]),
        ("london", ["london"]),
        ("don't's 'the'", ["don't's", "'the'"]),
        ("the cat_the", ["_"]),
        ("the 4 ★ \t cat", ["4", "★", "\t"]),
        ("c+ c", ["c", "+", "c"]),
        ("thé the\u0301", ["thé", "the\u0301"]),
        ("cat3 33", ["cat3", "33"]),
        ("the dog saw the dog", ["dog", "saw", "dog"]),
    ],
)
def test_it_names_unlisted_words_in_their_order(text: str, unlisted: list[str]) -> None:
    assert unlisted_words(text, "en", 10, WORDS) == unlisted
    assert_caught(text, "en", 10, WORDS)


def test_an_s_may_follow_some_words_of_built_in_lists_and_of_others_where_asked() -> None:
    text = "The's cat's in front of's I's London's c++'s Don't's"
    unlisted = ["The's", "in", "front", "of's", "I's", "Don't's"]
    assert unlisted_words(text, "en", 10, WORDS, possessive=True) == unlisted
    assert unlisted_words("John's of's time’s go's it's", "en", 1_000) == ["of's", "go's"]
    assert unlisted_words("John's time's it's", "en", 1_000, possessive=False) == ["John's", "time's"]
    assert unlisted_words("Ana's the's", "en", 10, WORDS, extra_words=["Ana"]) == ["Ana's", "the's"]
    assert unlisted_words("Ana's the's", "en", 10, WORDS, extra_words=["Ana"], possessive=True) == ["the's"]


def test_only_the_first_n_words_count() -> None:
    assert unlisted_words("the cat", "en", 1, WORDS) == ["cat"]
    assert unlisted_words("the cat", "en", 10**9, WORDS) == []


def test_duplicates_take_no_rank() -> None:
    assert unlisted_words("a b", "xx", 2, ("a", "a", "b")) == []


def test_a_built_in_list_is_known_by_its_language() -> None:
    assert unlisted_words("The cat sat on the mat.", "en", 100) == ["cat", "sat", "mat"]
    assert unlisted_words("Çok güzel bir gün, İstanbul!", "tr", 1000) == []
    assert unlisted_words("Της ίδια; τησ", "el", 1000) == ["τησ"]
    assert unlisted_words("L'homme", "fr", 1000) == unlisted_words("Un'altra, un altro", "it", 1000) == []
    assert unlisted_words("0 00 c.e", "es", 10**9) == ["0", "00", "c"]


def test_a_built_in_list_with_capitals_has_them_where_a_sentence_starts_and_at_names() -> None:
    assert unlisted_words("The dog of London. I am John's.", "en", 2_000) == []
    assert unlisted_words("the Dog of london. i am john's.", "en", 2_000) == ["Dog", "london", "i", "john's"]
    assert unlisted_words("the Dog", "en", 2_000, case="any") == []
    assert unlisted_words("Koira ja Koira", "fi", 5_000) == ["Koira"]


def test_elisions_join_the_next_word_and_end_nothing() -> None:
    words = ("l'", "homme", "d’", "un", "aujourd'hui")
    assert unlisted_words("L’homme d'un l'd'homme aujourd’hui", "fr", 5, words) == []
    assert unlisted_words("l' homme l'", "fr", 5, words) == ["l'", "l'"]
    assert unlisted_words("l'(homme)", "fr", 5, words) == ["l'"]
    assert unlisted_words("l'homme", "de", 5, words) == ["l'homme"]


def test_turkish_capitals_keep_their_dots() -> None:
    assert unlisted_words("İğne Ilık", "tr", 2, ("iğne", "ılık")) == []
    assert unlisted_words("Iğne İlık", "tr", 2, ("iğne", "ılık")) == ["Iğne", "İlık"]


def test_dutch_ij_is_one_letter() -> None:
    assert unlisted_words("IJs bij ijs", "nl", 2, ("ijs", "bij")) == []
    assert unlisted_words("Ijs iJs", "nl", 2, ("ijs", "bij")) == ["Ijs", "iJs"]


def test_overlapping_phrases_are_read_in_the_way_that_fits() -> None:
    assert unlisted_words("a b c", "xx", 3, ("a", "a b", "b c")) == []
    assert unlisted_words("a b", "xx", 3, ("a b c", "b", "x")) == ["a"]


@pytest.mark.parametrize("text", ["", " ", "the ", "the cat (", "the cat —", "the -", "the.\n", "¿"])
def test_a_text_that_stops_before_a_word_is_caught(text: str) -> None:
    assert unlisted_words(text, "en", 10, WORDS) in ([], ["-"])
    assert_caught(text, "en", 10, WORDS)


def test_an_entry_may_end_like_a_mark() -> None:
    assert_only_listed_words("a so-", "xx", 2, ("a", "so-"))
    assert_only_listed_words("a (", "xx", 2, ("a", "("))
    assert_caught("a (", "xx", 1, ("a", "("))


def test_added_words_are_listed_and_left_out_words_are_not() -> None:
    extra, excluded = ("Ana", "New York", "i.e."), ("CAT", "don’t")
    text = "Ana, ana's the cat; Don't. New York's New i.e. the London"
    assert unlisted_words(text, "en", 10, WORDS, extra_words=extra, exclude_words=excluded, possessive=True) == [
        "ana's", "cat", "Don't", "New",
    ]  # fmt: skip
    assert unlisted_words("the ana", "en", 1, WORDS, extra_words=("ana",)) == []
    assert unlisted_words("cat", "en", 2, WORDS, extra_words=("cat",), exclude_words=("the",)) == []


def test_lists_named_by_file_have_the_rules_of_their_language() -> None:
    assert unlisted_words("the cat's", "en_basic", 10, WORDS, possessive=True) == []


@pytest.mark.parametrize(
    ("text", "unlisted"),
    [
        ("4 cat, 1,000.50: (50%)!", []),
        ("4. Cat—4 - 4.", []),
        ("1234567890123456", []),
        ("12345678901234567", ["12345678901234567"]),
        ("4cat cat4 4's", ["4cat", "cat4", "4's"]),
        ("4%%", ["%"]),
        ("50%cat ٣", ["50", "%", "٣"]),
    ],
)
def test_numbers_are_listed_where_they_are_asked_for(text: str, unlisted: list[str]) -> None:
    assert unlisted_words(text, "en", 2, WORDS, numbers=True) == unlisted
    assert unlisted_words(text, "en", 2, WORDS)


def test_marks_that_were_not_asked_for_are_named() -> None:
    assert unlisted_words("¿The, cat?\nThe…", "en", 2, WORDS, punctuation="basic") == []
    assert unlisted_words("the: “cat” — cat - cat،", "en", 2, WORDS, punctuation="basic") == [
        ":",
        "“",
        "”",
        "—",
        "-",
        "،",
    ]
    assert unlisted_words("the، cat؟", "fa", 2, WORDS, punctuation="basic") == []
    assert unlisted_words("the cat\nthe.", "en", 2, WORDS, punctuation="none") == ["."]


def test_marks_of_other_languages_are_named() -> None:
    assert unlisted_words("“The,” (cat)?! “The” - the—cat…", "en", 2, WORDS, punctuation="standard") == []
    assert unlisted_words("¿The [cat] «the»", "en", 2, WORDS, punctuation="standard") == ["¿", "[", "]", "«", "»"]
    assert unlisted_words("¿The “cat” «the»", "es", 2, WORDS, punctuation="standard") == []
    assert unlisted_words("¿The «cat» the؟", "xx", 2, WORDS, punctuation="standard") == []


def test_marks_out_of_place_are_caught() -> None:
    assert_only_listed_words('The "cat," in front of (the) cat.', "en", 5, WORDS, punctuation="standard")
    for text in ('The "cat.', 'The "" cat', "The cat.,", "The ((cat))"):
        assert_only_listed_words(text, "en", 5, WORDS)
        with pytest.raises(AssertionError, match="marks"):
            assert_only_listed_words(text, "en", 5, WORDS, punctuation="standard")


def test_capitals_where_none_were_asked_for_are_named() -> None:
    assert unlisted_words("The cat, Cat. “The\nThe London: Cat", "en", 6, WORDS, case="sentence") == ["Cat", "Cat"]
    assert unlisted_words("The London cat", "en", 6, WORDS, case="listed") == ["The"]
    assert unlisted_words("ana the Ana. Ana", "en", 6, WORDS, case="listed", extra_words=("ana",)) == ["Ana"]


@pytest.mark.parametrize("text", ["The cat.", 'The cat."', "The cat?!)", "the…", "The cat. 4."])
def test_whole_sentences_are_accepted(text: str) -> None:
    assert_only_listed_words(text, "en", 2, WORDS, end="sentence", numbers=True)


@pytest.mark.parametrize("text", ["The cat", "The cat,", "The cat.,", "The cat. The", "The cat:", "The “cat”"])
def test_cut_sentences_are_caught(text: str) -> None:
    assert_only_listed_words(text, "en", 2, WORDS)
    with pytest.raises(AssertionError, match="cut inside a sentence"):
        assert_only_listed_words(text, "en", 2, WORDS, end="sentence")


@pytest.mark.parametrize("text", ["the\ncat", "the,\ncat", "the.\n\n\ncat", "the.\nthe\ncat"])
def test_breaks_inside_sentences_are_caught_in_prose(text: str) -> None:
    assert_only_listed_words(text, "en", 2, WORDS)
    with pytest.raises(AssertionError, match="a line break inside a sentence"):
        assert_only_listed_words(text, "en", 2, WORDS, layout="prose")
    assert_only_listed_words('the."\n\ncat:\nthe', "en", 2, WORDS, layout="prose")


def rules_of(world: World, choice: Choice) -> Rules:
    case = choice["case"]
    if case == "auto":
        case = "any" if all(word == word.lower() for word in world.words) else "sentence"
    return Rules(
        extra_words=world.extra_words,
        # Of words that share a rank the checker is told which are left.
        exclude_words=() if world.ranks else world.exclude_words,
        numbers=choice["numbers"],
        punctuation=choice["punctuation"],
        end=choice["end"],
        case=case,
        layout=choice["layout"],
        possessive=choice["possessive"],
    )


def words_of(world: World) -> tuple[tuple[str, ...], int]:
    """The words that count, and N."""
    if world.ranks is None:
        return world.words, world.n_words
    left_out = {world.ranks[world.words.index(word.lower())] for word in world.exclude_words}
    ranked = zip(world.ranks, world.words, strict=True)
    return tuple(word for rank, word in ranked if rank <= world.n_words and rank not in left_out), len(world.words)


@pytest.mark.parametrize("lang", ["ca", "de", "en", "fi", "fr", "it", "tr"])
def test_its_built_in_lists_are_the_librarys(lang: str) -> None:
    assert built_in_words(lang, 20_000) == list(load_word_list(lang, None).words[:20_000])


@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
@given(data=st.data(), choice=choices())
def test_it_accepts_every_allowed_text(world: World, data: st.DataObject, choice: Choice) -> None:
    text = data.draw(world.likely_texts())
    if world.judge(choice).is_text(text):
        words, n_words = words_of(world)
        assert_only_listed_words(text, world.lang, n_words, words, **rules_of(world, choice))


@pytest.mark.parametrize("choice", TELLING_CHOICES, ids=choice_id)
@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
def test_it_accepts_every_allowed_text_that_was_picked_by_hand(world: World, choice: Choice) -> None:
    words, n_words = words_of(world)
    for text in world.hand_picked_texts():
        if world.judge(choice).is_text(text):
            assert_only_listed_words(text, world.lang, n_words, words, **rules_of(world, choice))


def test_the_recognisers_table_is_the_librarys() -> None:
    full = marks.marks_of("full", "en")
    assert set(recogniser.SENTENCE_MARKS) == set(full.sentence)
    assert set(recogniser.CLOSE_MARKS) == set(full.close)
    assert set(recogniser.OPEN_MARKS) == set(full.open) == set(marks.OPEN_MARKS)
    assert set(recogniser.APOSTROPHES) == set(marks.APOSTROPHES)
    spaced = {f" {dash} " for dash in marks.SPACED_DASHES}
    assert set(recogniser.DASH_GAPS) == {marks.JOINING_DASH} | spaced
    assert tuple(marks.LINE_BREAK * num for num in range(1, marks.MAX_LINE_BREAKS + 1)) == recogniser.LINE_BREAK_GAPS
    assert (recogniser.MOST_CLOSE_MARKS, recogniser.MOST_OPEN_MARKS) == (marks.MAX_CLOSE_RUN, marks.MAX_OPEN_RUN)
    assert set(recogniser.CLOSING_QUOTES) == set(marks.CLOSING_QUOTES)
    assert recogniser.MOST_NUMBER_CHARACTERS == marks.MAX_NUMBER_CHARS
    for lang in ("es", "ar", "fa", "ur", "hi", "bn", "mr", "ne", "ps"):
        basic = marks.marks_of("basic", lang)
        of_language = recogniser.BASIC_MARKS_OF_LANGUAGES.get(lang, "")
        assert set(recogniser.BASIC_CLOSE_MARKS + of_language) == set(basic.close)
        assert set(recogniser.BASIC_OPEN_MARKS) == set(basic.open)
        assert set(basic.sentence) == set(basic.close) & set(marks.SENTENCE_MARKS)
        assert (basic.joining_dashes, basic.spaced_dashes) == ("", "")


@pytest.mark.parametrize("lang", [*recogniser.STANDARD_MARKS, "xx", "ps"])
def test_the_recognisers_marks_of_a_language_are_the_librarys(lang: str) -> None:
    ours = marks_of_language(lang)
    sentence, questions, pauses, inverted, dashes, quotes = recogniser.STANDARD_MARKS.get(
        lang, recogniser.STANDARD_MARKS["en"]
    )
    assert (set(ours.sentence), ours.questions, set(ours.pauses)) == (set(sentence), questions, set(pauses))
    assert (set(ours.inverted), set(ours.quotes)) == (set(inverted), set(quotes))
    assert ours.pairs == (*ours.quotes, *recogniser.STANDARD_PAIRS_OF_ALL)
    spaced = {f" {dash} " for dash in ours.spaced_dashes}
    assert {*ours.joining_dashes, *spaced} == {*dashes, recogniser.STANDARD_DASH_GAP_OF_ALL}
    assert recogniser.MOST_OPEN_PAIRS == marks.MAX_OPEN_PAIRS


@pytest.mark.parametrize("lang", checked_lists.STANDARD_PUNCTUATION_OF)
def test_the_checkers_marks_of_a_language_are_the_librarys(lang: str) -> None:
    ours = marks_of_language(lang)
    known = {*checked_lists.STANDARD_PUNCTUATION, *checked_lists.STANDARD_PUNCTUATION_OF[lang]} - set(" \n")
    theirs = {*ours.sentence, *ours.pauses, *ours.spaced_dashes, *ours.inverted, *"".join(ours.pairs)}
    assert theirs <= known
    # Marks that a language has others for are taken for its own: Arabic commas and question marks.
    assert known - theirs <= set(",;?")


@pytest.mark.parametrize(
    ("text", "is_text", "is_prefix"),
    [
        ("", False, True),
        ("the", True, True),
        ("Th", False, True),
        ("the.", True, True),
        ("the. ", False, True),
        ("th.", False, False),
        ("the  cat", False, False),
    ],
)
def test_the_recogniser_tells_texts_from_their_beginnings(text: str, is_text: bool, is_prefix: bool) -> None:
    assert recogniser.is_text(text, ["the", "cat"], 2, lang="en") is is_text
    assert recogniser.is_prefix_of_text(text, ["the", "cat"], 2, lang="en") is is_prefix


def test_elisions_alone_begin_no_text() -> None:
    assert not recogniser.is_prefix_of_text("", ["l'"], 1, lang="fr")
    assert not recogniser.is_prefix_of_text("l'", ["l'", "un"], 1, lang="fr")
    assert recogniser.is_prefix_of_text("l'", ["l'", "un"], 2, lang="fr")
