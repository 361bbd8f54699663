"""Build the Serve application from typed settings: ingress, vocabulary, replica and batches.

``serve run`` and ``serve deploy`` call ``build`` with the arguments of the YAML file. The ingress asks the vocabulary,
then the replica; batches have their lines answered by replicas.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any

import ray
from ray import serve
from ray.serve.llm import build_llm_deployment

from deployments.batch.api import add_batch_routes
from deployments.batch.deployment import Batches
from deployments.ingress.app import Ingress, max_chats
from deployments.ingress.layers import is_loopback
from deployments.process_setup import FRONT_VARIABLE
from deployments.ray_private import serve_client
from deployments.replica.deployment import Replica
from deployments.replica.engine.configuration import engine_config
from deployments.settings.service import DEMO_TOKEN, Settings, SettingsError
from deployments.vocabulary.deployment import VocabularyDeployment

logger = logging.getLogger("ray.serve")

NUM_CPUS_OF_HELPERS = 0.1
"""What ingress, vocabulary and batches each ask Ray for: they share a core with the engine's node."""

HEALTH_CHECK_S = 1.0

END_MARGIN_S = 10
"""What it takes an ingress to end the answers of all its clients."""


def build(args: Mapping[str, Any]) -> serve.Application:
    """Build the Serve application from the YAML arguments; environment and secret files go before them.

    Raises:
        SettingsError: A setting is unknown, bad, or unsafe where the service would listen.
    """
    return build_with(args, Replica)


def build_with(args: Mapping[str, Any], replica_class: type[Replica]) -> serve.Application:
    """Build the Serve application with another class of replicas.

    Apart from ``build``, which Serve calls with one argument.
    """
    settings = Settings.load(args)
    print(f"wordbound settings, all others by default:\n{settings.as_text()}", flush=True)
    for warning in settings.warnings:
        logger.warning("%s", warning)
    if settings.opened:
        check_loopback(_http_host(), settings)
    # No logging_config: one of a deployment's own would hide that of the application in the YAML file.
    life: dict[str, Any] = {
        # A dead process is replaced so much sooner than by Ray's own 10 s.
        "health_check_period_s": HEALTH_CHECK_S,
        "health_check_timeout_s": settings.health_timeout_s,
        # Longer than the replica's: an answer that has not ended when Serve ends its replica is ended with an error,
        # and not cut.
        "graceful_shutdown_timeout_s": settings.drain_s + END_MARGIN_S,
    }

    helper = {"num_cpus": NUM_CPUS_OF_HELPERS}
    # Another is started before an old one is replaced, so that an upgrade leaves no gap.
    surge = {"max_surge_percent": 100}

    vocabulary = serve.deployment(
        VocabularyDeployment,
        name="Vocabulary",
        num_replicas=1,
        max_ongoing_requests=1000,
        max_queued_requests=settings.max_queued_requests,
        ray_actor_options={**helper, "resources": settings.vocabulary_resources},
        **surge,
        **life,
    ).bind(settings)

    replica = build_llm_deployment(
        engine_config(settings),
        deployment_cls=replica_class,
        bind_kwargs={"settings": settings, "vocabulary": vocabulary},
        override_serve_options={"name": "Replica", "max_surge_percent": settings.max_surge_percent},
    )

    batches = None
    if settings.batch.enabled:
        batches = serve.deployment(
            Batches,
            name="Batches",
            # Only one may run batches; their state outlives it.
            num_replicas=1,
            max_ongoing_requests=100,
            max_queued_requests=settings.max_queued_requests,
            ray_actor_options={**helper, "resources": settings.batch.resources},
            **life,
        ).bind(settings, replica)

    # More chats than an ingress lets in by itself, and room for all else: Serve would refuse in plain text.
    max_requests = 2 * max_chats(settings) + 1000
    return Ingress.options(
        num_replicas=settings.ingress_replicas,
        max_ongoing_requests=max_requests,
        max_queued_requests=max_requests,
        ray_actor_options={**helper, "resources": settings.ingress_resources},
        **surge,
        **life,
    ).bind(settings, replica, vocabulary, batches, add_batch_routes)


def check_loopback(host: str | None, settings: Settings) -> None:
    """Raise ``SettingsError`` where what is for this machine only would listen beyond it; warn of a known key."""
    opened = " and ".join(settings.opened)
    if host is None:
        logger.warning("%s: the address that the service listens on is not known here; keep it to 127.0.0.1", opened)
    elif not is_loopback(host):
        raise SettingsError(
            f"http_options.host={host!r}: with {opened} the service listens on a loopback address only; set 127.0.0.1, "
            f"or {' and '.join(settings.opened.values())} and SECRET_TOKEN to a key of your own"
        )
    if settings.has_known_key:
        logger.warning("demo: the key is %r, which everyone knows; for this machine only", DEMO_TOKEN)


def _http_host() -> str | None:
    """Return the host that clients reach; None if not known, as before Serve runs (``serve build``)."""
    if front := os.environ.get(FRONT_VARIABLE):
        return front.rpartition(":")[0]
    if not ray.is_initialized():
        return None
    try:
        client = serve_client()
        return None if client is None else str(client.http_config.host)
    except Exception:
        logger.exception("demo: Serve's HTTP options cannot be read")
        return None
