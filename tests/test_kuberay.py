"""The configuration for Kubernetes is one that KubeRay takes, and its parts fit each other and the service."""

import copy
import json
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema import Draft202012Validator

from deployments.process_setup import FRONT_VARIABLE, RAY_ENVIRONMENT
from deployments.settings.service import Settings

ROOT: Final = Path(__file__).parent.parent
DOCUMENTS: Final[list[dict[str, Any]]] = list(yaml.safe_load_all((ROOT / "configs" / "kuberay.yaml").read_text()))
SERVICE: Final = DOCUMENTS[0]
CLUSTER: Final[dict[str, Any]] = SERVICE["spec"]["rayClusterConfig"]
[WORKERS] = CLUSTER["workerGroupSpecs"]
WORKER_POD: Final[dict[str, Any]] = WORKERS["template"]["spec"]
WORKER, FRONT = WORKER_POD["containers"]
SETTINGS: Final = Settings.load(
    yaml.safe_load(SERVICE["spec"]["serveConfigV2"])["applications"][0]["args"], {"SECRET_TOKEN": "a key of the tests"}
)


def closed(schema: Any) -> Any:
    """The schema without room for keys that it does not name, as the API server takes what ``kubectl apply`` sends."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(part) for key, part in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


SCHEMA: Final = closed(json.loads((Path(__file__).parent / "kuberay" / "rayservice.schema.json").read_text()))


def faults(document: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(SCHEMA).iter_errors(document)]


def test_the_service_is_one_that_kuberay_takes() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert faults(SERVICE) == []


SLIPS: Final[dict[str, Any]] = {
    "rayClusterConfig.enableInTreeAutoscalling": True,
    "rayClusterConfig.enableInTreeAutoscaling": "yes",
    "rayClusterConfig.authOptions": {"mode": "tokens"},
    "rayClusterConfig.gcsFaultToleranceOptions.redis": "redis:6379",
    "rayClusterConfig.headGroupSpec.template.spec.terminationGracePeriodSeconds": "90s",
    "rayClusterConfig.headGroupSpec.rayStartParams.num-cpus": 0,
    "rayClusterDeletionDelay": 660,
}


def test_a_slip_in_the_service_is_found() -> None:
    for path, value in SLIPS.items():
        service = copy.deepcopy(SERVICE)
        *outer, last = path.split(".")
        reduce(getitem, outer, service["spec"])[last] = value
        assert len(faults(service)) == 1, path


def test_there_may_be_a_pod_for_every_replica() -> None:
    assert CLUSTER["enableInTreeAutoscaling"]
    assert WORKERS["maxReplicas"] >= SETTINGS.autoscaling.max_replicas
    assert WORKERS["minReplicas"] <= WORKERS["replicas"] <= WORKERS["maxReplicas"]
    assert int(WORKER["resources"]["limits"]["nvidia.com/gpu"]) == SETTINGS.engine_kwargs.get("tensor_parallel_size", 1)


@pytest.mark.fault(74)
def test_every_pod_starts_ray_with_its_variables() -> None:
    [head] = CLUSTER["headGroupSpec"]["template"]["spec"]["containers"]
    for container in (head, WORKER):
        environment = {one["name"]: one["value"] for one in container["env"]}
        assert environment.items() >= RAY_ENVIRONMENT.items()


def test_a_pod_that_is_deleted_may_end_what_it_answers_and_a_cluster_that_is_replaced_every_answer() -> None:
    assert SERVICE["spec"]["rayClusterDeletionDelaySeconds"] > SETTINGS.max_answer_s
    for container in (WORKER, FRONT):
        [_, seconds] = container["lifecycle"]["preStop"]["exec"]["command"]
        assert int(seconds) >= SETTINGS.drain_s
        # What is left is for Ray to end its processes.
        assert WORKER_POD["terminationGracePeriodSeconds"] >= int(seconds) + 20


def test_requests_enter_by_a_front_in_the_pod_of_an_ingress_and_serve_listens_on_loopback() -> None:
    serve = yaml.safe_load(SERVICE["spec"]["serveConfigV2"])
    environment = serve["controller_options"]["runtime_env"]["env_vars"]
    [port] = WORKER["ports"]
    assert port == {"containerPort": 8000, "name": "serve"}
    assert FRONT["command"][:5] == ["python", "-m", "deployments.front", "--port", "8000"]
    assert FRONT["image"] == WORKER["image"]
    assert environment[FRONT_VARIABLE] == "0.0.0.0:8000"
    assert serve["http_options"]["host"] == "127.0.0.1"
    assert serve["http_options"]["port"] != 8000
    assert SERVICE["spec"]["excludeHeadPodFromServeSvc"]


@pytest.mark.fault(45)
def test_what_the_head_knows_outlives_it_where_nobody_else_can_write() -> None:
    by_kind = {
        document["kind"]: document for document in DOCUMENTS if document["metadata"]["name"] == "wordbound-redis"
    }
    options = CLUSTER["gcsFaultToleranceOptions"]
    [port] = by_kind["Service"]["spec"]["ports"]
    assert options["redisAddress"] == f"{by_kind['Service']['metadata']['name']}:{port['port']}"
    [container] = by_kind["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    [password] = container["env"]
    assert password["valueFrom"] == options["redisPassword"]["valueFrom"]
    labels = by_kind["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert by_kind["Service"]["spec"]["selector"] == labels
    policy = by_kind["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    [rule] = policy["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": WORKERS["template"]["metadata"]["labels"]}}]
    assert [entry["port"] for entry in rule["ports"]] == [port["port"]]


def test_models_are_kept_for_the_next_pod_which_has_the_secrets() -> None:
    [claim] = [document for document in DOCUMENTS if document["kind"] == "PersistentVolumeClaim"]
    volumes = {volume["name"]: volume for volume in WORKER_POD["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in WORKER["volumeMounts"]}
    home = next(entry["value"] for entry in WORKER["env"] if entry["name"] == "HF_HOME")
    assert volumes[mounts[home]]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert set(mounts.values()) == set(volumes)
    # Every process has the secrets.
    for group in (CLUSTER["headGroupSpec"], WORKERS):
        container = group["template"]["spec"]["containers"][0]
        assert {"secretRef": {"name": "wordbound"}} in container["envFrom"]
