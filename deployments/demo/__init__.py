"""The demo's service: it runs as a child of this process, on this machine's CPU and with a Ray of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import yaml

from deployments.front import free_ports
from deployments.settings.service import DEMO_TOKEN, Settings

CONFIG: Final = Path(__file__).with_name("demo.yaml")
"""``configs/demo.yaml``, which a wheel has here."""

READY_TIMEOUT_S: Final = 900
"""Enough to fetch and load a larger model."""

END_MARGIN_S: Final = 20
"""What an end takes besides the requests."""

_FAILURES: Final = re.compile(
    r"Deploying app .* failed|Exception in Replica\(|Failed to update the deployments|Received unexpected error"
)
_PREFIX: Final = re.compile(r"^(\x1b\[\d+m)?\([^)]*\)(\x1b\[0m)? ")
"""Ray puts the process's name before each line of the log."""


class DemoError(RuntimeError):
    """The service did not start or did not answer; the text says where to look."""


class Service:
    """One run of the service, with the demo's configuration.

    Args:
        model: A folder or a Hugging Face id.
        folder: For the log, the configuration as it is used, and the state of batches, which a later run resumes.
        args: Settings that replace those of the configuration.
        port: On 127.0.0.1.
    """

    program: Sequence[str] = ("deployments.serving", "--local")
    """The module that is run with the configuration's path, and what stands before that."""

    def __init__(self, model: str, folder: Path, args: Mapping[str, Any], port: int) -> None:
        self._model = model
        self._folder = folder
        self.port = port
        self.log_path = folder / "serve.log"
        self._config = yaml.safe_load(CONFIG.read_text())
        settings = self._config["applications"][0]["args"]
        settings |= args
        settings["batch"] = {"state_dir": str(folder / "state"), **settings.get("batch", {})}
        # As the service will read them, in this folder and environment.
        self.settings = Settings.load(settings)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def has_demo_key(self) -> bool:
        """Whether its key is the demo's own; another one is a secret."""
        return self.settings.secret_token.get_secret_value() == DEMO_TOKEN

    def environment(self) -> dict[str, str]:
        """Return the environment of the service's process."""
        offline = {"HF_HUB_OFFLINE": "1"} if Path(self._model).is_dir() else {}
        return {
            **os.environ,
            "MODEL_NAME": self._model,
            "PYTHONUNBUFFERED": "1",
            "DO_NOT_TRACK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "VLLM_NO_USAGE_STATS": "1",
            **offline,
        }

    def start(self, *locks: BinaryIO) -> None:
        """Start the service's process, which holds ``locks`` too, and return at once, before it is ready."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._config["http_options"] |= {"host": "127.0.0.1", "port": self.port}
        config = self._folder / f"config-{self.port}.yaml"
        config.write_text(yaml.safe_dump(self._config, sort_keys=False))
        with self.log_path.open("wb") as log:
            # A session of its own: Ctrl-C in this terminal reaches us alone, and we stop the rest in order.
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self.program, str(config)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                start_new_session=True,
                pass_fds=[lock.fileno() for lock in locks],
            )

    def wait_until_ready(self) -> None:
        """Block until ``/ready`` answers ok.

        Raises:
            DemoError: The service failed, or took longer than ``READY_TIMEOUT_S``.
        """
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            fault = None
            if self._process is None or self._process.poll() is not None:
                fault = "ended before it was ready"
            elif _FAILURES.search(self.log_path.read_text(errors="replace")):
                fault = "cannot start"
            elif self._is_ready():
                return
            elif time.monotonic() > deadline:
                fault = f"was not ready within {READY_TIMEOUT_S} s"
            if fault is not None:
                raise DemoError(f"the service {fault}; its log is {self.log_path}\n{self._tail()}")
            time.sleep(1)

    def request(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Request a path with the service's key, by POST if there is a body; return the JSON answer."""
        token = self.settings.secret_token.get_secret_value()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, headers)  # noqa: S310 - our own address
        with urllib.request.urlopen(request, timeout=300) as response:  # noqa: S310
            answer: dict[str, Any] = json.load(response)
        return answer

    def model_id(self) -> str:
        """Ask the service for the id of its model."""
        return str(self.request("/v1/models")["data"][0]["id"])

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the service's process has ended.

        Raises:
            subprocess.TimeoutExpired: It has not.
        """
        if self._process is not None:
            self._process.wait(timeout_s)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the service: the first one lets requests finish, the second ends it at once."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, timeout_s: float) -> None:
        """End the service. Requests may finish for ``timeout_s``, or until this process is interrupted."""
        if self._process is None:
            return
        for patience_s in (timeout_s, END_MARGIN_S):
            if self._process.poll() is None:
                self.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                    self.wait(patience_s)
        if self._process.poll() is None:
            # Ray ends its processes when the one that started it has gone.
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        try:
            return self.request("/ready").get("status") == "ok"
        except (OSError, ValueError):
            return False

    def _tail(self) -> str:
        """Return the log's last 12 lines that name errors, or its last 12 if none does."""
        lines = [_PREFIX.sub("", line) for line in self.log_path.read_text(errors="replace").splitlines()]
        telling = [line for line in lines if re.match(r"[\w.]*Error\b", line)]
        return "\n".join((telling or lines)[-12:])


def free_port(*wanted: int) -> int:
    """Return the first wanted port that is free on 127.0.0.1, else a random free one.

    Raises:
        FrontError: There is none.
    """
    return free_ports(1, *wanted)
