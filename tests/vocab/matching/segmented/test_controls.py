"""What an author asks of texts without spaces: random texts keep to it, and none comes to a dead end."""

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pytest

from tests.vocab.matching.segmented.worlds import World, mask_of, worlds
from tests.vocab.toys import STOP
from vocab.matching.controls import UNLIMITED, Controls, NewWords, RequiredWord
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.matcher import Matcher
from vocab.matching.segmented.controlled import SegmentedControls

ENDS: Final = "。！？…\n"
NUM_STEPS: Final = 24


def sentences(world: World, text: str) -> Iterator[list[str]]:
    """The words of each sentence that has any."""
    found: list[str] = []
    run = ""
    for char in text + ENDS[0]:
        if char not in world.marks | set(ENDS):
            run += char
            continue
        found += world.words_of(run) or ()
        run = ""
        if char in ENDS and found:
            yield found
            found = []


def controlled(randomness: random.Random) -> Iterator[tuple[World, Controls]]:
    for world, of_world in worlds(250, segmentation="longest"):
        new = None
        if world.n_words < len(world.listed) and of_world.random() < 0.7:
            num = of_world.randint(world.n_words + 1, len(world.listed))
            new = NewWords(num, of_world.randint(1, 5), of_world.choice((1, 2, UNLIMITED)))
        has_limits = world.options.end == "sentence"
        yield (
            world,
            Controls(
                new,
                max_sentence_words=of_world.choice((2, 3, UNLIMITED)) if has_limits else UNLIMITED,
                min_sentences=of_world.choice((0, 2)) if has_limits else 0,
                max_sentences=of_world.choice((2, 3, UNLIMITED)) if has_limits else UNLIMITED,
            ),
        )


def assert_keeps_to(world: World, controls: Controls, text: str, *, is_whole: bool) -> None:
    found = list(sentences(world, text))
    assert len(found) <= controls.max_sentences, (world, controls, text)
    if is_whole:
        assert len(found) >= controls.min_sentences, (world, controls, text)
    assert max(map(len, found), default=0) <= controls.max_sentence_words, (world, controls, text)
    words = [word for of_sentence in found for word in of_sentence]
    first = dict[str, int]()
    for place, word in enumerate(words):
        if word not in world.allowed:
            first.setdefault(word, place)
    new = controls.new_words
    if new is None:
        assert not first, (world, text)
        return
    assert len(first) <= new.max_words, (world, controls, text)
    assert all(word in world.listed[: new.n_words] for word in first)
    assert all(after - before >= new.spacing for before, after in pairwise(first.values())), (world, controls, text)


def test_random_texts_keep_to_the_limits_and_come_to_no_dead_end() -> None:
    num_new = 0
    randomness = random.Random(1)
    for world, controls in controlled(randomness):
        spelled = world.facts.token_bytes
        states = SegmentedControls(world.states, controls)
        for _ in range(3):
            state, text = states.start, b""
            for _ in range(NUM_STEPS):
                allowed = sorted(mask_of(states, state, len(spelled)))
                if states.may_stop(state):
                    assert_keeps_to(world, controls, text.decode(), is_whole=True)
                    if not allowed or randomness.random() < 0.1:
                        break
                assert allowed, (world, controls, text)
                longer = [token for token in allowed if len(spelled[token]) > 1]
                token = randomness.choice(longer if longer and randomness.random() < 0.6 else allowed)
                state, text = states.target(state, token, NO_BUDGET), text + spelled[token]
                assert state
            whole = text.decode(errors="ignore")
            # The word at the end may go on, and become another.
            settled = whole[: max(map(whole.rfind, world.marks), default=-1) + 1]
            assert_keeps_to(world, controls, settled, is_whole=False)
            num_new += any(word not in world.allowed for words in sentences(world, settled) for word in words)
    assert num_new


def test_a_mask_of_more_tokens_than_the_tokenizer_has_is_filled_and_followed() -> None:
    for world, controls in controlled(random.Random(3)):
        states, num_words = SegmentedControls(world.states, controls), (len(world.facts.token_bytes) + 31) // 32
        out = np.full(num_words + 2, -1, dtype=np.int32)
        for _ in range(2):
            states.fill(out, states.start, NO_BUDGET)
            assert not out[num_words:].any()
        token = min(mask_of(states, states.start, len(world.facts.token_bytes)))
        assert states.target(states.start, token, NO_BUDGET)


@pytest.mark.parametrize("has_new_words", [False, True])
def test_a_text_of_any_budget_ends_whole_and_without_too_many_new_words(has_new_words: bool) -> None:
    randomness = random.Random(2)
    for world, controls in controlled(randomness):
        if (controls.new_words is not None) != has_new_words:
            continue
        fewest = world.states.fewest_tokens()
        assert fewest is not None
        for max_tokens in range(fewest, fewest + 12, 2):
            states, text = SegmentedControls(world.states, controls), b""
            matcher = Matcher(states, [STOP], max_tokens)
            for left in range(max_tokens - 1, -1, -1):
                allowed = sorted(mask_of(states, matcher.state, len(world.facts.token_bytes), left))
                if states.may_stop(matcher.state) and (not allowed or randomness.random() < 0.1):
                    break
                if not allowed:
                    assert states.can_stop(matcher.state), (world, controls, max_tokens, text)
                    break
                token = randomness.choice(allowed)
                assert matcher.accept_token(token)
                text += world.facts.token_bytes[token]
            assert states.can_stop(matcher.state), (world, controls, max_tokens, text)
            assert_keeps_to(world, Controls(controls.new_words), text.decode(), is_whole=True)


def test_required_words_come_where_there_is_room() -> None:
    randomness = random.Random(3)
    for world, _ in worlds(120, segmentation="longest"):
        spelled, word = world.facts.token_bytes, randomness.choice(world.listed[: world.n_words])
        if word not in world.allowed:
            continue
        # Whether a word comes before the last sentence ends is another matter than whether the budget has room.
        most = randomness.choice((1, 2, UNLIMITED)) if world.options.end == "sentence" else UNLIMITED
        required = RequiredWord((world.listed.index(word) + 1,))
        controls = Controls(must_use=(required,), max_sentences=most, num_tokens=60)
        states, text = SegmentedControls(world.states, controls), b""
        matcher = Matcher(states, [STOP], 60)
        for left in range(59, -1, -1):
            allowed = sorted(mask_of(states, matcher.state, len(spelled), left))
            if not allowed or (states.may_stop(matcher.state) and randomness.random() < 0.3):
                break
            token = randomness.choice(allowed)
            assert matcher.accept_token(token)
            text += spelled[token]
        assert states.can_stop(matcher.state)
        words = [word for of_sentence in sentences(world, text.decode()) for word in of_sentence]
        assert word in words, (world, word, text.decode())
        assert len(list(sentences(world, text.decode()))) <= most
