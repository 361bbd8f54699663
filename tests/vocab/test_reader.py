"""The reader allows what the recogniser allows, counts its words and cuts only between them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recogniser import Case, Layout, Recogniser
from tests.worlds import TEXTS_OF_NO_LIST, WORLDS, World
from vocab.form_ranks import FormRanks
from vocab.options import ListOptions
from vocab.reader import Coverage, TextReader
from vocab.wordlists import WordList

LAYOUTS: tuple[Layout, ...] = ("prose", "lines")
CASES: tuple[Case, ...] = ("auto", "sentence", "any", "listed")


def reader_of(*words: str, lang: str = "en", n_words: int = 100, case: Case = "auto") -> TextReader:
    return TextReader(WordList(lang, words, "file"), ListOptions(case), n_words)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_it_agrees_with_the_recogniser_on_hand_picked_texts(world: World, case: Case, layout: Layout) -> None:
    reader = TextReader(WordList(world.lang, world.words, "file"), ListOptions(case, layout), world.n_words)
    recogniser = Recogniser(world.words, world.n_words, world.lang, case, layout)
    for text in (*TEXTS_OF_NO_LIST, *world.texts):
        assert reader.is_text(text) == recogniser.is_text(text), repr(text)


@pytest.mark.parametrize("world", WORLDS, ids=str)
@given(data=st.data(), case=st.sampled_from(CASES), layout=st.sampled_from(LAYOUTS))
@settings(max_examples=300, deadline=None)
def test_it_agrees_with_the_recogniser_on_random_texts(
    world: World, data: st.DataObject, case: Case, layout: Layout
) -> None:
    reader = TextReader(WordList(world.lang, world.words, "file"), ListOptions(case, layout), world.n_words)
    text = data.draw(world.likely_texts())
    assert reader.is_text(text) == Recogniser(world.words, world.n_words, world.lang, case, layout).is_text(text)


@pytest.mark.parametrize("world", WORLDS, ids=str)
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_cut_leaves_a_text_that_no_longer_cut_would(world: World, data: st.DataObject) -> None:
    reader = reader_of(*world.words, lang=world.lang, n_words=world.n_words)
    recogniser = Recogniser(world.words, world.n_words, world.lang, "auto", "prose")
    text = data.draw(world.likely_texts())
    length = reader.whole_prefix_length(text)
    assert length == 0 or recogniser.is_text(text[:length])
    if recogniser.is_text(text):
        assert length == len(text)
    # Behind the cut there is no other end of a text before a blank or a break.
    assert not any(recogniser.is_text(text[:end]) for end in range(length + 1, len(text)) if text[end] in " \n")


def test_it_counts_running_and_distinct_words_and_the_rarest() -> None:
    reader = reader_of("the", "cat", "sees", "dog", "house")
    assert reader.coverage("The cat sees the dog’s house. The cat's.") == Coverage(8, 5, 5)


def test_it_counts_in_the_reading_with_the_most_frequent_words() -> None:
    reader = reader_of("in", "of", "front", "in front of", "a", "a b", "b c", "c")
    assert reader.coverage("in front of") == Coverage(3, 3, 3)
    assert reader.coverage("a b c") == Coverage(2, 2, 7)


def test_it_counts_an_elision_as_a_word() -> None:
    assert reader_of("l'", "homme", "d'homme", lang="fr").coverage("L’homme d'homme") == Coverage(3, 3, 3)


@pytest.mark.parametrize("text", ["", " ", "cat the", "the ", "the c", "the\ncat", "l'"])
def test_it_counts_nothing_in_what_is_no_text(text: str) -> None:
    with pytest.raises(ValueError, match="not a complete text"):
        reader_of("the", "c a t", "l'", lang="fr").coverage(text)


def test_readers_of_several_n_share_their_ranks() -> None:
    word_list, options = WordList("en", ("the", "cat", "catalogue"), "file"), ListOptions()
    ranks = FormRanks(word_list, options)
    assert not TextReader(word_list, options, 2, ranks).is_text("the catalogue")
    assert TextReader(word_list, options, 3, ranks).is_text("the catalogue")
    assert TextReader(word_list, options, 10**9, ranks).is_text("the catalogue")


@pytest.mark.parametrize(
    ("text", "following", "kept"),
    [
        ("the c", "at", "the"),
        ("the c", "", "the c"),
        ("the c", " the", "the c"),
        ("the ca", "t", "the"),
        ("the ca", "", "the"),
        ("the cat", "", "the cat"),
        ("the cat", "s", "the"),
        ("the cat", "'s the", "the"),
        ("the cat", "’s", "the"),
        ("the cat", "-c", "the"),
        ("the cat", " - c", "the cat"),
        ("the cat -", " c", "the cat"),
        ("the cat.", " The", "the cat."),
        ("the cat. ", "The", "the cat."),
        ("the cat.", "", "the cat."),
        ("the cat", ". The", "the cat"),
        ("the cat—", "c", "the cat"),
        ("the (", "cat", "the"),
        ("in front", " of", "in front"),
        ("in fr", "ont of", "in"),
        ("the in front o", "f the", "the in front"),
        ("the c", ".e.o is", "the"),
        ("the c.", "e.o is", "the"),
        ("c", "at", ""),
        ("", "the", ""),
        ("dog the", "", ""),
        ("dog", " the", ""),
        ("the dog the", "", "the"),
    ],
)
def test_it_cuts_only_between_words(text: str, following: str, kept: str) -> None:
    reader = reader_of("the", "cat", "c", "in", "front", "in front of", "c.e.o", "is")
    assert text[: reader.whole_prefix_length(text, following)] == kept


def test_it_never_cuts_behind_an_elision() -> None:
    reader = reader_of("l'", "homme", "un", lang="fr")
    assert reader.whole_prefix_length("un l'hom", "me") == 2
    assert reader.whole_prefix_length("un l'") == 2


def test_a_long_text_takes_time_in_proportion() -> None:
    """A guard against a walk that grows with the square of the length: this one would take minutes."""
    reader = reader_of("a", "a a", "a a a", "—")
    text = "a a—" * 5_000 + "a"
    assert reader.coverage(text).max_rank == 1
    assert reader.whole_prefix_length(text + " b") == len(text)
