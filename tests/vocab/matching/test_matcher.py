import random

import pytest

from tests.vocab.toys import FULL, STOP, allowed_tokens, matcher_of, toy_states
from vocab.errors import TokenBudgetError
from vocab.lists.wordlists import WordList
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference
from vocab.matching.states import ListStates
from vocab.options import End, ListOptions, Punctuation
from vocab.text.gaps.automaton import build_gap_automaton, place_after
from vocab.text.reader import TextReader

STATES, TOKENIZER = toy_states(["sol", "mar"], ["sol", " mar", "ma"])
ONE = ListStates(STATES.words, STATES.frame, 1)


def token(text: bytes) -> int:
    return TOKENIZER.token_bytes.index(text)


def pieces(matcher: Matcher) -> set[bytes]:
    return {TOKENIZER.token_bytes[one] for one in allowed_tokens(matcher, len(TOKENIZER))}


def accept(matcher: Matcher, *spelled: bytes) -> None:
    for piece in spelled:
        assert matcher.accept_token(token(piece))


def test_accepts_listed_words_and_stops_where_the_text_is_complete() -> None:
    matcher = matcher_of(STATES)
    assert not matcher.accept_token(STOP)
    accept(matcher, b"sol", b" mar")
    assert matcher.accept_token(STOP)
    assert matcher.is_terminated
    assert not matcher.accept_token(token(b"."))
    other = matcher_of(ONE)
    assert not other.accept_token(token(b" mar"))
    assert not other.accept_token(token(b"m"))
    assert other.num_tokens == 0


def test_a_rollback_goes_back_over_words_and_the_stop_token() -> None:
    matcher = matcher_of(STATES)
    states = [matcher.state]
    for piece in (b"sol", b" mar"):
        accept(matcher, piece)
        states.append(matcher.state)
    assert matcher.accept_token(STOP)
    matcher.rollback(1)
    assert not matcher.is_terminated
    assert matcher.state == states[2]
    matcher.rollback(1)
    assert matcher.state == states[1]
    assert matcher.accept_token(STOP)
    matcher.rollback(2)
    assert matcher.state == states[0]
    matcher.rollback(0)
    with pytest.raises(ValueError, match="cannot take 1 of 0"):
        matcher.rollback(1)
    accept(matcher, b"sol")
    matcher.reset()
    assert matcher.num_tokens == 0


@pytest.mark.fault(33)
def test_the_last_token_of_a_budget_completes_a_word() -> None:
    matcher = matcher_of(STATES, max_tokens=2)
    assert not matcher.accept_token(token(b"s"))
    accept(matcher, b"ma")
    assert pieces(matcher) == {b"r"}
    accept(matcher, b"r")
    assert matcher.can_stop()
    # Past its budget it still answers.
    short = matcher_of(STATES, max_tokens=1)
    accept(short, b"sol")
    assert STOP in allowed_tokens(short, len(TOKENIZER))
    with pytest.raises(TokenBudgetError, match="fits into 0 tokens"):
        matcher_of(STATES, max_tokens=0)


def test_a_text_does_not_end_before_its_least_tokens() -> None:
    least = GrammarReference("0" * 64, FULL, 2, min_tokens=2)
    for matcher, second in (
        (Matcher(STATES, [STOP], min_tokens=2), b"."),
        (Matcher.of(least, STATES, [STOP]), b" mar"),
    ):
        accept(matcher, b"sol")
        assert STOP not in allowed_tokens(matcher, len(TOKENIZER))
        assert not matcher.accept_token(STOP)
        assert matcher.num_tokens == 1
        accept(matcher, second)
        assert STOP in allowed_tokens(matcher, len(TOKENIZER))
        matcher.rollback(1)
        assert STOP not in allowed_tokens(matcher, len(TOKENIZER))
        accept(matcher, second)
        assert matcher.accept_token(STOP)


@pytest.mark.fault(28)
def test_a_mask_always_has_a_token_whatever_its_least_tokens_and_budget() -> None:
    options = ListOptions(punctuation="standard", end="sentence")
    states, tokenizer = toy_states(["mar", "sol"], ["mar", " sol", '."'], options=options, lang="en")
    ended_early = 0
    for seed in range(200):
        drawn = random.Random(seed)
        budget = drawn.randint(4, 9)
        matcher = Matcher(states, [STOP], budget, min_tokens=budget)
        for num_tokens in range(budget):
            allowed = allowed_tokens(matcher, len(tokenizer))
            assert allowed
            assert STOP not in allowed or allowed == {STOP}
            token = drawn.choice(sorted(allowed))
            assert matcher.accept_token(token)
            if token == STOP:
                ended_early += num_tokens < budget
                break
        assert matcher.is_terminated or matcher.can_stop()
    assert ended_early


def test_a_text_that_goes_on_repeats_no_run_of_what_came_before() -> None:
    reference = GrammarReference("0" * 64, FULL, 2, no_repeat=2, seen=(token(b"sol"), token(b" mar")))
    matcher = Matcher.of(reference, STATES, [STOP])
    assert b" mar" in pieces(matcher)
    accept(matcher, b"sol")
    assert b" mar" not in pieces(matcher)
    matcher.rollback(1)
    assert b" mar" in pieces(matcher)
    accept(matcher, b"sol", b".", b" mar", b" ", b"sol")
    assert not {b".", b" mar"} & pieces(matcher)


def test_a_text_goes_on_behind_what_another_wrote() -> None:
    states, _ = toy_states(["sol", "mar"], ["sol", " mar", "ma"], has_places=True)
    gaps = build_gap_automaton(FULL, "es")
    for before, bare, behind_blank in (("Ana", False, True), ("Ana ", True, False), ("Ana.\n", True, False)):
        reference = GrammarReference("0" * 64, FULL, 2, place=place_after(before, gaps, "es"))
        allowed = pieces(Matcher.of(reference, states, [STOP]))
        assert (b"sol" in allowed, b" mar" in allowed) == (bare, behind_blank)
    with pytest.raises(ValueError, match="begins at place 0"):
        Matcher.of(GrammarReference("0" * 64, FULL, 2, place=0), STATES, [STOP])


WORDS = ("the", "dog", "Mr.", "in front of", "don't")
PREFILLS = [
    "",
    "Zoe",
    "Zoe ",
    'Zoe said, "',
    "Zoe (as Mr.",
    "Zoe.\n",
    "Zoe! ",
    "1. ",
    "Zoe –",
    "Zoe — ",
    "Zoe?!",
    "Zoe;",
]
PIECES = ["the", " the", "The", " The", " dog", "dog", '."', ' "', ", ", " Mr", "Mr", " in", " front", " of", "\n\n"]


@pytest.mark.parametrize("punctuation", ["standard", "full", "basic"])
@pytest.mark.parametrize("end", ["word", "sentence"])
def test_what_is_written_behind_another_text_is_what_can_be_read_there(punctuation: Punctuation, end: End) -> None:
    options = ListOptions(punctuation=punctuation, end=end, case="sentence")
    states, tokenizer = toy_states(WORDS, PIECES, lang="en", options=options, has_places=True)
    reader = TextReader(WordList("en", WORDS, "file"), options, len(WORDS))
    num_capitals = 0
    for seed, before in enumerate(PREFILLS * 8):
        drawn = random.Random(seed)
        following = reader.after(before)
        least = drawn.randint(0, 6)
        reference = GrammarReference("0" * 64, options, len(WORDS), 12, place=following.place, min_tokens=least)
        matcher, spelled = Matcher.of(reference, states, [STOP]), b""
        for _ in range(12):
            chosen = drawn.choice(sorted(allowed_tokens(matcher, len(tokenizer))))
            assert matcher.accept_token(chosen)
            if chosen == STOP:
                break
            spelled += tokenizer.token_bytes[chosen]
        text = spelled.decode()
        assert following.is_text(text) or not text, (before, text)
        assert not text or following.whole_prefix_length(text) == len(text)
        assert following.follow().add(text)
        num_capitals += "The" in text
    assert num_capitals


def test_an_elision_that_another_wrote_is_joined_by_the_next_word() -> None:
    words, options = ("ami", "chien", "l'", "est"), ListOptions(case="listed")
    spelled = ["ami", " ami", " chien", "chien"]
    states, tokenizer = toy_states(words, spelled, lang="fr", options=options, has_places=True)
    following = TextReader(WordList("fr", words, "file"), options, len(words)).after("Voici qu'")
    matcher = Matcher.of(GrammarReference("0" * 64, options, 4, place=following.place), states, [STOP])
    allowed = {tokenizer.token_bytes[chosen] for chosen in allowed_tokens(matcher, len(tokenizer))}
    assert b"ami" in allowed
    assert not {b" ami", b"chien", b" ", b"l"} & allowed
    assert following.is_text("ami")


def test_a_text_just_fits_into_what_thinking_leaves_of_a_budget() -> None:
    matcher = matcher_of(STATES, max_tokens=3)
    assert b"ma" in pieces(matcher)
    matcher.begin_after(2)
    assert b"sol" in pieces(matcher) and b"ma" not in pieces(matcher)
