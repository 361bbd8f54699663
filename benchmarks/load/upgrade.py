"""What an upgrade costs clients: another wheel, sent with ``serve deploy`` while requests come.

    python -m benchmarks load upgrade [--rate 20]

Builds this source as versions 1 and 2, each in an environment of its own, whose other packages are those of this one.
Starts a cluster of one node with ``ray start``, deploys version 1, and with requests under way version 2 and then
version 1 again, each by its ``py_executable``. Prints what became of the requests, and which version answered when.
The engine computes nothing, so that the cores are free for what is around it.
"""

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil
import yaml

from benchmarks.command import ROOT, parser_of
from benchmarks.load.client import Client, chat
from benchmarks.load.service import SMALL
from deployments.settings.service import DEMO_TOKEN
from tests.harness import CONFIG, free_port
from tests.tiny_adapters import write_model

BIN: Final = Path(sys.executable).parent
VERSIONS: Final = ("1.0.0", "2.0.0")
SETTINGS: Final = {"placement_bundles": [{"CPU": 0.6}], "max_surge_percent": 100, "batch": {"enabled": False}, **SMALL}
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
    shutil.copy(Path(__file__).with_name("stand_in.py"), site)
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

    def applications(self) -> Any:
        """Ask Ray's dashboard for the applications."""
        headers = {"Authorization": f"Bearer {os.environ['RAY_AUTH_TOKEN']}"}
        answer = httpx2.get(f"{self.dashboard}/api/serve/applications/", headers=headers, timeout=30)
        return answer.raise_for_status().json()["applications"]

    def wait_until_running(self) -> float:
        """Return the seconds until all of it runs; SystemExit where it does not."""
        started = time.monotonic()
        while time.monotonic() - started < READY_S:
            time.sleep(0.5)
            found = self.applications()["wordbound"]
            if found["status"] == "RUNNING":
                return time.monotonic() - started
            if found["status"] in ("DEPLOY_FAILED", "UNHEALTHY"):
                break
        raise SystemExit(f"{found['status']} after {time.monotonic() - started:.0f} s: {found['message']}")


@contextmanager
def running_node(folder: Path, model: str) -> Iterator[Cluster]:
    """Run a node of Ray, as ``ray start --head`` does."""
    web = free_port()
    cluster = Cluster(folder, model, f"http://127.0.0.1:{web}", free_port())
    options = {"port": free_port(), "dashboard-port": web, "ray-client-server-port": free_port(),
               "dashboard-agent-listen-port": 0, "num-cpus": 2, "temp-dir": folder}  # fmt: skip
    command = [
        str(BIN / "ray"),
        "start",
        "--head",
        "--block",
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    with (folder / "node.log").open("wb") as log:
        node = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        for _ in range(READY_S):
            time.sleep(1)
            try:
                cluster.applications()
                break
            except httpx2.HTTPError:
                continue
        else:
            raise SystemExit(f"Ray does not start:\n{(folder / 'node.log').read_text()}")
        yield cluster
    finally:
        for process in psutil.Process(node.pid).children(recursive=True):
            process.kill()
        node.kill()
        node.wait()


async def upgrade(cluster: Cluster, pythons: dict[str, Path], rate: float) -> bool:
    """Deploy each version while requests come; print their fates, and return whether all were answered."""
    versions: list[tuple[float, str]] = []
    ended = asyncio.Event()

    async def watch() -> None:
        async with httpx2.AsyncClient(timeout=60) as http:
            while not ended.is_set():
                headers = {"Authorization": f"Bearer {DEMO_TOKEN}"}
                version = (await http.get(f"{cluster.url}/openapi.json", headers=headers)).json()["info"]["version"]
                if not versions or versions[-1][1] != version:
                    versions.append((round(client.account.second, 1), version))
                await asyncio.sleep(0.5)

    listed = chat("listed", vocab={"lang": "en", "n_words": 1000})
    async with Client(cluster.url, DEMO_TOKEN, Path(cluster.model).name) as client, asyncio.TaskGroup() as group:
        group.create_task(watch())
        group.create_task(client.open_loop(rate, lambda: listed, ended))
        await asyncio.sleep(CALM_S)
        for version in reversed(VERSIONS):
            at = client.account.second
            await asyncio.to_thread(cluster.deploy, pythons[version])
            took_s = await asyncio.to_thread(cluster.wait_until_running)
            print(f"second {at:.0f}: version {version} is deployed, and runs after {took_s:.0f} s", flush=True)
            await asyncio.sleep(CALM_S)
        ended.set()
    print(*client.account.by_kind(), *client.account.by_step(5), sep="\n")
    print(f"the version that answers, from second: {versions}")
    return set(client.account.outcomes()) == {"200"}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second")
    arguments = parser.parse_args()
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    # Ray's sockets lie there, whose names may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="up", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        pythons = {version: make_environment(folder / version, version) for version in VERSIONS}
        model = str(write_model(Path(arguments.model), folder / "tiny"))
        with running_node(folder, model) as cluster:
            cluster.deploy(pythons[VERSIONS[0]])
            print(f"version {VERSIONS[0]} runs after {cluster.wait_until_running():.0f} s", flush=True)
            is_good = asyncio.run(upgrade(cluster, pythons, arguments.rate))
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
