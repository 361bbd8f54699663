"""Masks against xgrammar's own grammar of the same texts, cut down to canonical spellings, for real tokenizers."""

import random
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import xgrammar
from hypothesis import settings
from transformers import AutoTokenizer

from tests.vocab.automaton.canonical import START, CanonicalTokens, Parses
from tests.vocab.toys import tokens_of
from vocab.automaton.tokenizer import Speller, TokenizerFacts
from vocab.lists.wordlists import WordList, load_word_list
from vocab.matching.matcher import Matcher
from vocab.matching.states import ListStates
from vocab.options import ListOptions
from vocab.text.forms import surface_forms
from vocab.text.grammar import write_ebnf

WALKS = settings().max_examples
STEPS = 30
DEAD_END = 3
"""Tokens within which a dead end must show."""

AWKWARD = WordList(
    "es",
    (
        "un", "Paris", "paris", "aujourd'hui", "c'est-à-dire", "à", "Été", "été", "pomme de terre", "pomme", "de",
        "terre", "de terre", "a" * 60, "presqu’île", "œuf", "o'clock", "rock 'n' roll",
    ),
    "file",
)  # fmt: skip


@cache
def loaded(path: Path) -> tuple[Speller, xgrammar.TokenizerInfo]:
    tokenizer = AutoTokenizer.from_pretrained(path)
    return Speller.from_tokenizer(tokenizer), xgrammar.TokenizerInfo.from_huggingface(tokenizer)


@cache
def first(lang: str, num_words: int) -> WordList:
    # Not "etc.": the other program's forms have no marks at their edges.
    words = (word for word in load_word_list(lang, None).words if not word.endswith("."))
    return WordList(lang, tuple(islice(words, num_words)), "cleaned")


PLAIN = ListOptions(punctuation="full")

LEMMAS = WordList("es", ("comer", "como", "comió", "el", "la", "pan", "panes"), "file", (1, 1, 1, 2, 2, 3, 3))


@pytest.mark.parametrize(
    ("word_list", "n_words", "options"),
    [
        pytest.param(("en", 80), 80, PLAIN, id="en-80"),
        pytest.param(("es", 400), 400, PLAIN, id="es-400"),
        pytest.param(("tr", 1000), 150, PLAIN, id="tr-150-of-1000"),
        pytest.param(AWKWARD, len(AWKWARD.words), PLAIN, id="awkward"),
        pytest.param(AWKWARD, 11, PLAIN, id="awkward-11"),
        pytest.param(AWKWARD, 18, ListOptions(layout="lines", end="sentence"), id="awkward-standard-lines-sentence"),
        pytest.param(("en", 100), 100, ListOptions(numbers=True, layout="lines"), id="en-numbers-lines"),
        pytest.param(("en", 100), 80, ListOptions(punctuation="none", numbers=True), id="en-no-marks-numbers"),
        pytest.param(("es", 100), 100, ListOptions(punctuation="basic", end="sentence"), id="es-basic-sentence"),
        pytest.param(("fa", 100), 100, ListOptions(punctuation="basic", layout="lines"), id="fa-basic-lines"),
        pytest.param(("de", 100), 60, ListOptions(case="sentence", punctuation="none"), id="de-case-no-marks"),
        pytest.param(("en", 100), 80, ListOptions(), id="en-standard"),
        pytest.param(("en", 300), 300, ListOptions(possessive=False), id="en-standard-no-possessive"),
        pytest.param(("es", 100), 100, ListOptions(end="sentence"), id="es-standard-sentence"),
        pytest.param(("fa", 100), 60, ListOptions(), id="fa-standard"),
        pytest.param(LEMMAS, 2, ListOptions(case="listed", punctuation="full"), id="es-lemmas"),
    ],
)
@pytest.mark.parametrize("tokenizer_fixture", ["smollm2_path", "gemma_tokenizer_path"])
def test_masks_are_the_canonical_part_of_xgrammars_in_every_state_reached(
    tokenizer_fixture: str,
    word_list: WordList | tuple[str, int],
    n_words: int,
    options: ListOptions,
    request: pytest.FixtureRequest,
) -> None:
    speller, info = loaded(request.getfixturevalue(tokenizer_fixture))
    facts = speller.facts
    # Not before the test runs: the whole lists that these are cut from take seconds.
    word_list = word_list if isinstance(word_list, WordList) else first(*word_list)
    states = ListStates.of(word_list, options, speller, n_words)
    forms = surface_forms(word_list.up_to(n_words), ListOptions(case="any", possessive=False))
    has_possessives = word_list.language == "en" and options.possessive is not False
    reference = CanonicalTokens(speller, [form.text for form in forms], possessive=has_possessives)
    grammar = xgrammar.GrammarCompiler(info, max_threads=1).compile_grammar(write_ebnf(word_list, options, n_words))
    walk = random.Random(7)
    ours = np.empty((len(facts) + 31) // 32, dtype=np.int32)
    theirs = xgrammar.allocate_token_bitmask(1, len(facts))
    stops = set(info.stop_token_ids)
    num_states = 0
    for _ in range(WALKS):
        matcher, oracle, parses = Matcher(states, stops), xgrammar.GrammarMatcher(grammar), START
        for _ in range(STEPS):
            matcher.fill_bitmask(ours)
            oracle.fill_next_token_bitmask(theirs)
            num_states += 1
            of_text = tokens_of(theirs.numpy()[0])
            canonical = of_text & (reference.allowed(parses) | stops)
            assert tokens_of(ours) <= canonical
            for token in canonical - tokens_of(ours):
                assert leads_nowhere(token, oracle, reference, parses), facts.token_bytes[token]
            token = _some_token(sorted(tokens_of(ours)), facts, walk)
            assert matcher.accept_token(token)
            assert oracle.accept_token(token)
            if matcher.is_terminated:
                break
            parses = reference.step(parses, token)
    assert num_states > WALKS


def leads_nowhere(
    token: int, oracle: xgrammar.GrammarMatcher, reference: CanonicalTokens, parses: Parses, depth: int = 1
) -> bool:
    """Whether no text goes on behind a token, such as a lone blank behind which every word brings its own."""
    if depth > DEAD_END or not oracle.accept_token(token):
        return False
    after = reference.step(parses, token)
    mask = xgrammar.allocate_token_bitmask(1, reference.num_tokens)
    oracle.fill_next_token_bitmask(mask)
    following = tokens_of(mask.numpy()[0]) & reference.allowed(after)
    is_dead = not oracle.is_completed() and all(
        leads_nowhere(other, oracle, reference, after, depth + 1) for other in following
    )
    oracle.rollback(1)
    return is_dead


def _some_token(allowed: list[int], facts: TokenizerFacts, walk: random.Random) -> int:
    """Any allowed token, or a short one: these lead to the states between bytes, in phrases and in runs of marks."""
    if walk.random() < 0.5:
        return walk.choice(allowed)
    return min(walk.sample(allowed, min(len(allowed), 5)), key=lambda token: len(facts.token_bytes[token]))
