"""Which dtype an engine on a CPU computes in where the settings leave it open (``torch_dtype: auto``).

vLLM would take the model's own, bfloat16 for nearly all of today's. A processor that cannot compute in it converts
every number first: 52 tokens/s instead of 111 in float32 (SmolLM2-135M, 32 sequences, a Xeon without avx512_bf16).
"""

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from vllm.platforms import current_platform

logger = logging.getLogger("ray.serve")

BFLOAT16_FLAGS: Final = ("amx_bf16", "avx512_bf16", "bf16")
"""Names in Linux's ``/proc/cpuinfo`` of what computes in bfloat16: two of x86, then that of arm64."""

_CPUINFO: Final = Path("/proc/cpuinfo")


def cpu_dtype(flags: Collection[str]) -> tuple[str, str]:
    """Return the dtype for a processor with these flags, and why."""
    if found := [flag for flag in BFLOAT16_FLAGS if flag in flags]:
        return "bfloat16", f"the processor computes in it ({', '.join(found)})"
    if flags:
        return (
            "float32",
            f"the processor has none of {', '.join(BFLOAT16_FLAGS)}, and would be half as fast in bfloat16",
        )
    return "float32", "what the processor computes in is not known here"


def processor_flags(cpuinfo: Path = _CPUINFO) -> frozenset[str]:
    """Return the flags of this machine's processor; none where ``cpuinfo`` cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    named = (line.partition(":") for line in lines)
    # "flags" on x86, "Features" on arm64; the same for every core.
    return next(
        (frozenset(value.split()) for key, _, value in named if key.strip() in ("flags", "Features")), frozenset()
    )


def resolve_dtype(given: Any) -> Any:
    """Return the engine's dtype; choose it by the processor, and log it, for ``auto`` on a CPU."""
    if given != "auto" or not current_platform.is_cpu():
        return given
    chosen, reason = cpu_dtype(processor_flags())
    logger.info("torch_dtype auto: %s, for %s", chosen, reason)
    return chosen
