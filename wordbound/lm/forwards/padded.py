"""Many prefixes in one batch, the short ones padded: for models that cannot have them packed into one sequence."""

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch

from wordbound.lm.gathering import Ids


def padded_logits(model: Any, prefixes: Sequence[Ids], pinned: Sequence[tuple[Ids, Any]]) -> torch.Tensor:
    """Return (n, V): the logits after each of n prefixes, by one forward for each pinned beginning among them.

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
    """Return (n, places, V): the logits at some places of n texts, int64 (n, tokens), that go on from a cache."""
    if cache is not None:
        options["past_key_values"] = cache
    # Not every kind of model can leave the others out.
    keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
    if keeps:
        options["logits_to_keep"] = torch.tensor(places, device=ids.device)
    logits: torch.Tensor = model(ids, use_cache=cache is not None, **options).logits
    return logits if keeps else logits[:, places]
