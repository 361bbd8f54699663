import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vocab.toys import toy_automaton, toy_tokenizer, word_list
from vocab.automaton.automaton import compile_automaton
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions


def test_states_link_to_earlier_states_and_own_tokens_ascend() -> None:
    automaton, _ = toy_automaton(["the", "cat", "it's", "in front of", "in"], [" the", "cat", "e c", "’s"], lang="en")
    edges = automaton.edges
    assert np.all(edges.links < np.arange(len(edges.links)))
    for state in range(len(edges.links)):
        own = edges.tokens[edges.edge_start[state] : edges.edge_start[state + 1]]
        assert np.all(np.diff(own) > 0)


def test_words_do_not_repeat_the_tokens_that_may_follow_any_word() -> None:
    words = list(load_word_list("es", None).words)
    pieces = [" " + word for word in words[:300]]
    few = compile_automaton(word_list(words[:300]), ListOptions(), toy_tokenizer(pieces))
    assert len(few.edges.tokens) < 20 * 300


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.sampled_from(["a", "b", "a b", "b a", "a b a", "ab", "b a b"]), min_size=1, unique=True))
def test_phrases_make_few_states(words: list[str]) -> None:
    automaton, _ = toy_automaton(words, [" a", " b"])
    assert len(automaton.edges.links) < 2000
