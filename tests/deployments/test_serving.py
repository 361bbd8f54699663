"""``python -m deployments.serving`` with the real front, told to end while streams run.

The engine is a stand-in that writes as long as it is asked to.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx2
import psutil
import pytest
import yaml

from tests.deployments.front import CHAT, KEY, MODEL, assert_error, chat_body, wait_until
from tests.harness import free_port
from tests.pages import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DRAIN_S: Final = 8.0
START_S: Final = 300
"""60 s on two cores that six others use."""


class Served:
    """A running ``deployments.serving``."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.port = free_port()
        args = {"secret_token": KEY, "model_id": MODEL, "drain_s": DRAIN_S, "batch": {"enabled": False}}
        application = {"name": "front", "import_path": "tests.deployments.serving_app:build", "args": args}
        config = {"http_options": {"host": "127.0.0.1", "port": self.port}, "applications": [application]}
        path = folder / "serve_config.yaml"
        path.write_text(yaml.safe_dump(config))
        self.log = folder / "log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment |= {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT), **variables}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "deployments.serving", str(path)],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        headers = {"Authorization": f"Bearer {KEY}"}
        limits = httpx2.Limits(max_keepalive_connections=0)
        self.client = httpx2.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=60, limits=limits
        )

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        with suppress(httpx2.TransportError):
            return self.client.get("/ready").status_code == 200
        return False

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def stream(self, num_words: int) -> str:
        """The last event of a stream."""
        last = ""
        body = chat_body(stream=True, max_tokens=num_words)
        with suppress(httpx2.TransportError), self.client.stream("POST", CHAT, json=body) as answer:
            for line in answer.iter_lines():
                last = line or last
        return last


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    """What is started with the variables of the test's parameter."""
    made = Served(tmp_path, **getattr(request, "param", {}))
    family: list[psutil.Process] = []
    try:
        wait_until(made.is_ready, START_S)
        family = made.family()
        yield made
    finally:
        made.client.close()
        made.process.kill()
        made.process.wait(30)
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, 30)


@pytest.mark.fault(40)
def test_a_second_signal_ends_everything_at_once(served: Served) -> None:
    family = served.family()
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(served.stream, 600)
        time.sleep(1)
        assert not stream.done()
        served.process.send_signal(signal.SIGTERM)
        # The same end, from another who was told of it.
        time.sleep(0.02)
        served.process.send_signal(signal.SIGINT)
        time.sleep(1.5)
        for path in ("/ready", "/health", "/v1/models"):
            assert_error(served.client.get(path), 503, code="overloaded")
        start = time.monotonic()
        served.process.send_signal(signal.SIGINT)
        served.process.wait(30)
        assert psutil.wait_procs(family, 30)[1] == []
        assert time.monotonic() - start < DRAIN_S - 1


@pytest.mark.fault(79)
@pytest.mark.parametrize(
    "served", [{"RAY_SERVE_HAPROXY_BINARY_PATH": "/nothing", "PATH": "/usr/bin:/bin"}], indirect=True
)
def test_without_haproxy_the_start_says_that_the_port_is_bare(served: Served) -> None:
    assert "front: none" in served.log.read_text()
    assert "for a trusted network only" in served.log.read_text()
    assert "haproxy" not in {process.name() for process in served.family()}
    assert served.stream(3) == "data: [DONE]"
