"""Run the whole service as a child of this process, on this machine's CPU: for the demo and for tests.

It runs the demo's configuration (``application``) with a Ray instance of its own and follows its log for progress.
Every process that it starts carries a mark in its environment, by which those that outlive their parent are found
and ended.
"""

import ctypes
import fcntl
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import psutil
import yaml

from deployments.demo.model import say
from deployments.settings.service import DEMO_TOKEN, Settings

CONFIG: Final = Path(__file__).with_name("demo.yaml")
"""``configs/demo.yaml``, which a wheel has here."""
MARK: Final = "WORDBOUND_DEMO_RUN"

READY_TIMEOUT_S: Final = 900
"""Enough to fetch and load a larger model."""

STOP_TIMEOUT_S: Final = 25
"""For an end without requests, or one whose requests nobody waits for."""

END_MARGIN_S: Final = 20
"""What an end takes besides the requests."""

RUN_BYTES: Final = 4 * 2**30
"""Memory that a run takes with the demo's model."""

MAX_RUNS: Final = 8
"""Folders of one name that are looked at. Each run takes ``RUN_BYTES``."""

_REAP_S: Final = 5.0

_PORTS: Final = range(20_000, 32_000)
"""Above those of Ray's workers, and below those that Linux and others give out."""

_MILESTONES: Final = (
    (r"Started a local Ray instance", "Ray is up"),
    (r"Building application", "building the application"),
    (r"compiled (\d+) words in ([\d.]+) s", r"compiled a list: \1 words in \2 s"),
    (r"torch_dtype auto: (.*)", r"computing in \1"),
    (r"Initializing a V1 LLM engine", "the engine is starting"),
    (r"Loading weights took", "the model's weights are loaded"),
    (r"init engine .* took", "the engine is warm"),
    (r"is ready; its engine keeps", "the engine has proved that it keeps to word lists"),
    (r"metrics: (http\S+)", r"metrics for Prometheus: \1"),
)
_FAILURES: Final = re.compile(
    r"Deploying app .* failed|Exception in Replica\(|Failed to update the deployments|Received unexpected error"
)
_PREFIX: Final = re.compile(r"^(\x1b\[\d+m)?\([^)]*\)(\x1b\[0m)? ")
"""Ray puts the process's name before each line of the log."""


class DemoError(RuntimeError):
    """The service did not start or did not answer; the text says where to look."""


class Demo:
    """One run of the service as a child of this process.

    ``folder`` is for the log, the configuration as it is used, and the state of batches; where another run has it, this
    one takes ``folder-2`` or the next that is free. ``args`` replace settings of the configuration, ``import_path`` its
    function that builds the application. ``module`` is run with the configuration's path, and
    ``serve`` replaces what it says of Serve.
    """

    def __init__(
        self,
        model: str,
        folder: Path,
        args: Mapping[str, Any] | None = None,
        *,
        import_path: str | None = None,
        module: str = "deployments.demo.application",
        serve: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = model
        self._module = module
        self._mark = uuid.uuid4().hex
        self._folder, self._lock = _take_folder(folder)
        self.log_path = self._folder / "serve.log"
        self._config = yaml.safe_load(CONFIG.read_text())
        self._config["applications"][0]["args"] |= args or {}
        if import_path is not None:
            self._config["applications"][0]["import_path"] = import_path
        self._config |= serve or {}
        # Batches of an earlier run in this folder are resumed.
        settings = self._config["applications"][0]["args"]
        settings["batch"] = {"state_dir": str(self._folder / "state"), **settings.get("batch", {})}
        # As the service will read them, in this folder and environment.
        self.settings = Settings.load(settings)
        # Another run may be about to take the usual one.
        usual = int(self._config["http_options"]["port"])
        self.port = free_port(*([usual] if self._folder == folder else []))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def page_url(self) -> str:
        """The page's address, with the demo's own key in the fragment, which stays in the browser.

        Another key is a secret, and the page asks for it.
        """
        is_known = self.settings.secret_token.get_secret_value() == DEMO_TOKEN
        return f"{self.url}/#key={DEMO_TOKEN}" if is_known else f"{self.url}/"

    def start(self) -> None:
        """Start the service's process and return at once, before it is ready."""
        self._config["http_options"] |= {"host": "127.0.0.1", "port": self.port}
        config = self._folder / f"config-{self.port}.yaml"
        config.write_text(yaml.safe_dump(self._config, sort_keys=False))
        environment = os.environ | {
            "MODEL_NAME": self._model,
            MARK: self._mark,
            "PYTHONUNBUFFERED": "1",
            "DO_NOT_TRACK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "VLLM_NO_USAGE_STATS": "1",
        }
        if Path(self._model).is_dir():
            environment["HF_HUB_OFFLINE"] = "1"
        command = [sys.executable, "-m", self._module, str(config)]
        _adopt_orphans()
        with self.log_path.open("wb") as log:
            # A session of its own: Ctrl-C in this terminal reaches us alone, and we stop the rest in order.
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                # The folder is taken as long as either process lives.
                pass_fds=[self._lock.fileno()],
            )

    def wait_until_ready(self) -> None:
        """Block until ``/ready`` answers ok, printing progress from the log.

        Raises:
            DemoError: The service failed, or took longer than ``READY_TIMEOUT_S``.
        """
        deadline = time.monotonic() + READY_TIMEOUT_S
        seen = 0
        while time.monotonic() < deadline:
            text = self.log_path.read_bytes()[seen:].decode(errors="replace")
            lines, _, _ = text.rpartition("\n")
            seen += len(lines.encode())
            _report(lines)
            if self._process is None or self._process.poll() is not None:
                raise DemoError(f"the service ended before it was ready; its log is {self.log_path}\n{self._tail()}")
            if _FAILURES.search(lines):
                raise DemoError(f"the service cannot start; its log is {self.log_path}\n{self._tail()}")
            if self._is_ready():
                return
            time.sleep(1)
        raise DemoError(
            f"the service was not ready within {READY_TIMEOUT_S} s; its log is {self.log_path}\n{self._tail()}"
        )

    def ask(self, question: str, vocab: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """Send a chat of one question with this vocabulary and return the answer."""
        body = {
            "model": self.model_id(),
            "messages": [{"role": "user", "content": question}],
            "vocab": vocab,
            **fields,
        }
        return self._get("/v1/chat/completions", json.dumps(body).encode())

    def model_id(self) -> str:
        """Ask the service for the id of its model."""
        return str(self._get("/v1/models")["data"][0]["id"])

    @property
    def drain_timeout_s(self) -> float:
        """Seconds in which all requests finish, or are ended."""
        return self.settings.drain_s + END_MARGIN_S

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the service: the first one lets requests finish, the second ends it at once."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End every process of this run, by signals and then by force, and release its folder.

        Requests may finish for ``timeout_s``, or until this process is interrupted.
        """
        try:
            self._stop(timeout_s)
        finally:
            self._lock.close()

    def _stop(self, timeout_s: float) -> None:
        """Interrupt the service, wait ``timeout_s`` for its end, then terminate and kill what is left."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.wait(timeout_s)
        for number, patience_s in ((signal.SIGTERM, 2), (signal.SIGKILL, 5)):
            deadline = time.monotonic() + patience_s
            while (left := self.processes()) and time.monotonic() < deadline:
                for process in left:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(process, number)
                time.sleep(0.5)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        # Those that outlived their parent are ours now, and stay zombies until reaped.
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the service's process has ended.

        Raises:
            subprocess.TimeoutExpired: It has not.
        """
        if self._process is not None:
            self._process.wait(timeout_s)

    def wait_and_reap(self) -> None:
        """Wait until the service's process has ended, and reap those of its processes that outlived their parent.

        For a program that starts nothing else. An engine that died would stay a zombie as long as the service runs.
        """
        while self._process is not None and self._process.poll() is None:
            for child in psutil.Process().children():
                with suppress(psutil.NoSuchProcess, ChildProcessError):
                    if child.pid != self._process.pid and child.status() == psutil.STATUS_ZOMBIE:
                        os.waitpid(child.pid, os.WNOHANG)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_REAP_S)

    def processes(self) -> list[int]:
        """Return the ids of all other processes with this run's mark, which children inherit."""
        mark = f"{MARK}={self._mark}".encode()
        found = []
        # Not by psutil's ``environ``, which stops at the first empty entry and found 23 of the 25 processes of a demo.
        for process in psutil.pids():
            with suppress(OSError):
                if process != os.getpid() and mark in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                    found.append(process)
        return found

    def _is_ready(self) -> bool:
        try:
            return self._get("/ready").get("status") == "ok"
        except (OSError, ValueError):
            return False

    def _get(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        """Request a path with the demo's key, by POST if there is a body; return the JSON answer."""
        token = self.settings.secret_token.get_secret_value()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers)  # noqa: S310 - our own address
        with urllib.request.urlopen(request, timeout=300) as response:  # noqa: S310
            answer: dict[str, Any] = json.load(response)
        return answer

    def _tail(self) -> str:
        """Return the log's last 12 lines that name errors, or its last 12 if none does."""
        lines = [_PREFIX.sub("", line) for line in self.log_path.read_text(errors="replace").splitlines()]
        telling = [line for line in lines if re.match(r"[\w.]*Error\b", line)]
        return "\n".join((telling or lines)[-12:])


def _take_folder(folder: Path) -> tuple[Path, BinaryIO]:
    """Lock the first folder of this name that no other run has; return it and the locked file.

    Raises:
        DemoError: There are too many runs.
    """
    for number in range(1, MAX_RUNS + 1):
        taken = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        taken.mkdir(parents=True, exist_ok=True)
        lock = (taken / "lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
        else:
            return taken, lock
    raise DemoError(f"{MAX_RUNS} runs have {folder} and those beside it; end one of them")


def _adopt_orphans() -> None:
    """Make this process the parent of its orphaned descendants (Linux's PR_SET_CHILD_SUBREAPER is 36)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def _report(lines: str) -> None:
    """Print a message for each milestone found in these lines of the log."""
    for line in lines.splitlines():
        for pattern, words in _MILESTONES:
            if found := re.search(pattern, line):
                say(found.expand(words))


def free_port(*wanted: int) -> int:
    """Return the first wanted port that is free on 127.0.0.1, else a random free one.

    The system gives none of these to a process that names none, so no process of Ray takes it before the service does.

    Raises:
        DemoError: There is none.
    """
    for number in (*wanted, *random.sample(_PORTS, 64)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", number))
            except OSError:
                continue
            return number
    raise DemoError("no port is free on 127.0.0.1")
