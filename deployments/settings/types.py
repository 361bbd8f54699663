"""The types of settings that need more than pydantic's own checks, and Ray Serve's autoscaling, counted in sequences.

An error says what was expected.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from fsspec import get_filesystem_class
from fsspec.utils import get_protocol
from limits.errors import ConfigurationError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_settings import NoDecode
from ray.serve.config import AutoscalingConfig

from deployments.contract import AUTO_ADAPTER
from deployments.rates import IN_MEMORY, Rates
from deployments.settings.keys import DEFAULT_OWNER, Key, is_key_name

_ADAPTER_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}")

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


def is_adapter_name(name: str) -> bool:
    """Return whether an adapter may have that name."""
    return _ADAPTER_NAME.fullmatch(name) is not None and name != AUTO_ADAPTER


def _check_key_names(keys: Any) -> Any:
    # Not by the names' type: its error would show the name, which may be a key by mistake.
    if isinstance(keys, Mapping) and not all(isinstance(name, str) and is_key_name(name) for name in keys):
        raise ValueError("expected names of 1 to 64 small letters, digits, _ and -")
    return keys


def _check_digests(keys: dict[str, Key]) -> dict[str, Key]:
    for name, key in keys.items():
        if name == DEFAULT_OWNER and key.sha256 is not None:
            raise ValueError(f"{DEFAULT_OWNER!r} is the name of secret_token: expected no sha256 there")
        if name != DEFAULT_OWNER and key.sha256 is None:
            raise ValueError(f"expected {name}.sha256, the SHA-256 of the key")
    return keys


def _check_adapter_names(lora: dict[str, str]) -> dict[str, str]:
    for name in lora:
        if not is_adapter_name(name):
            raise ValueError(
                f"{name!r}: expected names of 1 to 128 letters, digits, _, -, ., : and /, other than {AUTO_ADAPTER}"
            )
    return lora


def _check_rates_url(url: str) -> str:
    if url != IN_MEMORY:
        try:
            Rates(url)
        except (ConfigurationError, ValueError) as error:
            # Not the error itself: it may show the URL's password.
            raise ValueError(
                f"expected {IN_MEMORY} or a URL such as async+redis://host:6379 ({type(error).__name__})"
            ) from None
    return url


def _check_store_url(url: str) -> str:
    try:
        get_filesystem_class(get_protocol(url))
    except (ImportError, ValueError) as error:
        raise ValueError(f"expected a URL that fsspec can open: {error}") from None
    return url


def _check_origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    # A browser sends an origin in exactly this form, and it is compared as it was sent.
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"{origin!r}: expected *, or origins such as https://app.example.com: a scheme, a host in small "
                "letters and perhaps a port, with no slash at the end"
            )
    return origins


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _capitalize(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


CommaSeparated: TypeAlias = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""Strings, from a variable with commas between them."""
Origins: TypeAlias = Annotated[CommaSeparated, AfterValidator(_check_origins)]
"""Origins of web pages, or ``*``."""
NamedKeys: TypeAlias = Annotated[dict[str, Key], BeforeValidator(_check_key_names), AfterValidator(_check_digests)]
"""Keys by their names."""
AdapterSources: TypeAlias = Annotated[dict[str, str], AfterValidator(_check_adapter_names)]
"""Folders or Hugging Face ids of adapters by the names that clients use."""
RatesUrl: TypeAlias = Annotated[str, AfterValidator(_check_rates_url)]
"""A URL of the library ``limits``."""
ArtefactStoreUrl: TypeAlias = Annotated[str, AfterValidator(_check_store_url)]
"""A URL of fsspec's."""
LogLevel: TypeAlias = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_capitalize)]

REPLACED: Final = {
    "target_ongoing_requests": "target_sequences, for a request with several choices or beams is several sequences",
    "smoothing_factor": "upscaling_factor and downscaling_factor, which Ray has in its place",
    "upscale_smoothing_factor": "upscaling_factor, which Ray has in its place",
    "downscale_smoothing_factor": "downscaling_factor, which Ray has in its place",
    "metrics_interval_s": (
        "the variables RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S and "
        "RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S, which Ray has in its place"
    ),
}
"""Fields of Ray's that are not taken, and what is expected instead."""


class Policy(BaseModel):
    """An autoscaling policy of the operator's own, as Ray's ``AutoscalingPolicy``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy_function: str = Field(pattern=r"^[\w.]+[:.]\w+$")
    """Where it is imported from, ``package.module:function``."""
    policy_kwargs: dict[str, Any] = {}
    """What the function is given besides the context."""


class Autoscaling(AutoscalingConfig):
    """How many replicas of the engine there are: Ray's ``AutoscalingConfig``, with ``target_sequences``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_replicas: int = Field(default=1, ge=0)
    """0 for none while nobody asks. The first request then starts one: it waits for ``max_queue_s``, and is told to
    come back where the model takes longer to load."""
    max_replicas: int = Field(default=1, ge=1)
    """At most so many, each with the GPUs of one engine."""
    target_sequences: float = Field(default=32, gt=0)
    """Sequences of interactive requests per replica, running or waiting, that the autoscaler aims at. Lines of batches
    do not count: they take what is there."""
    aggregation_function: Literal["mean", "max", "min"] = "mean"
    """How what was seen in ``look_back_period_s`` is put together."""
    policy: Policy | None = None
    """By default ``deployments.replica.engine.autoscaling``. One of the operator's own finds the sequences of each
    replica in ``context.aggregated_metrics["interactive_sequences"]``."""

    @model_validator(mode="before")
    @classmethod
    def _name_what_was_replaced(cls, values: Any) -> Any:
        if isinstance(values, Mapping):
            for name in REPLACED.keys() & values.keys():
                raise ValueError(f"{name}: expected {REPLACED[name]}")
        return values
