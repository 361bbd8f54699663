"""The reader allows what the recogniser allows, counts its words and cuts only between them."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.changed_worlds import ALL_WORLDS
from tests.choices import TELLING_CHOICES, Choice, choice_id, choices
from tests.worlds import World
from vocab.artefacts.store import ArtefactStore
from vocab.lists.wordlists import WordList
from vocab.options import Case, ListOptions
from vocab.text.changes import ListChanges
from vocab.text.reader import UNKNOWN_FOLLOWING, Coverage, TextReader


def reader_of(*words: str, lang: str = "en", n_words: int = 100, case: Case = "auto") -> TextReader:
    return TextReader(WordList(lang, words, "file"), ListOptions(case, punctuation="full", possessive=True), n_words)


def reader_of_world(world: World, choice: Choice) -> TextReader:
    word_list = WordList(world.lang, world.words, "file", world.ranks)
    changes = ListChanges(world.extra_words, world.exclude_words)
    return TextReader(word_list, ListOptions(**choice), world.n_words, changes=changes)


def changed_reader(extra_words: tuple[str, ...] = (), exclude_words: tuple[str, ...] = ()) -> TextReader:
    """Of five English words, with numbers."""
    word_list = WordList("en", ("the", "cat", "Sees", "dog", "house"), "file")
    options = ListOptions(numbers=True, punctuation="full", possessive=True)
    return TextReader(word_list, options, 4, changes=ListChanges(extra_words, exclude_words))


@pytest.mark.parametrize("choice", TELLING_CHOICES, ids=choice_id)
@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
def test_it_agrees_with_the_recogniser_on_hand_picked_texts(world: World, choice: Choice) -> None:
    reader, recogniser = reader_of_world(world, choice), world.judge(choice)
    for text in world.hand_picked_texts():
        assert reader.is_text(text) == recogniser.is_text(text), repr(text)


@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
@given(data=st.data(), choice=choices())
def test_it_agrees_with_the_recogniser_on_random_texts(world: World, data: st.DataObject, choice: Choice) -> None:
    text = data.draw(world.likely_texts())
    assert reader_of_world(world, choice).is_text(text) == world.judge(choice).is_text(text)


@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
@given(data=st.data(), choice=choices())
def test_a_cut_leaves_a_text_that_no_longer_cut_would(world: World, data: st.DataObject, choice: Choice) -> None:
    reader, recogniser = reader_of_world(world, choice), world.judge(choice)
    text = data.draw(world.likely_texts())
    length = reader.whole_prefix_length(text)
    assert length == 0 or recogniser.is_text(text[:length])
    if recogniser.is_text(text):
        assert length == len(text)
    # Behind the cut there is no other end of a text before a blank or a break.
    assert not any(recogniser.is_text(text[:end]) for end in range(length + 1, len(text)) if text[end] in " \n")


@pytest.mark.parametrize("world", ALL_WORLDS, ids=str)
@given(data=st.data(), choice=choices())
def test_a_text_read_in_parts_is_whole_as_far_as_it_is_at_once(
    world: World, data: st.DataObject, choice: Choice
) -> None:
    reader = reader_of_world(world, choice)
    text = data.draw(world.likely_texts())
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)) | {0, len(text)})
    followed, goes_on, complete = reader.follow(), True, 0
    for start, end in pairwise(cuts):
        goes_on = followed.add(text[start:end])
        assert followed.num_whole <= end
        assert complete <= followed.num_complete == reader.whole_prefix_length(text[:end], UNKNOWN_FOLLOWING)
        complete = followed.num_complete
        # No word and no number is cut, whatever followed.
        assert complete == 0 or world.judge(choice).is_text(text[:complete])
        assert reader.whole_prefix_length(text[:complete], text[complete:]) == complete
        assert followed.whole_prefix_length() == reader.whole_prefix_length(text[:end])
        if not goes_on:
            break
    at_once = reader.follow()
    at_once.add(text)
    assert not goes_on or followed.num_whole == at_once.num_whole
    if world.judge(choice).is_text(text):
        assert goes_on
        assert followed.coverage() == reader.coverage(text)
        longest = max(len(word) + len("'s") for word in (*world.words, *world.extra_words))
        assert len(text) - followed.num_whole <= max(longest, 16)


def test_a_word_that_ends_with_a_mark_is_whole_when_it_cannot_go_on() -> None:
    reader = changed_reader(extra_words=("etc.", "etc.x"))
    for following, num_whole in ((" ", 9), (",", 9), ("x", 4), ("x ", 10)):
        followed = reader.follow()
        assert followed.add("the etc.")
        assert followed.num_whole == 4
        assert followed.add(following)
        at_once = reader.follow()
        assert at_once.add("the etc." + following)
        assert followed.num_whole == at_once.num_whole == num_whole, following


def test_a_followed_text_keeps_as_much_as_the_longest_word() -> None:
    followed = reader_of("the", "in front of").follow()
    for number in range(1000):
        assert followed.add("the in front")
        assert followed.num_whole == 16 * number + 4
        assert followed.add(" of ")
        assert followed.num_whole == 16 * number + 16
        assert followed._memory.nbytes < 1_000


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


def test_added_words_count_without_a_rank() -> None:
    reader = changed_reader(("Ana", "New York", "goin'"))
    assert reader.coverage("The cat, Ana's cat, Ana. Goin’ the New York's cat") == Coverage(9, 5, 2)
    assert reader.coverage("Ana") == Coverage(1, 1, 0)


def test_a_word_both_added_and_listed_is_the_listed_one() -> None:
    reader = changed_reader(("dog", "house", "Cat"))
    assert reader.coverage("the dog. Dog, dog's") == Coverage(4, 2, 4)
    assert reader.coverage("house, the house") == Coverage(3, 2, 1)
    assert reader.coverage("the Cat, cat") == Coverage(3, 3, 2)


def test_numbers_are_no_words() -> None:
    assert changed_reader().coverage("3 cat, 1,000.50: 4%!") == Coverage(1, 1, 2)
    assert changed_reader().coverage("2026") == Coverage(0, 0, 0)
    assert changed_reader(("3",)).coverage("3 cat") == Coverage(1, 1, 2)


def test_ranks_stay_where_words_are_left_out() -> None:
    reader = changed_reader(exclude_words=("CAT", "sees"))
    assert reader.coverage("the dog") == Coverage(2, 2, 4)
    assert not reader.is_text("the cat")
    assert not reader.is_text("the Sees")
    assert not reader.is_text("house")


def test_words_that_share_a_rank_are_different_words() -> None:
    """Different ranks are counted: which form of a lemma was read is not known."""
    forms = WordList("en", ("the", "see", "saw", "cat"), "file", (1, 2, 2, 3))
    reader = TextReader(forms, ListOptions(punctuation="full"), 2)
    assert reader.coverage("The see saw. See the") == Coverage(5, 2, 2)
    assert not reader.is_text("cat")


def test_readers_of_several_changes_share_their_table(tmp_path: Path) -> None:
    """Where one spelling has several ranks, leaving the best out leaves the others."""
    forms = WordList("en", ("the", "it's", "be", "it’s", "its"), "file", (1, 2, 2, 3, 4))
    table = ArtefactStore(tmp_path, 10**8).table_of(forms)
    assert TextReader(forms, ListOptions(punctuation="full"), 4, table).coverage("it’s") == Coverage(1, 1, 2)
    without_be = TextReader(forms, ListOptions(punctuation="full"), 4, table, ListChanges((), ("be",)))
    assert without_be.coverage("it's") == Coverage(1, 1, 3)
    assert not TextReader(forms, ListOptions(punctuation="full"), 4, table, ListChanges((), ("it’s",))).is_text("it's")


def test_readers_of_several_n_and_options_share_their_table(tmp_path: Path) -> None:
    word_list, options = WordList("en", ("the", "cat", "catalogue"), "file"), ListOptions(punctuation="full")
    table = ArtefactStore(tmp_path, 10**8).table_of(word_list)
    assert not TextReader(word_list, options, 2, table).is_text("the catalogue")
    assert TextReader(word_list, options, 3, table).is_text("the catalogue")
    assert TextReader(word_list, options, 10**9, table).is_text("the Catalogue")
    assert not TextReader(word_list, replace(options, case="sentence"), 10**9, table).is_text("the Catalogue")


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


@pytest.mark.parametrize(
    ("text", "following", "kept"),
    [
        ("cat 3.", "5", "cat"),
        ("cat 3", ".5", "cat"),
        ("cat 3.5", " cat", "cat 3.5"),
        ("cat 3.5", "%", "cat"),
        ("cat 3.", " Cat", "cat 3."),
        ("cat 3,", "", "cat 3,"),
        ("cat 3,", "a", "cat 3"),
        ("cat 3", "4", "cat"),
        ("cat (3", "", "cat (3"),
        ("cat 3.5.", "", "cat 3.5."),
        ("3", "5", ""),
    ],
)
def test_it_cuts_no_number(text: str, following: str, kept: str) -> None:
    reader = TextReader(WordList("en", ("cat",), "file"), ListOptions(numbers=True, punctuation="full"), 1)
    assert text[: reader.whole_prefix_length(text, following)] == kept


@pytest.mark.parametrize(
    ("text", "following", "kept"),
    [
        ("The cat. The", "", "The cat."),
        ("The cat. The cat", " the", "The cat."),
        ("The cat.) The cat,", "", "The cat.)"),
        ("The cat.", " The", "The cat."),
        ("The cat., the", "", "The cat."),
        ("The cat.,", "", "The cat."),
        ("The cat?!", "", "The cat?!"),
        ("The cat?", "!", "The cat?"),
        ("The cat", ".", ""),
        ("The cat: 3.", "5", ""),
        ("The cat. 3. Cat", "", "The cat. 3."),
    ],
)
def test_it_cuts_to_a_whole_sentence_where_texts_end_so(text: str, following: str, kept: str) -> None:
    reader = TextReader(
        WordList("en", ("the", "cat"), "file"), ListOptions(numbers=True, end="sentence", punctuation="full"), 2
    )
    assert text[: reader.whole_prefix_length(text, following)] == kept


@pytest.mark.parametrize(
    ("text", "following", "kept"),
    [
        ("The “cat. The cat", "", ""),
        ("The cat. The “cat", "", "The cat."),
        ("The cat. The “cat.”", "", "The cat. The “cat.”"),
        ("The cat. The “cat”", ".", "The cat."),
        ("The (cat “the cat.” The", "", ""),
        ("The cat. (The cat. The", " cat", "The cat."),
        ("The cat..", "", "The cat."),
        ("The cat...", " the", "The cat..."),
        ("The cat?", "! The", "The cat?"),
        ('The "cat?", the', " cat", 'The "cat?"'),
        ('"The cat." The', "", '"The cat."'),
    ],
)
def test_it_cuts_only_where_every_pair_is_closed(text: str, following: str, kept: str) -> None:
    options = ListOptions(punctuation="standard", end="sentence")
    reader = TextReader(WordList("en", ("the", "cat"), "file"), options, 2)
    assert text[: reader.whole_prefix_length(text, following)] == kept


def test_a_cut_leaves_no_pair_open_where_texts_end_with_a_word() -> None:
    reader = TextReader(WordList("en", ("the", "cat"), "file"), ListOptions(punctuation="standard"), 2)
    for text, kept in (("the (cat", "the"), ("the (cat)", "the (cat)"), ('the "cat (the) cat', "the"), ("“the", "")):
        assert text[: reader.whole_prefix_length(text)] == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("the cat", "the"),
        ("the cat ", "the cat"),
        ("the cat(", "the cat"),
        # What is written next may be part of these: "c.e.o", "3.5".
        ("the c.", "the"),
        ("the c. ", "the c."),
        ("the c.x", "the c"),
        ("the 3.", "the"),
        ("the 3. ", "the 3."),
        ("the 3.5 ", "the 3.5"),
        ("the in front", "the in"),
        ("the dog the", "the"),
    ],
)
def test_it_cuts_before_what_may_go_on_where_it_is_not_known_what_follows(text: str, kept: str) -> None:
    words = ("the", "cat", "c", "in", "front", "in front of", "c.e.o")
    reader = TextReader(WordList("en", words, "file"), ListOptions(numbers=True, punctuation="full"), len(words))
    assert text[: reader.whole_prefix_length(text, UNKNOWN_FOLLOWING)] == kept
    followed = reader.follow()
    lengths = [followed.num_complete for char in text if followed.add(char) is not None]
    assert lengths == sorted(lengths)
    assert lengths[-1] == followed.whole_prefix_length(UNKNOWN_FOLLOWING) == len(kept)


def test_a_list_without_words_has_numbers_at_most() -> None:
    for numbers in (False, True):
        reader = TextReader(WordList("en", (), "inline"), ListOptions(numbers=numbers), 1)
        assert (reader.is_text("3"), reader.is_text("the")) == (numbers, False)


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
