"""Texts drawn at random from the masks, read again as strings: they keep to what the author asked."""

import random
import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from tests.vocab.toys import STOP, allowed_tokens, tokens_of, toy_states
from vocab.matching.controlled import ControlledStates
from vocab.matching.controls import REST_WORDS, UNLIMITED, Controls, NewWords, RequiredWord
from vocab.matching.list_kinds import control
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.changes import ListChanges

_LISTED = "the a dog cat runs sees big old house tree and Mr. river elephant electric doghouse zebra zoo far"
WORDS = _LISTED.split()
RANK = {word: rank for rank, word in enumerate(WORDS, start=1)}
PIECES = [f" {word}" for word in WORDS[:12] if word != "old"]
PIECES += ["the", "The", " ele", "phant", "ctric", "'s", ". ", ", "]
SENTENCES = ListOptions(punctuation="standard", end="sentence")
N = 11
CHANGES = ListChanges(("Ana", "kite"), ("cat",))
STATES, TOKENIZER = toy_states(WORDS, PIECES, n_words=N, lang="en", options=SENTENCES, changes=CHANGES)
WITHOUT_DASHES = toy_states(
    WORDS, PIECES, n_words=N, lang="en", options=ListOptions(punctuation="basic", end="sentence"), changes=CHANGES
)[0]
"""A sentence that has ended does not go on, as it may behind a dash."""
MOST_TOKENS = 400
"""Of a text without a budget."""


def text_of(tokens: list[int]) -> str:
    return b"".join(TOKENIZER.token_bytes[token] for token in tokens).decode()


def mask(states: ListStates | ControlledStates, state: tuple[int, ...], budget: int = NO_BUDGET) -> set[int]:
    row = np.zeros((len(TOKENIZER) + 31) // 32, dtype=np.int32)
    states.fill(row, state, budget, np.asarray([STOP], dtype=np.int32))
    return tokens_of(row)


def drawn(
    controls: Controls, max_tokens: int | None, seed: int, *, stop: float = 0.2, of: ListStates = STATES
) -> tuple[str, Matcher]:
    """A text drawn from the masks, and its matcher; it stops with a chance of ``stop`` where it may."""
    chance = random.Random(seed)
    matcher = Matcher(control(of, controls), [STOP], max_tokens)
    row, tokens = np.zeros((len(TOKENIZER) + 31) // 32, dtype=np.int32), list[int]()
    while len(tokens) < (MOST_TOKENS if max_tokens is None else max_tokens):
        matcher.fill_bitmask(row)
        allowed = sorted(tokens_of(row))
        assert allowed
        if allowed == [STOP] or (STOP in allowed and chance.random() < stop):
            assert matcher.accept_token(STOP)
            break
        # Words rather than marks.
        letters = [one for one in allowed if one != STOP and TOKENIZER.token_bytes[one].strip().isalpha()]
        others = [one for one in allowed if one != STOP]
        tokens.append(chance.choice(letters if letters and chance.random() < 0.8 else others))
        assert matcher.accept_token(tokens[-1])
    assert matcher.can_stop()
    return text_of(tokens), matcher


def draws(
    num: int, controls: Controls, max_tokens: int | None, *, stop: float = 0.2, of: ListStates = STATES
) -> Iterator[tuple[str, Matcher]]:
    for seed in range(num):
        yield drawn(controls, max_tokens, seed, stop=stop, of=of)


def controlled_of(matcher: Matcher) -> ControlledStates:
    states = matcher.states
    assert isinstance(states, ControlledStates)
    return states


def words_of(text: str) -> list[str]:
    found = re.findall(r"Mr\.|[A-Za-z]+", re.sub(r"['’]s\b", "", text))
    return [word if word in RANK else word.lower() for word in found]


def sentences_of(text: str) -> list[str]:
    """A sentence ends with a mark that a blank follows, unless a dash goes on, or with a line."""
    ends = re.sub(r"Mr\.", "Mr", text)
    return [part for part in re.split(r"[.!?…][^\w\s]* (?![-–—])|\n", ends) if re.search("[A-Za-z]", part)]


def new_words_of(text: str) -> list[tuple[int, str]]:
    """The places of words beyond N where they come first."""
    found: dict[str, int] = {}
    for place, word in enumerate(words_of(text)):
        if RANK.get(word, 0) > N:
            found.setdefault(word, place)
    return [(place, word) for word, place in found.items()]


CHOICES = [
    Controls(),
    Controls(new_words=NewWords(19, 5)),
    Controls(new_words=NewWords(15, 1, 2)),
    Controls(must_use=(RequiredWord((RANK["old"],)), RequiredWord((RANK["house"],), 2)), num_tokens=60),
    Controls(max_sentence_words=3),
    Controls(max_sentence_words=2, min_sentences=3, max_sentences=4, new_words=NewWords(19, 3)),
    Controls(NewWords(19, 4, 3), (RequiredWord((RANK["tree"],)),), 4, 2, 3, 60),
]


@pytest.mark.parametrize("controls", CHOICES, ids=str)
def test_a_mask_has_exactly_the_tokens_that_lead_somewhere(controls: Controls) -> None:
    states, chance = control(STATES, controls), random.Random(7)
    for budget in (NO_BUDGET, 30, 12, 6):
        state, left = states.start, budget
        for _ in range(25):
            allowed = mask(states, state, left) - {STOP}
            assert allowed == {token for token in range(1, len(TOKENIZER)) if states.target(state, token, left)}
            if not allowed or left == 0:
                break
            state = states.target(state, chance.choice(sorted(allowed)), left)
            states.check(state)
            left = left if left == NO_BUDGET else left - 1


def test_without_wishes_the_masks_are_those_of_the_list() -> None:
    states, chance = control(STATES, Controls()), random.Random(3)
    controlled, plain = states.start, STATES.start
    for _ in range(60):
        allowed = mask(STATES, plain)
        assert mask(states, controlled) == allowed
        token = chance.choice(sorted(allowed - {STOP}))
        controlled, plain = states.target(controlled, token, NO_BUDGET), STATES.target(plain, token, NO_BUDGET)


@pytest.mark.parametrize("spacing", [1, 3, 8])
def test_new_words_come_no_closer_than_asked(spacing: int) -> None:
    counts = []
    for text, _ in draws(60, Controls(new_words=NewWords(19, spacing)), 120, stop=0.02):
        places = [place for place, _ in new_words_of(text)]
        assert all(after - before >= spacing for before, after in pairwise(places)), text
        counts.append(len(places))
    assert max(counts) >= 3


def test_a_new_word_that_is_due_may_follow_a_blank_near_the_end_of_the_budget() -> None:
    states, facts = toy_states(["bbbbbb", "a", "c"], [" bb"], n_words=1)
    # After "a" the listed word is too long, and only a new one follows the blank.
    matcher = Matcher(control(states, Controls(NewWords(3, 1))), [STOP], 6)
    for byte in b"a c":
        token = facts.token_bytes.index(bytes([byte]))
        assert token in allowed_tokens(matcher, len(facts))
        assert matcher.accept_token(token)
    assert matcher.can_stop()


def test_no_more_new_words_come_than_asked_but_those_come_again() -> None:
    again = 0
    for text, _ in draws(60, Controls(new_words=NewWords(19, 2, 2)), 150, stop=0.01):
        new = [word for word in words_of(text) if RANK.get(word, 0) > N]
        assert len(set(new)) <= 2, text
        again += len(new) > len(set(new))
    assert again > 5


def test_new_words_are_among_the_first_words_that_were_named() -> None:
    seen = set()
    for text, _ in draws(80, Controls(new_words=NewWords(14, 1)), 80, stop=0.01):
        seen |= {word for _, word in new_words_of(text)}
    assert seen and max(RANK[word] for word in seen) <= 14


def test_the_counts_are_those_of_the_text() -> None:
    controls = Controls(new_words=NewWords(19, 4), must_use=(RequiredWord((RANK["dog"],)),), num_tokens=80)
    for text, matcher in draws(60, controls, 80, stop=0.1):
        found = controlled_of(matcher).progress(matcher.state)
        assert [RANK[word] for _, word in new_words_of(text)] == list(found.introduced), text
        assert found.used == (words_of(text).count("dog"),), text
        assert found.num_sentences == len(sentences_of(text)), text


def test_required_words_come_within_the_budget() -> None:
    controls = Controls(
        must_use=(RequiredWord((RANK["old"], RANK["Mr."] - 1)), RequiredWord((RANK["house"],), 2), RequiredWord((-2,))),
        num_tokens=60,
    )
    for text, matcher in draws(60, controls, 60, stop=0.9):
        words = words_of(text)
        assert {"old", "and"} & set(words), text
        assert words.count("house") >= 2 and "kite" in words, text
        assert controlled_of(matcher).num_missing(matcher.state) == 0


def test_required_words_come_before_the_last_sentence_ends() -> None:
    controls = Controls(must_use=(RequiredWord((RANK["dog"],)),), max_sentence_words=8, max_sentences=2, num_tokens=40)
    for text, _ in draws(60, controls, 40, stop=0.1):
        assert "dog" in words_of(text), text
        lengths = [len(words_of(sentence)) for sentence in sentences_of(text)]
        assert len(lengths) <= 2 and max(lengths) <= 8, text


@pytest.mark.parametrize("states", [STATES, WITHOUT_DASHES], ids=["standard", "basic"])
@pytest.mark.parametrize("max_tokens", [None, 400], ids=["without a budget", "with a long one"])
@pytest.mark.parametrize("num_sentences", [1, 2])
def test_required_words_come_within_the_sentences_that_a_text_may_have(
    num_sentences: int, max_tokens: int | None, states: ListStates
) -> None:
    """No budget asks for them before the last sentence could end."""
    controls = Controls(
        must_use=(RequiredWord((RANK["dog"],)), RequiredWord((RANK["tree"],), 2)),
        max_sentence_words=6,
        max_sentences=num_sentences,
        num_tokens=max_tokens or UNLIMITED,
    )
    lengths = set()
    for text, matcher in draws(25, controls, max_tokens, stop=0.9, of=states):
        words = words_of(text)
        assert "dog" in words and words.count("tree") >= 2, text
        assert controlled_of(matcher).progress(matcher.state).num_sentences <= num_sentences, text
        assert len(words) <= 6 * num_sentences, text
        lengths.add(len(words))
    assert max(lengths) == 6 * num_sentences


def test_a_text_with_too_few_tokens_for_its_required_words_still_ends() -> None:
    controls = Controls(must_use=tuple(RequiredWord((rank,), 3) for rank in (9, 10)), num_tokens=12)
    for text, _ in draws(30, controls, 12):
        assert text.rstrip('"')[-1] in ".!?…", text


@pytest.mark.parametrize(
    ("others", "comes"), [(["b"], False), (["b", "a"], True)], ids=["nothing follows", "a follows"]
)
def test_a_required_elision_comes_where_a_word_may_follow_it(others: list[str], comes: bool) -> None:
    states, facts = toy_states(["l'", *others], lang="fr")
    controls = Controls(must_use=(RequiredWord((1,)),), num_tokens=12)
    for seed in range(20):
        chance, matcher, tokens = random.Random(seed), Matcher(control(states, controls), [STOP], 12), [-1]
        while len(tokens) <= 12 and tokens[-1] != STOP:
            tokens.append(chance.choice(sorted(allowed_tokens(matcher, len(facts)))))
            assert matcher.accept_token(tokens[-1])
        text = b"".join(facts.token_bytes[token] for token in tokens[1:] if token != STOP)
        assert matcher.can_stop() and (b"l" in text.lower()) is comes


def test_sentences_have_no_more_words_than_asked() -> None:
    longest = 0
    for text, _ in draws(60, Controls(max_sentence_words=3), 60, stop=0.05):
        lengths = [len(words_of(sentence)) for sentence in sentences_of(text)]
        assert max(lengths) <= 3, text
        longest = max(longest, *lengths)
    assert longest == 3


def test_a_text_has_as_many_sentences_as_asked() -> None:
    counts = set()
    for text, _ in draws(60, Controls(min_sentences=2, max_sentences=4, max_sentence_words=5), 200, stop=0.5):
        counts.add(len(sentences_of(text)))
    assert counts == {2, 3, 4}


def test_a_text_that_goes_on_elsewhere_keeps_its_counts() -> None:
    controls = CHOICES[-1]
    text, matcher = drawn(controls, 60, 11, stop=0)
    states = control(STATES, controls)
    states.check(matcher.state)
    assert states.progress(matcher.state).num_sentences == len(sentences_of(text))


@pytest.mark.parametrize("state", [(9, 0, 0, 0, -1), (3, 0, 0, -1), (4, -1, 0, 0, -1), (4, 0, 0, 0, 2**40)])
def test_a_state_that_is_none_is_an_error(state: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no"):
        control(STATES, Controls(max_sentences=3)).check(state)


@pytest.mark.parametrize(("per_100", "spacing"), [(2, 50), (3, 34), (100, 1), (0.5, 200), (50, 2)])
def test_new_words_per_hundred_are_a_spacing(per_100: float, spacing: int) -> None:
    assert NewWords.spacing_of(per_100) == spacing


def test_a_required_word_rests_when_it_came() -> None:
    controls = Controls(must_use=(RequiredWord((RANK["dog"],)), RequiredWord((RANK["house"],), 2)), num_tokens=150)
    again = 0
    for text, _ in draws(40, controls, 150, stop=0):
        places = {name: [at for at, word in enumerate(words_of(text)) if word == name] for name in ("dog", "house")}
        rests = [*pairwise(places["dog"]), *pairwise(places["house"][1:])]
        assert all(after - before > REST_WORDS for before, after in rests), text
        again += len(rests) > 0
    assert again > 10
