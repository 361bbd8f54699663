"""What a stranger can reach: the configuration for KubeRay, and Ray's own token."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import yaml

ROOT: Final = Path(__file__).parent.parent
KUBERAY: Final = ROOT / "configs" / "kuberay"
CLUSTERS: Final[list[dict[str, Any]]] = [
    yaml.safe_load((KUBERAY / f"{name}.yaml").read_text())["spec"]["rayClusterConfig"]
    for name in ("one-gpu", "several-gpus")
]
GROUPS: Final = [group for cluster in CLUSTERS for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
POLICY: Final[dict[str, Any]] = list(yaml.safe_load_all((KUBERAY / "support.yaml").read_text()))[-1]
MONITOR, METRICS_POLICY = yaml.safe_load_all((KUBERAY / "podmonitor.yaml").read_text())
RULES: Final[list[dict[str, Any]]] = POLICY["spec"]["ingress"]

TOKEN: Final = "a token of the tests, long enough"


def rules_for(port: int) -> list[dict[str, Any]]:
    return [rule for rule in RULES if "ports" not in rule or any(entry["port"] == port for entry in rule["ports"])]


def test_every_pod_of_ray_asks_for_the_token() -> None:
    assert [cluster["authOptions"] for cluster in CLUSTERS] == [{"mode": "token"}] * 2
    for group in GROUPS:
        # Ray's container is a pod's first.
        assert {"name": "RAY_AUTH_MODE", "value": "token"} in group["template"]["spec"]["containers"][0]["env"]


def test_the_policy_covers_every_pod() -> None:
    assert POLICY["kind"] == "NetworkPolicy"
    assert POLICY["spec"]["policyTypes"] == ["Ingress"]
    [(label, value)] = POLICY["spec"]["podSelector"]["matchLabels"].items()
    assert [group["template"]["metadata"]["labels"][label] for group in GROUPS] == [value] * len(GROUPS)


def test_only_the_port_of_the_service_is_open_to_everybody() -> None:
    assert [rule["ports"] for rule in RULES if "from" not in rule] == [[{"protocol": "TCP", "port": 8000}]]


def test_a_port_of_rays_is_open_to_the_pods_of_the_service_alone_and_the_dashboard_to_the_operator_too() -> None:
    for port in (6379, 8080, 10001, 52365, 31415):
        [rule] = rules_for(port)
        assert rule["from"] == [{"podSelector": POLICY["spec"]["podSelector"]}]
    among_pods, operator = rules_for(8265)
    assert among_pods["from"] == [{"podSelector": POLICY["spec"]["podSelector"]}]
    [peer] = operator["from"]
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "kuberay-operator"}
    assert peer["namespaceSelector"]["matchLabels"]


def test_prometheus_reads_every_pod_on_one_port_by_a_policy_of_its_own() -> None:
    assert MONITOR["spec"]["selector"] == POLICY["spec"]["podSelector"] == METRICS_POLICY["spec"]["podSelector"]
    assert [endpoint["port"] for endpoint in MONITOR["spec"]["podMetricsEndpoints"]] == ["metrics"]
    [rule] = METRICS_POLICY["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8080}]
    [peer] = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"]


def test_the_dashboard_leaves_loopback_only_where_an_operator_needs_it_and_configurations_name_the_token() -> None:
    assert all(cluster["headGroupSpec"]["rayStartParams"]["dashboard-host"] == "0.0.0.0" for cluster in CLUSTERS)
    others = [ROOT / "serve_config.yaml", *sorted((ROOT / "configs").rglob("*.yaml"))]
    have_host = [path.name for path in others if "dashboard-host:" in path.read_text()]
    assert have_host == ["one-gpu.yaml", "several-gpus.yaml"]
    for name in ("docs/exposure.md", "serve_config.yaml", "configs/cluster.yaml"):
        assert "RAY_AUTH_MODE=token" in (ROOT / name).read_text(), name


@pytest.fixture(scope="module")
def dashboard() -> Iterator[httpx2.Client]:
    """The dashboard of a Ray that was started as the configurations say."""
    with socket.socket() as one, socket.socket() as other, tempfile.TemporaryDirectory(prefix="ray") as folder:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, client_port = one.getsockname()[1], other.getsockname()[1]
        one.close()
        other.close()
        ports = (f"--dashboard-port={port}", f"--ray-client-server-port={client_port}")
        others = ("--port=0", "--dashboard-agent-listen-port=0", "--num-cpus=1", f"--temp-dir={folder}")
        process = subprocess.Popen(
            [Path(sys.executable).parent / "ray", "start", "--head", "--block", *ports, *others],
            env=os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                wait_for(client)
                yield client
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def wait_for(client: httpx2.Client) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            if client.get("/api/gcs_healthz").status_code == 200:
                return
        except httpx2.TransportError:
            pass
        assert time.monotonic() < end, "the dashboard did not start"
        time.sleep(0.5)


@pytest.mark.slow
@pytest.mark.parallel
def test_a_job_needs_the_token(dashboard: httpx2.Client) -> None:
    for token, status in (("", 401), ("Bearer wrong", 403), (f"Bearer {TOKEN}", 200)):
        headers = {"Authorization": token} if token else {}
        answer = dashboard.post("/api/jobs/", json={"entrypoint": "true"}, headers=headers)
        assert answer.status_code == status
