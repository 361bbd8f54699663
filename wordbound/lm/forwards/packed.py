"""Many prefixes in one sequence: each token of a common beginning is computed once, and nothing is padded.

A token sees the tokens before it in its own prefix, by a mask over the tree of all prefixes. That is exact for models
whose every layer sees the whole text and whose positions are given to them; ``can_pack`` asks the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from wordbound.lm.forwards.cached_tokens import CachedTokens
from wordbound.lm.gathering import Ids

_MAX_MASK: Final = 1 << 22
"""The most cells of a mask (2,048 by 2,048 tokens): beyond, attention costs more than common beginnings save."""
_PACKED_ATTENTION: Final = ("sdpa", "eager")
"""Kinds of attention that take a mask of every token by every token."""
_PLAIN_ROPE: Final = (None, "default", "linear", "llama3", "yarn")
"""Kinds of rotary positions that do not depend on the longest text in the batch."""
_PROOF: Final = ((1, 2, 3), (1, 2, 4, 5), (2, 1))


@dataclass(frozen=True)
class _Tree:
    """The new tokens of some prefixes, and what they see."""

    slots: list[int]
    tokens: list[int]
    positions: list[int]
    mask: npt.NDArray[np.bool_]
    places: list[list[int]]


def packed_logits(model: Any, prefixes: Sequence[Ids], cached: CachedTokens) -> torch.Tensor:
    """Return (n, V): the logits after each of n prefixes. Their tokens are cached in ``cached``."""
    # Beside each other where they begin alike, so that a part of them has its beginnings together.
    order = sorted(range(len(prefixes)), key=prefixes.__getitem__)
    found: list[torch.Tensor] = []
    todo = [prefixes[i] for i in order]
    while todo:
        part = _part(todo, cached)
        found.append(_part_logits(model, part, cached))
        todo = todo[len(part) :]
    logits = torch.cat(found)
    back = torch.empty(len(order), dtype=torch.long)
    back[order] = torch.arange(len(order))
    return logits[back.to(logits.device)]


def can_pack(model: Any) -> bool:
    """Whether packed prefixes get the same rows as each alone: by its configuration, and by a proof of five tokens."""
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


def _part(prefixes: list[Ids], cached: CachedTokens) -> list[Ids]:
    """The first prefixes, as many as their mask allows, but at least one."""
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
    """(1, 1, new tokens, all tokens), as the model's attention wants it."""
    mask = torch.from_numpy(seen).to(model.device)[None, None]
    if model.config.get_text_config()._attn_implementation == "sdpa":
        return mask
    return torch.zeros(mask.shape, dtype=model.dtype, device=model.device).masked_fill_(
        ~mask, torch.finfo(model.dtype).min
    )
