"""The real front over stand-ins for the other deployments, built as an application is."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ray import serve

from deployments.app import END_MARGIN_S
from deployments.contract import BEGUN, Answer, TextRequest
from deployments.ingress.app import Ingress
from deployments.settings.service import Settings

FREE = {"num_cpus": 0}


class Replica:
    """Writes a word every tenth of a second, as many as ``max_tokens`` says."""

    async def answer(self, request: TextRequest) -> AsyncGenerator[Answer]:
        yield BEGUN
        for _ in range(request.body["max_tokens"]):
            yield 'data: {"choices": []}\n\n'
            await asyncio.sleep(0.1)
        yield "data: [DONE]\n\n"


class Vocabulary:
    """Is never asked."""


def build(args: Mapping[str, Any]) -> serve.Application:
    settings = Settings.load(args)
    replica: Any = serve.deployment(Replica, ray_actor_options=FREE, graceful_shutdown_timeout_s=settings.drain_s)
    vocabulary: Any = serve.deployment(Vocabulary, ray_actor_options=FREE)
    ingress = Ingress.options(
        ray_actor_options=FREE, max_ongoing_requests=100, graceful_shutdown_timeout_s=settings.drain_s + END_MARGIN_S
    )
    application: serve.Application = ingress.bind(settings, replica.bind(), vocabulary.bind())
    return application
