import itertools

import numpy as np
import pytest

from tests.vocab.toys import STOP, matcher_of, tokens_of, toy_automaton
from vocab.automaton import automaton as automaton_module
from vocab.lists.wordlists import load_word_list
from vocab.matching.masks import NO_BUDGET, NO_TOKENS, MaskRows, set_token_bits


def row_of(rows: MaskRows, state: int, n_words: int, budget: int = NO_BUDGET, num_words: int = 64) -> set[int]:
    out = np.full(num_words, -1, dtype=np.int32)
    rows.table(n_words, budget).fill(out, state, NO_TOKENS)
    return tokens_of(out)


def test_a_row_has_the_tokens_of_a_state_and_of_its_links() -> None:
    automaton, tokenizer = toy_automaton(["sol", "mar"], [" sol", " mar", "sol"])
    matcher = matcher_of(automaton, 2)
    for byte in b"sol":
        assert matcher.accept_token(tokenizer.token_bytes.index(bytes([byte])))
    found = {tokenizer.token_bytes[token] for token in row_of(MaskRows(automaton), matcher.state, 2)}
    assert {b" sol", b" mar", b" ", b"."} <= found
    assert b"sol" not in found


def test_words_past_the_vocabulary_are_cleared() -> None:
    automaton, tokenizer = toy_automaton(["sol"])
    assert max(row_of(MaskRows(automaton), automaton.edges.start, 1, num_words=100)) < len(tokenizer)


def test_a_small_cache_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton_module, "DENSE_EDGES", 256)
    words = load_word_list("es", None).words[:1100]
    automaton, _ = toy_automaton(words, [" " + word for word in words])
    assert np.diff(automaton.edges.edge_start).max() >= 256
    large, small = MaskRows(automaton), MaskRows(automaton, cache_bytes=0)
    for n_words in range(1, 1100, 97):
        for state in range(0, len(automaton.edges.links), 97):
            assert row_of(large, state, n_words) == row_of(small, state, n_words)


def test_a_budget_leaves_only_what_can_be_finished_within_it() -> None:
    automaton, tokenizer = toy_automaton(["abc", "q"])
    rows, start = MaskRows(automaton), automaton.edges.start
    spelled = {tokenizer.token_bytes[token] for token in row_of(rows, start, 2, budget=0)}
    assert spelled == {b"q", b"Q"}
    assert tokenizer.token_bytes.index(b"a") in row_of(rows, start, 2, budget=2)


def test_single_bits_are_set_and_cleared_up_to_the_sign_bit() -> None:
    row = np.zeros(2, dtype=np.int32)
    tokens = np.asarray([STOP, 31, 32, 63], dtype=np.int32)
    set_token_bits(row, tokens, True)
    assert tokens_of(row) == {0, 31, 32, 63}
    set_token_bits(row, tokens[1:3], False)
    assert tokens_of(row) == {0, 63}


def test_few_dense_states_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["".join(pair) for pair in itertools.product("abcdefghij", repeat=3)]
    pieces = [*words, *sorted({word[1:] for word in words})]
    monkeypatch.setattr(automaton_module, "DENSE_EDGES", 2)
    many, _ = toy_automaton(words, pieces)
    monkeypatch.setattr(automaton_module, "MAX_DENSE_STATES", 3)
    few, _ = toy_automaton(words, pieces)
    assert len(few.dense_states) < len(many.dense_states)
    for state in range(0, len(few.edges.links), 17):
        assert row_of(MaskRows(few), state, 500) == row_of(MaskRows(many), state, 500)
