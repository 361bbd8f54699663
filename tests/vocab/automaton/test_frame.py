import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import recogniser
from tests.vocab.toys import STOP, allowed_tokens, matcher_of, toy_states
from vocab.errors import ListTooLargeError
from vocab.options import Case, ListOptions
from vocab.text.changes import ListChanges

PIECES = ["é", "É", "ß", "—", "’", " a", " b", ". ", '."', "...", "\n\n", " (", ").", "'s", "’s"]
"""Tokens of marks and of words, and characters of more than one byte, so that a walk need not stop inside one."""

WORDS = st.lists(
    st.one_of(
        st.text("abé'’-", min_size=1, max_size=4),
        st.sampled_from(["a b", "a b c", "b c", "l'", "l'a", "A", "Ab", "ß", "i", "’", "a.", '"a"', "a-b", "—", ".a"]),
    )
    .map(str.strip)
    .filter(bool),
    min_size=1,
    max_size=6,
    unique=True,
)


def test_runs_of_marks_of_a_list_and_of_added_words_are_bounded_together() -> None:
    words, added = ([f"a{chr(first + number)}" for number in range(160)] for first in (0x2190, 0x2300))
    assert toy_states(words) and toy_states(added)
    with pytest.raises(ListTooLargeError, match="runs of marks"):
        toy_states(words, changes=ListChanges(tuple(added)))


def test_states_have_the_same_numbers_each_time() -> None:
    """A text's state is sent to other processes, which have states of their own."""
    words, options = ["l'", "(a)", "b.", "'tis"], ListOptions(numbers=True, case="sentence")
    (first, facts), (second, _) = (toy_states(words, PIECES, lang="fr", options=options) for _ in range(2))
    for seed in range(20):
        walk, matchers = random.Random(seed), (matcher_of(first), matcher_of(second))
        for _ in range(20):
            ours, theirs = (allowed_tokens(matcher, len(facts)) for matcher in matchers)
            assert ours == theirs
            token = walk.choice(sorted(ours))
            assert all(matcher.accept_token(token) for matcher in matchers)
            assert matchers[0].state == matchers[1].state
            if token == STOP:
                break


@settings(max_examples=settings().max_examples, deadline=None)
@given(
    words=WORDS,
    lang=st.sampled_from(["en", "es", "fr", "tr"]),
    case=st.sampled_from(["auto", "sentence", "any", "listed"]),
    max_tokens=st.integers(1, 12),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_every_walk_within_a_budget_ends_in_a_whole_text(
    words: list[str], lang: str, case: Case, max_tokens: int, seed: int, data: st.DataObject
) -> None:
    n_words = data.draw(st.integers(1, len(words)))
    options = ListOptions(case=case, punctuation="full")
    states, facts = toy_states(words, PIECES, n_words=n_words, lang=lang, options=options)
    fewest = states.fewest_tokens()
    if fewest is None or fewest > max_tokens:
        return
    judge = recogniser.recogniser(tuple(words), n_words, lang, case, "prose")
    matcher = matcher_of(states, max_tokens)
    walk, text = random.Random(seed), b""
    for _ in range(max_tokens):
        allowed = allowed_tokens(matcher, len(facts))
        assert allowed
        token = walk.choice(sorted(allowed))
        assert matcher.accept_token(token)
        if matcher.is_terminated:
            break
        text += facts.token_bytes[token]
    assert judge.is_text(text.decode())


def test_a_frame_that_leads_nowhere_for_these_words_is_not_entered() -> None:
    states, facts = toy_states(["l'", "un"], n_words=1, lang="fr")
    assert states.fewest_tokens() is None
    longer, _ = toy_states(["l'", "un"], lang="fr")
    matcher = matcher_of(longer)
    assert matcher.accept_token(facts.token_bytes.index(b"l"))
    assert STOP not in allowed_tokens(matcher, len(facts))
