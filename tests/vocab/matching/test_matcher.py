import pytest

from tests.vocab.toys import STOP, allowed_tokens, matcher_of, toy_states
from vocab.errors import TokenBudgetError
from vocab.matching.states import ListStates

STATES, TOKENIZER = toy_states(["sol", "mar"], ["sol", " mar", "ma"])
ONE = ListStates(STATES.words, STATES.frame, 1)


def token(text: bytes) -> int:
    return TOKENIZER.token_bytes.index(text)


def test_accepts_listed_words_and_stops_where_the_text_is_complete() -> None:
    matcher = matcher_of(STATES)
    assert not matcher.accept_token(STOP)
    assert matcher.accept_token(token(b"sol"))
    assert matcher.accept_token(token(b" mar"))
    assert matcher.accept_token(STOP)
    assert matcher.is_terminated
    assert not matcher.accept_token(token(b"."))


def test_a_token_that_may_not_come_changes_nothing() -> None:
    matcher = matcher_of(ONE)
    assert not matcher.accept_token(token(b" mar"))
    assert not matcher.accept_token(token(b"m"))
    assert matcher.num_tokens == 0


def test_a_rollback_goes_back_over_words_and_the_stop_token() -> None:
    matcher = matcher_of(STATES)
    states = [matcher.state]
    for piece in (b"sol", b" mar"):
        assert matcher.accept_token(token(piece))
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


def test_a_reset_goes_back_to_the_start() -> None:
    matcher = matcher_of(STATES)
    assert matcher.accept_token(token(b"sol"))
    matcher.reset()
    assert matcher.num_tokens == 0


def test_the_last_token_of_a_budget_completes_a_word() -> None:
    matcher = matcher_of(STATES, max_tokens=2)
    assert not matcher.accept_token(token(b"s"))
    assert matcher.accept_token(token(b"ma"))
    assert {TOKENIZER.token_bytes[t] for t in allowed_tokens(matcher, len(TOKENIZER))} == {b"r"}
    assert matcher.accept_token(token(b"r"))
    assert matcher.can_stop()


def test_past_its_budget_a_matcher_still_answers() -> None:
    matcher = matcher_of(STATES, max_tokens=1)
    assert matcher.accept_token(token(b"sol"))
    assert STOP in allowed_tokens(matcher, len(TOKENIZER))


def test_a_budget_that_no_text_fits_is_refused() -> None:
    with pytest.raises(TokenBudgetError, match="fits into 0 tokens"):
        matcher_of(STATES, max_tokens=0)
