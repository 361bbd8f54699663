"""Handles of deployments that are objects of this process."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class Response:
    """What a call gives: awaited, iterated or cancelled."""

    def __init__(self, handle: "Handle", make: Callable[[], Any]) -> None:
        self._handle = handle
        self._make = make
        self._items: Any = None

    def __await__(self) -> Any:
        return self._make().__await__()

    async def __anext__(self) -> Any:
        self._items = self._items or self._make()
        return await anext(self._items)

    def cancel(self) -> None:
        self._handle.num_cancelled += 1


class Handle:
    """A handle of a deployment with one replica, ``replica``; without any where ``replicas`` is cleared."""

    app_name = deployment_name = "Deployment"

    def __init__(self, replica: Any) -> None:
        self.replica = replica
        self.replicas: dict[str, Any] = {"one": replica}
        self.num_calls = self.num_cancelled = 0
        router = SimpleNamespace(curr_replicas=self.replicas)
        self._router = SimpleNamespace(_asyncio_router=SimpleNamespace(request_router=router))

    def options(self, **_: Any) -> "Handle":
        return self

    def running_replicas_populated(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: self._call(getattr(self.replica, name), arguments))

    def _call(self, method: Any, arguments: tuple[Any, ...]) -> Response:
        self.num_calls += 1
        return Response(self, lambda: method(*arguments))
