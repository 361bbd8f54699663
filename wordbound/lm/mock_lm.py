"""A model without a model: rows that depend on nothing but the prefix, for tests of programs."""

import array
import hashlib
from collections.abc import Sequence
from typing import Any, Self

import torch
from typing_extensions import override

from wordbound.lm.base import AsyncLM
from wordbound.lm.gathering import Ids


class MockAsyncLM(AsyncLM):
    """Random rows, the same for the same prefix in every process.

    Args:
        tokenizer: A tokenizer of transformers, or None.
        vocab_size: The width of a row; None for the tokenizer's.
        options: Options of ``AsyncLM``.
    """

    def __init__(self, tokenizer: Any, vocab_size: int | None = None, **options: Any) -> None:
        if vocab_size is None:
            if tokenizer is None:
                raise ValueError("a mock model without a tokenizer needs vocab_size")
            vocab_size = len(tokenizer)
        super().__init__(tokenizer, vocab_size=vocab_size, **options)

    @classmethod
    def from_name(cls, model_name: str, **options: Any) -> Self:
        """Create a mock model over the tokens of a model, of which only the tokenizer is loaded."""
        from wordbound.lm.loading import load_tokenizer

        return cls(load_tokenizer(model_name), **options)

    @override
    async def compute_rows(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        return self.compute_rows_sync(prefixes, lora_name)

    @override
    def compute_rows_sync(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        return torch.stack([self._row(ids) for ids in prefixes])

    def _row(self, ids: Ids) -> torch.Tensor:
        digest = hashlib.blake2b(array.array("q", ids).tobytes(), digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
        return torch.log_softmax(torch.rand(self.vocab_size, generator=generator), dim=-1)
