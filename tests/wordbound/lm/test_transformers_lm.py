"""Rows of models of transformers: padded, and from what is kept, they are those of each prefix alone."""

import asyncio
import random
from typing import Any

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from tests.vocab.decoding.tiny_models import tiny_model
from wordbound.lm import AsyncTransformer

NUM_TOKENS = 300

Prefixes = list[list[int]]


def transformer(kind: str = "llama", **options: Any) -> AsyncTransformer:
    return AsyncTransformer(tiny_model(kind, NUM_TOKENS, 1), None, **{"cache_size": 0, **options})


def windowed_transformer(kind: type[MistralForCausalLM] = MistralForCausalLM) -> AsyncTransformer:
    """A model whose layers see the last four tokens only."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MistralConfig(
        vocab_size=NUM_TOKENS, num_key_value_heads=1, sliding_window=4, initializer_range=0.3, **sizes
    )
    return AsyncTransformer(kind(config).eval(), None, cache_size=0)


def rows_alone(lm: AsyncTransformer, prefixes: Prefixes) -> torch.Tensor:
    return torch.stack([lm.next_token_logprobs_uncached(ids) for ids in prefixes])


def assert_own_rows(lm: AsyncTransformer, prefixes: Prefixes) -> None:
    """Each prefix has the row that it has alone."""
    assert torch.allclose(lm.batch_next_token_logprobs_sync(prefixes), rows_alone(lm, prefixes), atol=1e-4)


def num_cached(lm: AsyncTransformer) -> int:
    """How many tokens' keys and values are kept."""
    nodes = [lm.walk_cache([])[0]]
    for node in nodes:
        nodes.extend(node.children.values())
    return len(nodes) - 1


def batches(seed: int, num: int) -> list[Prefixes]:
    """Prefixes that begin alike, begin each other, or are equal."""
    chosen = random.Random(seed)
    starts = [[chosen.randrange(NUM_TOKENS) for _ in range(12)] for _ in range(3)]

    def prefix() -> list[int]:
        ends = [chosen.randrange(NUM_TOKENS) for _ in range(chosen.randrange(6))]
        return chosen.choice(starts)[: chosen.randrange(1, 13)] + ends

    return [[prefix() for _ in range(chosen.choice([1, 2, 7, 25]))] for _ in range(num)]


@pytest.fixture
def num_tokens_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each forward of a llama reads."""
    model, read = tiny_model("llama", NUM_TOKENS, 1), []
    forward = model.forward

    def noting(input_ids: torch.Tensor, **options: Any) -> Any:
        read.append(input_ids.numel())
        return forward(input_ids, **options)

    monkeypatch.setattr(model, "forward", noting)
    return read


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("kv_cache_tokens", [0, 30, 4096])
def test_rows_do_not_depend_on_the_batch_or_on_what_is_kept(kind: str, kv_cache_tokens: int) -> None:
    lm = transformer(kind, kv_cache_tokens=kv_cache_tokens)
    for prefixes in batches(seed=kv_cache_tokens, num=6):
        assert_own_rows(lm, prefixes)
        assert num_cached(lm) <= kv_cache_tokens
    assert kv_cache_tokens < 4096 or num_cached(lm)


def test_a_batch_that_would_be_too_large_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wordbound.lm.forwards._MAX_TOKENS", 20)
    lm = transformer()
    for prefixes in batches(seed=1, num=4):
        assert_own_rows(lm, prefixes)


def test_attention_that_adds_its_mask_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = transformer("gpt2")
    monkeypatch.setattr(lm.model.config, "_attn_implementation", "eager")
    assert_own_rows(lm, batches(seed=2, num=1)[0])
    assert num_cached(lm)


def test_a_model_with_windows_reads_each_prefix_from_its_beginning() -> None:
    lm = windowed_transformer()
    for prefixes in batches(seed=3, num=3):
        assert_own_rows(lm, prefixes)
    start = [5, 6, 7, 8, 9, 10]
    lm.cache_kv(start)
    assert num_cached(lm) == 0
    assert_own_rows(lm, [start, [*start, 1], [*start, 1, 2, 3], [*start[:2], 4], [9]])


def test_a_model_that_goes_on_wrongly_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama", NUM_TOKENS, 1)
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda *ids, attention_mask=None, **options: forward(*ids, **options))
    lm = AsyncTransformer(model, None)
    lm.next_token_logprobs_sync([1, 2, 3])
    assert num_cached(lm) == 0


def test_a_model_that_computes_all_logits_is_asked_for_all() -> None:
    class Old(MistralForCausalLM):
        def forward(self, input_ids: torch.Tensor, attention_mask: Any = None, use_cache: bool = False) -> Any:
            return super().forward(input_ids, attention_mask=attention_mask, use_cache=use_cache)

    lm = windowed_transformer(Old)
    assert_own_rows(lm, [[1, 2, 3], [4], [1, 2]])
    assert lm.token_logprobs_sync([1, 2], [3, 4]).shape == (2,)


def test_long_common_beginnings_are_read_once(num_tokens_read: list[int]) -> None:
    lm = transformer()
    num_tokens_read.clear()
    lm.batch_next_token_logprobs_sync([[start, *range(39), 50 + i] for start in (100, 101) for i in range(8)])
    assert num_tokens_read == [80, 16]


def test_a_long_new_prefix_does_not_pad_those_that_go_on(num_tokens_read: list[int]) -> None:
    lm = transformer()
    lm.batch_next_token_logprobs_sync([[1, 2, 3], [4, 5, 6]])
    num_tokens_read.clear()
    lm.batch_next_token_logprobs_sync([[1, 2, 3, 4], [*range(100, 200)], [4, 5, 6, 7]])
    assert num_tokens_read == [2, 100]


def test_a_prefix_that_goes_on_costs_its_new_tokens(num_tokens_read: list[int]) -> None:
    lm = transformer()
    num_tokens_read.clear()
    lm.batch_next_token_logprobs_sync([[1, 2, 3], [1, 2, 4]])
    lm.batch_next_token_logprobs_sync([[1, 2, 3, 5], [1, 2, 4, 6], [1, 2]])
    lm.clear_cache()
    lm.next_token_logprobs_sync([1, 2, 3])
    assert num_tokens_read == [6, 3, 3]


def test_tokens_used_last_are_kept_and_pinned_ones_always(num_tokens_read: list[int]) -> None:
    lm = transformer(kv_cache_tokens=40)
    lm.cache_kv([1, 2, 3, 4])
    for start in range(10, 200, 10):
        lm.next_token_logprobs_sync([*range(start, start + 10)])
    num_tokens_read.clear()
    lm.next_token_logprobs_sync([1, 2, 3, 4, 5])
    lm.next_token_logprobs_sync([*range(190, 200), 7])
    lm.next_token_logprobs_sync([*range(10, 20), 7])
    assert num_tokens_read == [1, 1, 11]


def test_what_is_pinned_is_found_by_walking_and_told_apart_and_what_does_not_fit_is_refused() -> None:
    lm = transformer()
    lm.next_token_logprobs_sync([1, 2, 3, 4])
    lm.cache_kv([1, 2])
    node, num_found, past, base = lm.walk_cache([1, 2, 3])
    assert (num_found, base, past.get_seq_length()) == (2, 2, 2)
    assert node.past_key_values is past
    assert repr(lm.walk_cache([])[0]) == "[1: [2: *[]]]"
    lm.clear_kv_cache()
    assert lm.walk_cache([1, 2, 3])[1:] == (0, None, 0)
    with pytest.raises(ValueError, match="raise kv_cache_tokens"):
        transformer(kv_cache_tokens=3).cache_kv([1, 2, 3, 4])
    # A prefix may be longer than the stack is deep.
    last = root = type(node)()
    for token in range(5000):
        last = last.add_token(token)
    assert "4999: []" in repr(root)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "windowed"])
def test_scores_are_those_of_the_rows_by_one_forward(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = windowed_transformer() if kind == "windowed" else transformer(kind)
    prompt, ids = [1, 2, 3], [4, 5, 6, 7, 8, 9]
    want = torch.stack([lm.next_token_logprobs_uncached(prompt + ids[:i])[token] for i, token in enumerate(ids)])
    assert torch.allclose(asyncio.run(lm.token_logprobs(prompt, ids)), want, atol=1e-4)
    # In parts, and after what is kept of the prompt.
    monkeypatch.setattr("wordbound.lm.forwards._SCORED_AT_ONCE", 4)
    lm.next_token_logprobs_sync(prompt)
    assert torch.allclose(lm.token_logprobs_sync(prompt, ids), want, atol=1e-4)
    assert lm.token_logprobs_sync(prompt, []).shape == (0,)


def test_a_failed_forward_fails_who_waits_and_the_next_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = transformer()

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    async def ask() -> list[Any]:
        return await asyncio.gather(*map(lm.next_token_logprobs, ([1, 2], [3])), return_exceptions=True)

    with monkeypatch.context() as patched:
        patched.setattr(lm.model, "forward", fails)
        assert [str(answer) for answer in asyncio.run(ask())] == ["out of memory"] * 2
    assert_own_rows(lm, [[1, 2], [3]])


async def test_queries_of_programs_that_add_them_are_answered() -> None:
    lm = transformer()
    future: asyncio.Future[torch.Tensor] = asyncio.get_running_loop().create_future()
    lm.add_query([1, 2], future, None)
    assert lm.queries == [(1, 2)]
    lm.batch_evaluate_queries()
    assert torch.allclose(await future, lm.next_token_logprobs_uncached([1, 2]), atol=1e-4)
    with pytest.raises(ValueError, match="whole prefix and no past"):
        lm.add_query([1], future, object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="add_query adds one"):
        lm.queries = [(1,)]
    with pytest.raises(ValueError, match="at most 128"):
        transformer("gpt2").next_token_logprobs_sync([1] * 129)
