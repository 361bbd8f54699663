"""What an upgrade costs clients: another wheel, sent with ``serve deploy`` while requests come.

    python -m benchmarks upgrade [--rate 20]

Builds this source as versions 1 and 2, each in an environment of its own, whose other packages are those of this one.
Starts a cluster of one node with ``ray start``, deploys version 1, and with requests under way version 2 and then
version 1 again, each by its ``py_executable``. Prints what became of the requests, and which version answered when.
The engine computes nothing, so that the cores are free for what is around it.
"""

import argparse
import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import yaml

from benchmarks.failover import Load
from deployments.demo.model import smollm2_path
from deployments.settings.service import DEMO_TOKEN
from tests.harness import CONFIG, free_port
from tests.tiny_adapters import write_model

ROOT: Final = Path(__file__).parents[1]
BIN: Final = Path(sys.executable).parent
VERSIONS: Final = ("1.0.0", "2.0.0")
SETTINGS: Final[dict[str, Any]] = {
    "placement_bundles": [{"CPU": 0.6}],
    "engine_kwargs": {"enforce_eager": True, "max_model_len": 1024, "max_num_seqs": 64},
    "limits": {"max_input_tokens": 512, "max_new_tokens": 256},
    "max_surge_percent": 100,
    "batch": {"enabled": False},
}
READY_S: Final = 300
CALM_S: Final = 15
"""Before the first upgrade and after each."""


def make_environment(folder: Path, version: str) -> Path:
    """Install this source as a version into an environment of its own, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    variables = os.environ | {"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_WORDBOUND": version}
    uv = str(BIN / "uv")
    subprocess.run([uv, "build", "-q", "--out-dir", str(folder / "dist"), str(ROOT)], env=variables, check=True)
    [wheel] = (folder / "dist").glob("*.whl")
    python = folder / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--no-deps", "--python", str(python), str(wheel)], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # After what is installed here.
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    shutil.copy(ROOT / "benchmarks" / "stand_in.py", site)
    return python


@dataclass
class Cluster:
    """A node, and the service on it."""

    folder: Path
    model: str
    dashboard: str
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def deploy(self, python: Path) -> None:
        """Send the configuration, for processes of this Python."""
        config = yaml.safe_load(CONFIG.read_text())
        config["http_options"] |= {"host": "127.0.0.1", "port": self.port}
        [application] = config["applications"]
        application["import_path"] = "stand_in:build"
        application["args"] |= {"model_name": self.model, **SETTINGS}
        application["runtime_env"] = {"py_executable": str(python)}
        file = self.folder / "config.yaml"
        file.write_text(yaml.safe_dump(config))
        subprocess.run([BIN / "serve", "deploy", "--address", self.dashboard, file], check=True)

    def status(self) -> tuple[str, str]:
        """Return the application's status, and what Serve says of it."""
        application = self.ask().json()["applications"]["wordbound"]
        return application["status"], application["message"]

    def ask(self) -> httpx.Response:
        """Ask Ray's dashboard for the applications."""
        headers = {"Authorization": f"Bearer {os.environ['RAY_AUTH_TOKEN']}"}
        return httpx.get(f"{self.dashboard}/api/serve/applications/", headers=headers, timeout=30)

    def wait_until_running(self) -> float:
        """Return the seconds until all of it runs; SystemExit where it does not."""
        started = time.monotonic()
        while time.monotonic() - started < READY_S:
            time.sleep(0.5)
            status, message = self.status()
            if status == "RUNNING":
                return time.monotonic() - started
            if status in ("DEPLOY_FAILED", "UNHEALTHY"):
                raise SystemExit(f"{status}: {message}")
        raise SystemExit(f"not running after {READY_S} s: {message}")


@contextmanager
def running_node(folder: Path, model: str) -> Iterator[Cluster]:
    """Run a node of Ray, as ``ray start --head`` does."""
    web = free_port()
    cluster = Cluster(folder, model, f"http://127.0.0.1:{web}", free_port())
    options = {
        "port": free_port(),
        "dashboard-port": web,
        "ray-client-server-port": free_port(),
        "dashboard-agent-listen-port": 0,
        "num-cpus": 2,
        "temp-dir": folder,
    }
    named = [f"--{name}={value}" for name, value in options.items()]
    command = [str(BIN / "ray"), "start", "--head", "--block", *named]
    with (folder / "node.log").open("wb") as log:
        node = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        for _ in range(READY_S):
            time.sleep(1)
            try:
                if cluster.ask().is_success:
                    break
            except httpx.TransportError:
                continue
        else:
            raise SystemExit(f"Ray does not start:\n{(folder / 'node.log').read_text()}")
        yield cluster
    finally:
        family = psutil.Process(node.pid).children(recursive=True)
        for process in family:
            process.kill()
        node.kill()
        node.wait()


async def upgrade(cluster: Cluster, pythons: dict[str, Path], rate: float) -> bool:
    """Deploy each version while requests come; print their fates, and return whether all were answered."""
    load = Load(cluster.url, DEMO_TOKEN, Path(cluster.model).name)
    versions: list[tuple[float, str]] = []
    ended = asyncio.Event()

    async def watch() -> None:
        headers = {"Authorization": f"Bearer {DEMO_TOKEN}"}
        async with httpx.AsyncClient(base_url=cluster.url, headers=headers, timeout=60) as http:
            while not ended.is_set():
                version = (await http.get("/openapi.json")).json()["info"]["version"]
                if not versions or versions[-1][1] != version:
                    versions.append((round(load.second, 1), version))
                await asyncio.sleep(0.5)

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        sending = group.create_task(load.open_loop(rate, ended))
        await asyncio.sleep(CALM_S)
        for version in reversed(VERSIONS):
            at = load.second
            await asyncio.to_thread(cluster.deploy, pythons[version])
            took_s = await asyncio.to_thread(cluster.wait_until_running)
            print(f"second {at:.0f}: version {version} is deployed, and runs after {took_s:.0f} s", flush=True)
            await asyncio.sleep(CALM_S)
        ended.set()
        await sending
    print(load.table())
    fates = Counter(one.outcome for one in load.sent)
    print(f"sent {len(load.sent)}: {dict(fates)}; the version that answers, from second: {versions}")
    return set(fates) == {"200"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a local folder; by default the demo's model")
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second")
    arguments = parser.parse_args()
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    # Ray's sockets lie there, whose names may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="up", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        pythons = {version: make_environment(folder / version, version) for version in VERSIONS}
        model = str(write_model(arguments.model or smollm2_path(), folder / "tiny"))
        with running_node(folder, model) as cluster:
            cluster.deploy(pythons[VERSIONS[0]])
            print(f"version {VERSIONS[0]} runs after {cluster.wait_until_running():.0f} s", flush=True)
            is_good = asyncio.run(upgrade(cluster, pythons, arguments.rate))
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
