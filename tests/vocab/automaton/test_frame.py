import random
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import recogniser
from tests.vocab.toys import STOP, allowed_tokens, matcher_of, toy_states, toy_tokenizer
from vocab.automaton.compiled_list import Root
from vocab.automaton.frame import build_frame
from vocab.automaton.frame_tokens import FrameTokens
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import ListTooLargeError
from vocab.options import Case, ListOptions
from vocab.text.gaps.automaton import build_gap_automaton

PLAIN = (Root(), Root(" "))
PIECES = ["é", "É", "ß", "—", "’", " a", " b", ". ", '."', "...", "\n\n", " (", ").", "'s", "’s"]
"""Tokens of marks and of words, and characters of more than one byte, so that a walk need not stop inside one."""
TOKENS = FrameTokens.of(toy_tokenizer(PIECES))

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


@pytest.mark.parametrize(
    ("options", "below"),
    [
        (ListOptions(punctuation="basic"), 60),
        (ListOptions(punctuation="full"), 120),
        (ListOptions(punctuation="full", numbers=True, layout="lines", end="sentence"), 200),
        # States that go on alike share their states inside a character.
        (ListOptions(), 2 * len(build_gap_automaton(ListOptions(), "en").states)),
    ],
)
def test_a_frame_is_small(options: ListOptions, below: int) -> None:
    assert build_frame(options, "any", "en", PLAIN, TOKENS).num_states < below


def num_calls(function: Callable[[], object]) -> int:
    """How many Python functions are called; it is all work that grows with a list's marks."""
    num = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal num
        num += event == "call"

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return num


def test_many_runs_of_marks_take_work_for_each_place_where_words_begin_or_are_refused_early() -> None:
    roots = tuple(Root(lead, "", tail, 0) for tail in map(chr, range(0x2190, 0x2190 + 80)) for lead in ("", " "))
    num_ways = sum(map(len, build_frame(ListOptions(), "any", "es", roots, TOKENS).ways))
    assert num_ways > 20_000
    assert num_calls(lambda: build_frame(ListOptions(), "any", "es", roots, TOKENS)) < 20 * num_ways
    alike = tuple(Root("", "«" * 30 + chr(0x2190 + number), "", 0) for number in range(400))

    def build() -> None:
        with pytest.raises(ListTooLargeError, match="runs of marks"):
            build_frame(ListOptions(), "any", "fr", alike, TOKENS)

    assert num_calls(build) < 500_000


def test_states_have_the_same_numbers_each_time() -> None:
    roots = (*PLAIN, Root("", "", ".", 0), Root("", "(", ")", 1), Root("'"))
    first, second = (build_frame(ListOptions(numbers=True), "sentence", "fr", roots, TOKENS) for _ in range(2))
    assert first.ways == second.ways
    for name in ("tokens", "targets", "after", "modes"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_tokens_without_letters_are_the_frames() -> None:
    own = [*map(str.encode, (".", " ", "1,", "'s", "’s", "s")), "“".encode()[:2]]
    others = map(str.encode, ("a", " a", "s.", "ss", "as", "ñ", " " * 40, ""))
    tokens = FrameTokens.of(TokenizerFacts((*own, *others)))
    assert tokens.ids.tolist() == list(range(len(own)))


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
