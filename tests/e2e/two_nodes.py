"""A Ray cluster of two nodes of this machine, until its standard input closes.

    python -m tests.e2e.two_nodes CACHE_OF_LISTS CACHE_OF_ENGINE [PORT SETTINGS_AS_JSON]

One node has the resource ``lists``, the other ``engine``, and each a cache folder of its own. Prints the cluster's
address; with a port it runs the service there, and says on its standard output when that is ready.
"""

import json
import sys

import ray
from ray import serve
from ray.cluster_utils import Cluster

from deployments.app import build
from deployments.process_setup import SERVE_ENVIRONMENT

READY = "two nodes are ready"


def main() -> None:
    lists_cache, engine_cache, *service = sys.argv[1:]
    cluster = Cluster()
    # A node's processes inherit these variables.
    cluster.add_node(num_cpus=1, resources={"lists": 1}, env_vars={"WORDBOUND_CACHE": lists_cache})
    cluster.add_node(num_cpus=2, resources={"engine": 1}, env_vars={"WORDBOUND_CACHE": engine_cache})
    try:
        print(cluster.address, flush=True)
        if service:
            run_service(cluster.address, *service)
        sys.stdin.read()
    finally:
        if service:
            serve.delete("wordbound")
            ray.shutdown()
        cluster.shutdown()


def run_service(address: str, port: str, settings: str) -> None:
    ray.init(address=address)
    options = {"runtime_env": {"env_vars": SERVE_ENVIRONMENT}}
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)}, controller_options=options)
    serve.run(build(json.loads(settings)), name="wordbound", route_prefix="/")
    print(READY, flush=True)


if __name__ == "__main__":
    main()
