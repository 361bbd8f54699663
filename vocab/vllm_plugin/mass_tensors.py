"""Measures what a mask leaves of the probability in rows of logits, and writes it into a sampler's logprobs.

The measure travels on the tensor of logits itself, from where the mask is applied to where the logprobs are made of
it, so that it can be taken for no other step's. Knows torch; which rows are measured, and when, is
``vocab.vllm_plugin.log_mass_hook``'s.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch

from vocab.matching.log_mass import FIELD_BITS, FIELD_MAX, FRACTION_BITS, MARK

_ATTRIBUTE: Final = "_wordbound_mass"


class MaskedMass(NamedTuple):
    """What the mask left in the measured rows.

    Attributes:
        rows: int64 (measured,), the rows of the batch; None for all of them, in order.
        log_mass: float32 (measured,), log Z at temperature 1.
        log_weight_mass: float32 (measured,), log Z at the row's temperature.
    """

    rows: torch.Tensor | None
    log_mass: torch.Tensor
    log_weight_mass: torch.Tensor


def measure(
    logits: torch.Tensor, rows: Sequence[int], temperatures: Sequence[float], apply_mask: Callable[[], None]
) -> None:
    """Applies the mask and leaves on ``logits`` what it took, for ``take``.

    Nothing here waits for a GPU.

    Args:
        logits: (sequences, tokens), any float; ``apply_mask`` changes them in place.
        rows: The rows to measure, ascending.
        temperatures: For each of them, above 0.
        apply_mask: Sets the logits of tokens that may not come to minus infinity.
    """
    total = total_row_by_row if logits.is_cpu else total_at_once
    before, warm_before = total(logits, rows, temperatures)
    apply_mask()
    after, warm_after = total(logits, rows, temperatures)
    index = None if len(rows) == len(logits) else _like(logits, rows, torch.int64)
    vars(logits)[_ATTRIBUTE] = MaskedMass(index, after - before, warm_after - warm_before)


def total_row_by_row(
    logits: torch.Tensor, rows: Sequence[int], temperatures: Sequence[float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """log of the sum of exp over each row, at temperature 1 and at its own: float32 (rows,) each. For a CPU, where
    rows that stay in its cache take a third of the time."""
    totals, warm_totals = [], []
    for row, temperature in zip(rows, temperatures, strict=True):
        values = logits[row].float()
        totals.append(_log_sum_exp(values))
        warm_totals.append(totals[-1] if temperature == 1.0 else _log_sum_exp(values / temperature))
    return torch.stack(totals), torch.stack(warm_totals)


def total_at_once(
    logits: torch.Tensor, rows: Sequence[int], temperatures: Sequence[float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for a GPU, in few kernels; rows whose temperature is 1 are not divided by it."""
    values = (logits if len(rows) == len(logits) else logits[_like(logits, rows, torch.int64)]).float()
    totals = _log_sum_exp(values)
    warm = [i for i, temperature in enumerate(temperatures) if temperature != 1.0]
    if not warm:
        return totals, totals
    index = _like(logits, warm, torch.int64)
    divisors = _like(logits, [temperatures[i] for i in warm], torch.float32)
    return totals, totals.index_copy(0, index, _log_sum_exp(values[index] / divisors[:, None]))


def take(logits: torch.Tensor) -> MaskedMass | None:
    """What ``measure`` left on these logits, once."""
    mass: MaskedMass | None = vars(logits).pop(_ATTRIBUTE, None)
    return mass


def report(mass: MaskedMass, logprobs: Any) -> Any:
    """The logprobs with p in place of q in the measured rows, and the packed masses in place of their ranks.

    Args:
        mass: From ``take``.
        logprobs: vLLM's ``LogprobsTensors``: ``logprobs`` float32 (sequences, columns), where minus infinity stays
            what it is, and ``selected_token_ranks`` int64 (sequences,).
    """
    log_p, ranks = logprobs.logprobs, logprobs.selected_token_ranks
    added, packed = mass.log_mass[:, None], pack_all(mass.log_mass, mass.log_weight_mass)
    if mass.rows is None:
        log_p, ranks = log_p + added, packed
    else:
        log_p = log_p.index_add(0, mass.rows, added.expand(-1, log_p.shape[1]))
        ranks = ranks.long().index_copy(0, mass.rows, packed)
    return logprobs._replace(logprobs=log_p, selected_token_ranks=ranks)


def pack_all(log_mass: torch.Tensor, log_weight_mass: torch.Tensor) -> torch.Tensor:
    """``vocab.matching.log_mass.pack`` for many: int64 of the same shape."""
    return _fields(log_mass) << FIELD_BITS | _fields(log_weight_mass) | MARK


def _fields(log_mass: torch.Tensor) -> torch.Tensor:
    # In float64, which can write every field.
    units = log_mass.double().neg().nan_to_num(FIELD_MAX) * (1 << FRACTION_BITS)
    return units.clamp(0, FIELD_MAX).round().long()


def _log_sum_exp(logits: torch.Tensor) -> torch.Tensor:
    # torch.logsumexp takes 7.8 ms for 32 masked rows of 49,152 on a CPU core, for its slow exp of -inf; this 1.4 ms.
    return logits.amax(-1) - logits.log_softmax(-1).amax(-1)


def _like(logits: torch.Tensor, values: Sequence[float], dtype: torch.dtype) -> torch.Tensor:
    """A tensor on the device of the logits, without waiting for it."""
    on_host = torch.tensor(values, dtype=dtype, pin_memory=logits.is_cuda)
    return on_host.to(logits.device, non_blocking=True)
