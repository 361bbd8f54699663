"""Keys and values of prefixes that a model of transformers has seen: a tree of tokens over slots in one memory."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from wordbound.lm.cache import TokenTrie

_FIRST_SLOTS: Final = 512
"""Slots of a new memory, which doubles when it is full: one batch of 8 prefixes of 64 tokens."""
_PINNED: Final = np.iinfo(np.int64).max


class TokenNode(TokenTrie):
    """A token of a prefix; ``slot`` is where its keys and values are."""

    def __init__(self, logprobs: torch.Tensor | None = None) -> None:
        super().__init__(logprobs)
        self.slot = -1
        self.parent: TokenNode | None = None
        self.token_id = -1
        self.depth = 0


class CachedTokens:
    """Keeps the keys and values of the tokens used last, each token of a common beginning once.

    Args:
        max_tokens: The most tokens cached; 0 keeps none.
    """

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.root = TokenNode()
        self._nodes: list[TokenNode] = []
        self._used: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._clock = 0
        # By layer, keys and values: (1, heads, slots, size of a head).
        self._memory: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def path(self, ids: Sequence[int]) -> list[int]:
        """Return the slots of the longest beginning of ``ids`` that is cached."""
        node, slots = self.root, []
        for token_id in ids:
            child = node.children.get(token_id)
            if child is None:
                break
            slots.append(child.slot)
            node = child
        return slots

    def touch(self, slots: Sequence[int]) -> None:
        """Note that these were used, together and now."""
        self._clock += 1
        at = np.asarray(slots, dtype=np.int64)
        self._used[at] = np.maximum(self._used[at], self._clock)

    def read(self, slots: Sequence[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return copies of the keys and values in ``slots``, by layer; empty where there are none."""
        if not slots:
            return []
        at = torch.as_tensor(slots, device=self._memory[0][0].device)
        return [(keys.index_select(2, at), values.index_select(2, at)) for keys, values in self._memory]

    def add(self, prefixes: Sequence[Sequence[int]], places: Sequence[Sequence[int]], layers: Any, first: int) -> None:
        """Keep new tokens.

        Args:
            prefixes: What the model has seen.
            places: By prefix, the place of each token after its cached beginning among the new tokens of the forward.
            layers: The layers of the cache after the forward, of ``first`` tokens read from here and the new ones.
            first: How many tokens were read.
        """
        new: dict[int, TokenNode] = {}
        for ids, own in zip(prefixes, places, strict=True):
            node = self.root
            for i, token_id in enumerate(ids):
                child = node.children.get(token_id)
                if child is None:
                    child = TokenNode()
                    child.parent, child.token_id, child.depth = node, token_id, node.depth + 1
                    node.children[token_id] = child
                    new[own[i - len(ids) + len(own)]] = child
                node = child
        if not new:
            return
        self._make_room(len(new))
        if len(self) + len(new) > self.max_tokens:
            for child in new.values():
                _detach(child)
            return
        start = len(self)
        self._grow(layers, start + len(new))
        at = torch.as_tensor(list(new), device=layers[0].keys.device) + first
        for layer, (keys, values) in zip(layers, self._memory, strict=True):
            keys[:, :, start : start + len(new)] = layer.keys.index_select(2, at)
            values[:, :, start : start + len(new)] = layer.values.index_select(2, at)
        for slot, node in enumerate(new.values(), start):
            node.slot = slot
            self._nodes.append(node)
        self._used = np.append(self._used, np.full(len(new), self._clock))

    def pin(self, ids: Sequence[int]) -> TokenNode:
        """Keep a prefix until ``clear``; what was cached after it is dropped. Its tokens must be cached already."""
        slots = self.path(ids)
        if len(slots) < len(ids):
            raise ValueError(f"{len(ids)} tokens do not fit into the {self.max_tokens} cached: raise kv_cache_tokens")
        self._used[slots] = _PINNED
        node = self._nodes[slots[-1]]
        below, todo = [], list(node.children.values())
        while todo:
            below.append(one := todo.pop())
            todo.extend(one.children.values())
        dropped = {one.slot for one in below}
        self._keep(np.asarray([slot for slot in range(len(self)) if slot not in dropped], dtype=np.int64))
        return node

    def _make_room(self, num_tokens: int) -> None:
        if len(self) + num_tokens <= self.max_tokens:
            return
        # A quarter more than needed, so that not every batch moves the whole memory.
        target = max(0, self.max_tokens * 3 // 4 - num_tokens)
        depths = np.asarray([node.depth for node in self._nodes], dtype=np.int64)
        # A token is used whenever one after it is: the latest used and, among equals, the first of a text are a tree.
        order = np.lexsort((depths, -self._used))
        num_needed = int((self._used >= self._clock).sum())
        self._keep(np.sort(order[: max(target, num_needed)]))

    def _keep(self, slots: npt.NDArray[np.int64]) -> None:
        cached = set(slots.tolist())
        for slot, node in enumerate(self._nodes):
            if slot not in cached:
                _detach(node)
        self._nodes = [self._nodes[slot] for slot in slots]
        self._used = self._used[slots]
        for slot, node in enumerate(self._nodes):
            node.slot = slot
        self._memory = self.read(slots.tolist())

    def _grow(self, layers: Any, num_slots: int) -> None:
        have = self._memory[0][0].shape[2] if self._memory else 0
        if num_slots <= have:
            return
        size = max(num_slots, min(self.max_tokens, max(2 * have, _FIRST_SLOTS)))
        grown = []
        for i, layer in enumerate(layers):
            pair = []
            for side, like in enumerate((layer.keys, layer.values)):
                memory = like.new_empty(1, like.shape[1], size, like.shape[3])
                if have:
                    memory[:, :, :have] = self._memory[i][side]
                pair.append(memory)
            grown.append((pair[0], pair[1]))
        self._memory = grown


def _detach(node: TokenNode) -> None:
    if node.parent is not None:
        node.parent.children.pop(node.token_id, None)
