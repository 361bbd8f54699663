"""``serve run`` and ``serve deploy`` on a cluster that was started without the service's secrets, and asks for Ray's
token, with the commands of docs/deploying.md.

Serve builds an application in a task of the cluster, which does not see the environment of these commands.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil
import pytest
import yaml

from tests.harness import free_port
from tests.pages import ROOT, blocks_run_by
from tools.docs.examples import commands, typed_text

pytestmark = [pytest.mark.slow]

STARTING, TOKEN = blocks_run_by(__file__, "docs/deploying.md")
TYPED: Final = [shlex.split(command.text, comments=True) for command in commands(STARTING)]
EXPORTED: Final = dict(words[1].split("=", 1) for words in TYPED if words[0] == "export")
RAY_START, SERVE_DEPLOY, SERVE_STATUS = (words for words in TYPED if words[0] != "export")
SCP: Final = """set -e
scp() { mkdir -p "$NODE2/.ray" && cp -p "$1" "$NODE2/${2#node2:}"; }
"""
"""The other machine is another home folder here."""

BIN: Final = Path(sys.executable).parent
START_S: Final = 300
"""For one command on a machine that is busy; alone, each takes some 5 s."""


def environment(home: Path, **variables: str) -> dict[str, str]:
    """That of somebody who has set nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "SECRET", "HF_"))}
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "HOME": str(home), "PATH": path, "RAY_USAGE_STATS_ENABLED": "0", **variables}


@dataclass(frozen=True)
class Head:
    """A cluster of one node.

    Its home folder, and that of another machine, have Ray's token; ``folder`` is that of an operator who has none.
    """

    folder: Path
    node2: Path
    token: str
    address: str
    dashboard: str
    port: int

    @property
    def with_token(self) -> dict[str, str]:
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}

    def run(self, command: str, application: Mapping[str, Any], **variables: str) -> subprocess.CompletedProcess[str]:
        """Call ``serve run`` or ``serve deploy`` with the application, as an operator does who has set these
        variables."""
        config = self.folder / "config.yaml"
        named = {"name": "told", "import_path": "tests.e2e.running_cluster_app:build", **application}
        http = {"host": "127.0.0.1", "port": self.port}
        config.write_text(yaml.safe_dump({"http_options": http, "applications": [named]}))
        where = {
            "run": ["--non-blocking", "--address", self.address],
            "deploy": ["--address", self.dashboard],
        }
        program, _, file = SERVE_DEPLOY
        assert file == "serve_config.yaml"
        return subprocess.run(
            [BIN / program, command, *where[command], config],
            env=environment(self.folder, **variables),
            capture_output=True,
            text=True,
            timeout=START_S,
        )

    def status(self) -> tuple[str, str]:
        """Of the application, when it is no longer being deployed, and what Serve says of it."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            headers = {"Authorization": f"Bearer {self.token}"}
            answer = httpx2.get(f"{self.dashboard}/api/serve/applications/", headers=headers, timeout=30)
            result = answer.json()["applications"].get("told") if answer.is_success else None
            if result and result["status"] not in ("DEPLOYING", "NOT_STARTED"):
                return result["status"], result["message"]
            time.sleep(0.2)
        raise AssertionError("the application was not deployed")

    def tells(self) -> dict[str, Any]:
        assert self.status() == ("RUNNING", "")
        result: dict[str, Any] = httpx2.get(f"http://127.0.0.1:{self.port}/", timeout=30).json()
        return result


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    # Not pytest's folder: Ray's sockets lie in it, whose names may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        node1, node2, operator = (folder / name for name in ("node1", "node2", "operator"))
        for home in (node1, node2, operator):
            home.mkdir()
        result = subprocess.run(
            ["bash", "-c", SCP + typed_text(TOKEN)],
            env=environment(node1, NODE2=str(node2)),
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        token = (node2 / ".ray" / "auth_token").read_text()
        port, web = free_port(), free_port()
        made = Head(operator, node2, token, f"127.0.0.1:{port}", f"http://127.0.0.1:{web}", free_port())
        options = {
            "port": port,
            "dashboard-port": web,
            "ray-client-server-port": free_port(),
            "dashboard-agent-listen-port": 0,
            "num-cpus": 1,
            "object-store-memory": 80_000_000,
            "temp-dir": folder,
        }
        command = [*RAY_START, "--block", *(f"--{key}={value}" for key, value in options.items())]
        variables = environment(node1, PYTHONPATH=str(ROOT), **EXPORTED)
        with (folder / "head.log").open("wb") as log:
            # Ray gives up after 30 s on a machine that is busy.
            for _ in range(3):
                process = subprocess.Popen([BIN / command[0], *command[1:]], env=variables, stdout=log, stderr=log)
                try:
                    if is_up(made.dashboard, process):
                        yield made
                        return
                finally:
                    end(process)
        raise AssertionError((folder / "head.log").read_text())


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it started. Asked to end, Ray waits half a minute for what nobody needs any more."""
    if process.poll() is None:
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(family, 60)
    process.wait(60)


def is_up(dashboard: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until it answers, or has ended."""
    latest = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < latest:
        with suppress(httpx2.TransportError):
            if httpx2.get(f"{dashboard}/api/gcs_healthz").status_code == 200:
                return True
        time.sleep(0.5)
    return False


def test_who_does_not_say_rays_token_deploys_nothing(head: Head) -> None:
    refused = head.run("deploy", {"args": {"secret_token": "anyone's"}})
    assert refused.returncode != 0
    assert "Missing authentication token" in refused.stderr


@pytest.mark.fault(48)
def test_a_variable_of_the_command_does_not_reach_the_cluster_and_the_error_says_what_does(head: Head) -> None:
    assert head.run("run", {}, SECRET_TOKEN="of the command", **head.with_token).returncode == 0
    status, message = head.status()
    assert status == "DEPLOY_FAILED"
    for part in ("secret_token: missing", "runtime_env.env_vars", "secrets_dir", "docs/deploying.md"):
        assert part in message


_LOGS: Final = "session_latest/logs/serve/replica_told_Teller_*.log"


def test_the_secrets_come_from_the_applications_environment(head: Head) -> None:
    variables = {"SECRET_TOKEN": "of the YAML file", "HF_TOKEN": "hf_yaml"}
    assert head.run("run", {"runtime_env": {"env_vars": variables}}, **head.with_token).returncode == 0
    assert head.tells() == {"key": "of the YAML file", "hf_token": "hf_yaml"}


def test_the_secrets_come_from_a_folder_and_logs_are_as_the_application_says(head: Head, tmp_path: Path) -> None:
    (tmp_path / "SECRET_TOKEN").write_text("of a file\n")
    (tmp_path / "HF_TOKEN").write_text("hf_file\n")
    token = tmp_path / "rays token"
    token.write_text(f"{head.token}\n")
    application = {"args": {"secrets_dir": str(tmp_path)}, "logging_config": {"encoding": "JSON"}}
    before = set(head.folder.parent.glob(_LOGS))
    deployed = head.run("deploy", application, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token))
    assert deployed.returncode == 0, deployed.stderr
    assert head.tells() == {"key": "of a file", "hf_token": "hf_file"}
    # A replica of another test may still write that it ends.
    [log] = set(head.folder.parent.glob(_LOGS)) - before
    assert all("message" in json.loads(line) for line in log.read_text().splitlines())
    # On a machine that has the token's file.
    command = [str(BIN / SERVE_STATUS[0]), *SERVE_STATUS[1:], "--address", head.dashboard]
    variables = environment(head.node2, RAY_AUTH_MODE="token")
    asked = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=START_S)
    assert yaml.safe_load(asked.stdout)["applications"]["told"]["status"] == "RUNNING", asked.stderr
