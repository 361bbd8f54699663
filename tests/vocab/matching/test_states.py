import numpy as np
import pytest

from tests.vocab.toys import STOP, tokens_of, toy_states
from vocab.arrays.kernels import address_of
from vocab.matching.mask_kernels import NO_BUDGET, set_token_bits
from vocab.matching.states import MAX_READINGS, ListStates
from vocab.matching.text_states import NO_TOKENS, State
from vocab.options import ListOptions
from vocab.text.changes import ListChanges

STATES, TOKENIZER = toy_states(["sol", "mar", "abcd"], ["sol", " sol", " mar"], n_words=2)
STOPS = np.asarray([STOP], dtype=np.int32)


def token(text: bytes) -> int:
    return TOKENIZER.token_bytes.index(text)


def mask(states: ListStates, state: State, budget: int = NO_BUDGET) -> set[int]:
    row = np.full(9, -1, dtype=np.int32)
    states.fill(row, state, budget, STOPS)
    return tokens_of(row)


def after(states: ListStates, *pieces: bytes) -> State:
    state = states.start
    for piece in pieces:
        state = states.target(state, token(piece), NO_BUDGET)
    return state


def test_a_mask_has_exactly_the_tokens_that_lead_somewhere() -> None:
    for state in (STATES.start, after(STATES, b"sol"), after(STATES, b"m"), after(STATES, b"sol", b" ")):
        for budget in (NO_BUDGET, 0, 1, 2, 99):
            leading = {i for i in range(1, len(TOKENIZER)) if STATES.target(state, i, budget)}
            assert mask(STATES, state, budget) - {STOP} == leading


def test_only_the_tokenizers_own_spelling_of_a_word_is_allowed() -> None:
    start = mask(STATES, STATES.start)
    # "sol" and " sol" are tokens; "mar" is spelled by letters, but for the token with the blank.
    assert {token(b"sol"), token(b" sol"), token(b" mar"), token(b"m")} <= start
    assert token(b"s") not in start
    assert not STATES.target(after(STATES, b"sol", b" "), token(b"m"), NO_BUDGET)


def test_stop_tokens_are_in_the_mask_of_complete_texts_only() -> None:
    sol = after(STATES, b"sol")
    assert STATES.can_stop(sol)
    assert STOP in mask(STATES, sol)
    assert not STATES.can_stop(STATES.start)
    assert STOP not in mask(STATES, STATES.start)


@pytest.mark.fault(33)
def test_a_stop_token_that_words_are_spelled_with_is_kept_out_of_words() -> None:
    row, stops = np.zeros(9, dtype=np.int32), np.asarray([token(b"sol")], dtype=np.int32)
    STATES.fill(row, STATES.start, NO_BUDGET, stops)
    assert token(b"sol") not in tokens_of(row)


def test_a_row_may_have_more_bits_than_the_vocabulary_and_not_fewer() -> None:
    stops = np.asarray([9 * 32, 2**31 - 1], dtype=np.int32)
    for state in (STATES.start, after(STATES, b"m"), after(STATES, b"sol")):
        row = np.full(100, -1, dtype=np.int32)
        STATES.fill(row, state, NO_BUDGET, STOPS)
        assert max(tokens_of(row)) < len(TOKENIZER)
        # A stop token without a bit is passed over.
        STATES.fill(short := np.zeros(9, dtype=np.int32), state, NO_BUDGET, stops)
        assert tokens_of(short) == mask(STATES, state) - {STOP}
    with pytest.raises(ValueError, match="fewer bits"):
        STATES.fill(np.zeros(4, dtype=np.int32), STATES.start, NO_BUDGET, STOPS)


def test_n_is_that_of_the_states() -> None:
    assert not STATES.target(STATES.start, token(b"a"), NO_BUDGET)
    for n_words in (3, 10**12):
        assert ListStates(STATES.words, STATES.frame, n_words).target(STATES.start, token(b"a"), NO_BUDGET)


def test_the_shortest_text_has_as_many_tokens_as_its_word() -> None:
    assert STATES.fewest_tokens() == 1
    assert toy_states(["abcd", "b"], n_words=1)[0].fewest_tokens() == 4
    assert toy_states(["abcd"], options=ListOptions(end="sentence"))[0].fewest_tokens() == 5
    assert toy_states(["l'"], lang="fr")[0].fewest_tokens() is None


def test_a_word_goes_on_with_its_own_tokens_and_not_with_another_word() -> None:
    states, facts = toy_states(["ab", "abcd", "in of"], ["ab", " ab", " of"])

    def after(*pieces: bytes) -> tuple[bool, bool]:
        """Whether a text ends in a word, and whether its last token is a further one of that word."""
        before = state = states.start
        for piece in pieces:
            before, last = state, facts.token_bytes.index(piece)
            state = states.target(state, last, NO_BUDGET)
        return states.is_in_word(state), states.continues_word(before, last, state)

    assert after(b"ab") == (True, False)
    assert after(b"ab", b"c") == (True, True)
    assert after(b"ab", b" ab") == (True, False)
    assert after(b"ab", b".") == (False, False)
    assert after(b"ab", b".", b" ab") == (True, False)
    assert after(b"i", b"n", b" of") == (True, True)
    # As does a word of a changed list.
    states, facts = toy_states(["the"], changes=ListChanges(("an",)))
    a, n = (facts.token_bytes.index(piece) for piece in (b"a", b"n"))
    begun = states.target(states.start, a, NO_BUDGET)
    assert states.continues_word(begun, n, states.target(begun, n, NO_BUDGET))


def pieces_of(states: ListStates, token_bytes: tuple[bytes, ...], budget: int = NO_BUDGET) -> set[bytes]:
    """What a text may begin with."""
    row = np.zeros(9, dtype=np.int32)
    states.fill(row, states.start, budget, NO_TOKENS)
    return {token_bytes[i] for i in tokens_of(row)}


def test_a_budget_leaves_only_what_can_be_finished_within_it() -> None:
    states, facts = toy_states(["abc", "q"])
    assert pieces_of(states, facts.token_bytes, 0) == {b"q", b"Q"}
    assert b"a" in pieces_of(states, facts.token_bytes, 2)
    # It bears on masks near its end only.
    states, _ = toy_states(["abcd"])
    assert [states.is_bound_by(budget) for budget in (NO_BUDGET, 0, 3, 10**6)] == [False, True, True, False]


def test_an_added_word_counts_whatever_n_and_has_a_capital_where_a_sentence_starts() -> None:
    states, facts = toy_states(
        ["the", "cat"],
        n_words=1,
        options=ListOptions(case="listed", punctuation="full"),
        changes=ListChanges(("ana",), ("the",)),
    )
    marks = pieces_of(toy_states(["the"])[0], facts.token_bytes) - {b"t", b"T"}
    assert pieces_of(states, facts.token_bytes) == {b"a", b"A", *marks}
    state = states.start
    for byte in b"ana ":
        state = states.target(state, facts.token_bytes.index(bytes([byte])), NO_BUDGET)
    assert states.target(state, facts.token_bytes.index(b"a"), NO_BUDGET)
    assert not states.target(state, facts.token_bytes.index(b"A"), NO_BUDGET)


def test_a_state_of_another_list_is_refused() -> None:
    STATES.check(STATES.start)
    STATES.check(after(STATES, b"m"))
    for reading in (-1 - STATES.frame.num_states, STATES.words.num_nodes, len(STATES.frame.modes) << 32, 2**63):
        with pytest.raises(ValueError, match="no reading"):
            STATES.check((reading,))


def test_more_readings_than_are_kept_forbid_texts_and_allow_none() -> None:
    words = [" ".join("a" * length) + f" {chr(98 + length % 20)}" * (length % 2) for length in range(1, 140)]
    states, facts = toy_states(list(dict.fromkeys(words)))
    state = states.start
    for byte in b"a " * 60:
        state = states.target(state, facts.token_bytes.index(bytes([byte])), NO_BUDGET)
        assert 0 < len(state) <= MAX_READINGS


def test_rows_are_counted_as_they_are_made() -> None:
    states, _ = toy_states(["sol"])
    before = states.num_bytes
    row = np.zeros(9, dtype=np.int32)
    states.fill(row, states.start, NO_BUDGET, NO_TOKENS)
    after = states.num_bytes
    assert after >= before + row.nbytes
    states.fill(row, states.start, NO_BUDGET, NO_TOKENS)
    assert states.num_bytes == after


def test_single_bits_are_set_and_cleared_up_to_the_sign_bit() -> None:
    row = np.zeros(2, dtype=np.int32)
    tokens = np.asarray([STOP, 31, 32, 63], dtype=np.int32)
    set_token_bits(row, tokens, True)
    assert tokens_of(row) == {0, 31, 32, 63}
    set_token_bits(row, tokens[1:3], False)
    assert tokens_of(row) == {0, 63}


def test_only_contiguous_arrays_are_handed_over_by_address() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        address_of(np.zeros(4, dtype=np.int32)[::2])
