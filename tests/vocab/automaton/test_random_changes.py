"""Random lists with a word added and a word left out, as a request may ask: judged by the slow recogniser."""

import random

from hypothesis import HealthCheck, assume, example, given, settings

from tests.random_lists import RandomList, random_lists
from tests.recogniser import Recogniser
from tests.vocab.automaton.test_random_lists import BYTES, SPELLER, accepted, random_list_test, read_bytes
from vocab.errors import OptionsError
from vocab.lists.wordlists import WordList
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.changes import ListChanges

NEIGHBOURS = 60

SHARED_RANK = RandomList(
    lang="en",
    choice={"case": "auto", "layout": "prose", "numbers": False, "punctuation": "standard", "end": "word"},
    share=0.3,
    num_beyond=0,
    seed=1,
    entries=("aA", "B", "A", "a"),
)
"""With "B" goes "A", of its rank; "a" stays, and is "A" where a sentence starts."""

NO_TEXT = RandomList(
    lang="fr",
    choice={"case": "auto", "layout": "prose", "numbers": False, "punctuation": "standard", "end": "word"},
    share=0,
    num_beyond=0,
    seed=1,
    entries=("l'", "A", "a"),
)
"""Without "A" goes "a" too, and nothing is left that the added elision could stand before."""


@example(SHARED_RANK)
@example(NO_TEXT)
@given(random_lists())
@settings(random_list_test, suppress_health_check=list(HealthCheck))
def test_what_is_added_can_be_written_and_what_is_left_out_cannot(source: RandomList) -> None:
    words = accepted(source.entries)
    # The first word is added and the second left out of the others.
    changes = ListChanges(words[:1], words[1:2])
    assume(len(words) > 2 and is_possible(changes, source.lang))
    listed = WordList(source.lang, words[1:], "inline", source.ranks(len(words) - 1))
    n_words = max(1, listed.num_ranks - source.num_beyond)
    judge = Recogniser(
        listed.words,
        n_words,
        source.lang,
        extra_words=changes.extra_words,
        exclude_words=changes.exclude_words,
        ranks=listed.ranks,
        **source.choice,
    )
    states = ListStates.of(listed, ListOptions(**source.choice), SPELLER, n_words, changes)
    has_texts = states.fewest_tokens() is not None
    assert has_texts == judge.is_prefix("")
    assume(has_texts)
    draw = random.Random(source.seed)
    for word in words:
        near = [*source.neighbours(word)]
        for text in [word, word + ".", f"{word} {words[0]}.", *draw.sample(near, min(len(near), NEIGHBOURS))]:
            assert read_bytes(states, BYTES, text) == (judge.is_prefix(text), judge.is_text(text)), ascii(text)


def is_possible(changes: ListChanges, language: str) -> bool:
    try:
        changes.check(language)
    except OptionsError:
        return False
    return True
