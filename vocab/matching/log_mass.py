"""What travels in vLLM's logprobs besides log p: the mass that a mask left, and which tokens it took.

The mass is packed into the integer rank that vLLM reports with each logprob.

vLLM carries no other figure per token. For constrained requests that ask for logprobs,
``vocab.vllm_plugin.masked_mass`` writes log Z there, the log of the sum of p over the allowed tokens, at temperature
1 and at that of the draw; neither can be positive, so their signs are left out.

vLLM's ordinary container overwrites the rank of a sampled token that is also among the top tokens. So ask for
``logprobs=0``, or for ``flat_logprobs=True`` and read ``FlatLogprobs.ranks`` at ``start_indices[position]``, which is
always the sampled token.

A request with ``UNMASKED_TOP`` gets the model's likeliest tokens as its top tokens, whether or not the mask allows
them, and one with ``REFUSED_AT`` gets them besides. A marked log p (``mark``) is of a token that the mask took, or of a
sampled one that it left alone.
"""

from typing import Any, Final

FRACTION_BITS: Final = 20
"""Fixed point: the unit is 2^-20 nats, about 1e-6."""
FIELD_BITS: Final = 31
"""Two fields, the mark and the sign are 64 bits. The least value is -2048 nats; less counts as that."""
FIELD_MAX: Final = (1 << FIELD_BITS) - 1
UNMASKED_TOP: Final = "wordbound_unmasked_top"
"""In the ``extra_args`` of a request: its top tokens are those before the mask."""
REFUSED_AT: Final = "wordbound_refused_at"
"""In the ``extra_args`` of a request: from this column of its logprobs on, ``NUM_REFUSED`` have its likeliest tokens
before the mask."""
NUM_REFUSED: Final = 4
"""Within a word the model is nearly always sure of one."""

MARK: Final = 1 << 2 * FIELD_BITS
"""Set in every packed number, so that a rank of vLLM's own is never taken for one."""


def mark(log_p: Any) -> Any:
    """Mark a log p, or a tensor of them."""
    return 1 - log_p


def unmark(log_p: float) -> tuple[float, bool]:
    """Return log p, and whether it was marked."""
    # Rounding may leave one that was not a little above 0.
    return (1 - log_p, True) if log_p >= 1 / 2 else (log_p, False)


def pack(log_mass: float, log_weight_mass: float) -> int:
    """Pack log Z at temperature 1 and at that of the request, nats, into a positive int64.

    Values above 0 count as 0, and NaN as the least.
    """
    return _field(log_mass) << FIELD_BITS | _field(log_weight_mass) | MARK


def is_packed(rank: int) -> bool:
    """Return whether a rank holds packed masses, and is not one of vLLM's own."""
    return MARK <= rank < 2 * MARK


def unpack(rank: int) -> tuple[float, float]:
    """Unpack the two logarithms of masses, nats, neither above 0, within 2^-21, from a rank.

    Raises:
        ValueError: The number was not packed: the engine reported a rank of its own.
    """
    if not is_packed(rank):
        raise ValueError(f"the engine reported the rank {rank} in place of what the mask left")
    return _nats(rank >> FIELD_BITS & FIELD_MAX), _nats(rank & FIELD_MAX)


def _field(log_mass: float) -> int:
    """Encode a log mass as a field in fixed point; NaN and values too small as the least."""
    units = -log_mass * (1 << FRACTION_BITS)
    # NaN compares as false: it counts as the least mass, never as none lost.
    return max(round(units), 0) if units < FIELD_MAX else FIELD_MAX


def _nats(field: int) -> float:
    """Decode a field in fixed point to nats."""
    # Not -0.0 for nothing.
    return -field / (1 << FRACTION_BITS) if field else 0.0
