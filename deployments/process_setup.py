"""What each process of the service does first.

Serve starts processes with the environment of Ray on their node, which is not that of ``serve run``; the settings come
to them as arguments.
"""

import logging
import os
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Final

from deployments.settings.service import Settings

HF_TOKEN = "HF_TOKEN"  # noqa: S105 - the name of the variable

CALLBACK_VARIABLE: Final = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
CALLBACK: Final = "deployments.proxy:middlewares"

SERVE_ENVIRONMENT: Final = {
    CALLBACK_VARIABLE: CALLBACK,
    # From ingress to proxy each piece of a stream would be an object of Ray's.
    "RAY_SERVE_PROXY_USE_GRPC": "1",
    # One event loop for Serve and the code here: each piece of a stream would change threads twice in each process.
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    # By default each process exports its metrics, and the controller looks at its deployments, ten times a second.
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "2000",
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.5",
    # With variables of its own a proxy is a new process, which on a busy machine does not start within Serve's 5 s.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    # Of requests with gRPC, and of each piece of their answers; gRPC's own is 4 MiB.
    "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": "268435456",
}
"""Ray Serve's own variables, in its controller and in the proxies and replicas that it starts.

``controller_options`` of the YAML files have them; Serve's processes read them before any code here runs.
"""

NUM_INGRESSES: Final = 16
"""Ports for ingresses behind a front, those included that are being replaced. Costs a refused connection each, five
times a second."""

FIRST_PORT: Final = 30_000
"""Where Serve begins by itself, as on each node of a cluster."""

DIRECT_VARIABLE: Final = "RAY_SERVE_ENABLE_DIRECT_INGRESS"
FIRST_PORT_VARIABLE: Final = "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT"
LAST_PORT_VARIABLE: Final = "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT"

DIRECT_ENVIRONMENT: Final = {
    # Each ingress listens on a port of its own, at the address that Serve's HTTP options have.
    DIRECT_VARIABLE: "1",
    FIRST_PORT_VARIABLE: str(FIRST_PORT),
    LAST_PORT_VARIABLE: str(FIRST_PORT + NUM_INGRESSES),
    # A front finds in less than this that an ingress ends.
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2",
    # Another may have its port at once, for the front looks at each.
    "RAY_SERVE_PORT_QUARANTINE_S": "0",
}
"""The same beside ``SERVE_ENVIRONMENT``, for ingresses behind a front (``deployments/front.py``)."""

FRONT_VARIABLE: Final = "WORDBOUND_FRONT"
"""The address and port that clients reach: an ingress that has it stands behind a front."""

KEY_VARIABLE: Final = "WORDBOUND_FRONT_KEY"
KEY_HEADER: Final = "x-wordbound-front"
"""By these an ingress knows its front, and refuses what goes around it."""

BARE_PORT: Final = "Serve's own port bounds no slow or hostile client: it is for a trusted network only"

RAY_ENVIRONMENT: Final = {
    # At 95% of a machine's memory, whoever has taken it, Ray would end tasks to try them again: controller, ingress and
    # replica at once, which nobody tries again. The kernel ends one process, the largest of Ray's workers and theirs.
    "RAY_memory_monitor_refresh_ms": "0",
}
"""Variables of each node's Ray itself, set before it starts: its raylet reads them."""

READY_HOOK: Final = "WORDBOUND_READY_HOOK"
"""A variable for tests: ``package.module:function``."""


def set_serve_environment() -> None:
    """Set the variables of Ray and Serve for the Ray that this process starts, whatever the YAML file has.

    Variables that are set already stay as they are.
    """
    for name, value in (RAY_ENVIRONMENT | SERVE_ENVIRONMENT).items():
        os.environ.setdefault(name, value)


def set_up_process(settings: Settings) -> None:
    """Set this process's ``HF_TOKEN``, which its children inherit, and Serve's log level from the settings."""
    if settings.hf_token is not None:
        # What the node has, or ``replica_env``, goes before.
        os.environ.setdefault(HF_TOKEN, settings.hf_token.get_secret_value())
    if settings.log_level is not None:
        logging.getLogger("ray.serve").setLevel(settings.log_level)


def check_guarded(environment: Mapping[str, str] = os.environ) -> None:
    """Raise ``RuntimeError`` unless Serve's HTTP servers are configured to drop what Serve would take from a client."""
    if environment.get(CALLBACK_VARIABLE) != CALLBACK:
        raise RuntimeError(
            "Serve's proxy is not guarded against its clients. The YAML file needs the controller_options of "
            f"serve_config.yaml, among them {CALLBACK_VARIABLE}: {CALLBACK}. Serve reads them when it starts; `serve "
            "shutdown` ends one that runs. Without a file, set the variable on every node before Ray starts"
        )


def run_ready_hook() -> None:
    """Call the function that ``READY_HOOK`` names, such as one by which tests watch the event loop.

    Each process of the service does so when it is ready, on its event loop.
    """
    if name := os.environ.get(READY_HOOK):
        resolve_name(name)()
