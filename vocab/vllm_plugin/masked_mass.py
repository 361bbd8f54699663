"""The mass that a mask leaves of p, and the likeliest tokens before it: measured on logits, reported in logprobs.

The measure is taken while the mask is applied, and travels on the tensor of logits itself, so that it cannot be taken
for another step's. log Z is the log of the sum of p over the allowed tokens: log p = log q + log Z, for the sampled
token and the top tokens alike; minus infinity stays. The sampled token's rank becomes
``vocab.matching.log_mass.pack``'s number. log Z at the row's temperature leaves out what is applied later: penalties,
biases, top-k, top-p and min-p.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch

from vocab.matching.log_mass import FIELD_BITS, FIELD_MAX, FRACTION_BITS, MARK, NUM_REFUSED, mark

_CHUNK: Final = 256

_ATTRIBUTE: Final = "_wordbound_mass"
"""Of a tensor of logits."""


class MassAsked(NamedTuple):
    """What is measured in a row: the mass at 1 and at this temperature, and the unmasked top.

    The top are ``num_top`` tokens in place of vLLM's own, or ``NUM_REFUSED`` in the columns from ``refused_at`` on.
    """

    temperature: float
    num_top: int | None = None
    refused_at: int | None = None


class UnmaskedTop(NamedTuple):
    """The model's likeliest tokens in some rows, before their mask.

    Attributes:
        rows: int64 (n,), the rows of the batch.
        tokens: int64 (n, k), the likeliest first.
        log_p: float32 (n, k), marked where the mask took the token.
        is_forced: bool (n,), whether the mask left one token.
        refused_at: As of ``MassAsked``, of each row.
    """

    rows: torch.Tensor
    tokens: torch.Tensor
    log_p: torch.Tensor
    is_forced: torch.Tensor
    refused_at: Sequence[int | None]


class MaskedMass(NamedTuple):
    """What the mask left in the measured rows.

    Attributes:
        rows: int64 (measured,), the rows of the batch; None for all of them, in order.
        log_mass: float32 (measured,), log Z at temperature 1.
        log_weight_mass: float32 (measured,), log Z at the row's temperature.
        top: None where no row wants it.
    """

    rows: torch.Tensor | None
    log_mass: torch.Tensor
    log_weight_mass: torch.Tensor
    top: UnmaskedTop | None = None


def measure(logits: torch.Tensor, asked: Mapping[int, MassAsked], apply_mask: Callable[[], None]) -> None:
    """Apply the mask, and attach the log mass that it leaves to ``logits``, for ``take``. Does not wait for a GPU.

    Args:
        logits: (sequences, tokens), any float; ``apply_mask`` changes them in place.
        asked: By row, ascending, what to measure there; temperatures are above 0.
        apply_mask: Sets the logits of forbidden tokens to minus infinity.
    """
    rows, temperatures = list(asked), [one.temperature for one in asked.values()]
    total = total_row_by_row if logits.is_cpu else total_at_once
    before, warm_before = total(logits, rows, temperatures)
    with_top = [position for position, row in enumerate(rows) if asked[row][1:] != (None, None)]
    top = None
    if with_top:
        top_rows = _like(logits, [rows[position] for position in with_top], torch.int64)
        # Without a copy where it is of all rows.
        of_top = logits if len(with_top) == len(logits) else logits[top_rows]
        refused_at = [asked[rows[position]].refused_at for position in with_top]
        num_refused = NUM_REFUSED if any(at is not None for at in refused_at) else 0
        values, tokens = likeliest(of_top, max(num_refused, *(one.num_top or 0 for one in asked.values())))
        top_log_p = values.float() - before[_like(logits, with_top, torch.int64), None]
    apply_mask()
    after, warm_after = total(logits, rows, temperatures)
    if with_top:
        left = logits if of_top is logits else logits[top_rows]
        is_taken = left.gather(1, tokens).isneginf()
        is_forced = likeliest(left, 2)[0][:, 1].isneginf()
        log_p = torch.where(is_taken, mark(top_log_p), top_log_p)
        top = UnmaskedTop(top_rows, tokens, log_p, is_forced, refused_at)
    index = None if len(rows) == len(logits) else _like(logits, rows, torch.int64)
    mass = MaskedMass(index, after - before, warm_after - warm_before, top)
    # Of some rows vLLM applies the masks, of others the device's own kernels.
    vars(logits).setdefault(_ATTRIBUTE, []).append(mass)


def total_row_by_row(
    logits: torch.Tensor, rows: Sequence[int], temperatures: Sequence[float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log of the sum of exp over each row, at temperature 1 and at its own: float32 (rows,) each.

    For a CPU, where rows that stay in its cache take a third of the time.
    """
    totals, warm_totals = [], []
    for row, temperature in zip(rows, temperatures, strict=True):
        values = logits[row].float()
        totals.append(_log_sum_exp(values))
        warm_totals.append(totals[-1] if temperature == 1.0 else _log_sum_exp(values / temperature))
    return torch.stack(totals), torch.stack(warm_totals)


def total_at_once(
    logits: torch.Tensor, rows: Sequence[int], temperatures: Sequence[float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same as ``total_row_by_row``, on a GPU in few kernels; rows of temperature 1 are not divided by it."""
    values = (logits if len(rows) == len(logits) else logits[_like(logits, rows, torch.int64)]).float()
    totals = _log_sum_exp(values)
    warm = [i for i, temperature in enumerate(temperatures) if temperature != 1.0]
    if not warm:
        return totals, totals
    index = _like(logits, warm, torch.int64)
    divisors = _like(logits, [temperatures[i] for i in warm], torch.float32)
    return totals, totals.index_copy(0, index, _log_sum_exp(values[index] / divisors[:, None]))


def likeliest(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest values of each row and their places, (rows, k) each, as ``torch.topk`` does.

    On a CPU it looks only into the k chunks with the largest maxima, in a third of the time.
    """
    num_chunks = logits.shape[1] // _CHUNK
    if not logits.is_cpu or num_chunks < 2 * k or not k:
        found = logits.topk(k)
        return found.values, found.indices
    places = torch.arange(logits.shape[1])
    chunks = logits[:, : num_chunks * _CHUNK].unflatten(1, (num_chunks, _CHUNK))
    largest = chunks.amax(-1).topk(k).indices
    values = chunks.gather(1, largest[:, :, None].expand(-1, -1, _CHUNK)).flatten(1)
    looked_at = places[: num_chunks * _CHUNK].view(num_chunks, _CHUNK)[largest].flatten(1)
    rest = places[num_chunks * _CHUNK :]
    found = torch.cat([values, logits[:, num_chunks * _CHUNK :]], dim=1).topk(k)
    return found.values, torch.cat([looked_at, rest.expand(len(logits), -1)], dim=1).gather(1, found.indices)


def take(logits: torch.Tensor) -> Sequence[MaskedMass]:
    """Take the masses that ``measure`` attached to these logits, once; each of other rows."""
    masses: list[MaskedMass] = vars(logits).pop(_ATTRIBUTE, [])
    return masses


def report(mass: MaskedMass, logprobs: Any) -> Any:
    """Return the logprobs with p in place of q in the measured rows, and the packed masses in place of their ranks.

    Args:
        mass: From ``take``.
        logprobs: vLLM's ``LogprobsTensors``: ``logprobs`` float32 (sequences, columns), where minus infinity stays,
            and ``selected_token_ranks`` int64 (sequences,).
    """
    log_p, ranks = logprobs.logprobs, logprobs.selected_token_ranks
    added, packed = mass.log_mass[:, None], pack_all(mass.log_mass, mass.log_weight_mass)
    if mass.rows is None:
        log_p, ranks = log_p + added, packed
    else:
        log_p = log_p.index_add(0, mass.rows, added.expand(-1, log_p.shape[1]))
        ranks = ranks.long().index_copy(0, mass.rows, packed)
    reported = logprobs._replace(logprobs=log_p, selected_token_ranks=ranks)
    return reported if mass.top is None else report_top(mass.top, reported)


def report_top(top: UnmaskedTop, logprobs: Any) -> Any:
    """Return the logprobs with the unmasked top in its columns; where it is vLLM's own, forced tokens are marked.

    ``logprobs`` have p, a sampled token in the first column, and as many others as were asked for.
    """
    ids, values = logprobs.logprob_token_ids.clone(), logprobs.logprobs.clone()
    for first in set(top.refused_at):
        chosen = [position for position, at in enumerate(top.refused_at) if at == first]
        index = _like(ids, chosen, torch.int64)
        rows, tokens, log_p = top.rows[index], top.tokens[index].to(ids.dtype), top.log_p[index]
        if first is not None:
            ids[rows, first : first + NUM_REFUSED] = tokens[:, :NUM_REFUSED]
            values[rows, first : first + NUM_REFUSED] = log_p[:, :NUM_REFUSED]
            continue
        sampled, own = ids[rows, :1], values[rows, :1]
        own = torch.where(top.is_forced[index, None], mark(own), own)
        num_columns = min(1 + tokens.shape[1], ids.shape[1])
        ids[rows, :num_columns] = torch.cat([sampled, tokens], dim=1)[:, :num_columns]
        all_log_p = torch.cat([own, torch.where(tokens == sampled, own, log_p)], dim=1)
        values[rows, :num_columns] = all_log_p[:, :num_columns]
    return logprobs._replace(logprob_token_ids=ids, logprobs=values)


def pack_all(log_mass: torch.Tensor, log_weight_mass: torch.Tensor) -> torch.Tensor:
    """Apply ``vocab.matching.log_mass.pack`` elementwise: int64 of the same shape."""
    return _fields(log_mass) << FIELD_BITS | _fields(log_weight_mass) | MARK


def _fields(log_mass: torch.Tensor) -> torch.Tensor:
    """Encode log masses as fields in fixed point, int64; NaN as the least."""
    # In float64, which can write every field.
    units = log_mass.double().neg().nan_to_num(FIELD_MAX) * (1 << FRACTION_BITS)
    return units.clamp(0, FIELD_MAX).round().long()


def _log_sum_exp(logits: torch.Tensor) -> torch.Tensor:
    # torch.logsumexp takes 7.8 ms for 32 masked rows of 49,152 on a CPU core, for its slow exp of -inf; this 1.4 ms.
    return logits.amax(-1) - logits.log_softmax(-1).amax(-1)


def _like(logits: torch.Tensor, values: Sequence[float], dtype: torch.dtype) -> torch.Tensor:
    """Copy values into a tensor on the device of the logits, without waiting for it."""
    on_host = torch.tensor(values, dtype=dtype, pin_memory=logits.is_cuda)
    return on_host.to(logits.device, non_blocking=True)
