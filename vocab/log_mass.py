"""What a mask left of the model's probability, as the one whole number that an engine carries beside each token.

vLLM reports a token's rank with its logprob and has no other place for a figure of ours, so for constrained requests
that ask for logprobs the hook of ``vocab.log_mass_hook`` writes two figures there: log Z, the logarithm of the sum of
p over the tokens that were allowed, at temperature 1 and at the temperature at which the token was drawn. Neither
can be positive, so their signs are left out. Nothing here knows of the engine.
"""

from typing import Final

FRACTION_BITS: Final = 20
"""Fixed point: the unit is 2^-20 nats, about 1e-6."""
FIELD_BITS: Final = 31
"""Two fields and the sign fit into 64 bits. The least that can be told is -2048 nats; less counts as that."""
FIELD_MAX: Final = (1 << FIELD_BITS) - 1


def pack(log_mass: float, log_weight_mass: float) -> int:
    """One number in [0, 2^62) for two logarithms of a mass.

    Args:
        log_mass: log Z at temperature 1, nats; above 0 counts as 0, and NaN as the least.
        log_weight_mass: log Z at the temperature of the request, likewise.
    """
    return _field(log_mass) << FIELD_BITS | _field(log_weight_mass)


def unpack(rank: int) -> tuple[float, float]:
    """The two logarithms, nats, neither above 0: as packed, within 2^-21.

    Raises:
        ValueError: The number cannot have been packed.
    """
    if not 0 <= rank < 1 << 2 * FIELD_BITS:
        raise ValueError(f"{rank} does not hold the logarithms of two masses")
    return _nats(rank >> FIELD_BITS), _nats(rank & FIELD_MAX)


def _field(log_mass: float) -> int:
    units = -log_mass * (1 << FRACTION_BITS)
    # NaN compares as false: it counts as the least mass, never as none lost.
    return max(round(units), 0) if units < FIELD_MAX else FIELD_MAX


def _nats(field: int) -> float:
    # Not -0.0 for nothing.
    return -field / (1 << FRACTION_BITS) if field else 0.0
