"""Measures what a mask leaves of the probability in rows of logits, and writes it into a sampler's logprobs.

The measure travels on the tensor of logits itself, from where the mask is applied to where the logprobs are made of
it, so that it can be taken for no other step's. Knows torch; which rows are measured, and when, is
``vocab.log_mass_hook``'s.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch

from vocab.log_mass import FIELD_BITS, FIELD_MAX, FRACTION_BITS, MARK

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
    index = None if len(rows) == len(logits) else _to(logits.device, torch.tensor(rows))
    # Dividing costs as much as measuring, and most rows need none of it.
    warm = [i for i, temperature in enumerate(temperatures) if temperature != 1.0]
    warm_index = _to(logits.device, torch.tensor(warm, dtype=torch.int64))
    divisors = _to(logits.device, torch.tensor([[temperatures[i]] for i in warm], dtype=torch.float32))

    def totals() -> tuple[torch.Tensor, torch.Tensor | None]:
        chosen = (logits if index is None else logits[index]).float()
        warmed = chosen if len(warm) == len(chosen) else chosen[warm_index]
        return _log_sum_exp(chosen), _log_sum_exp(warmed / divisors) if warm else None

    before, before_warm = totals()
    apply_mask()
    after, after_warm = totals()
    log_mass = after - before
    log_weight_mass = log_mass
    if before_warm is not None and after_warm is not None:
        log_weight_mass = log_mass.index_copy(0, warm_index, after_warm - before_warm)
    vars(logits)[_ATTRIBUTE] = MaskedMass(index, log_mass, log_weight_mass)


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
    """``vocab.log_mass.pack`` for many: int64 of the same shape."""
    return _fields(log_mass) << FIELD_BITS | _fields(log_weight_mass) | MARK


def _fields(log_mass: torch.Tensor) -> torch.Tensor:
    # In float64, which can write every field.
    units = log_mass.double().neg().nan_to_num(FIELD_MAX) * (1 << FRACTION_BITS)
    return units.clamp(0, FIELD_MAX).round().long()


def _log_sum_exp(logits: torch.Tensor) -> torch.Tensor:
    # torch.logsumexp takes 7.8 ms for 32 masked rows of 49,152 on a CPU core, for its slow exp of -inf; this 1.4 ms.
    return logits.amax(-1) - logits.log_softmax(-1).amax(-1)


def _to(device: torch.device, tensor: torch.Tensor) -> torch.Tensor:
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
