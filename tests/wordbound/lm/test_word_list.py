"""Word lists for programs, over the demo model's tokens; texts are judged by the second definition of the tests."""

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from tests.recogniser import recogniser
from tests.segmented_oracle import SegmentedOracle
from vocab.errors import VocabularyError
from vocab.lists.wordlists import load_word_list, reference_dictionary
from wordbound.lm import MockAsyncLM, WordList

OWN = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran"]
VOCAB_SIZE = 49_408
"""Wider than the tokenizer, as the output of many models is."""


@pytest.fixture(scope="module")
def model(smollm2_path: Path) -> MockAsyncLM:
    return MockAsyncLM(AutoTokenizer.from_pretrained(smollm2_path), VOCAB_SIZE)


@pytest.fixture(scope="module")
def own(model: MockAsyncLM) -> WordList:
    return WordList("en", None, model, words=OWN)


def after(words: WordList, model: MockAsyncLM, text: str) -> tuple[int, ...]:
    state = words.start
    for token in model.tokenizer.encode(text):
        state = words.next(state, token)
    return state


def test_a_mask_has_the_width_of_a_row_and_allows_what_next_takes(own: WordList, model: MockAsyncLM) -> None:
    state = after(own, model, "The cat")
    mask = own.mask(state)
    assert mask.shape == (VOCAB_SIZE,)
    assert mask.dtype == torch.bool
    assert own.allowed(state).tolist() == mask.nonzero().flatten().tolist()
    tried = {token: _takes(own, state, token) for token in range(0, VOCAB_SIZE, 7)}
    assert {token: bool(mask[token]) for token in tried} == tried
    assert any(tried.values())


def _takes(words: WordList, state: tuple[int, ...], token: int) -> bool:
    try:
        words.next(state, token)
    except ValueError:
        return False
    return True


async def test_samples_are_texts_of_the_list_and_end_whole(own: WordList, model: MockAsyncLM) -> None:
    judge = recogniser(tuple(OWN), len(OWN), "en", punctuation="standard")
    for max_tokens in (1, 2, 3, 7, 20):
        samples = await model.batch_sample([[1]] * 12, max_tokens, [], seed=5, vocab=own)
        for ids in (*samples, await model.sample([1], max_tokens, [], temperature=0, vocab=own)):
            assert 1 <= len(ids) <= max_tokens
            text = model.tokenizer.decode(ids)
            assert judge.is_text(text), text


def test_a_list_holds_its_words_alone_and_those_that_are_added_without_those_left_out(model: MockAsyncLM) -> None:
    words = WordList("en", None, model, words=OWN, extra_words=["dragon"], exclude_words=["dog"])
    assert words.is_complete(after(words, model, "The dragon"))
    built_in = WordList("en", 100, model)
    assert built_in.n_words == 100
    for one, text in ((words, "The dog"), (built_in, "The elephant")):
        with pytest.raises(ValueError, match=r"does not allow token .*: draw from mask"):
            after(one, model, text)


def test_a_text_ends_only_where_it_is_complete(own: WordList, model: MockAsyncLM) -> None:
    [end] = own.eos_token_ids
    begun, whole = after(own, model, "The cat,"), after(own, model, "The cat")
    assert not own.mask(own.start)[end]
    assert own.mask(whole)[end]
    assert own.next(whole, end) == own.ended
    assert own.allowed(own.ended).tolist() == []
    assert own.tokens_to_end(whole) == own.tokens_to_end(own.ended) == 0
    assert own.is_complete(begun) == own.mask(begun)[end]
    with pytest.raises(ValueError, match=f"token {end}"):
        own.next(own.start, end)
    with pytest.raises(ValueError, match="token 5"):
        own.next(own.ended, 5)


def test_the_mass_is_that_of_the_tokens_that_may_come(own: WordList, model: MockAsyncLM) -> None:
    state, row = after(own, model, "The"), model.next_token_logprobs_sync([3])
    expected = math.log(sum(math.exp(row[token]) for token in own.allowed(state)))
    assert own.log_mass(state, row) == pytest.approx(expected, abs=1e-4)
    assert own.log_mass(own.ended, row) == -math.inf


def test_with_few_tokens_left_only_what_can_be_completed_comes(own: WordList, model: MockAsyncLM) -> None:
    state = after(own, model, "The")
    for tokens_left in (1, 2):
        for token in own.allowed(state, tokens_left).tolist():
            needed = own.tokens_to_end(own.next(state, token))
            assert needed is not None
            assert needed < tokens_left
    assert set(own.allowed(state, 1).tolist()) < set(own.allowed(state).tolist())


async def test_a_bad_list_or_one_of_another_model_is_an_error_that_says_why(own: WordList, model: MockAsyncLM) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"n_words": 0}, "n_words must be at least 1"),
        ({"lang": None}, "name a language"),
        ({"lang": "xx"}, "xx"),
        ({"lang": "km"}, "without spaces"),
        ({"words": ["two\nlines"]}, "control character"),
        ({"extra_words": ["a", "of"], "exclude_words": ["Of"]}, "take it out of one"),
        ({"punctuation": "none", "end": "sentence"}, "needs sentence marks"),
        ({"model": MockAsyncLM(None, 10)}, "no tokenizer"),
    ]
    for arguments, message in bad:
        with pytest.raises((ValueError, VocabularyError), match=message):
            WordList(**{"lang": "en", "n_words": 5, "model": model, **arguments})
    with pytest.raises(ValueError, match="give it this model's"):
        await MockAsyncLM(None, 10).sample([1], 3, [], vocab=own)
    long = WordList("en", None, model, words=["supercalifragilistic"])
    with pytest.raises(ValueError, match="fits into 1 tokens: raise max_tokens"):
        await model.sample([1], 1, [], vocab=long)


@pytest.mark.parametrize(
    ("lang", "words", "extra_words"), [("zh", None, ("小虎队",)), ("ja", ("犬", "が", "好き", "小虎隊"), ())]
)
def test_texts_without_spaces_have_listed_segments_only(
    model: MockAsyncLM, lang: str, words: tuple[str, ...] | None, extra_words: tuple[str, ...]
) -> None:
    own = WordList(lang, 300, model, words=words, extra_words=extra_words)
    listed = {*(words or load_word_list(lang, None).words[:300]), *extra_words}
    oracle = SegmentedOracle(lang, listed | set(reference_dictionary(lang)), listed)
    draw = random.Random(5)
    for _ in range(10):
        state, tokens = own.start, list[int]()
        for tokens_left in range(30, 0, -1):
            allowed = own.allowed(state, tokens_left).tolist()
            if not allowed:
                break
            token = draw.choice(allowed)
            state = own.next(state, token)
            if state == own.ended:
                break
            tokens.append(token)
        text = model.tokenizer.decode(tokens)
        assert oracle.is_text(text), text
