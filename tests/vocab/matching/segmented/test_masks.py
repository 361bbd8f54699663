"""The masks of texts without spaces are those of a slow reference, in every state that random texts reach."""

import random
from typing import Final

import pytest

from tests.vocab.matching.segmented.worlds import World, mask_of, random_world, worlds
from tests.vocab.toys import STOP, toy_speller, toy_tokenizer
from vocab.automaton.dictionary_trie import ReferenceWords, build_segmented
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import TokenBudgetError
from vocab.lists.wordlists import WordList
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.matcher import Matcher
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.segmented.text import SegmentedText
from vocab.options import ListOptions, Segmentation

NUM_STEPS: Final = 8


def likely_token(randomness: random.Random, world: World, allowed: set[int]) -> int:
    """Longer tokens are rare among single bytes."""
    longer = [token for token in allowed if len(world.facts.token_bytes[token]) > 1]
    return randomness.choice(longer if longer and randomness.random() < 0.6 else sorted(allowed))


def assert_masks_are_those_of_the_reference(world: World, randomness: random.Random) -> None:
    states, spelled = world.states, world.facts.token_bytes
    if not world.is_alive(world.start):
        assert states.fewest_tokens() is None
        return
    state, text = states.start, b""
    for _ in range(NUM_STEPS):
        found = mask_of(states, state, len(spelled))
        wanted = {token for token, piece in enumerate(spelled) if token != STOP and world.allows(text + piece)}
        assert found == wanted, (world, text)
        assert states.can_stop(state) == (_is_whole(text) and any(map(world.is_complete, world.places(text))))
        for token in randomness.sample(range(1, len(spelled)), 30):
            assert bool(states.target(state, token, NO_BUDGET)) == (token in wanted), (world, text, spelled[token])
        if not found:
            return
        token = likely_token(randomness, world, found)
        state, text = states.target(state, token, NO_BUDGET), text + spelled[token]
        states.check(state)


def _is_whole(text: bytes) -> bool:
    return text.decode(errors="ignore").encode() == text


@pytest.mark.fault(69)
@pytest.mark.parametrize("first", [0, *(pytest.param(300 * part, marks=pytest.mark.stress) for part in range(1, 20))])
def test_masks_of_random_lists_are_those_of_the_reference(first: int) -> None:
    for seed in range(first, first + 300):
        randomness = random.Random(seed)
        assert_masks_are_those_of_the_reference(random_world(randomness), randomness)


@pytest.mark.fault(69)
@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_no_text_comes_to_a_dead_end_whatever_bytes_its_tokenizer_lacks(lacking: int) -> None:
    for world, randomness in worlds(200, lacking=lacking):
        states, spelled = world.states, world.facts.token_bytes
        for _ in range(3):
            state, text = states.start, b""
            for _ in range(12):
                allowed = mask_of(states, state, len(spelled))
                assert allowed or states.can_stop(state), (world, text)
                if not allowed:
                    break
                token = likely_token(randomness, world, allowed)
                state, text = states.target(state, token, NO_BUDGET), text + spelled[token]
                assert state and world.allows(text), (world, text)


@pytest.mark.parametrize("lacking", [0, 2])
def test_a_text_ends_whole_within_any_budget(lacking: int) -> None:
    for world, randomness in worlds(200, lacking=lacking):
        fewest = world.states.fewest_tokens()
        assert fewest is not None
        with pytest.raises(TokenBudgetError):
            Matcher(world.states, [STOP], fewest - 1)
        for max_tokens in range(fewest, fewest + 8):
            text = written(world, world.states, max_tokens, randomness)
            assert any(map(world.is_complete, world.places(text))), (world, max_tokens, text)


def written(world: World, states: SegmentedStates, max_tokens: int, randomness: random.Random) -> bytes:
    """A text of random tokens, which ends within its budget."""
    matcher, text = Matcher(states, [STOP], max_tokens), b""
    for left in range(max_tokens - 1, -1, -1):
        allowed = sorted(mask_of(states, matcher.state, len(world.facts.token_bytes), left))
        may_stop = states.can_stop(matcher.state)
        if may_stop and (not allowed or randomness.random() < 0.1):
            assert matcher.accept_token(STOP)
            break
        assert allowed, (world, max_tokens, text)
        token = randomness.choice(allowed)
        assert matcher.accept_token(token)
        text += world.facts.token_bytes[token]
    return text


def test_a_rollback_leads_back_to_each_earlier_state() -> None:
    for world, randomness in worlds(100):
        states, num_tokens = world.states, len(world.facts.token_bytes)
        matcher = Matcher(states, [STOP])
        seen = [matcher.state]
        for _ in range(10):
            allowed = sorted(mask_of(states, matcher.state, num_tokens))
            if not allowed or (len(seen) > 1 and randomness.random() < 0.3):
                num = randomness.randint(1, max(len(seen) - 1, 1))
                if len(seen) > num:
                    matcher.rollback(num)
                    del seen[-num:]
            else:
                assert matcher.accept_token(randomness.choice(allowed))
                seen.append(matcher.state)
            assert matcher.state == seen[-1]


def test_the_text_of_a_json_string_begins_with_its_quotation_mark_and_has_no_line_break() -> None:
    for world, randomness in worlds(100):
        spelled = world.facts.token_bytes
        in_json = SegmentedStates(world.text(in_json=True), world.n_words)
        quote = spelled.index(b'"')
        first = mask_of(in_json, in_json.start, len(spelled))
        assert first == {token for token in first if spelled[token].startswith(b'"')} and quote in first
        inside = in_json.target(in_json.start, quote, NO_BUDGET)
        for state, plain in ((inside, world.states.start),):
            for _ in range(6):
                found = mask_of(in_json, state, len(spelled))
                wanted = {t for t in mask_of(world.states, plain, len(spelled)) if b"\n" not in spelled[t]}
                assert found == wanted, world
                if not found:
                    break
                token = randomness.choice(sorted(found))
                state, plain = in_json.target(state, token, NO_BUDGET), world.states.target(plain, token, NO_BUDGET)
                assert in_json.can_stop(state) == world.states.can_stop(plain)


def test_a_listed_word_that_is_a_mark_is_only_a_mark() -> None:
    """The Thai list has the sign of repetition, which follows a word as a mark does."""
    facts = toy_tokenizer("นํามากๆ")
    listed = WordList("th", ("ๆ", "มา", "มากๆ"), "file")
    kinds: tuple[Segmentation, ...] = ("longest", "any")
    for segmentation in kinds:
        options = ListOptions(end="sentence", segmentation=segmentation)
        words = build_segmented(listed, toy_speller(facts), ReferenceWords(("มาก",), ""))
        states = SegmentedStates(SegmentedText(words, None, options, TokenTrie.of(facts)), 3)
        assert states.fewest_tokens() == 2
        spelled = facts.token_bytes
        begin = mask_of(states, states.start, len(spelled))
        assert spelled.index("ม".encode()) in begin and spelled.index("ๆ".encode()) not in begin
        state = states.start
        for char in "มา":
            state = states.target(state, spelled.index(char.encode()), NO_BUDGET)
        assert spelled.index("ๆ".encode()) in mask_of(states, state, len(spelled))
        assert states.can_stop(states.target(state, spelled.index("ๆ".encode()), NO_BUDGET))
        for budget in range(1, 4):
            found = mask_of(states, states.start, len(spelled), budget)
            assert all(states.tokens_to_end(states.target(states.start, token, budget)) is not None for token in found)


def test_no_character_is_spelled_in_more_bytes_than_it_has() -> None:
    overlong = [b"\x80\xa0", b"\x80\xae", b"\x80\x8a"]
    facts = TokenizerFacts.from_token_bytes([b"", *(bytes([byte]) for byte in range(256)), *overlong], [STOP])
    words = build_segmented(WordList("th", ("มา", "ก"), "file"), toy_speller(facts), ReferenceWords((), ""))
    states = SegmentedStates(SegmentedText(words, None, ListOptions(punctuation="full"), TokenTrie.of(facts)), 2)
    state = states.start
    for byte in "มา".encode() + b"\xe0":
        state = states.target(state, facts.token_bytes.index(bytes([byte])), NO_BUDGET)
    for token in map(facts.token_bytes.index, overlong):
        assert token not in mask_of(states, state, len(facts.token_bytes))
        assert not states.target(state, token, NO_BUDGET)
