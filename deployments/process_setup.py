"""What each process of the service does first.

Serve starts processes with the environment of Ray on their node, which is not that of ``serve run``; the settings come
to them as arguments.
"""

import logging
import os

from deployments.settings import Settings

HF_TOKEN = "HF_TOKEN"  # noqa: S105 - the name of the variable


def set_up_process(settings: Settings) -> None:
    """Give the libraries of this process, and the processes that it starts, what they read from their environment."""
    if settings.hf_token is not None:
        # What the node has, or ``replica_env``, goes before.
        os.environ.setdefault(HF_TOKEN, settings.hf_token.get_secret_value())
    if settings.log_level is not None:
        logging.getLogger("ray.serve").setLevel(settings.log_level)
