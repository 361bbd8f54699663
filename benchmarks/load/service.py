"""A service under load, and its processes by what they are."""

import argparse
import os
import re
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.command import parser_of
from benchmarks.load.client import Client
from tests.harness import Demo
from tests.tiny_adapters import write_model

ROLES: Final = {
    "engine": r"VLLM::EngineCore",
    "engine's worker": r"VLLM::",
    "vocabulary": r"ray::ServeReplica:wordbound:Vocabulary",
    "ingress": r"ray::ServeReplica:wordbound:Ingress",
    "replica": r"ray::ServeReplica:wordbound:Replica",
    "other deployments": r"ray::ServeReplica",
    "proxy": r"ray::ProxyActor",
    "HAProxy": r"\S*/?haproxy ",
    "controller": r"ray::ServeController",
    "API server": r".*vllm\.entrypoints",
    "GCS": r"\S*/gcs/gcs_server ",
    "node": r"\S*/raylet/raylet (?!.*__internal_head__)",
    "Ray": r".*(raylet|ray::|/ray/)",
}
"""Kinds of processes by what their command lines begin with; the first that fits."""

SMALL: Final[dict[str, Any]] = {
    "engine_kwargs": {"enforce_eager": True, "max_model_len": 1024, "max_num_seqs": 64},
    "limits": {"max_input_tokens": 512, "max_new_tokens": 256},
}


def by_role(pids: Iterable[int]) -> dict[str, list[psutil.Process]]:
    """Return the processes that live, by what they are."""
    found = defaultdict(list)
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            line = " ".join(process.cmdline())
            found[next((role for role, begins in ROLES.items() if re.match(begins, line)), "other")].append(process)
    return found


def used_by(pids: Iterable[int], used: Callable[[psutil.Process], float]) -> dict[tuple[str, int], float]:
    """Return what each process that lives has used, by what it is and its id."""
    found = {}
    for role, processes in by_role(pids).items():
        for process in processes:
            with suppress(psutil.Error):
                found[role, process.pid] = used(process)
    return found


def memory(process: psutil.Process) -> float:
    """Its resident memory, in MB."""
    return process.memory_info().rss / 1e6


def cpu_seconds(process: psutil.Process) -> float:
    """What it has used so far, in user mode and for it in the kernel."""
    times = process.cpu_times()
    return times.user + times.system


def load_parser(description: str | None) -> argparse.ArgumentParser:
    parser = parser_of(description)
    parser.add_argument("--stand-in", action="store_true", help="engines that compute nothing")
    parser.add_argument("--tiny", action="store_true", help="a model of two layers")
    return parser


@contextmanager
def running(arguments: argparse.Namespace, settings: Mapping[str, Any], num_nodes: int = 1) -> Iterator[Demo]:
    """Run the service with settings besides the demo's; of two nodes each has room for one replica."""
    with tempfile.TemporaryDirectory(prefix="load") as name:
        folder = Path(name)
        model = str(write_model(Path(arguments.model), folder / "tiny")) if arguments.tiny else arguments.model
        if num_nodes > 1:
            settings = {"placement_bundles": [{"CPU": 0.6}], **settings}
        import_path = "benchmarks.load.stand_in:build" if arguments.stand_in else None
        module = "benchmarks.load.two_nodes" if num_nodes > 1 else None
        # Ended from outside, it ends the service too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
        # Ray hands metrics on every ten seconds by default.
        os.environ.setdefault("RAY_metrics_report_interval_ms", "500")
        demo = Demo(model, folder / "service", settings, import_path=import_path, module=module)
        demo.start()
        try:
            demo.wait_until_ready()
            yield demo
        finally:
            demo.stop()


def client_of(demo: Demo, **options: Any) -> Client:
    return Client(demo.url, demo.settings.secret_token.get_secret_value(), demo.model_id(), **options)
