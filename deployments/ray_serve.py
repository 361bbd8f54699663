"""What the service uses of Ray Serve that has no public name, written for Ray 2.60.

An upgrade of Ray that moves any of it breaks here, and in ``test_ray_llm.py``. Attributes of
``ASGIReceiveProxy`` are looked for where they are used (``ingress/connections``), which go on without them.
"""

from typing import Any, Final

from ray.serve._private import constants
from ray.serve._private.http_util import ASGIReceiveProxy
from ray.serve.context import _get_global_client

__all__ = ["ASGIReceiveProxy"]

SESSION_ID_HEADER: Final[str] = getattr(constants, "SERVE_SESSION_ID", "x-session-id")
"""The header by which Serve routes a session; an operator may have given it another name."""


def serve_client() -> Any:
    """Return Serve's client of this cluster; None where Serve does not run yet. Connects to Ray where nothing has."""
    return _get_global_client(raise_if_no_controller_running=False)
