"""The automaton's masks against xgrammar's own grammar of the same texts, bit for bit, for real tokenizers."""

import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xgrammar
from hypothesis import settings
from transformers import AutoTokenizer

from tests.vocab.toys import tokens_of
from vocab.automaton.automaton import compile_automaton
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.lists.wordlists import WordList, load_word_list
from vocab.matching.masks import MaskRows
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.ebnf import write_ebnf

WALKS = settings().max_examples
STEPS = 30

AWKWARD = WordList(
    "fr",
    (
        "l'", "l'un", "un", "Paris", "paris", "aujourd'hui", "c'est-à-dire", "à", "Été", "été", "pomme de terre",
        "pomme", "de", "terre", '"ouf"', "ouf", "etc.", "a" * 60, "presqu’île", "goin'", "œuf",
    ),
    "file",
)  # fmt: skip


@cache
def loaded(path: Path) -> tuple[TokenizerFacts, xgrammar.TokenizerInfo]:
    tokenizer = AutoTokenizer.from_pretrained(path)
    return TokenizerFacts.from_tokenizer(tokenizer), xgrammar.TokenizerInfo.from_huggingface(tokenizer)


@cache
def trie_of(path: Path) -> TokenTrie:
    return TokenTrie.of(loaded(path)[0])


def first(lang: str, num_words: int) -> WordList:
    return WordList(lang, load_word_list(lang, None).words[:num_words], "wordfreq")


PLAIN = ListOptions()

LEMMAS = WordList("es", ("comer", "como", "comió", "el", "la", "pan", "panes"), "file", (1, 1, 1, 2, 2, 3, 3))


@pytest.mark.parametrize(
    ("word_list", "n_words", "options"),
    [
        pytest.param(first("en", 200), 200, PLAIN, id="en-200"),
        pytest.param(first("es", 1000), 1000, PLAIN, id="es-1000"),
        pytest.param(first("tr", 1000), 150, PLAIN, id="tr-150-of-1000"),
        pytest.param(AWKWARD, len(AWKWARD.words), PLAIN, id="awkward"),
        pytest.param(AWKWARD, 11, PLAIN, id="awkward-11"),
        pytest.param(AWKWARD, 20, ListOptions(numbers=True, end="sentence"), id="awkward-numbers-sentence"),
        pytest.param(first("en", 100), 100, ListOptions(numbers=True, layout="lines"), id="en-numbers-lines"),
        pytest.param(first("en", 100), 80, ListOptions(punctuation="none", numbers=True), id="en-no-marks-numbers"),
        pytest.param(first("es", 100), 100, ListOptions(punctuation="basic", end="sentence"), id="es-basic-sentence"),
        pytest.param(first("fa", 100), 100, ListOptions(punctuation="basic", layout="lines"), id="fa-basic-lines"),
        pytest.param(first("fr", 100), 60, ListOptions(case="sentence", punctuation="none"), id="fr-case-no-marks"),
        pytest.param(LEMMAS, 2, ListOptions(case="listed"), id="es-lemmas"),
    ],
)
@pytest.mark.parametrize("tokenizer_fixture", ["smollm2_path", "gemma_tokenizer_path"])
def test_masks_equal_those_of_xgrammar_in_every_state_reached(
    tokenizer_fixture: str,
    word_list: WordList,
    n_words: int,
    options: ListOptions,
    request: pytest.FixtureRequest,
) -> None:
    facts, info = loaded(request.getfixturevalue(tokenizer_fixture))
    automaton = compile_automaton(word_list, options, facts, trie_of(request.getfixturevalue(tokenizer_fixture)))
    grammar = xgrammar.GrammarCompiler(info, max_threads=1).compile_grammar(write_ebnf(word_list, options, n_words))
    rows, walk = MaskRows(automaton), random.Random(7)
    ours = np.empty((len(facts) + 31) // 32, dtype=np.int32)
    theirs = xgrammar.allocate_token_bitmask(1, len(facts))
    num_states = 0
    for _ in range(WALKS):
        matcher = Matcher(ListStates(automaton, rows, n_words), info.stop_token_ids)
        oracle = xgrammar.GrammarMatcher(grammar)
        for _ in range(STEPS):
            matcher.fill_bitmask(ours)
            oracle.fill_next_token_bitmask(theirs)
            num_states += 1
            np.testing.assert_array_equal(ours, theirs.numpy()[0])
            token = _some_token(sorted(tokens_of(ours)), facts, walk)
            assert matcher.accept_token(token)
            assert oracle.accept_token(token)
            if matcher.is_terminated:
                break
    assert num_states > WALKS


def _some_token(allowed: list[int], facts: TokenizerFacts, walk: random.Random) -> int:
    """Any allowed token, or a short one: these lead to the states between bytes, in phrases and in runs of marks."""
    if walk.random() < 0.5:
        return walk.choice(allowed)
    return min(walk.sample(allowed, min(len(allowed), 5)), key=lambda token: len(facts.token_bytes[token]))
