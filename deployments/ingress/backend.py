"""The replica and vocabulary deployments behind Serve handles, as the HTTP front uses them."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Collection
from typing import Any, Final

from ray import serve
from ray.serve.handle import DeploymentHandle

from deployments.contract import Answer, ChatBody, Decoding, ResolvedVocabulary, VocabularySpec
from deployments.vocabulary.deployment import resolve

logger = logging.getLogger("ray.serve.wordbound")

_READY_FOR_S: Final = 1.0
"""Health needs no key, so requests to it must not become one question to the controller each."""

_STATUS_TIMEOUT_S: Final = 5.0


class HandleBackend:
    """A ``Backend`` (see ``ingress``) of two handles."""

    def __init__(self, replica: DeploymentHandle, vocabulary: DeploymentHandle) -> None:
        self._replica = replica.options(stream=True)
        self._vocabulary = vocabulary
        self._readiness = _Readiness(replica.app_name, (replica.deployment_name, vocabulary.deployment_name))

    async def resolve(self, spec: VocabularySpec) -> ResolvedVocabulary:
        return await resolve(self._vocabulary, spec)

    async def answer(
        self, body: ChatBody, vocabulary: ResolvedVocabulary | None, decoding: Decoding, request_id: str
    ) -> AsyncGenerator[Answer]:
        response = self._replica.answer.remote(body, vocabulary, decoding, request_id)
        try:
            async for item in response:
                yield item
        except (GeneratorExit, asyncio.CancelledError):
            response.cancel()
            raise

    async def is_ready(self) -> bool:
        return await self._readiness.get()


class _Readiness:
    """Whether each of some deployments has a running replica, as the controller last said.

    Replicas are not asked: a busy one would answer late and be taken for dead. While the controller does not answer,
    which stops no request, its last answer holds.
    """

    def __init__(self, app_name: str, deployment_names: Collection[str]) -> None:
        self._app_name = app_name
        self._deployment_names = deployment_names
        self._is_ready = False
        self._asked_at = -_READY_FOR_S
        self._lock = asyncio.Lock()

    async def get(self) -> bool:
        async with self._lock:
            if time.monotonic() - self._asked_at >= _READY_FOR_S:
                await self._ask()
                self._asked_at = time.monotonic()
        return self._is_ready

    async def _ask(self) -> None:
        try:
            status = await asyncio.wait_for(asyncio.to_thread(serve.status), _STATUS_TIMEOUT_S)
        except Exception as error:
            logger.warning("the controller does not say how the deployments are: %s", type(error).__name__)
            return
        application = status.applications.get(self._app_name)
        deployments: dict[str, Any] = application.deployments if application else {}
        self._is_ready = all(
            name in deployments and deployments[name].replica_states.get("RUNNING", 0) > 0
            for name in self._deployment_names
        )
