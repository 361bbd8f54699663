from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.detokenizer import IncrementalDetokenizer

from deployments.search.token_text import TokenText


@pytest.fixture(scope="module", params=["smollm2_path", "gemma_tokenizer_path"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    path: Path = request.getfixturevalue(request.param)
    return AutoTokenizer.from_pretrained(path)


def vllm_text(tokenizer: Any, prompt: list[int], tokens: list[int]) -> str:
    """As vLLM finds it, token by token."""
    request = EngineCoreRequest("", prompt, None, SamplingParams(), None, 0.0, None, None, None)
    detokenizer = IncrementalDetokenizer.from_new_request(tokenizer, request)
    for token in tokens:
        detokenizer.update([token], stop_terminated=False)
    return str(detokenizer.get_next_output_text(finished=True, delta=False))


@settings(max_examples=30, deadline=None)
@given(said=st.text(max_size=60), written=st.text(max_size=30), cut=st.integers(0, 3))
def test_the_text_is_the_one_that_vllm_would_give(tokenizer: Any, said: str, written: str, cut: int) -> None:
    # As templates do, it ends with whole characters: vLLM repeats a prompt that does not.
    prompt = tokenizer.encode("Hello. " * 30 + said + "\n")
    tokens = tokenizer.encode(written, add_special_tokens=False)
    tokens = tokens[: len(tokens) - cut]
    assert TokenText(tokenizer, prompt, SamplingParams()).of(tokens) == vllm_text(tokenizer, prompt, tokens)


def test_half_a_character_is_no_text_and_is_known(tokenizer: Any) -> None:
    texts = TokenText(tokenizer, tokenizer.encode("Hello"), SamplingParams())
    cut = next(
        (tokens[:-1], character)
        for character in "𓀀🦤𝔸"
        if len(tokens := tokenizer.encode("a" + character, add_special_tokens=False)) > 2
    )[0]
    assert texts.of(cut) == "a"
    assert texts.is_cut(cut)
    assert not texts.is_cut(tokenizer.encode("a whole text", add_special_tokens=False))


def test_special_tokens_are_shown_where_the_request_wants_them(tokenizer: Any) -> None:
    tokens = [*tokenizer.encode("end", add_special_tokens=False), tokenizer.eos_token_id]
    assert TokenText(tokenizer, [5], SamplingParams()).of(tokens) == "end"
    shown = TokenText(tokenizer, [5], SamplingParams(skip_special_tokens=False)).of(tokens)
    assert shown.startswith("end") and tokenizer.eos_token in shown


def test_no_tokens_are_no_text(tokenizer: Any) -> None:
    assert TokenText(tokenizer, [5], SamplingParams()).of([]) == ""
