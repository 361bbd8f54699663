"""Every configuration is one that Serve takes and that the application can be built from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml
from ray.serve._private.build_app import build_app
from ray.serve.schema import LoggingConfig, ServeDeploySchema

from deployments.app import END_MARGIN_S, HEALTH_CHECK_S, build, check_loopback
from deployments.process_setup import DIRECT_ENVIRONMENT, FRONT_VARIABLE, SERVE_ENVIRONMENT
from deployments.settings.service import Settings, SettingsError

ROOT = Path(__file__).parent.parent.parent
ON_KUBERNETES = [ROOT / "configs" / "kuberay" / f"{name}.yaml" for name in ("one-gpu", "several-gpus")]
CONFIGS = [ROOT / "serve_config.yaml", *sorted((ROOT / "configs").glob("*.yaml")), *ON_KUBERNETES]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "a key of the tests")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Building asks Ray for the environment of the job."""
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    if document.get("kind") == "RayService":
        document = yaml.safe_load(document["spec"]["serveConfigV2"])
    return document


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_a_configuration_is_valid_and_builds(path: Path) -> None:
    config = ServeDeploySchema.model_validate(read(path))
    [application] = config.applications
    assert application.import_path == "deployments.app:build"
    assert config.controller_options is not None
    environment = config.controller_options.runtime_env["env_vars"]
    if path in ON_KUBERNETES or path.name == "cluster.yaml":
        # Behind a front on each node.
        assert config.http_options.host == "127.0.0.1"
        assert environment == SERVE_ENVIRONMENT | DIRECT_ENVIRONMENT | {FRONT_VARIABLE: "0.0.0.0:8000"}
    else:
        assert environment == SERVE_ENVIRONMENT
    assert isinstance(application.logging_config, LoggingConfig)
    assert not application.logging_config.enable_access_log
    assert build(application.args) is not None


def deployments_of(application: Any) -> dict[str, dict[str, Any]]:
    """What Serve is told of each deployment, by its name."""
    built = build_app(application, name="wordbound", default_runtime_env={}).deployments
    return {deployment.name: deployment._deployment_config.model_dump() for deployment in built}


def actor_options(application: Any) -> dict[str, dict[str, Any]]:
    """What each deployment asks Ray for, by its name."""
    built = build_app(application, name="wordbound", default_runtime_env={}).deployments
    return {deployment.name: deployment._replica_config.ray_actor_options for deployment in built}


def test_all_but_the_engine_can_be_pinned_to_nodes_without_gpus() -> None:
    for path in ON_KUBERNETES:
        made = actor_options(build(read(path)["applications"][0]["args"]))
        assert {name: options.get("resources") for name, options in made.items()} == {
            "Replica": None,
            **{name: {"helpers": 1} for name in ("Batches", "Ingress", "Vocabulary")},
        }


def test_what_serve_is_told_of_the_deployments() -> None:
    made = deployments_of(build({"log_level": "debug", "drain_s": 77}))
    # The logs are as the application says: a deployment's own would go before that of the YAML file.
    assert [name for name, config in made.items() if config["logging_config"] is not None] == []
    # Requests under way may end before a process does, and an ingress sees the end of a replica.
    timeouts = {name: config["graceful_shutdown_timeout_s"] for name, config in made.items()}
    assert timeouts == {"Replica": 77} | dict.fromkeys(["Batches", "Ingress", "Vocabulary"], 77 + END_MARGIN_S)
    # A dead process is replaced a second later.
    assert {config["health_check_period_s"] for config in made.values()} == {HEALTH_CHECK_S} == {1.0}
    # Requests go by the engine's state and the prompt's beginning.
    config = made["Replica"]["request_router_config"]
    assert config["request_router_class"] == "deployments.request_router.ReplicaRouter"
    assert config["request_routing_stats_period_s"] == 2.0


def test_a_replica_has_the_gpu_of_its_engine_where_that_has_one_worker() -> None:
    faults = []
    for given, num_gpus, bundles in (
        ({}, 1, [{"GPU": 1}]),
        ({"placement_bundles": [{"GPU": 0.5, "CPU": 1}]}, 0.5, [{"GPU": 0.5, "CPU": 1}]),
        ({"placement_bundles": [{"CPU": 1}]}, 0, [{"CPU": 1}]),
        # Ray's executor has workers of its own.
        ({"engine_kwargs": {"tensor_parallel_size": 2}}, 0, [{"GPU": 1}] * 2),
        ({"engine_kwargs": {"distributed_executor_backend": "ray"}}, 0, [{"GPU": 1}]),
    ):
        [config] = [
            deployment._replica_config
            for deployment in build_app(build(given), name="wordbound", default_runtime_env={}).deployments
            if deployment.name == "Replica"
        ]
        placed = [{name: share for name, share in one.items() if share} for one in config.placement_group_bundles]
        if (config.ray_actor_options.get("num_gpus", 0), placed) != (num_gpus, bundles):
            faults.append((given, config.ray_actor_options, placed))
    assert not faults


@pytest.mark.fault(72)
def test_an_upgrade_starts_what_is_cheap_before_it_ends_the_old_and_never_runs_batches_twice() -> None:
    made = deployments_of(build({}))
    surge = {name: config["max_surge_percent"] for name, config in made.items()}
    assert surge == {"Ingress": 100, "Vocabulary": 100, "Batches": 0, "Replica": 0}
    assert deployments_of(build({"max_surge_percent": 50}))["Replica"]["max_surge_percent"] == 50


def test_only_the_demo_has_a_key_in_its_file_and_it_listens_on_loopback() -> None:
    have_key = [name_of(path) for path in CONFIGS if "secret_token" in read(path)["applications"][0]["args"]]
    assert have_key == ["configs/demo.yaml"]
    assert read(ROOT / "configs" / "demo.yaml")["http_options"]["host"] == "127.0.0.1"


def test_settings_are_printed_without_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    build({"model_name": "some/model"})
    printed = capsys.readouterr().out
    assert "some/model" in printed
    assert "a key of the tests" not in printed


@pytest.mark.fault(82)
@pytest.mark.parametrize(
    ("args", "turned_off"),
    [
        ({"demo": True, "secret_token": "changeme"}, "demo: false"),
        ({"keyless": True}, "keyless: false"),
        ({"serve_metrics": "open", "secret_token": "k"}, "serve_metrics: key"),
    ],
)
def test_what_opens_the_service_may_listen_on_loopback_and_nowhere_else(args: dict[str, Any], turned_off: str) -> None:
    settings = Settings.load(args, {})
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        check_loopback(host, settings)
    for host in ("0.0.0.0", "::", "192.0.2.7", "example.org", ""):
        with pytest.raises(SettingsError, match=f"loopback.* or {turned_off} and SECRET_TOKEN"):
            check_loopback(host, settings)
