"""The names in the ``.env`` file of a server built on transformers, and what each becomes here.

One table, which the settings, ``docs/migration.md`` and the tests read. A name gives settings, or a warning that says
what vLLM does instead, or both.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

Given: TypeAlias = Mapping[str, str]
"""Settings, and their values as a variable would give them."""


@dataclass(frozen=True)
class OldName:
    """One variable name of the old server, and what it gives here.

    Attributes:
        settings: All that it may give, with a dot before a member.
        convert: Reads a value; raises ``ValueError``, which says what was expected.
        warning: Logged once at the start where the name is given.
    """

    settings: tuple[str, ...]
    convert: Callable[[str], Given]
    warning: str | None = None


def _gives(setting: str, values: Mapping[str, str] | None = None) -> OldName:
    """Map an old name to one setting; ``values`` translates old values, by their small letters."""
    return OldName((setting,), lambda value: {setting: (values or {}).get(value.lower(), value)})


def _without_effect(warning: str) -> OldName:
    """Map an old name to no setting, only to a warning."""
    return OldName((), lambda _: {}, warning)


_DTYPES: Final = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
    **{f"torch.{name}": name for name in ("bfloat16", "float16", "float32")},
}

_LEVELS: Final = {"trace": "debug", "warn": "warning", "critical": "error", "fatal": "error"}
"""Levels of uvicorn and of Python's logging that Ray Serve does not have, and the nearest of those that it has."""

_YES: Final = ("true", "yes", "on", "1")
_NO: Final = ("false", "no", "off", "0")

_BRACKETS: Final = re.compile(r"^[\[{(](.*)[\]})]$", re.DOTALL)


def _numbers(value: str) -> list[int]:
    """Parse a set of whole numbers, sorted: with commas between them, as JSON, or as Python writes a set."""
    inside = _BRACKETS.sub(r"\1", value)
    try:
        numbers = sorted({int(part) for part in inside.split(",") if part.strip()})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1:
        raise ValueError("expected whole numbers of at least 1 with commas between them, such as 256,1024")
    return numbers


def _new_tokens(value: str) -> Given:
    """Convert allowed token numbers to limits: the largest, and all where there are several."""
    numbers = _numbers(value)
    # One is a bound, also where another source names several.
    allowed = numbers if len(numbers) > 1 else []
    return {"limits.max_new_tokens": str(numbers[-1]), "limits.allowed_new_tokens": str(allowed)}


def _prebuild(value: str) -> Given:
    """Convert ``PREBUILD_PREFIX``: "false" prebuilds no list, "true" gives nothing, else it is the N."""
    if value.lower() in _NO:
        return {"prebuild_langs": ""}
    return {} if value.lower() in _YES else {"prebuild_prefix": value}


def _device(value: str) -> Given:
    """Convert a device to placement: "cpu" takes one CPU, any other gives nothing."""
    return {"placement_bundles": '[{"CPU": 1}]'} if value.lower() == "cpu" else {}


_PADDING: Final = "vLLM pads no prompts: it puts the tokens of all requests side by side into one batch"
_PLACEMENT: Final = (
    "vLLM runs on the kind of device that it was built for, and Ray chooses which: engine_kwargs.tensor_parallel_size "
    "spreads a model over several GPUs, and placement_bundles says what a replica takes"
)

OLD_NAMES: Final[Mapping[str, OldName]] = {
    "SECRET_TOKEN": _gives("secret_token"),
    "LLM_SERVING_API_KEY": _gives("secret_token"),
    "MODEL_NAME": _gives("model_name"),
    "LLM_SERVING_MODEL_PATH": _gives("model_name"),
    "TRUST_REMOTE_CODE": _gives("trust_remote_code"),
    "TORCH_DTYPE": _gives("torch_dtype", _DTYPES),
    "LLM_SERVING_DEVICE": OldName(("placement_bundles",), _device, _PLACEMENT),
    "DEVICE_MAP": _without_effect(_PLACEMENT),
    "ATTN_IMPLEMENTATION": _without_effect(
        "vLLM takes the fastest attention kernels that it has for the device; engine_kwargs.attention_backend names "
        "others"
    ),
    "STATIC_KV_CACHE": _without_effect(
        "vLLM's KV cache has a fixed size, in pages that requests share: engine_kwargs.gpu_memory_utilization, or "
        "VLLM_CPU_KVCACHE_SPACE in replica_env on a CPU"
    ),
    "TOKENIZER_PADDING_SIDE": _without_effect(_PADDING),
    "PAD_TO_MULTIPLE_OF": _without_effect(_PADDING),
    "MAX_INPUT_TOKENS": _gives("limits.max_input_tokens"),
    "ALLOWED_MAX_NEW_TOKENS": OldName(("limits.max_new_tokens", "limits.allowed_new_tokens"), _new_tokens),
    "INPUT_OVERFLOW": _gives("input_overflow"),
    # Before the languages, which a "false" replaces.
    "PREBUILD_PREFIX": OldName(("prebuild_prefix", "prebuild_langs"), _prebuild),
    "PREBUILD_LANGS": _gives("prebuild_langs"),
    "PREBUILD_WORD_COUNTS": OldName(
        ("prebuild_word_counts",), lambda value: {"prebuild_word_counts": str(_numbers(value))}
    ),
    "BATCH_JOB_PIPELINE_SIZE": _gives("batch.lines_in_flight"),
    "BATCH_JOB_TEMP_DIR": _gives("batch.state_dir"),
    "LOG_LEVEL": _gives("log_level", _LEVELS),
    "LLM_SERVING_LOG_LEVEL": _gives("log_level", _LEVELS),
}
"""By name. Where two give one setting, the first goes before."""
