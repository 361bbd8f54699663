"""``python -m deployments.demo.application FILE``: what ``deployments.serving`` does, in half the time.

Serve has a new process of the cluster import the application once everything else runs. Here this process does it
while Ray and Serve start. There is no dashboard, whose dozen processes would start before anything else.
"""

from concurrent.futures import ThreadPoolExecutor
from pkgutil import resolve_name

import ray
from ray import serve
from ray.serve.schema import ServeDeploySchema

from deployments.serving import serve_until_signal


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
        serve.start(
            proxy_location=config.proxy_location,
            http_options=config.http_options.model_dump(),
            tracing_config=config.tracing_config,
        )
        app = build.result()(application.args)
    logs = application.logging_config
    serve.run(app, name=application.name, route_prefix=application.route_prefix, logging_config=logs)


if __name__ == "__main__":
    serve_until_signal(run)
