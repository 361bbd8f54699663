"""The rest of the graph as the front sees it, over Serve's handles.

A request waits in the ingress only for its turn in a replica, and not for a replica that has to be started.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from ray.exceptions import RayActorError
from ray.serve.exceptions import DeploymentUnavailableError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle

from deployments.contract import (
    BEGUN,
    ENGINE_DEAD,
    ENGINE_START_S,
    ReplicaRequest,
    RowsItem,
    RowsRequest,
    TokensRequest,
)
from deployments.errors import EngineError, OverloadedError
from deployments.metrics import read_metrics
from deployments.ray_private import by_grpc, has_no_replica, has_replica
from deployments.settings.service import Settings
from deployments.single_flight import Watch, abandon
from deployments.vocabulary.client import VocabularyClient

logger = logging.getLogger("ray.serve.wordbound")

_CONTEXT_TIMEOUT_S: Final = 5.0

_CALL_ALL_S: Final = 120.0
"""The slowest replica has so long: to load an adapter over a network."""

_RETRIES_S: Final = (0.1, 0.5)
"""Waits before a request is sent to another replica, where its own died before it had begun."""

_FULL_S: Final = 0.2
"""For so long after a key was refused its requests are refused here. A refusal by a replica costs this process ten
milliseconds, so that a client that does not heed it could take all its time."""


class Backend:
    """What the ingress asks of the replicas and of the vocabulary deployment, over their Serve handles."""

    def __init__(self, replica: DeploymentHandle, vocabulary: DeploymentHandle, settings: Settings) -> None:
        self._texts = by_grpc(replica, stream=True)
        # Through Ray's object store, where they lie until the client has taken them.
        self._rows = replica.options(stream=True)
        self._replicas = replica
        # The engine's own is the same for as long as the application runs.
        known = settings.engine_kwargs.get("max_model_len")
        self._context_length = None if known is None else int(known)
        self._vocabulary = vocabulary
        lists = VocabularyClient(vocabulary, settings.max_cached_vocabularies)
        self.resolve, self.ask = lists.resolve, lists.ask
        # One of a deployment that may scale to nothing is started by a request that waits for it.
        self._waits_for_start = settings.autoscaling.min_replicas == 0
        self._watch = Watch(lambda: not self._waits_for_start and has_no_replica(self._replicas))
        # By key, the time of its last refusal and when to come back.
        self._refused: dict[str, tuple[float, int]] = {}
        # The replica refuses earlier, and knows when to come back.
        self._max_wait_s = settings.max_queue_s + 1

    def answer(self, request: ReplicaRequest) -> AsyncGenerator[Any]:
        """Yield a replica's answer; closing the generator stops the work.

        Items are ``Answer``s. Rows are a dict that describes them and then arrays, as ``RowsItem``.
        """
        replica = self._rows if isinstance(request, RowsRequest) else self._texts
        # A refusal of tokens says nothing of the room for chats.
        owner = None if isinstance(request, TokensRequest) else request.caller.owner
        return self._items(lambda: replica.answer.remote(request), owner)

    async def call_all(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every running replica; return what each returned or raised, [] if none runs."""
        try:
            response = self._replicas.broadcast(method, *arguments)
            return list(await response.results_async(timeout_s=_CALL_ALL_S, return_exceptions=True))
        except TimeoutError as error:
            return [error]
        except DeploymentUnavailableError:
            return []

    async def _items(self, send: Callable[[], Any], owner: str | None) -> AsyncGenerator[Any]:
        """Yield a replica's items but ``BEGUN``; remember a refusal for the key ``owner``."""
        response, item = await self._begin(send)
        try:
            if owner is not None and isinstance(item, EngineError) and item.code == "overloaded":
                self._refused[owner] = time.monotonic(), item.retry_after_s or 1
            while item is not None:
                # An array has no one answer to whether it is equal.
                if not isinstance(item, str) or item != BEGUN:
                    yield item
                item = await _next(response)
        except (GeneratorExit, asyncio.CancelledError):
            response.cancel()
            raise

    async def _begin(self, send: Callable[[], Any]) -> tuple[Any, Any]:
        """Send a request and return the response with its first item; send it again where its replica died before.

        A request that has begun is not sent again: it may be what the engine died of.
        """
        for wait_s in (*_RETRIES_S, None):
            response = send()
            try:
                item = await self._first_item(response)
                if wait_s is None or not (isinstance(item, EngineError) and item.code == ENGINE_DEAD):
                    break
            except (RayActorError, ReplicaUnavailableError):
                if wait_s is None:
                    raise
            except (asyncio.CancelledError, OverloadedError):
                response.cancel()
                raise
            await asyncio.sleep(wait_s)
        return response, item

    async def _first_item(self, response: Any) -> RowsItem | None:
        """Wait for a replica's first item, which comes with the request's turn.

        Raises:
            OverloadedError: No replica runs, or none had room for it in time.
        """
        first = asyncio.create_task(_next(response))
        no_replica = self._watch.add()
        try:
            either: set[asyncio.Future[Any]] = {first, no_replica}
            await asyncio.wait(either, timeout=self._max_wait_s, return_when=asyncio.FIRST_COMPLETED)
            if first.done():
                return first.result()
            if no_replica.done() or has_no_replica(self._replicas):
                raise OverloadedError("The model is being started. Try again in a moment.", ENGINE_START_S)
            raise _no_capacity()
        finally:
            abandon(first)
            no_replica.cancel()

    def check_room(self, owner: str) -> None:
        """Raise ``OverloadedError`` where a replica has just refused a request of this key."""
        refused_at, retry_after_s = self._refused.get(owner, (0.0, 0))
        if time.monotonic() - refused_at < _FULL_S:
            raise _no_capacity(retry_after_s)

    async def metrics(self) -> bytes:
        """Return what Prometheus would read of this process's node.

        Raises:
            OverloadedError: It cannot be read now.
        """
        try:
            return await asyncio.to_thread(read_metrics)
        except OSError as error:
            logger.warning("the metrics of this node cannot be read: %s", error)
            raise OverloadedError("The metrics of this node cannot be read now. Try again in a moment.") from None

    def is_ready(self) -> bool:
        """Return whether replicas and vocabulary deployment can take requests, as far as this process knows.

        Replicas are not asked: a busy one would answer late and be taken for dead. Where there may be none, the first
        request starts one, and is sent by nobody who asks whether the service is ready.
        """
        return has_replica(self._vocabulary) and (self._waits_for_start or has_replica(self._replicas))

    async def context_length(self) -> int | None:
        """Return the engine's context length in tokens; None where it is not known now."""
        # A question would start a replica where there is none.
        if self._context_length is None and has_replica(self._replicas):
            try:
                async with asyncio.timeout(_CONTEXT_TIMEOUT_S):
                    self._context_length = await self._replicas.context_length.remote()
            except Exception as error:
                logger.warning("no replica says how long its context is: %s", type(error).__name__)
        return self._context_length


def _no_capacity(retry_after_s: int = 1) -> OverloadedError:
    return OverloadedError("The service has no capacity for this request now. Try again in a moment.", retry_after_s)


async def _next(response: Any) -> RowsItem | None:
    item: RowsItem | None = await anext(response, None)
    return item
