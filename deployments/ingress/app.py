"""The HTTP front: its layers and routes, of which those of health, models and pages stand here.

A request passes, from the outside in: origin (where web pages may ask), request id, Host (of a service that is open to
all origin too), key, route, limits of the key, place, then a handler.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from fastapi import FastAPI, Request, Response
from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse

from deployments.adapter_register import Register
from deployments.errors import NotFoundError
from deployments.ingress.adapter_loader import add_adapters
from deployments.ingress.connections.budgets import Backlog
from deployments.ingress.documents import add_documents
from deployments.ingress.key_limits import key_limit_check
from deployments.ingress.layers import Envelope, check_host, key_check, open_service_check
from deployments.ingress.replicas import Backend
from deployments.ingress.route import Places, Routes
from deployments.ingress.row_stream import ROW_HEADERS, add_rows
from deployments.ingress.stream import WholeAnswer
from deployments.ingress.texts import add_texts, add_tokenization
from deployments.ingress.vocabularies import add_vocabularies, add_word_tools
from deployments.page.bundle import Bundle
from deployments.process_setup import BARE_PORT, FRONT_VARIABLE, check_guarded, run_ready_hook, set_up_process
from deployments.protocol.answers import Health, Model, ModelList
from deployments.protocol.openapi import TEXT, document, documentation
from deployments.protocol.reader import model_not_found
from deployments.rates import Rates
from deployments.settings.service import Settings
from deployments.single_flight import SingleFlight

logger = logging.getLogger("ray.serve.wordbound")

_CORS_METHODS: Final = ("DELETE", "GET", "POST")

_CORS_EXPOSED: Final = (
    "Retry-After",
    "X-Request-Id",
    *ROW_HEADERS,
    *(f"x-ratelimit-{what}-{kind}" for kind in ("requests", "tokens") for what in ("limit", "remaining", "reset")),
)
"""What a script may read of an answer's headers, besides those that any page may read."""

METRICS_TYPE: Final = "text/plain; version=0.0.4"
"""Prometheus's text format."""

Mount: TypeAlias = Callable[[Routes], None]
"""Adds the routes of batches to the application."""


def create_app(
    settings: Settings, backend: Backend, mounts: Sequence[Mount] = (), page: Bundle | None = None
) -> FastAPI:
    """Create the ASGI application: routes, and around them the layers that every request passes."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_exception_handler(HTTPException, _not_found)
    app.state.routes = routes = Routes(app)
    rates = Rates(settings.rates_url)
    backlog = Backlog(settings.limits)
    places = Places(max_chats(settings))
    _add_health(routes, backend)
    if settings.serve_metrics != "none":
        _add_metrics(routes, backend, backlog, is_open=settings.serve_metrics == "open")
    _add_models(routes, settings, backend)
    add_adapters(routes, settings, backend)
    add_texts(routes, settings, backend, rates, backlog, places)
    add_tokenization(routes, settings, backend, backlog, places)
    add_rows(routes, settings, backend, rates, backlog, places)
    add_word_tools(routes, settings, backend, rates, backlog, places)
    add_vocabularies(routes, settings, backend, backlog)
    add_documents(routes, settings, backlog)
    for mount in mounts:
        mount(routes)
    if page is not None:
        _add_files(routes, page.paths, page.answer, ("GET", "HEAD"))
    # Last: the document describes the routes added so far.
    answers = documentation(document(app, settings.limits))
    _add_files(routes, answers, lambda request: answers[request.url.path](), is_open=settings.public_docs)
    checks = (
        open_service_check(why, settings.cors_origins) if (why := settings.why_open) else check_host,
        key_check(
            settings.key_digests,
            routes.is_open,
            allow_query_token=settings.allow_query_token,
            forbids=settings.compatible.forbids,
            keyless=settings.keyless,
        ),
        routes.match,
        key_limit_check(settings, rates),
        routes.take_place,
    )
    app.add_middleware(Envelope, limits=settings.limits, checks=checks)
    if settings.cors_origins:
        _allow_origins(app, settings.cors_origins)
    return app


class IngressServer:
    """The HTTP ingress as a Serve deployment. Its application is built in the replica, where the handles work.

    Its route prefix must be ``/``: paths are compared as they were sent.

    Raises:
        RuntimeError: Serve's HTTP servers are not guarded.
    """

    def __init__(
        self,
        settings: Settings,
        replica: DeploymentHandle,
        vocabulary: DeploymentHandle,
        batches: DeploymentHandle | None = None,
        mount_batches: Callable[[Routes, Any, DeploymentHandle], None] | None = None,
    ) -> None:
        set_up_process(settings)
        check_guarded()
        if FRONT_VARIABLE not in os.environ:
            logger.warning("there is no front before this ingress: %s", BARE_PORT)
        self._settings = settings
        self._backend = Backend(replica, vocabulary, settings)
        self._mounts: list[Mount] = []
        if batches is not None and mount_batches is not None:
            self._mounts.append(lambda routes: mount_batches(routes, settings, batches))

    def __serve_build_asgi_app__(self) -> FastAPI:
        page = Bundle() if self._settings.page else None
        app = create_app(self._settings, self._backend, self._mounts, page)
        run_ready_hook()
        return app


Ingress: Final[Any] = serve.deployment(name="Ingress")(serve.ingress()(IngressServer))
"""Binds with settings, the handles of replica and vocabulary and, where batches are on, theirs and the function that
mounts their routes. Untyped, as Ray is."""


async def _not_found(_: Request, __: Exception) -> Response:
    # Of paths that the router refuses and ``Routes.match`` lets through: a line break in a model's name.
    raise NotFoundError("There is nothing at this path.")


def _allow_origins(app: FastAPI, origins: Sequence[str]) -> None:
    """Let web pages of these origins read all answers, errors too (CORS).

    A browser's question before the request (its preflight) has no key, so it is answered before all other layers.
    """
    app.add_middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=_CORS_METHODS,
        # OpenAI's client sends some that are new in each version, as ``X-Stainless-…``.
        allow_headers=("*",),
        expose_headers=_CORS_EXPOSED,
    )


def _add_files(
    routes: Routes,
    paths: Iterable[str],
    answer: Callable[[Request], Response],
    methods: Sequence[str] = ("GET",),
    *,
    is_open: bool = True,
) -> None:
    async def serve(request: Request) -> Response:
        return answer(request)

    for path in paths:
        for method in methods:
            routes.add(method, path, part=None, is_open=is_open)(serve)


def _add_health(routes: Routes, backend: Backend) -> None:
    @routes.add("GET", "/health", answer=Health, part=None, is_open=True)
    async def health() -> Response:
        """Whether this process works: one that does not answer should be replaced."""
        return JSONResponse({"status": "ok"})

    @routes.add("GET", "/ready", answer=Health, part=None, is_open=True)
    async def ready() -> Response:
        """Whether requests can be sent: not while the model is being loaded."""
        if backend.is_ready():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "unavailable"}, status_code=503, headers={"Retry-After": "1"})


def _add_metrics(routes: Routes, backend: Backend, backlog: Backlog, *, is_open: bool) -> None:
    # All who ask in the same second get one reading.
    readings = SingleFlight(1)

    @routes.add("GET", "/metrics", answer={METRICS_TYPE: TEXT}, part=None, is_open=is_open)
    async def metrics() -> Response:
        """What Prometheus reads of this ingress's node."""
        text = await readings.get(int(time.monotonic()), backend.metrics)
        return WholeAnswer(text, METRICS_TYPE, backlog)


def _add_models(routes: Routes, settings: Settings, backend: Backend) -> None:
    card: dict[str, Any] = {
        "id": settings.model_id,
        "object": "model",
        "created": 0,
        "owned_by": settings.compatible.owned_by,
        "max_input_tokens": settings.limits.max_input_tokens,
        "max_output_tokens": settings.limits.max_new_tokens,
    }
    register = Register.of(settings)

    async def cards() -> list[dict[str, Any]]:
        """Return OpenAI's model objects of the model and all its adapters."""
        loaded = {} if register is None else await asyncio.to_thread(register.read)
        roots = settings.lora | {name: one.source for name, one in loaded.items() if name not in settings.lora}
        of_adapters = [{**card, "id": name, "root": root, "parent": card["id"]} for name, root in roots.items()]
        length = await backend.context_length()
        # Left out, as in OpenAI's card, until a replica has said it.
        context = {} if length is None else {"max_model_len": length}
        return [{**one, **context} for one in (card, *of_adapters)]

    @routes.add("GET", "/v1/models", answer=ModelList, part=None)
    async def list_models() -> Response:
        """The model that is served, and its adapters."""
        return JSONResponse({"object": "list", "data": await cards()})

    @routes.add("GET", "/v1/models/{name:path}", answer=Model, part=None)
    async def get_model(name: str) -> Response:
        """The model or adapter of that name: how long its prompts and answers may be."""
        for one in await cards():
            if one["id"] == name:
                return JSONResponse(one)
        raise model_not_found(name)


def max_chats(settings: Settings) -> int:
    """Return how many requests for replicas one ingress works on at once: as many as all replicas take."""
    return settings.max_requests * settings.autoscaling.max_replicas
