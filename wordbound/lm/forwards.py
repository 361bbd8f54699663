"""Forward passes of a model of transformers over many prefixes: packed into one sequence, or padded in one batch.

Packed, each token of a common beginning is computed once; keys and values that were computed before are cached.

A token sees the tokens before it in its own prefix, by a mask over the tree of all prefixes. That is exact for models
whose every layer sees the whole text and whose positions are given to them; ``can_pack`` asks the model.
"""

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from wordbound.lm.cache import TokenTrie
from wordbound.lm.gathering import Ids

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
    """A cache of the keys and values of the tokens used last, each token of a common beginning once.

    Args:
        max_tokens: The most tokens cached; 0 for none.
    """

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.clear()

    def clear(self) -> None:
        """Drop all cached tokens, pinned ones too."""
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
        """Note that the tokens in these slots were used now, all at the same time."""
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
        """Cache the keys and values that a forward computed for new tokens.

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
        """Pin a cached prefix until ``clear``, drop what was cached after it, and return its node.

        Its tokens must be cached already, else ValueError.
        """
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
        """Drop the tokens not used for longest where new ones do not fit; those used now stay."""
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
        """Drop all cached tokens but those in these slots, and renumber the slots from 0."""
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
        """Enlarge the memory of keys and values, by doubling it, to ``num_slots`` or more."""
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


_MAX_MASK: Final = 1 << 22
"""The most cells of a mask (2,048 by 2,048 tokens): beyond, attention costs more than common beginnings save."""
_PACKED_ATTENTION: Final = ("sdpa", "eager")
"""Kinds of attention that take a mask of every token by every token."""
_PLAIN_ROPE: Final = (None, "default", "linear", "llama3", "yarn")
"""Kinds of rotary positions that do not depend on the longest text in the batch."""
_PROOF: Final = ((1, 2, 3), (1, 2, 4, 5), (2, 1))


@dataclass(frozen=True)
class _Tree:
    """The new tokens of packed prefixes and their mask, and the slots of the cached tokens before them."""

    slots: list[int]
    tokens: list[int]
    positions: list[int]
    mask: npt.NDArray[np.bool_]
    places: list[list[int]]


def packed_logits(model: Any, prefixes: Sequence[Ids], cached: CachedTokens) -> torch.Tensor:
    """Return (n, V): the logits after each of n prefixes, by packed forwards. Their tokens are cached in ``cached``."""
    # Beside each other where they begin alike, so that a part of them has its beginnings together.
    order = sorted(range(len(prefixes)), key=prefixes.__getitem__)
    found: list[torch.Tensor] = []
    todo = [prefixes[i] for i in order]
    while todo:
        part = _first_that_fit(todo, cached)
        found.append(_part_logits(model, part, cached))
        todo = todo[len(part) :]
    logits = torch.cat(found)
    back = torch.empty(len(order), dtype=torch.long)
    back[order] = torch.arange(len(order))
    return logits[back.to(logits.device)]


def can_pack(model: Any) -> bool:
    """Return whether a model gives packed prefixes the same rows as each alone: by its configuration and by a trial."""
    config = model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = getattr(config, "layer_types", None)
    sees_all = all(kind == "full_attention" for kind in kinds) if kinds else not getattr(config, "sliding_window", None)
    # GPT-Neo's name for layers of a window.
    sees_all = sees_all and "local" not in (getattr(config, "attention_layers", None) or ())
    if not sees_all or config._attn_implementation not in _PACKED_ATTENTION or rope.get("rope_type") not in _PLAIN_ROPE:
        return False
    ids = [tuple(token % config.vocab_size for token in one) for one in _PROOF]
    try:
        cached = CachedTokens(len(_PROOF) * 4)
        # The second time with what the first one cached.
        packed = torch.stack([packed_logits(model, ids, cached) for _ in range(2)])
        alone = torch.cat([model(torch.tensor([one], device=model.device)).logits[:, -1] for one in ids])
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
        return False
    # bfloat16 has 8 bits: rows of different shapes differ by some hundredths.
    tolerance = 1e-3 if model.dtype == torch.float32 else 0.1
    return bool((packed.float().log_softmax(-1) - alone.float().log_softmax(-1)).abs().max() < tolerance)


def _first_that_fit(prefixes: list[Ids], cached: CachedTokens) -> list[Ids]:
    """Return the first prefixes, as many as their mask allows in one forward, but at least one."""
    num_new, num_old = 0, 0
    before: Ids = ()
    for n, ids in enumerate(prefixes):
        num_cached = min(len(cached.path(ids)), len(ids) - 1)
        common = next(
            (i for i, (a, b) in enumerate(zip(ids, before, strict=False)) if a != b), min(len(ids), len(before))
        )
        num_new += len(ids) - max(num_cached, min(common, len(ids) - 1))
        num_old += max(0, num_cached - common)
        if n and num_new * (num_new + num_old) > _MAX_MASK:
            return prefixes[:n]
        before = ids
    return prefixes


def _part_logits(model: Any, prefixes: list[Ids], cached: CachedTokens) -> torch.Tensor:
    """Compute the logits after some prefixes by one packed forward, and cache their tokens."""
    from transformers import DynamicCache

    tree = _tree(prefixes, cached)
    cache = DynamicCache(cached.read(tree.slots) or None)
    cached.touch(tree.slots)
    device = model.device
    # One prefix alone is a plain text, for which attention has a faster way than by masks.
    mask = None if len(prefixes) == 1 else _mask(tree.mask, model)
    logits = model(
        torch.tensor([tree.tokens], device=device),
        attention_mask=mask,
        position_ids=torch.tensor([tree.positions], device=device),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=torch.tensor([own[-1] for own in tree.places], device=device),
    ).logits[0]
    if cached.max_tokens:
        cached.add(prefixes, tree.places, cache.layers, len(tree.slots))
    return logits


def _tree(prefixes: list[Ids], cached: CachedTokens) -> _Tree:
    """Lay out the new tokens of prefixes, each once, with positions and what each may see."""
    # The last token is always computed, for its logits are what is asked for.
    paths = [cached.path(ids[:-1]) for ids in prefixes]
    slots = list(dict.fromkeys(slot for path in paths for slot in path))
    columns = {slot: column for column, slot in enumerate(slots)}
    tokens: list[int] = []
    positions: list[int] = []
    # By new token, the one before it: another new one, or all cached ones of its prefix.
    before: list[int | list[int]] = []
    known: dict[tuple[int, int], int] = {}
    places: list[list[int]] = []
    for ids, path in zip(prefixes, paths, strict=True):
        # New tokens are 0, 1, ...; a cached one in slot s is -2 - s, and the beginning -1.
        at = -2 - path[-1] if path else -1
        own = []
        for position in range(len(path), len(ids)):
            place = known.get((at, ids[position]))
            if place is None:
                place = known[at, ids[position]] = len(tokens)
                tokens.append(ids[position])
                positions.append(position)
                before.append(at if at >= 0 else [columns[slot] for slot in path])
            own.append(place)
            at = place
        places.append(own)
    mask = np.zeros((len(tokens), len(slots) + len(tokens)), dtype=np.bool_)
    for place, seen in enumerate(before):
        if isinstance(seen, int):
            mask[place] = mask[seen]
        else:
            mask[place, seen] = True
        mask[place, len(slots) + place] = True
    return _Tree(slots, tokens, positions, mask, places)


def _mask(seen: npt.NDArray[np.bool_], model: Any) -> torch.Tensor:
    """Return a mask as the model's attention takes it, (1, 1, new tokens, all tokens): bool for sdpa, else floats."""
    mask = torch.from_numpy(seen).to(model.device)[None, None]
    if model.config.get_text_config()._attn_implementation == "sdpa":
        return mask
    return torch.zeros(mask.shape, dtype=model.dtype, device=model.device).masked_fill_(
        ~mask, torch.finfo(model.dtype).min
    )


def padded_logits(model: Any, prefixes: Sequence[Ids], pinned: Sequence[tuple[Ids, Any]]) -> torch.Tensor:
    """Return (n, V): the logits after each of n prefixes, by one padded forward for each pinned beginning among them.

    Args:
        model: A causal language model of transformers.
        prefixes: What it reads.
        pinned: Beginnings with their caches, which stay as they are.
    """
    groups: dict[int, list[int]] = {}
    for i, ids in enumerate(prefixes):
        # The last token is always computed, for its logits are what is asked for.
        fitting = [at for at, (start, _) in enumerate(pinned) if len(start) < len(ids) and ids[: len(start)] == start]
        groups.setdefault(max(fitting, key=lambda at: len(pinned[at][0]), default=-1), []).append(i)
    rows: dict[int, torch.Tensor] = {}
    for at, members in groups.items():
        start, cache = pinned[at] if at >= 0 else ((), None)
        logits = _group_logits(model, [prefixes[i][len(start) :] for i in members], len(start), cache)
        rows |= dict(zip(members, logits, strict=True))
    return torch.stack([rows[i] for i in range(len(prefixes))])


def _group_logits(model: Any, texts: list[Ids], num_before: int, cache: Any) -> torch.Tensor:
    """Compute the logits after texts by one padded forward that continues a copy of a cache."""
    if cache is not None:
        cache = copy.deepcopy(cache)
        cache.batch_repeat_interleave(len(texts))
    longest = max(map(len, texts))
    device = model.device
    # To the right: a causal model sees no padding before what is asked for.
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts], device=device)
    seen = [[*[1] * (num_before + len(text)), *[0] * (longest - len(text))] for text in texts]
    lasts = [len(text) - 1 for text in texts]
    # Only where some prefix ends: all positions of 20 prefixes of 1,000 tokens are 4 GB of logits at 49k tokens.
    wanted = sorted(set(lasts))
    logits = logits_at(model, ids, wanted, cache, attention_mask=torch.tensor(seen, device=device))
    return logits[range(len(texts)), [wanted.index(last) for last in lasts]]


def logits_at(model: Any, ids: torch.Tensor, places: Sequence[int], cache: Any = None, **options: Any) -> torch.Tensor:
    """Return (n, places, V): the logits at some places of n texts, int64 (n, tokens), that continue a cache, if any."""
    if cache is not None:
        options["past_key_values"] = cache
    # Not every kind of model can leave the others out.
    keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
    if keeps:
        options["logits_to_keep"] = torch.tensor(places, device=ids.device)
    logits: torch.Tensor = model(ids, use_cache=cache is not None, **options).logits
    return logits if keeps else logits[:, places]
