"""``python -m deployments.serving FILE``: what ``serve run FILE`` does, and an end in which nothing is cut.

The first SIGINT or SIGTERM lets requests finish: new ones get 503, and what still runs after ``drain_s`` ends with an
error. The second ends everything at once. ``serve run`` itself ends Serve's proxies first, with all their connections.
``python -m deployments.serving --local FILE`` has a Ray of its own, as the demo, and starts in half the time.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Final, NoReturn

import ray
import yaml
from ray import serve
from ray.serve.exceptions import RayServeException
from ray.serve.schema import ServeDeploySchema
from ray.serve.scripts import cli

from deployments.process_setup import set_serve_environment

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


def stop(applications: Collection[str]) -> NoReturn:
    """Let the requests of these applications finish, at most until another signal, and end this process.

    Ray is ended too, as far as it is this process's.
    """
    # One end may come as two signals: from a supervisor to all processes, and from the one that started this.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    time.sleep(_ONE_SIGNAL_S)
    if ray.is_initialized():
        with suppress(KeyboardInterrupt, RayServeException, ray.exceptions.RayError):
            set_signals()
            _drain(applications)
        ray.shutdown()
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


def serve_until_signal(start: Callable[[ServeDeploySchema], None]) -> None:
    """Have ``start`` serve the YAML file named last on the command line; at a signal drain, and end this process."""
    config = ServeDeploySchema.model_validate(yaml.safe_load(Path(sys.argv[-1]).read_text()))
    set_signals()
    set_serve_environment()
    try:
        start(config)
        print(f"metrics: {metrics_url()}", flush=True)
        # Ray and Serve may have set some of their own.
        set_signals()
        threading.Event().wait()
    except KeyboardInterrupt:
        stop([application.name for application in config.applications])


def metrics_url() -> str:
    """Return where the metrics of this node can be read."""
    [node] = (node for node in ray.nodes() if node["NodeID"] == ray.get_runtime_context().get_node_id())
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"


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
    if "--local" in sys.argv[1:-1]:
        serve_until_signal(_run_locally)
    else:
        serve_until_signal(lambda _: cli(["run", "--non-blocking", sys.argv[-1]], standalone_mode=False))


if __name__ == "__main__":
    main()
