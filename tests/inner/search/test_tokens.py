from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.detokenizer import IncrementalDetokenizer

from deployments.search.tokens import Constraint, ListFaultError, TokenText
from tests.vocab.toys import toy_states
from vocab.decoding.generator import Place
from vocab.matching.reference import GrammarReference
from vocab.options import DEFAULT_OPTIONS

END = frozenset({0})
BUDGET = 30


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


@settings(max_examples=settings().max_examples // 2)
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
    assert TokenText(tokenizer, [5], SamplingParams()).of([]) == ""


@pytest.fixture
def constraint() -> Constraint:
    states, _ = toy_states(["the", "cat"], lang="en")
    return Constraint(GrammarReference(states.words.digest, DEFAULT_OPTIONS, 2, BUDGET), states)


def tokens_for(text: str) -> tuple[int, ...]:
    _, tokenizer = toy_states(["the", "cat"], lang="en")
    return tuple(tokenizer.token_bytes.index(bytes([byte])) for byte in text.encode())


def test_what_a_text_has_may_not_come_again_after_its_place(constraint: Constraint) -> None:
    once = Constraint(replace(constraint.reference, no_repeat=3), constraint.states)
    reference = GrammarReference.parse(once.grammar(Place((1, 2, 3), (5,)), 9))
    assert reference is not None
    assert (reference.start, reference.max_tokens, reference.seen) == ((5,), 9, (1, 2, 3))


def test_a_token_that_may_not_come_is_a_fault_and_so_is_an_end_where_a_text_is_not_whole(
    constraint: Constraint,
) -> None:
    start = constraint.states.start
    whole = constraint.after(start, (*tokens_for("the"), 0), BUDGET, END)
    assert constraint.states.can_stop(whole)
    for tokens, budget, fault in (
        (tokens_for("thx"), BUDGET, "may not come"),
        ((*tokens_for("th"), 0), BUDGET, "not whole"),
        # No word fits the budget after it.
        (tokens_for("the c"), 5, "may not come"),
    ):
        with pytest.raises(ListFaultError, match=fault):
            constraint.after(start, tokens, budget, END)
