"""``python -m deployments.demo.application FILE``: what ``serve run --address local FILE`` does, in half the time.

Serve has a new process of the cluster import the application once everything else runs. Here this process does it
while Ray and Serve start. There is no dashboard, whose dozen processes would start before anything else.
"""

import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import ray
import yaml
from ray import serve
from ray._common.utils import import_attr
from ray.serve.exceptions import RayServeException
from ray.serve.schema import ServeDeploySchema


def run(config: ServeDeploySchema) -> None:
    """Start Ray, Serve and the one application of the configuration; return once it answers requests.

    Raises:
        RuntimeError: It cannot be deployed.
    """
    [application] = config.applications
    # Imports a few thousand modules with a lock of the interpreter; the other side mostly waits for processes.
    with ThreadPoolExecutor(1) as importer:
        build = importer.submit(import_attr, application.import_path)
        ray.init(address="local", namespace="serve", include_dashboard=False)
        serve.start(proxy_location=config.proxy_location, http_options=config.http_options.model_dump())
        app = build.result()(application.args)
    logs = application.logging_config
    serve.run(app, name=application.name, route_prefix=application.route_prefix, logging_config=logs)


def stop(config: ServeDeploySchema) -> None:
    """Let requests finish, and end everything."""
    if ray.is_initialized():
        with suppress(RayServeException):
            serve.delete(config.applications[0].name)
        ray.shutdown()


def main() -> None:
    config = ServeDeploySchema.model_validate(yaml.safe_load(Path(sys.argv[1]).read_text()))
    # Where a shell started this process in the background, it would be ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run(config)
        threading.Event().wait()
    except KeyboardInterrupt:
        # Serve's own shutdown waits for the controller that it has ended, until it is killed itself.
        stop(config)


if __name__ == "__main__":
    main()
