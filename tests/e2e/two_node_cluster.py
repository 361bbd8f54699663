"""A Ray cluster of two nodes of this machine, until its standard input closes.

    python -m tests.e2e.two_node_cluster CACHE_OF_LISTS CACHE_OF_ENGINE

Prints the cluster's address. One node has the resource ``lists``, the other ``engine``, and each a cache folder of its
own.
"""

import sys

from ray.cluster_utils import Cluster


def main() -> None:
    lists_cache, engine_cache = sys.argv[1:]
    cluster = Cluster()
    # A node's processes inherit these variables.
    cluster.add_node(num_cpus=1, resources={"lists": 1}, env_vars={"WORDBOUND_CACHE": lists_cache})
    cluster.add_node(num_cpus=2, resources={"engine": 1}, env_vars={"WORDBOUND_CACHE": engine_cache})
    try:
        print(cluster.address, flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
