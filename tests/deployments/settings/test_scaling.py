"""What an operator may say about the number of replicas."""

import pytest
from pydantic import ValidationError
from ray.serve.config import AutoscalingConfig

from deployments.replica.engine.autoscaling import POLICY, autoscaling_config
from deployments.settings.scaling import REPLACED, Autoscaling
from deployments.settings.service import Settings, SettingsError

OURS = {"target_sequences"}


def test_every_field_of_rays_is_taken_or_named_with_what_replaces_it() -> None:
    assert {*Autoscaling.model_fields, *REPLACED} == {*AutoscalingConfig.model_fields, *OURS}


def test_defaults_are_rays_except_what_a_replica_aims_at() -> None:
    rays = AutoscalingConfig().model_dump(exclude={"policy", "target_ongoing_requests"})
    ours = AutoscalingConfig(**autoscaling_config(Autoscaling()))
    assert ours.model_dump(exclude={"policy", "target_ongoing_requests"}) == rays
    assert ours.target_ongoing_requests == 32
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
    }
    policy = {"policy_function": "somewhere.else:policy", "policy_kwargs": {"most": 3}}
    scaling = Autoscaling.model_validate({**said, "target_sequences": 7, "policy": policy})
    made = autoscaling_config(scaling)
    assert {name: value for name, value in made.items() if name in said} == said
    assert (made["target_ongoing_requests"], made["policy"]) == (7, policy)


@pytest.mark.parametrize("name", REPLACED)
def test_a_field_that_is_not_taken_is_named_with_what_replaces_it(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"^autoscaling=.*{name}: expected {REPLACED[name].split()[0]}"):
        Settings.load({"secret_token": "k", "autoscaling": {name: 2}}, {})


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"min_replicas": 2, "max_replicas": 1}, "max_replicas of at least min_replicas"),
        ({"min_replicas": 1, "initial_replicas": 0}, "initial_replicas between"),
        ({"initial_replicas": 3, "max_replicas": 2}, "initial_replicas between"),
        ({"upscaling_factor": 0}, "greater than 0"),
        ({"aggregation_function": "median"}, "'mean', 'max' or 'min'"),
        ({"policy": {"policy_function": "nowhere"}}, "pattern"),
        ({"max_replica": 3}, "Extra inputs"),
    ],
)
def test_what_contradicts_itself_is_refused(said: dict[str, object], part: str) -> None:
    with pytest.raises(ValidationError, match=part):
        Autoscaling.model_validate(said)
