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


def test_a_text_does_not_end_before_its_least_tokens() -> None:
    matcher = Matcher(STATES, [STOP], min_tokens=2)
    assert matcher.accept_token(token(b"sol"))
    assert STOP not in allowed_tokens(matcher, len(TOKENIZER))
    assert not matcher.accept_token(STOP)
    assert matcher.num_tokens == 1
    assert matcher.accept_token(token(b"."))
    assert STOP in allowed_tokens(matcher, len(TOKENIZER))
    matcher.rollback(1)
    assert STOP not in allowed_tokens(matcher, len(TOKENIZER))
    assert matcher.accept_token(token(b"."))
    assert matcher.accept_token(STOP)


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


def test_a_reference_says_how_few_tokens_a_text_has() -> None:
    matcher = Matcher.of(GrammarReference("0" * 64, FULL, 2, min_tokens=2), STATES, [STOP])
    assert matcher.accept_token(token(b"sol"))
    assert STOP not in allowed_tokens(matcher, len(TOKENIZER))
    assert matcher.accept_token(token(b" mar"))
    assert STOP in allowed_tokens(matcher, len(TOKENIZER))


def test_a_text_that_goes_on_repeats_no_run_of_what_came_before() -> None:
    reference = GrammarReference("0" * 64, FULL, 2, no_repeat=2, seen=(token(b"sol"), token(b" mar")))
    matcher = Matcher.of(reference, STATES, [STOP])
    assert token(b" mar") in allowed_tokens(matcher, len(TOKENIZER))
    assert matcher.accept_token(token(b"sol"))
    assert token(b" mar") not in allowed_tokens(matcher, len(TOKENIZER))
    matcher.rollback(1)
    assert token(b" mar") in allowed_tokens(matcher, len(TOKENIZER))
    for piece in (b"sol", b".", b" mar", b" ", b"sol"):
        assert matcher.accept_token(token(piece))
    assert not {token(b"."), token(b" mar")} & allowed_tokens(matcher, len(TOKENIZER))


def test_a_text_goes_on_behind_what_another_wrote() -> None:
    states, tokenizer = toy_states(["sol", "mar"], ["sol", " mar", "ma"], has_places=True)
    gaps = build_gap_automaton(FULL, "es")
    for before, bare, behind_blank in (("Ana", False, True), ("Ana ", True, False), ("Ana.\n", True, False)):
        reference = GrammarReference("0" * 64, FULL, 2, place=place_after(before, gaps, "es"))
        allowed = allowed_tokens(Matcher.of(reference, states, [STOP]), len(tokenizer))
        assert (tokenizer.token_bytes.index(b"sol") in allowed, tokenizer.token_bytes.index(b" mar") in allowed) == (
            bare,
            behind_blank,
        )


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


@pytest.mark.parametrize("punctuation", ["standard", "full", "basic"])
@pytest.mark.parametrize("end", ["word", "sentence"])
def test_what_is_written_behind_another_text_is_what_can_be_read_there(punctuation: Punctuation, end: End) -> None:
    options = ListOptions(punctuation=punctuation, end=end, case="sentence")
    pieces = [
        "the",
        " the",
        "The",
        " The",
        " dog",
        "dog",
        '."',
        ' "',
        ", ",
        " Mr",
        "Mr",
        " in",
        " front",
        " of",
        "\n\n",
    ]
    states, tokenizer = toy_states(WORDS, pieces, lang="en", options=options, has_places=True)
    reader = TextReader(WordList("en", WORDS, "file"), options, len(WORDS))
    num_capitals = 0
    for seed, before in enumerate(PREFILLS * 8):
        drawn = random.Random(seed)
        following = reader.after(before)
        reference = GrammarReference(
            "0" * 64, options, len(WORDS), 12, place=following.place, min_tokens=drawn.randint(0, 6)
        )
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
    states, tokenizer = toy_states(
        words, ["ami", " ami", " chien", "chien"], lang="fr", options=options, has_places=True
    )
    following = TextReader(WordList("fr", words, "file"), options, len(words)).after("Voici qu'")
    matcher = Matcher.of(GrammarReference("0" * 64, options, 4, place=following.place), states, [STOP])
    pieces = {tokenizer.token_bytes[chosen] for chosen in allowed_tokens(matcher, len(tokenizer))}
    assert b"ami" in pieces
    assert not {b" ami", b"chien", b" ", b"l"} & pieces
    assert following.is_text("ami")


def test_a_place_that_a_list_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="begins at place 0"):
        Matcher.of(GrammarReference("0" * 64, FULL, 2, place=0), STATES, [STOP])


def test_a_budget_that_no_text_fits_is_refused() -> None:
    with pytest.raises(TokenBudgetError, match="fits into 0 tokens"):
        matcher_of(STATES, max_tokens=0)
