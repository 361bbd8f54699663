"""``python -m benchmarks.load.two_nodes FILE``: as ``deployments.serving --local``, on two nodes of this machine.

Each node offers one core. The second one is started again when its raylet has died, as a cluster's supervisor would.
"""

import sys
import threading
import time
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import ray
from ray import serve
from ray.cluster_utils import Cluster
from ray.serve.schema import ServeDeploySchema

from deployments.serving import serve_until_signal

_LOOK_S = 1.0


def run(config: ServeDeploySchema) -> None:
    """Start the nodes, Serve and the one application of the configuration; return once it answers requests."""
    [application] = config.applications
    cluster = Cluster()
    cluster.add_node(num_cpus=1)
    worker = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, namespace="serve")
    threading.Thread(target=_replace, args=(cluster, worker), daemon=True).start()
    serve.start(proxy_location=config.proxy_location, http_options=config.http_options.model_dump())

    app = resolve_name(application.import_path)(application.args)
    serve.run(
        app, name=application.name, route_prefix=application.route_prefix, logging_config=application.logging_config
    )


def _replace(cluster: Cluster, node: Any) -> None:
    """Start the node again whenever one of its processes has died."""
    while True:
        time.sleep(_LOOK_S)
        if node.dead_processes():
            print("a node died, and another is started", flush=True)
            node.kill_all_processes(check_alive=False, allow_graceful=False)
            node = cluster.add_node(num_cpus=1)


if __name__ == "__main__":
    serve_until_signal(Path(sys.argv[-1]), run)
