"""The configurations for Kubernetes are some that KubeRay takes, and their parts fit each other and the service."""

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

FOLDER: Final = Path(__file__).parent.parent / "configs" / "kuberay"
SUPPORT: Final[list[dict[str, Any]]] = list(yaml.safe_load_all((FOLDER / "support.yaml").read_text()))
[JOB] = [document for document in SUPPORT if document["kind"] == "Job"]
USER: Final = 10001
"""Of the image: ``test_images``."""


class Configuration:
    """A RayService, the application in it, and its pods."""

    def __init__(self, name: str) -> None:
        self.service: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
        self.cluster: dict[str, Any] = self.service["spec"]["rayClusterConfig"]
        self.serve: dict[str, Any] = yaml.safe_load(self.service["spec"]["serveConfigV2"])
        args = self.serve["applications"][0]["args"]
        self.settings = Settings.load(args, {"SECRET_TOKEN": "a key of the tests"})
        self.helpers, self.gpu = self.cluster["workerGroupSpecs"]
        [self.engine] = self.gpu["template"]["spec"]["containers"]
        self.worker, self.front = self.helpers["template"]["spec"]["containers"]

    @property
    def groups(self) -> list[dict[str, Any]]:
        return [self.cluster["headGroupSpec"], self.helpers, self.gpu]


ONE, SEVERAL = Configuration("one-gpu"), Configuration("several-gpus")
BOTH: Final = pytest.mark.parametrize("given", [ONE, SEVERAL], ids=["one-gpu", "several-gpus"])


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


@BOTH
def test_the_service_is_one_that_kuberay_takes(given: Configuration) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert faults(given.service) == []


SLIPS: Final[dict[str, Any]] = {
    "rayClusterConfig.enableInTreeAutoscalling": True,
    "rayClusterConfig.enableInTreeAutoscaling": "yes",
    "rayClusterConfig.authOptions": {"mode": "tokens"},
    "rayClusterConfig.gcsFaultToleranceOptions.redis": "redis:6379",
    "rayClusterConfig.headGroupSpec.template.spec.terminationGracePeriodSeconds": "90s",
    "rayClusterConfig.headGroupSpec.template.spec.securityContext": {"fsgroup": 10001},
    "rayClusterConfig.headGroupSpec.template.spec.tolerations": {"key": "nvidia.com/gpu"},
    "rayClusterConfig.headGroupSpec.resources": {"helpers": 100},
    "rayClusterConfig.headGroupSpec.rayStartParams.num-cpus": 0,
    "rayClusterDeletionDelay": 660,
}


def test_a_slip_in_the_service_is_found() -> None:
    for path, value in SLIPS.items():
        service = copy.deepcopy(ONE.service)
        *outer, last = path.split(".")
        reduce(getitem, outer, service["spec"])[last] = value
        assert len(faults(service)) == 1, path


def test_both_have_the_same_pods_and_variables_but_for_the_gpus() -> None:
    assert ONE.groups[:2] == SEVERAL.groups[:2]
    assert {**ONE.cluster, "workerGroupSpecs": []} == {**SEVERAL.cluster, "workerGroupSpecs": []}
    for part in ("http_options", "controller_options"):
        assert ONE.serve[part] == SEVERAL.serve[part]


@BOTH
def test_there_may_be_a_pod_for_every_replica_on_nodes_with_gpus_and_for_each_ingress_on_others(
    given: Configuration,
) -> None:
    assert given.cluster["enableInTreeAutoscaling"]
    for group, num_replicas in (
        (given.gpu, given.settings.autoscaling.max_replicas),
        (given.helpers, given.settings.ingress_replicas),
    ):
        assert group["maxReplicas"] >= num_replicas
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    sizes = given.settings.engine_kwargs
    assert int(given.engine["resources"]["limits"]["nvidia.com/gpu"]) == sizes.get("tensor_parallel_size", 1)
    [toleration] = given.gpu["template"]["spec"]["tolerations"]
    assert toleration == {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert "nvidia.com/gpu" not in given.worker["resources"]["limits"]
    # An upgrade starts ingress and vocabulary before it ends the old ones.
    asked = [given.settings.ingress_resources, given.settings.vocabulary_resources, given.settings.batch.resources]
    assert asked == [{"helpers": 1}] * 3
    assert int(given.helpers["resources"]["helpers"]) >= 2 * (given.settings.ingress_replicas + 1) + 1


@BOTH
@pytest.mark.fault(74)
def test_every_pod_starts_ray_with_its_variables(given: Configuration) -> None:
    for group in given.groups:
        environment = {one["name"]: one["value"] for one in group["template"]["spec"]["containers"][0]["env"]}
        assert environment.items() >= RAY_ENVIRONMENT.items()


@BOTH
def test_a_pod_that_is_deleted_may_end_what_it_answers_and_a_cluster_that_is_replaced_every_answer(
    given: Configuration,
) -> None:
    assert given.service["spec"]["rayClusterDeletionDelaySeconds"] > given.settings.max_answer_s
    for group in (given.helpers, given.gpu):
        pod = group["template"]["spec"]
        for container in pod["containers"]:
            [_, seconds] = container["lifecycle"]["preStop"]["exec"]["command"]
            assert int(seconds) >= given.settings.drain_s
            # What is left is for Ray to end its processes.
            assert pod["terminationGracePeriodSeconds"] >= int(seconds) + 20


@BOTH
def test_requests_enter_by_a_front_in_the_pod_of_an_ingress_and_serve_listens_on_loopback(given: Configuration) -> None:
    environment = given.serve["controller_options"]["runtime_env"]["env_vars"]
    [port] = given.worker["ports"]
    assert port == {"containerPort": 8000, "name": "serve"}
    assert given.front["command"][:5] == ["python", "-m", "deployments.front", "--port", "8000"]
    assert environment[FRONT_VARIABLE] == "0.0.0.0:8000"
    assert given.serve["http_options"]["host"] == "127.0.0.1"
    assert given.serve["http_options"]["port"] != 8000
    assert given.service["spec"]["excludeHeadPodFromServeSvc"]


@pytest.mark.fault(45)
def test_what_the_head_knows_outlives_it_where_nobody_else_can_write() -> None:
    by_kind = {document["kind"]: document for document in SUPPORT if document["metadata"]["name"] == "wordbound-redis"}
    options = ONE.cluster["gcsFaultToleranceOptions"]
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
    assert rule["from"] == [{"podSelector": {"matchLabels": ONE.gpu["template"]["metadata"]["labels"]}}]
    assert [entry["port"] for entry in rule["ports"]] == [port["port"]]


def home_of(container: dict[str, Any], pod: dict[str, Any]) -> str:
    """The claim of the volume that holds Hugging Face's folder."""
    home = next(entry["value"] for entry in container["env"] if entry["name"] == "HF_HOME")
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(mounts.values()) == set(volumes)
    # Volumes belong to root, whom the image does not run as.
    assert pod["securityContext"]["fsGroup"] == USER
    claim: str = volumes[mounts[home]]["persistentVolumeClaim"]["claimName"]
    return claim


@BOTH
def test_a_job_fetches_the_model_for_every_pod_which_has_the_secrets(given: Configuration) -> None:
    [claim] = [document["metadata"]["name"] for document in SUPPORT if document["kind"] == "PersistentVolumeClaim"]
    job = JOB["spec"]["template"]["spec"]
    [download] = job["containers"]
    assert download["command"] == ["hf", "download", given.settings.model_name]
    assert home_of(download, job) == claim
    for group in (given.helpers, given.gpu):
        assert home_of(group["template"]["spec"]["containers"][0], group["template"]["spec"]) == claim
    pods = [*(group["template"]["spec"] for group in given.groups), job]
    assert len({container["image"] for pod in pods for container in pod["containers"]}) == 1
    for group in given.groups:
        assert {"secretRef": {"name": "wordbound"}} in group["template"]["spec"]["containers"][0]["envFrom"]
