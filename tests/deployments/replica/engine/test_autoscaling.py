"""How many replicas Serve is told to run."""

from typing import Any

import pytest
from ray.serve._private.common import DeploymentID, ReplicaID
from ray.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy

from deployments.replica.engine.autoscaling import METRIC, POLICY, by_interactive_sequences

DEPLOYMENT = DeploymentID("Replica", "wordbound")


def context_of(*sequences: float, num_requests: float) -> AutoscalingContext:
    """Two running replicas, the first of which report so many sequences; the aim is 10 in each."""
    replicas = [ReplicaID(str(number), DEPLOYMENT) for number in range(2)]
    reported = dict(zip(replicas, sequences, strict=False))
    facts: dict[str, Any] = dict.fromkeys(("last_scale_up_time", "last_scale_down_time", "current_time"))
    return AutoscalingContext(
        deployment_id=DEPLOYMENT,
        deployment_name=DEPLOYMENT.name,
        app_name=DEPLOYMENT.app_name,
        current_num_replicas=2,
        target_num_replicas=2,
        running_replicas=replicas,
        total_num_requests=num_requests,
        total_queued_requests=0,
        aggregated_metrics={METRIC: reported} if reported else {},
        raw_metrics=None,
        capacity_adjusted_min_replicas=0,
        capacity_adjusted_max_replicas=9,
        policy_state={},
        config=AutoscalingConfig(target_ongoing_requests=10, policy=AutoscalingPolicy(policy_function=POLICY)),
        **facts,
    )


@pytest.mark.parametrize(
    ("sequences", "num_requests", "wanted"),
    [
        ((10, 10), 20, 2),
        ((30, 15), 9, 4.5),
        # Two hundred lines of batches beside three chats.
        ((2, 1), 203, 1),
        # Lines alone.
        ((0, 0), 200, 1),
        # Started this moment.
        ((), 200, 1),
        ((0, 0), 0, 0),
    ],
)
def test_replicas_are_for_interactive_sequences_and_one_stays_for_lines(
    sequences: tuple[float, ...], num_requests: float, wanted: float
) -> None:
    assert by_interactive_sequences(context_of(*sequences, num_requests=num_requests)) == (wanted, {})
