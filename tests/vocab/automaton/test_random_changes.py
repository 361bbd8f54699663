"""Random lists with words added and a word left out, as a request may ask: judged by the slow recogniser."""

import random

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.choices import Choice
from tests.random_lists import RandomList, random_lists
from tests.recogniser import Recogniser
from tests.vocab.automaton.test_random_lists import BYTES, SPELLER, accepted, random_list_test, read_bytes
from vocab.errors import OptionsError
from vocab.lists.wordlists import WordList
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.reader import TextReader

NEIGHBOURS = 60

STANDARD: Choice = {
    "case": "auto", "layout": "prose", "numbers": False, "punctuation": "standard", "end": "word", "possessive": True
}  # fmt: skip

SHARED_RANK = RandomList(
    lang="en",
    choice=STANDARD,
    share=0.3,
    num_beyond=0,
    seed=1,
    entries=("aA", "B", "A", "a"),
)
"""With "B" goes "A", of its rank; "a" stays, and is "A" where a sentence starts."""

NO_TEXT = RandomList(
    lang="fr",
    choice=STANDARD,
    share=0,
    num_beyond=0,
    seed=1,
    entries=("l'", "A", "a"),
)
"""Without "A" goes "a" too, and nothing is left that the added elision could stand before."""

SEVERAL = RandomList(
    lang="en",
    choice=STANDARD,
    share=0,
    num_beyond=0,
    seed=1,
    entries=("Ana", "kite", "New York", "cats", "Bo", "the", "cat", "sat"),
)


@example(SHARED_RANK)
@example(NO_TEXT)
@given(random_lists())
@settings(random_list_test, suppress_health_check=list(HealthCheck))
def test_what_is_added_can_be_written_and_what_is_left_out_cannot(source: RandomList) -> None:
    words = accepted(source.entries)
    assume(len(words) > 2)
    listed = WordList(source.lang, words[1:], "inline", source.ranks(len(words) - 1))
    assert_changed(source, words, 1, listed, max(1, listed.num_ranks - source.num_beyond))


@example(source=SEVERAL, num_added=5, n_words=1)
@example(source=SEVERAL, num_added=4, n_words=3)
@given(source=random_lists(), num_added=st.integers(1, 5), n_words=st.integers(1, 3))
@settings(random_list_test, suppress_health_check=list(HealthCheck))
def test_every_word_that_is_added_can_be_written_whatever_n(source: RandomList, num_added: int, n_words: int) -> None:
    words = accepted(source.entries)
    assume(len(words) > 2)
    num_added = min(num_added, len(words) - 2)
    listed = WordList(source.lang, words[num_added:], "inline", source.ranks(len(words) - num_added))
    assert_changed(source, words, num_added, listed, n_words)


def assert_changed(source: RandomList, words: tuple[str, ...], num_added: int, listed: WordList, n_words: int) -> None:
    """The first words are added, and the first of the others, which are listed, is left out: mask and reader agree."""
    changes = ListChanges(words[:num_added], words[num_added : num_added + 1])
    assume(is_possible(changes, source.lang))
    judge = Recogniser(
        listed.words,
        n_words,
        source.lang,
        extra_words=changes.extra_words,
        exclude_words=changes.exclude_words,
        ranks=listed.ranks,
        **source.choice,
    )
    options = ListOptions(**source.choice)
    states = ListStates.of(listed, options, SPELLER, n_words, changes)
    has_texts = states.fewest_tokens() is not None
    assert has_texts == judge.is_prefix("")
    assume(has_texts)
    reader = TextReader(listed, options, n_words, changes=changes)
    draw = random.Random(source.seed)
    for word in words:
        near = [*source.neighbours(word)]
        for text in [word, word + ".", f"{word} {words[0]}.", *draw.sample(near, min(len(near), NEIGHBOURS))]:
            assert read_bytes(states, BYTES, text) == (judge.is_prefix(text), judge.is_text(text)), ascii(text)
            assert reader.is_text(text) == judge.is_text(text), ascii(text)


def is_possible(changes: ListChanges, language: str) -> bool:
    try:
        changes.check(language)
    except OptionsError:
        return False
    return True
