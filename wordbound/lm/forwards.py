"""Forward passes of a model of transformers over many prefixes, which go on from keys and values computed before.

A batch is padded: on the left what is cached of each prefix, on the right what is new. That is exact for models whose
every layer sees the whole text and whose positions are given to them; ``can_continue`` asks the model. Others read each
prefix from its beginning.
"""

import inspect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import torch

from wordbound.lm.cache import CachedTokens
from wordbound.lm.gathering import Ids, num_equal

_MIN_SHARED: Final = 16
"""New tokens that several prefixes begin with, which are then computed once, before them."""
_FORWARD_TOKENS: Final = {"cpu": 32, "cuda": 512}
"""How many tokens cost what a forward costs besides its tokens, as it reads all weights; a GPU computes far more."""
_MAX_TOKENS: Final = 4096
"""Of a forward, padding included: 600 MB for the widest layer of a model of 8B in 32 bits."""
_SCORED_AT_ONCE: Final = 256
"""Tokens of a text that are scored by one forward: 50 MB of logits at 49k tokens, 268 MB at 262k."""
_PLAIN_ROPE: Final = (None, "default", "linear", "llama3", "yarn")
"""Kinds of rotary positions that do not depend on the longest text in the batch."""
_PROOF: Final = ((1, 2, 3), (1, 2, 4, 5), (2, 1))


def next_logits(model: Any, prefixes: Sequence[Ids], cached: CachedTokens | None) -> torch.Tensor:
    """Return (n, V): the logits after each of n prefixes, which go on from what is cached of them, and are cached.

    The new tokens that several begin with are computed once. ``cached`` is None for a model that cannot go on.
    """
    if cached is not None and (starts := _new_beginnings(prefixes, cached)):
        next_logits(model, starts, cached)
    rows: dict[int, torch.Tensor] = {}
    most_padding = _FORWARD_TOKENS.get(model.device.type, _FORWARD_TOKENS["cuda"])
    for places in _groups(prefixes, cached, most_padding):
        logits = _group_logits(model, [prefixes[i] for i in places], cached)
        rows |= dict(zip(places, logits, strict=True))
    return torch.stack([rows[i] for i in range(len(prefixes))])


def _new_beginnings(prefixes: Sequence[Ids], cached: CachedTokens) -> list[Ids]:
    """Return the shortest beginnings that several prefixes share, where enough of it is new and all can be cached."""
    found: list[Ids] = []
    for ids, other in pairwise(sorted(prefixes)):
        start = ids[: num_equal(ids, other)]
        if len(start) - len(cached.path(start)) >= _MIN_SHARED:
            found.append(start)
    starts: list[Ids] = []
    for start in sorted(found):
        # A beginning stands before those that go on from it.
        if not starts or start[: len(starts[-1])] != starts[-1]:
            starts.append(start)
    return starts if sum(map(len, starts)) <= cached.max_tokens else []


def _groups(prefixes: Sequence[Ids], cached: CachedTokens | None, most_padding: int) -> Iterator[list[int]]:
    """Yield the places of prefixes of one forward each: of about as many new tokens, and not too many together."""
    num_new = [len(ids) - (len(cached.path(ids[:-1])) if cached else 0) for ids in prefixes]
    group: list[int] = []
    for place in sorted(range(len(prefixes)), key=num_new.__getitem__):
        # The shorter ones are padded.
        padding = len(group) * (num_new[place] - num_new[group[-1]]) if group else 0
        if group and (padding > most_padding or num_new[place] * (len(group) + 1) > _MAX_TOKENS):
            yield group
            group = []
        group.append(place)
    yield group


def _group_logits(model: Any, prefixes: Sequence[Ids], cached: CachedTokens | None) -> torch.Tensor:
    from transformers import DynamicCache

    # The last token is always computed, for its logits are what is asked for.
    paths = [cached.path(ids[:-1]) if cached else [] for ids in prefixes]
    num_past = max(map(len, paths))
    new = [ids[len(path) :] for ids, path in zip(prefixes, paths, strict=True)]
    num_new = max(map(len, new))
    device, options = model.device, dict[str, Any]()
    padded = [[*own, *[0] * (num_new - len(own))] for own in new]
    seen = [
        [*[0] * (num_past - len(path)), *[1] * (len(path) + len(own)), *[0] * (num_new - len(own))]
        for path, own in zip(paths, new, strict=True)
    ]
    cache = None
    if cached is not None and cached.max_tokens:
        cache = DynamicCache(cached.read(paths) or None)
        # Padding has the position of the last token, as the model may have none after it.
        positions = [
            [min(place, len(ids) - 1) for place in range(len(path), len(path) + num_new)]
            for ids, path in zip(prefixes, paths, strict=True)
        ]
        options["position_ids"] = torch.tensor(positions, device=device)
    lasts = [len(own) - 1 for own in new]
    # Only where some prefix ends: all positions of 20 prefixes of 1,000 tokens are 4 GB of logits at 49k tokens.
    wanted = sorted(set(lasts))
    mask = torch.tensor(seen, device=device)
    logits = logits_at(model, torch.tensor(padded, device=device), wanted, cache, attention_mask=mask, **options)
    if cached is not None and cache is not None:
        cached.add(prefixes, list(map(len, paths)), cache.layers, num_past)
    return logits[range(len(new)), [wanted.index(last) for last in lasts]]


def scores_after(model: Any, prompt: Ids, ids: Ids, cached: CachedTokens) -> torch.Tensor:
    """Compute float32 (n,): log p of each given token after the prompt, 256 tokens to a forward."""
    from transformers import DynamicCache

    slots = cached.path(prompt[:-1])
    cache = DynamicCache(cached.read([slots])) if slots else None
    if cache is None and len(ids) > _SCORED_AT_ONCE:
        cache = DynamicCache(config=model.config)
    scores: list[torch.Tensor] = []
    unread = prompt[len(slots) :]
    for start in range(0, len(ids), _SCORED_AT_ONCE):
        part = ids[start : start + _SCORED_AT_ONCE]
        # The last one is scored by what comes before it; the next part reads it.
        read = torch.tensor([unread + part[:-1]], device=model.device)
        places = range(len(unread) - 1, len(unread) - 1 + len(part))
        rows = logits_at(model, read, places, cache)[0].float().log_softmax(-1)
        scores.append(rows.gather(1, torch.tensor(part, device=rows.device)[:, None])[:, 0].cpu())
        unread = part[-1:]
    return torch.cat(scores)


def can_continue(model: Any) -> bool:
    """Return whether a model gives the same rows after cached tokens: by its configuration and by a trial."""
    config = model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = getattr(config, "layer_types", None)
    sees_all = all(kind == "full_attention" for kind in kinds) if kinds else not getattr(config, "sliding_window", None)
    # GPT-Neo's name for layers of a window.
    sees_all = sees_all and "local" not in (getattr(config, "attention_layers", None) or ())
    if not sees_all or rope.get("rope_type") not in _PLAIN_ROPE:
        return False
    ids = [tuple(token % config.vocab_size for token in one) for one in _PROOF]
    try:
        cached = CachedTokens(len(_PROOF) * 4)
        next_logits(model, [one[:-1] for one in ids], cached)
        continued = next_logits(model, ids, cached)
        alone = torch.cat([model(torch.tensor([one], device=model.device)).logits[:, -1] for one in ids])
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
        return False
    # bfloat16 has 8 bits: rows of different shapes differ by some hundredths.
    tolerance = 1e-3 if model.dtype == torch.float32 else 0.1
    return bool((continued.float().log_softmax(-1) - alone.float().log_softmax(-1)).abs().max() < tolerance)


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
