"""Runs the service on a Ray cluster of two nodes of this machine until its standard input closes.

    python -m tests.e2e.two_nodes PORT CACHE_OF_VOCABULARY CACHE_OF_ENGINE SETTINGS_AS_JSON

The vocabulary deployment is pinned to one node, the engine to the other, and each node has a cache folder of its own.
Says on its standard output when it is ready.
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
    port, vocabulary_cache, engine_cache, args = sys.argv[1:]
    cluster = Cluster()
    # A node's processes inherit these variables.
    cluster.add_node(num_cpus=1, resources={"vocabulary": 1}, env_vars={"WORDBOUND_CACHE": vocabulary_cache})
    cluster.add_node(num_cpus=2, resources={"engine": 1}, env_vars={"WORDBOUND_CACHE": engine_cache})
    ray.init(address=cluster.address)
    try:
        options = {"runtime_env": {"env_vars": SERVE_ENVIRONMENT}}
        serve.start(http_options={"host": "127.0.0.1", "port": int(port)}, controller_options=options)
        serve.run(build(json.loads(args)), name="wordbound", route_prefix="/")
        print(READY, flush=True)
        sys.stdin.read()
    finally:
        serve.delete("wordbound")
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
