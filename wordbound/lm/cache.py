"""Caches: of the rows used last, and of the keys and values of the tokens used last, in a tree of prefixes."""

from collections.abc import Hashable, Sequence
from typing import Any, Self

import torch
from cachetools import LRUCache

from wordbound.lm.gathering import Ids


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
    """A tree of token ids: a node stands for the prefix that leads to it; ``children`` are by the next token.

    ``past_key_values`` are the prefix's KV states, if any; its last token's are in ``slot``, last used at ``used``.
    """

    def __init__(self, parent: Self | None = None, token_id: int = -1) -> None:
        self.children: dict[int, Self] = {}
        self.past_key_values: Any = None
        self.parent = parent
        self.token_id = token_id
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.slot = -1
        self.used = 0.0

    def has_token(self, token_id: int) -> bool:
        """Return whether the node of this prefix with one more token exists."""
        return token_id in self.children

    def get_token(self, token_id: int) -> Self:
        """Return the node of this prefix with one more token, else raise ``KeyError``."""
        return self.children[token_id]

    def add_token(self, token_id: int) -> Self:
        """Return the node of this prefix with one more token, made if missing."""
        if token_id not in self.children:
            self.children[token_id] = type(self)(self, token_id)
        return self.children[token_id]

    def detach(self) -> None:
        """Remove this node, and all longer prefixes with it, from its tree."""
        if self.parent is not None:
            self.parent.children.pop(self.token_id, None)

    def __repr__(self) -> str:
        """Nested lists of children, with a star before nodes that have KV states: ``[1: *[2: [], 3: []]]``."""
        # No recursion: prefixes are longer than Python's stack is deep.
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


class CachedTokens:
    """A cache of the keys and values of the tokens used last, each token of a common beginning once.

    Args:
        max_tokens: The most tokens cached; 0 for none. Their memory is taken when the first one comes.
    """

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.clear()

    def clear(self) -> None:
        """Drop all cached tokens, pinned ones too."""
        self.root = TokenTrie()
        self._nodes: dict[int, TokenTrie] = {}
        self._free = list(range(self.max_tokens - 1, -1, -1))
        self._clock = 0
        # By layer, keys and values: (slots, heads, size of a head).
        self._memory: list[tuple[torch.Tensor, torch.Tensor]] = []

    def path(self, ids: Sequence[int]) -> list[int]:
        """Return the slots of the longest beginning of ``ids`` that is cached, and note that it was used now."""
        node, slots = self.root, []
        for token_id in ids:
            child = node.children.get(token_id)
            if child is None:
                break
            node = child
            node.used = max(node.used, self._clock)
            slots.append(node.slot)
        return slots

    def read(self, paths: Sequence[Sequence[int]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return copies of the keys and values in slots, padded on the left, by layer; none where no slot is given."""
        longest = max(map(len, paths))
        if not longest:
            return []
        padded = [slot for path in paths for slot in (*[0] * (longest - len(path)), *path)]
        at, shape = torch.tensor(padded, device=self._memory[0][0].device), (len(paths), longest)

        def copy(memory: torch.Tensor) -> torch.Tensor:
            return memory.index_select(0, at).unflatten(0, shape).transpose(1, 2)

        return [(copy(keys), copy(values)) for keys, values in self._memory]

    def add(self, prefixes: Sequence[Ids], num_cached: Sequence[int], layers: Any, first: int) -> None:
        """Cache what a forward over prefixes computed for new tokens, those after ``num_cached`` of each.

        ``layers`` are the cache's after the forward, ``first`` the column of the first new token of each prefix.
        """
        new: list[TokenTrie] = []
        rows, columns = [], []
        for row, (ids, start) in enumerate(zip(prefixes, num_cached, strict=True)):
            node = self.root
            for place, token_id in enumerate(ids):
                child = node.children.get(token_id)
                if child is None:
                    child = node.add_token(token_id)
                    new.append(child)
                    rows.append(row)
                    columns.append(first + place - start)
                node = child
        if not self._make_room(len(new)):
            for node in reversed(new):
                node.detach()
            return
        for node in new:
            node.slot, node.used = self._free.pop(), self._clock
            self._nodes[node.slot] = node
        self._memory = self._memory or [
            tuple(one.new_zeros(self.max_tokens, one.shape[1], one.shape[3]) for one in (layer.keys, layer.values))
            for layer in layers
        ]
        slots = [node.slot for node in new]
        for layer, (keys, values) in zip(layers, self._memory, strict=True):
            keys[slots] = layer.keys[rows, :, columns]
            values[slots] = layer.values[rows, :, columns]
        self._clock += 1

    def pin(self, ids: Sequence[int]) -> TokenTrie:
        """Pin a cached prefix until ``clear``, drop what was cached after it, and return its node.

        Its tokens must be cached already, else ValueError.
        """
        slots = self.path(ids)
        if len(slots) < len(ids):
            raise ValueError(f"{len(ids)} tokens do not fit into the {self.max_tokens} cached: raise kv_cache_tokens")
        for slot in slots:
            self._nodes[slot].used = torch.inf
        node = self._nodes[slots[-1]]
        below = list(node.children.values())
        for one in below:
            below.extend(one.children.values())
        self._drop(below)
        return node

    def _make_room(self, num_tokens: int) -> bool:
        """Drop the tokens not used for longest where new ones do not fit; return whether they fit then."""
        if num_tokens > len(self._free):
            # A token is used whenever one after it is: among those used at the same time the last of a text goes first.
            old = [node for node in self._nodes.values() if node.used < self._clock]
            old.sort(key=lambda node: (node.used, -node.depth))
            # A quarter more than needed, so that not every batch looks at all of them.
            self._drop(old[: num_tokens - len(self._free) + self.max_tokens // 4])
        return num_tokens <= len(self._free)

    def _drop(self, nodes: Sequence[TokenTrie]) -> None:
        for node in nodes:
            node.detach()
            del self._nodes[node.slot]
            self._free.append(node.slot)
