import pytest
from ray.serve.config import AutoscalingConfig

from deployments.replica.engine.autoscaling import POLICY, autoscaling_config
from deployments.settings.service import Settings, SettingsError
from deployments.settings.types import REPLACED


def made(**said: object) -> AutoscalingConfig:
    """What Ray gets for these settings."""
    return AutoscalingConfig(
        **autoscaling_config(Settings.load({"secret_token": "k", "autoscaling": said}, {}).autoscaling)
    )


def test_defaults_are_rays_except_what_a_replica_aims_at() -> None:
    ours, rays = made(), AutoscalingConfig()
    assert ours.model_dump(exclude={"policy"}) == rays.model_dump(exclude={"policy"}) | {"target_ongoing_requests": 32}
    assert ours.policy.policy_function == POLICY


def test_what_is_said_reaches_ray() -> None:
    said = {
        "min_replicas": 0,
        "initial_replicas": 2,
        "max_replicas": 5,
        "upscale_delay_s": 1.0,
        "downscale_delay_s": 2.0,
        "downscale_to_zero_delay_s": 3.0,
        "upscaling_factor": 0.5,
        "downscaling_factor": 0.25,
        "look_back_period_s": 60.0,
        "aggregation_function": "max",
        "policy": {
            "policy_function": "deployments.replica.engine.autoscaling:autoscaling_config",
            "policy_kwargs": {"most": 3},
        },
    }
    found = made(**said, target_sequences=7)
    assert found.model_dump(include=said.keys()) == said
    assert found.target_ongoing_requests == 7


def test_a_bad_field_is_named_with_what_is_expected() -> None:
    faults: list[tuple[dict[str, object], str]] = [
        ({"min_replicas": 2}, r"autoscaling=.*max_replicas \(1\) must be .* min_replicas \(2\)"),
        ({"initial_replicas": 0}, r"autoscaling=.*min_replicas \(1\) must be .* initial_replicas \(0\)"),
        ({"initial_replicas": 3}, r"autoscaling=.*max_replicas \(1\) must be .* initial_replicas \(3\)"),
        ({"upscaling_factor": 0}, r"autoscaling\.upscaling_factor=0: .*greater than 0"),
        ({"aggregation_function": "median"}, r"autoscaling\.aggregation_function='median': .*'mean', 'max' or 'min'"),
        ({"policy": {"policy_function": "nowhere"}}, r"autoscaling\.policy\.policy_function='nowhere': .*pattern"),
        # Not those that are replaced.
        ({"max_replica": 3}, r"autoscaling\.max_replica: unknown setting; known are agg.* policy, target_sequences,"),
    ]
    faults += [({name: 2}, f"autoscaling=.*{name}: expected {how.split()[0]}") for name, how in REPLACED.items()]
    for said, fault in faults:
        with pytest.raises(SettingsError, match=f"^{fault}"):
            made(**said)
