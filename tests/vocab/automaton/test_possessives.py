"""The English possessive by a table: what masks, reader, checker, EBNF and Lark allow, and both independent judges."""

import pytest

from tests.checker import unlisted_words
from tests.possessives import WITHOUT_POSSESSIVE, may_take_possessive
from tests.vocab.automaton.test_capitals_and_stops import assert_all_agree
from tests.vocab.automaton.test_random_lists import BYTES, SPELLER, read_bytes
from vocab.automaton.overlay import build_overlay
from vocab.automaton.trie_builder import build_words, words_digest
from vocab.lists.wordlists import Source, WordList, load_word_list
from vocab.matching.states import ListStates
from vocab.options import ListOptions, Punctuation
from vocab.text.changes import ListChanges
from vocab.text.checker import TextChecker
from vocab.text.forms import takes_possessive

LISTED = ("I", "the", "it", "it's", "of", "go", "cat", "one", "other", "in front of", "May", "may", "dog")
N_WORDS = 12
"""All but the dog."""
CHANGES = ListChanges(("Anna", "very", "ice cream"), ("one",))

ALWAYS = ("it's", "It’s", "the cat", "Anna", "May", "in front of")
WITH_POSSESSIVE = (
    *("cat's", "Cat’s", "the cat's", "other's", "May's", "may’s", "Anna's", "Anna’s", "ice cream's", "Ice cream's"),
)
NEVER = (
    *("I's", "i's", "the's", "The’s", "of's", "go's", "Go's", "in front of's", "very's", "Very's", "it's's", "one's"),
    *("dog's", "cat's's", "cat'", "cats", "It's's", "'s", "cat 's", "cat.'s"),
)


@pytest.mark.parametrize("punctuation", ["standard", "full", "none"])
@pytest.mark.parametrize(
    ("source", "asked", "has_it"),
    [
        ("cleaned", None, True),
        ("file", None, False),
        ("inline", None, False),
        ("cleaned", False, False),
        ("inline", True, True),
        ("file", True, True),
    ],
)
def test_all_agree_which_words_take_an_s(
    punctuation: Punctuation, source: Source, asked: bool | None, has_it: bool
) -> None:
    word_list = WordList("en", LISTED, source)
    options = ListOptions(punctuation=punctuation, possessive=asked)
    checker = TextChecker(word_list, options, N_WORDS, CHANGES)
    added, left_out = CHANGES.extra_words, CHANGES.exclude_words
    verdicts = dict.fromkeys(ALWAYS, True) | dict.fromkeys(WITH_POSSESSIVE, has_it) | dict.fromkeys(NEVER, False)
    assert_all_agree(word_list, verdicts, CHANGES, n_words=N_WORDS, options=options, possessive=has_it)
    for texts, allowed in ((ALWAYS, True), (WITH_POSSESSIVE, has_it), (NEVER[:10], False)):
        for text in texts:
            assert (not checker.check(text).not_allowed) == allowed, text
            unlisted = unlisted_words(
                text, "en", N_WORDS, LISTED, extra_words=added, exclude_words=left_out, possessive=has_it
            )
            assert (not unlisted) == allowed, text


def test_the_closed_list_is_the_pages() -> None:
    words = {*load_word_list("en", None).up_to(20_000).words, *WITHOUT_POSSESSIVE}
    words |= {word.title() for word in words} | {f"x {word}" for word in words} | {f"{word} x" for word in words}
    assert {word for word in words if takes_possessive(word)} == {word for word in words if may_take_possessive(word)}


def test_a_list_of_ones_own_is_not_taken_for_a_built_in_one_with_its_words() -> None:
    digests = {
        source: words_digest(WordList("en", LISTED, source), SPELLER, has_capitals=True)
        for source in ("cleaned", "file", "inline")
    }
    assert digests["cleaned"] != digests["file"] == digests["inline"]


def test_the_option_changes_no_compiled_list_and_no_changes_to_it() -> None:
    words = build_words(WordList("en", LISTED, "cleaned"), SPELLER)
    overlay = build_overlay(words, CHANGES, SPELLER)
    for asked, has_it in ((None, True), (True, True), (False, False)):
        states = ListStates.of(words.listed.word_list, ListOptions(possessive=asked), SPELLER, N_WORDS, CHANGES)
        assert (states.words.digest, states.overlay and states.overlay.digest) == (words.digest, overlay.digest)
        assert read_bytes(states, BYTES, "The cat's")[1] == has_it
