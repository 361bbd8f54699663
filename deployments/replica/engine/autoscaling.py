"""Scale the replicas by what interactive requests need. Lines of batches take what is there: a batch of a night would
otherwise start every replica that is allowed.
"""

from typing import Any, Final

from ray.serve.config import AutoscalingContext

from deployments.settings.types import REPLACED, Autoscaling

METRIC: Final = "interactive_sequences"
"""What each replica reports: sequences of interactive requests that run or wait in it."""

POLICY: Final = "deployments.replica.engine.autoscaling:by_interactive_sequences"


def autoscaling_config(scaling: Autoscaling) -> dict[str, Any]:
    """Turn the settings of autoscaling into the fields of Ray's ``AutoscalingConfig``."""
    policy = {"policy_function": POLICY} if scaling.policy is None else scaling.policy.model_dump()
    given = scaling.model_dump(mode="json", exclude={"target_sequences", "policy", *REPLACED}, exclude_none=True)
    return {**given, "target_ongoing_requests": scaling.target_sequences, "policy": policy}


def by_interactive_sequences(context: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """Return how many replicas the interactive sequences need, and no state of the policy's own.

    Serve calls it in its controller.

    Serve itself applies the bounds and delays of the configuration, and starts the first of no replicas.
    """
    sequences = (context.aggregated_metrics or {}).get(METRIC, {})
    wanted = sum(sequences.values()) / context.config.get_target_ongoing_requests()
    # One stays for a batch.
    return max(wanted, 1.0 if context.total_num_requests > 0 else 0.0), {}
