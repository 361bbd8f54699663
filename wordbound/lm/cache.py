"""Caches of next-token distributions: the rows used last, and a tree of prefixes with their rows and KV states."""

from collections.abc import Hashable, Sequence
from typing import Any, Self

import torch
from cachetools import LRUCache


class OutputCache:
    """A cache of at most ``maxsize`` tensors; the one not set or read for longest goes first.

    Args:
        maxsize: The most tensors; with 0 nothing is cached.
        move_to_cpu: Cache them in the memory of the CPU, and return them on the device that they came from.

    Raises:
        ValueError: ``maxsize`` is negative.
    """

    def __init__(self, maxsize: int, move_to_cpu: bool = False) -> None:
        if maxsize < 0:
            raise ValueError(f"maxsize must be 0 or more, not {maxsize}")
        self.maxsize = maxsize
        self.move_to_cpu = move_to_cpu
        self.cache: LRUCache[Hashable, tuple[torch.device, torch.Tensor]] = LRUCache(maxsize)

    def __getitem__(self, key: Hashable) -> torch.Tensor:
        device, kept = self.cache[key]
        return kept.to(device) if self.move_to_cpu else kept

    def __setitem__(self, key: Hashable, value: torch.Tensor) -> None:
        if not self.maxsize:
            return
        kept = value.cpu() if self.move_to_cpu else value
        if kept.untyped_storage().nbytes() > kept.nbytes:
            # A row of a batch would keep the whole batch in memory.
            kept = kept.clone()
        self.cache[key] = (value.device, kept)

    def __contains__(self, key: Hashable) -> bool:
        return key in self.cache

    def __len__(self) -> int:
        return len(self.cache)

    def clear(self) -> None:
        """Drop all cached tensors."""
        self.cache.clear()


class TokenTrie:
    """A tree of token ids: a node stands for the prefix that leads to it, and knows what was computed for it.

    Attributes:
        children: By token id, the node of the prefix that is one token longer.
        logprobs: float32 (V,), log p of each token after the prefix, or None where nobody asked.
        past_key_values: The KV states of the prefix, or None.
    """

    def __init__(self, logprobs: torch.Tensor | None = None) -> None:
        self.children: dict[int, Self] = {}
        self.logprobs = logprobs
        self.past_key_values: Any = None

    def has_token(self, token_id: int) -> bool:
        """Return whether the node of this prefix with one more token exists."""
        return token_id in self.children

    def get_token(self, token_id: int) -> Self:
        """Return the node of this prefix with one more token, else raise ``KeyError``."""
        return self.children[token_id]

    def add_token(self, token_id: int, logprobs: torch.Tensor | None = None) -> Self:
        """Return the node of this prefix with one more token, made if missing; a given row is set, KV states stay."""
        if token_id not in self.children:
            self.children[token_id] = type(self)()
        child = self.children[token_id]
        if logprobs is not None:
            child.logprobs = logprobs
        return child

    def extend_cache(self, next_token_index: int, token_ids: Sequence[int], logits: torch.Tensor, base: int) -> Self:
        """Add nodes for the tokens from ``next_token_index`` on, each with the row after it.

        Args:
            next_token_index: How many of the tokens lead to this node.
            token_ids: The prefix.
            logits: (tokens from ``base`` on, V), what the model said after each; rows are cached as float32 on the CPU.
            base: The token that the first row of ``logits`` follows.

        Returns:
            The node of the whole prefix.
        """
        node = self
        for i in range(next_token_index, len(token_ids)):
            logprobs = torch.log_softmax(logits[i - base], dim=-1, dtype=torch.float32)
            node = node.add_token(token_ids[i], logprobs.cpu())
        return node

    def clear_kv_cache(self) -> None:
        """Drop the KV states of this prefix and of all longer ones; the rows stay."""
        # No recursion, here and below: prefixes are longer than Python's stack is deep.
        nodes = [self]
        while nodes:
            node = nodes.pop()
            node.past_key_values = None
            nodes.extend(node.children.values())

    def __repr__(self) -> str:
        """Nested lists of children, with a star before nodes that have KV states: ``[1: *[2: [], 3: []]]``."""
        parts: list[str] = []
        left: list[TokenTrie | str] = [self]
        while left:
            node = left.pop()
            if isinstance(node, str):
                parts.append(node)
                continue
            parts.append("[" if node.past_key_values is None else "*[")
            left.append("]")
            for i, (token_id, child) in reversed(tuple(enumerate(node.children.items()))):
                left += (child, f"{', ' if i else ''}{token_id}: ")
        return "".join(parts)
