"""A mock model that notes the batches it is asked for, and can be held or made to fail."""

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

import torch

from wordbound.lm import MockAsyncLM

Ids: TypeAlias = tuple[int, ...]
NUM_TOKENS = 50


class CountingLM(MockAsyncLM):
    def __init__(self, **options: object) -> None:
        super().__init__(None, NUM_TOKENS, **options)
        self.batches: list[list[Ids]] = []
        self.asked = asyncio.Event()
        self.num_cancelled = 0
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        """Where there is one, batches wait for it."""

    async def compute_rows(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        self.batches.append(list(prefixes))
        self.asked.set()
        if self.gate:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.num_cancelled += 1
                raise
        return self.compute_rows_sync(prefixes, lora_name)

    def compute_rows_sync(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        if self.error:
            raise self.error
        return super().compute_rows_sync(prefixes, lora_name)
