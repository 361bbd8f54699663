"""Answers drawn from the masks, with logprobs of tokens that they allow and of others: which of them stay.

Under an author's controls, near the end of a budget, a mask has what no text without a budget may have.
"""

import math
import random

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput

from deployments.search.tokens import Constraint, ListedLogprobs
from tests.choices import Choice
from tests.random_lists import RandomList, random_lists
from tests.vocab.automaton.test_random_lists import accepted
from tests.vocab.toys import STOP, allowed_tokens, toy_states
from vocab.errors import EmptyWordListError, OptionsError
from vocab.matching.controls import UNLIMITED, Controls, NewWords, RequiredWord
from vocab.matching.list_kinds import control
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.changes import ListChanges

NUM_ALTERNATIVES = 20
LISTED = ListOptions(punctuation="standard", end="sentence")


def constraint_of(states: ListStates, controls: Controls, max_tokens: int) -> Constraint:
    reference = GrammarReference("0" * 64, LISTED, states.n_words, max_tokens, controls=controls or None)
    return Constraint(reference, control(states, controls) if controls else states)


def random_states(source: RandomList, chance: random.Random) -> tuple[ListStates, int] | None:
    """The states of a list, up to two of its words only added, and how many tokens there are."""
    words = accepted(source.entries)
    changes = ListChanges(words[: chance.randint(0, 2)])
    listed = words[len(changes.extra_words) :]
    if not listed:
        return None
    try:
        changes.check(source.lang)
        pieces = [piece.decode(errors="ignore") for piece in source.pieces(words)]
        states, facts = toy_states(
            listed,
            filter(None, pieces),
            n_words=max(1, len(listed) - source.num_beyond),
            lang=source.lang,
            options=ListOptions(**source.choice),
            changes=changes,
        )
    except (EmptyWordListError, OptionsError):
        return None
    return (states, len(facts)) if states.fewest_tokens() is not None else None


def random_controls(states: ListStates, chance: random.Random, max_tokens: int, *, has_sentences: bool) -> Controls:
    ranks = chance.sample(range(-2, states.n_words + 1), chance.randint(0, 3))
    new_words = NewWords(states.n_words + chance.randint(1, 4), chance.choice([1, 3, 8]), chance.choice([1, UNLIMITED]))
    return Controls(
        new_words if chance.random() < 0.4 else None,
        tuple(RequiredWord((rank,), chance.randint(1, 2)) for rank in ranks if rank),
        chance.choice([UNLIMITED, 2, 3]) if has_sentences else UNLIMITED,
        chance.choice([0, 1, 3]) if has_sentences else 0,
        chance.choice([UNLIMITED, 3, 1]) if has_sentences else UNLIMITED,
        max_tokens,
    )


def drawn(
    matcher: Matcher, num_tokens: int, max_tokens: int, chance: random.Random
) -> tuple[list[int], list[set[int]]]:
    """A text drawn from the masks, and the mask of each of its tokens; it ends within its budget."""
    tokens, masks = list[int](), list[set[int]]()
    while len(tokens) < max_tokens and STOP not in tokens:
        masks.append(allowed_tokens(matcher, num_tokens))
        others = sorted(masks[-1] - {STOP})
        tokens.append(chance.choice(others) if others and not (STOP in masks[-1] and chance.random() < 0.1) else STOP)
        assert tokens[-1] in masks[-1], "a mask that has nothing"
        assert matcher.accept_token(tokens[-1])
    assert matcher.can_stop()
    return tokens, masks


def answer(tokens: list[int], masks: list[set[int]], num_tokens: int, chance: random.Random) -> list[CompletionOutput]:
    """One output for each token, with alternatives of which only some may come."""
    parts = []
    for token, mask in zip(tokens, masks, strict=True):
        others = {*chance.sample(range(num_tokens), NUM_ALTERNATIVES // 2)}
        others |= {*chance.sample(sorted(mask), min(len(mask), NUM_ALTERNATIVES // 2))}
        entries = {other: Logprob(chance.choice([-1.0, -9.0, -math.inf])) for other in sorted(others)}
        parts.append(CompletionOutput(0, "", [token], None, [{token: Logprob(-2.0), **entries}]))
    return parts


def joined(parts: list[CompletionOutput]) -> CompletionOutput:
    logprobs = [entry for part in parts for entry in part.logprobs or ()]
    return CompletionOutput(0, "", [token for part in parts for token in part.token_ids], None, logprobs)


def assert_exactly_the_masks_stay(constraint: Constraint, num_tokens: int, seed: int, *, is_delta: bool) -> None:
    chance, max_tokens = random.Random(seed), constraint.reference.max_tokens
    assert max_tokens is not None
    engine = Matcher.of(constraint.reference, constraint.states, [STOP])
    tokens, masks = drawn(engine, num_tokens, max_tokens, chance)
    listed = ListedLogprobs(constraint, [STOP], (), is_delta=is_delta)
    parts = answer(tokens, masks, num_tokens, chance)
    parts = parts if is_delta else [joined(parts)]
    named = [dict(entry) for part in parts for entry in part.logprobs or ()]
    for part in parts:
        listed.keep_listed(part)
    kept = [set(entry) for part in parts for entry in part.logprobs or ()]
    for token, mask, entries, left in zip(tokens, masks, named, kept, strict=True):
        finite = {other for other, entry in entries.items() if entry.logprob != -math.inf}
        assert left == {token} | finite & mask


FRENCH: Choice = {
    "case": "auto",
    "layout": "prose",
    "numbers": False,
    "punctuation": "standard",
    "end": "word",
    "possessive": True,
}
ADDED_ELISION = RandomList("fr", FRENCH, share=0, num_beyond=1, seed=0, entries=("l'", "b|", "l", "A"))
"""An elision that may be followed within an entry with marks alone is required, and added."""


@example(ADDED_ELISION, 5, False)
@given(random_lists(), st.integers(0, 2**32), st.booleans())
@settings(suppress_health_check=list(HealthCheck))
def test_what_stays_is_what_the_engine_could_have_drawn(source: RandomList, seed: int, is_delta: bool) -> None:
    chance = random.Random(seed)
    world = random_states(source, chance)
    if world is None:
        return
    states, num_tokens = world
    max_tokens = (states.fewest_tokens() or 0) + chance.choice([0, 3, 10, 30])
    controls = random_controls(states, chance, max_tokens, has_sentences=source.choice["end"] == "sentence")
    assert_exactly_the_masks_stay(constraint_of(states, controls, max_tokens), num_tokens, seed, is_delta=is_delta)


def test_odd_required_words_that_are_forced_are_followed() -> None:
    words = ["le", "de", "un", "à", "être", "et", "en", "avoir", "que", "pour", "l'"]
    states, facts = toy_states(
        words, [" le", " de", "être"], lang="fr", options=LISTED, changes=ListChanges(("ñ", "e\u0301", ". a"))
    )
    must_use = tuple(RequiredWord((rank,)) for rank in (-1, -2, -3))
    for seed in range(20):
        controls = Controls(must_use=must_use, max_sentence_words=3, num_tokens=30)
        assert_exactly_the_masks_stay(constraint_of(states, controls, 30), len(facts), seed, is_delta=seed % 2 == 0)


def test_behind_a_token_that_a_mask_let_through_only_the_answers_own_tokens_stay() -> None:
    states, facts = toy_states(["a", "b"], options=LISTED)
    spelled = {piece: token for token, piece in enumerate(facts.token_bytes)}
    unlisted, listed = spelled[b"z"], spelled[b"a"]
    for controls in (Controls(), Controls(must_use=(RequiredWord((2,)),), num_tokens=9)):
        tokens = [listed, unlisted, listed, listed]
        logprobs = [{token: Logprob(-1.0), listed: Logprob(-2.0), unlisted: Logprob(-3.0)} for token in tokens]
        output = CompletionOutput(0, "", tokens, None, logprobs)
        ListedLogprobs(constraint_of(states, controls, 9), [STOP], (), is_delta=False).keep_listed(output)
        assert output.logprobs is not None
        assert [set(entry) for entry in output.logprobs] == [{listed}, {unlisted}, {listed}, {listed}]


def test_tokens_that_were_asked_for_by_number_stay_and_those_beyond_the_tokenizer_do_not() -> None:
    states, facts = toy_states(["a", "b"], options=LISTED)
    listed = facts.token_bytes.index(b"a")
    forbidden, beyond = facts.token_bytes.index(b"z"), 32 * len(facts)
    entries = {token: Logprob(-1.0) for token in (listed, forbidden, beyond)}
    output = CompletionOutput(0, "", [listed], None, [entries])
    ListedLogprobs(constraint_of(states, Controls(), 9), [STOP], [forbidden], is_delta=False).keep_listed(output)
    assert output.logprobs is not None and set(output.logprobs[0]) == {listed, forbidden}


def test_without_a_list_that_is_followed_only_tokens_without_a_probability_go() -> None:
    entries = {1: Logprob(-1.0), 2: Logprob(-math.inf), 3: Logprob(float(np.float32(-5)))}
    output = CompletionOutput(0, "", [1], None, [entries])
    ListedLogprobs(None, [STOP], (), is_delta=True).keep_listed(output)
    assert output.logprobs is not None and set(output.logprobs[0]) == {1, 3}
    silent = CompletionOutput(0, "", [1], None, None)
    ListedLogprobs(None, [STOP], (), is_delta=True).keep_listed(silent)
    assert silent.logprobs is None
