"""Handles of deployments that have replicas, have none, or are not known yet."""

import asyncio
import gc
from concurrent.futures import Future
from contextlib import aclosing, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve._private.common import RequestMetadata
from ray.serve.handle import DeploymentResponse, DeploymentResponseGenerator

from deployments.contract import Caller, Decoding, TextRequest, VocabularySpec
from deployments.ingress.replicas import Backend
from deployments.ray_private import has_no_replica, has_replica
from deployments.settings.service import Settings
from deployments.single_flight import Watch


def handle(replicas: dict[str, Any] | None, *, is_populated: bool = True) -> Any:
    """A handle that knows these replicas; None for one that was never used."""
    router = SimpleNamespace(_asyncio_router=SimpleNamespace(request_router=SimpleNamespace(curr_replicas=replicas)))
    return SimpleNamespace(
        _router=None if replicas is None else router, running_replicas_populated=lambda: is_populated
    )


def test_there_is_none_where_the_last_one_is_known_to_be_gone() -> None:
    assert has_no_replica(handle({}))
    assert not has_no_replica(handle({"one": object()}))
    # What is not known yet may be there.
    assert not has_no_replica(handle(None))
    assert not has_no_replica(handle({}, is_populated=False))
    for known, there_is in ((handle({"one": object()}), True), (handle({}), False), (handle(None), False)):
        assert has_replica(known) == there_is


async def test_a_watch_passes_over_who_has_just_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deployments.single_flight._CHECK_S", 0.001)
    waiting: list[asyncio.Future[None]] = []

    def has_happened() -> bool:
        # As clients do whose connections are closed in the same turn of the loop.
        for future in waiting[:-1]:
            future.cancel()
        return True

    watch = Watch(has_happened)
    waiting += [watch.add() for _ in range(20)]
    await asyncio.wait_for(waiting[-1], 60)
    assert all(future.cancelled() for future in waiting[:-1])


class Handle:
    """Of a deployment whose replica has taken a request and not answered yet, with Serve's own responses."""

    app_name, deployment_name = "wordbound", "Deployment"
    _router = None

    def __init__(self, kind: Any = DeploymentResponse) -> None:
        self._kind = kind

    def options(self, *, stream: bool, **_: Any) -> "Handle":
        return Handle(DeploymentResponseGenerator if stream else DeploymentResponse)

    def running_replicas_populated(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        taken: Future[Any] = Future()
        return SimpleNamespace(
            remote=lambda *_: self._kind(taken, RequestMetadata(request_id="r", internal_request_id="i"))
        )


@pytest.mark.fault(36)
async def test_a_client_that_vanishes_leaves_no_error_that_nobody_takes() -> None:
    untaken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: untaken.append(context))
    handle: Any = Handle()
    backend = Backend(handle, handle, Settings.load({"secret_token": "k", "model_name": "some/model"}, {}))

    async def chat() -> None:
        request = TextRequest({"messages": []}, None, Decoding(), Caller("a", "r"))
        async with aclosing(backend.answer(request)) as items:
            async for _ in items:
                pass

    for work in (chat(), backend.resolve(VocabularySpec(lang="en"), "a")):
        client = asyncio.create_task(work)
        await asyncio.sleep(0.01)
        client.cancel()
        with suppress(asyncio.CancelledError):
            await client
        await asyncio.sleep(0.01)
        gc.collect()
    assert not untaken
