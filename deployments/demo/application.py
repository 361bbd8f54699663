"""``python -m deployments.demo.application FILE``: what ``deployments.serving`` does, in half the time.

Serve has a new process of the cluster import the application once everything else runs. Here this process does it
while Ray and Serve start. There is no dashboard, whose dozen processes would start before anything else.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pkgutil import resolve_name

import ray
import yaml
from ray import serve
from ray.serve.schema import ServeDeploySchema

from deployments.process_setup import set_serve_environment
from deployments.serving import set_signals, stop, wait_for_signal


def run(config: ServeDeploySchema) -> None:
    """Start Ray, Serve and the one application of the configuration; return once it answers requests.

    Raises:
        RuntimeError: It cannot be deployed.
    """
    [application] = config.applications
    # Imports a few thousand modules with a lock of the interpreter; the other side mostly waits for processes.
    with ThreadPoolExecutor(1) as importer:
        build = importer.submit(resolve_name, application.import_path)
        ray.init(address="local", namespace="serve", include_dashboard=False)
        serve.start(proxy_location=config.proxy_location, http_options=config.http_options.model_dump())
        app = build.result()(application.args)
    logs = application.logging_config
    serve.run(app, name=application.name, route_prefix=application.route_prefix, logging_config=logs)


def main() -> None:
    """Serve the configuration file named on the command line until a signal, then drain and exit."""
    config = ServeDeploySchema.model_validate(yaml.safe_load(Path(sys.argv[1]).read_text()))
    set_signals()
    set_serve_environment()
    try:
        run(config)
        wait_for_signal()
    except KeyboardInterrupt:
        stop([application.name for application in config.applications])


if __name__ == "__main__":
    main()
