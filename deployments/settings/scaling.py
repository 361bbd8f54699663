"""How many replicas of the engine there are: Ray Serve's ``AutoscalingConfig``, counted in sequences."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from ray.serve.config import AutoscalingConfig

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
        """Refuse Ray's fields that are not taken here, and say what replaces each."""
        if isinstance(values, Mapping):
            for name in REPLACED.keys() & values.keys():
                raise ValueError(f"{name}: expected {REPLACED[name]}")
        return values
