"""Declare a route once: its method and path, its body and answer, the keys that it is for, and its places.

``Routes`` adds each to the application. The layers around it ask which operation a request is of (``match``), whose
keys may use that, and which places it takes; the OpenAPI document is made of the same declarations.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Final, TypeAlias

from fastapi import FastAPI, Response
from starlette.types import Scope

from deployments.errors import MethodNotAllowedError, NotFoundError
from deployments.ingress.connections.budgets import SLOT, SharedBudget
from deployments.protocol.openapi import Operation, OperationAnswer, OperationBody
from deployments.protocol.validation import Schema
from deployments.settings.keys import Part

Handler: TypeAlias = Callable[..., Awaitable[Response]]

_PARAMETER: Final = re.compile(r"\\\{\w+(:path)?\\\}")
_ID: Final = "[A-Za-z0-9_-]{1,64}"
"""One of our ids, or the name of a list."""


class Places(SharedBudget):
    """Room for ``num_requests`` at once in the routes that share it. One key has three quarters of them at most.

    A place is free when the answer has been made, however slowly it is read: at its last piece, or where
    ``release_slot`` is called before.
    """

    def __init__(self, num_requests: int) -> None:
        super().__init__(
            num_requests,
            "The service has no capacity for this request now. Try again in a moment.",
            f"This key has {num_requests - num_requests // 4} requests under way. Wait until one has ended.",
        )


class Routes:
    """The routes of an application."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._operations: dict[str, dict[str, Operation]] = {}
        self._places: dict[Operation, Places] = {}
        self._patterns: dict[str, re.Pattern[bytes]] = {}

    @property
    def operations(self) -> list[Operation]:
        """All of them, in the order of their declarations."""
        return [operation for methods in self._operations.values() for operation in methods.values()]

    def add(
        self,
        method: str,
        path: str,
        *,
        part: Part | None,
        body: OperationBody = None,
        answer: OperationAnswer = None,
        streams: bool = False,
        query: Mapping[str, Schema] | Iterable[str] = (),
        places: Places | None = None,
        is_open: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Return a decorator that adds a route.

        Args:
            method: ``GET``, ``POST`` or another; the handler of a path is declared once for each.
            path: As FastAPI has it: ``{name}`` is one of our ids, ``{name:path}`` anything, ``/`` included.
            part: The part of the service that it belongs to, for keys of one part alone; None for any key.
            body: The model of its JSON body, or the schema of each media type.
            answer: The model of its JSON answer, or a model or schema of each media type; None for one that the
                OpenAPI document leaves out.
            streams: Whether the answer may be server-sent events instead.
            query: The schemas of its query parameters; names alone are those of members of a chat.
            places: Where its requests take a place each, before their bodies are read.
            is_open: Whether it needs no key.
        """
        operation = Operation(method, path.replace(":path", ""), part, body, answer, streams, query, is_open)

        def add(handler: Handler) -> Handler:
            self._app.add_api_route(path, handler, methods=[method], include_in_schema=answer is not None)
            self._operations.setdefault(path, {})[method] = operation
            if "{" in path:
                self._patterns[path] = _pattern(path)
            if places is not None:
                self._places[operation] = places
            return handler

        return add

    def match(self, scope: Mapping[str, Any]) -> None:
        """Store a request's operation in its scope's state.

        Paths are compared as they were sent, before any decoding, so that no second spelling reaches a handler.

        Raises:
            NotFoundError: There is nothing at this path.
            MethodNotAllowedError: It has other methods.
        """
        methods = self._methods_of(raw_path(scope))
        if methods is None:
            raise NotFoundError("There is nothing at this path.")
        scope["state"]["route"] = next(iter(methods.values())).path
        if scope["method"] not in methods:
            raise MethodNotAllowedError(tuple(methods))
        scope["state"]["operation"] = methods[scope["method"]]

    def is_open(self, path: bytes) -> bool:
        """Return whether a path needs no key."""
        methods = self._methods_of(path)
        return methods is not None and all(operation.is_open for operation in methods.values())

    def take_place(self, scope: Scope) -> None:
        """Hold a place for a request until ``release_slot``, where its route has some.

        Raises:
            OverloadedError, TooManyRequestsError: As ``Places.hold``.
        """
        places = self._places.get(scope["state"]["operation"])
        if places is not None:
            place = ExitStack()
            place.enter_context(places.hold(1, scope["state"]["owner"]))
            scope[SLOT] = place.close

    def _methods_of(self, path: bytes) -> dict[str, Operation] | None:
        exact = path.decode("ascii", "replace")
        if "{" not in exact and exact in self._operations:
            return self._operations[exact]
        return next((self._operations[one] for one, pattern in self._patterns.items() if pattern.fullmatch(path)), None)


def raw_path(scope: Mapping[str, Any]) -> bytes:
    """Return the path as it was sent, not decoded, without the query."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path.partition(b"?")[0]


def _pattern(path: str) -> re.Pattern[bytes]:
    made = _PARAMETER.sub(lambda found: ".+" if found[1] else _ID, re.escape(path))
    return re.compile(made.encode())
