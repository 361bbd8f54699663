"""The HTTP front: its routes, and what each does with a checked request.

A request passes, from the outside in: origin (where web pages may ask), request id, Host (with the demo's key origin
too), key, headers, route, limits of the key, then a handler here.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from fastapi import FastAPI, Request, Response
from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse

from deployments.contract import Answer, ResolvedVocabulary, TextRequest
from deployments.errors import ApiError, NotFoundError
from deployments.ingress.answers import api_errors, caller_of, respond, unless_client_leaves
from deployments.ingress.auth import Authentication, KeyLimits, num_tokens, take_tokens
from deployments.ingress.backend import Backend, HandleBackend
from deployments.ingress.body import read_checked
from deployments.ingress.connections.budgets import Backlog
from deployments.ingress.connections.proxy_callback import check_guarded
from deployments.ingress.request_id import Envelope
from deployments.ingress.routes.adapters import LOAD_PATHS, add_adapters
from deployments.ingress.routes.documents import (
    DOCUMENT_PATHS,
    DOCUMENT_TEXT_PATH,
    DOCUMENTS_AT_ONCE,
    FILES_AT_ONCE,
    add_documents,
)
from deployments.ingress.routes.rows import ROW_HEADERS, add_rows
from deployments.ingress.routes.vocabularies import (
    CHECK_PATH,
    CHECKS_AT_ONCE,
    LIST_ROUTES,
    TOOL_PATHS,
    add_vocabularies,
    add_word_tools,
)
from deployments.ingress.routing import (
    Gate,
    MaxConcurrent,
    Routes,
    check_host,
    header_check,
    known_key_check,
    route_check,
)
from deployments.page.bundle import Bundle
from deployments.process_setup import set_up_process, watch_event_loop
from deployments.protocol.adapters import AdapterNames, model_not_found
from deployments.protocol.generation.generate import GenerateRequestReader, rename, reshape_answer
from deployments.protocol.generation.reader import (
    ChatRequest,
    ChatRequestReader,
    CompletionRequestReader,
    check_max_tokens,
)
from deployments.protocol.openapi.document import DOCS_PATHS, add_docs
from deployments.protocol.tokenization import read_detokenize, read_tokenize
from deployments.rates import Rates
from deployments.settings.keys import Part
from deployments.settings.service import Settings

logger = logging.getLogger("ray.serve.wordbound")

_PATHS_OF_ENGINE: Final = (
    *(b"/v1/chat/completions", b"/v1/completions", b"/generate", b"/tokenize", b"/detokenize"),
    *(b"/v1/logprobs", b"/v1/token_logprobs"),
    *TOOL_PATHS,
)
"""Each request to them waits for a replica."""

_INTERACTIVE: Final = (*_PATHS_OF_ENGINE, b"/v1/tokens", *DOCUMENT_PATHS, DOCUMENT_TEXT_PATH)
"""For keys that are not for batches alone."""

ROUTES: Final[Routes] = {
    b"/health": ("GET",),
    b"/ready": ("GET",),
    b"/v1/models": ("GET",),
    b"/v1/models/": ("GET",),
    **dict.fromkeys(_PATHS_OF_ENGINE, ("POST",)),
    **dict.fromkeys(LOAD_PATHS, ("POST",)),
    b"/v1/tokens": ("GET",),
    **LIST_ROUTES,
    **dict.fromkeys(DOCUMENT_PATHS, ("POST",)),
    DOCUMENT_TEXT_PATH: ("POST",),
    **dict.fromkeys(DOCS_PATHS, ("GET",)),
}
OPEN_PATHS: Final = (b"/health", b"/ready")

_CORS_METHODS: Final = ("DELETE", "GET", "POST")

_CORS_EXPOSED: Final = (
    "Retry-After",
    "X-Request-Id",
    *ROW_HEADERS,
    *(f"x-ratelimit-{what}-{kind}" for kind in ("requests", "tokens") for what in ("limit", "remaining", "reset")),
)
"""What a script may read of an answer's headers, besides those that any page may read."""

Mount: TypeAlias = Callable[[FastAPI], Routes]
"""Adds the routes of batches to the application, and returns their paths."""

Reader: TypeAlias = ChatRequestReader | GenerateRequestReader

Reshape: TypeAlias = Callable[[AsyncGenerator[Answer]], AsyncGenerator[Answer]]
"""Gives the answer to a chat another form."""


def create_app(
    settings: Settings, backend: Backend, mounts: Sequence[Mount] = (), page: Bundle | None = None
) -> FastAPI:
    """Create the ASGI application: routes, and around them the layers that every request passes."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_exception_handler(HTTPException, _not_found)
    _add_health(app, backend)
    _add_models(app, settings, backend)
    add_adapters(app, settings, backend)
    rates = Rates(settings.rates_url)
    backlog = Backlog(settings.limits)
    _add_generation(app, settings, backend, rates, backlog)
    _add_tokenization(app, settings, backend, backlog)
    add_rows(app, settings, backend, rates, backlog)
    add_word_tools(app, settings, backend, rates, backlog)
    add_vocabularies(app, settings, backend, backlog)
    add_documents(app, settings, backlog)
    routes = dict(ROUTES)
    parts: dict[bytes, Part] = dict.fromkeys(_INTERACTIVE, "chat")
    for mount in mounts:
        mounted = mount(app)
        routes |= mounted
        parts |= dict.fromkeys(mounted, "batches")
    open_paths = {*OPEN_PATHS, *(DOCS_PATHS if settings.public_docs else ())}
    if page is not None:
        page.add_to(app)
        routes |= page.routes
        open_paths |= page.routes.keys()
    # Last: the document describes the routes added so far.
    add_docs(app, settings.limits)
    # The layer added last is the outermost.
    app.add_middleware(MaxConcurrent, paths=_PATHS_OF_ENGINE, num_requests=max_chats(settings))
    app.add_middleware(MaxConcurrent, paths=(CHECK_PATH,), num_requests=CHECKS_AT_ONCE)
    app.add_middleware(MaxConcurrent, paths=DOCUMENT_PATHS, num_requests=DOCUMENTS_AT_ONCE)
    app.add_middleware(MaxConcurrent, paths=(DOCUMENT_TEXT_PATH,), num_requests=FILES_AT_ONCE)
    app.add_middleware(KeyLimits, settings=settings, parts=parts, rates=rates)
    app.add_middleware(Gate, check=route_check(routes))
    app.add_middleware(Gate, check=header_check(settings.limits))
    app.add_middleware(
        Authentication,
        digests=settings.key_digests,
        allow_query_token=settings.allow_query_token,
        open_paths=open_paths,
    )
    app.add_middleware(Gate, check=known_key_check(settings.cors_origins) if settings.has_known_key else check_host)
    app.add_middleware(Envelope, limits=settings.limits)
    if settings.cors_origins:
        _allow_origins(app, settings.cors_origins)
    return app


class IngressServer:
    """The HTTP ingress as a Serve deployment. Its application is built in the replica, where the handles work.

    Its route prefix must be ``/``: paths are compared as they were sent.

    Raises:
        RuntimeError: The proxy of its node is not guarded.
    """

    def __init__(
        self,
        settings: Settings,
        replica: DeploymentHandle,
        vocabulary: DeploymentHandle,
        batches: DeploymentHandle | None = None,
        mount_batches: Callable[[FastAPI, Any, DeploymentHandle], Routes] | None = None,
    ) -> None:
        set_up_process(settings)
        check_guarded()
        self._settings = settings
        self._backend = HandleBackend(replica, vocabulary, settings)
        self._mounts: list[Mount] = []
        if batches is not None and mount_batches is not None:
            self._mounts.append(lambda app: mount_batches(app, settings, batches))

    def __serve_build_asgi_app__(self) -> FastAPI:
        page = Bundle() if self._settings.page else None
        app = create_app(self._settings, self._backend, self._mounts, page)
        watch_event_loop()
        return app


Ingress: Final[Any] = serve.deployment(name="Ingress")(serve.ingress()(IngressServer))
"""Binds with settings, the handles of replica and vocabulary and, where batches are on, theirs and the function that
mounts their routes. Untyped, as Ray is."""


async def _not_found(_: Request, __: Exception) -> Response:
    """Answer 404 for paths that the router refuses although ``routing`` lets them through.

    Such as a line break in a model's name.
    """
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


def _add_health(app: FastAPI, backend: Backend) -> None:
    """Add the routes ``/health`` and ``/ready``."""

    @app.get("/health")
    async def health() -> Response:
        """Whether this process works: one that does not answer should be replaced."""
        return JSONResponse({"status": "ok"})

    @app.get("/ready")
    async def ready() -> Response:
        """Whether requests can be sent: not while the model is being loaded."""
        if await backend.is_ready():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "unavailable"}, status_code=503, headers={"Retry-After": "1"})


def _add_models(app: FastAPI, settings: Settings, backend: Backend) -> None:
    """Add the routes of the served model and its adapters (``/v1/models``)."""
    limits = settings.limits
    card: dict[str, Any] = {
        "id": settings.model_id,
        "object": "model",
        "created": 0,
        "owned_by": "wordbound",
        "max_input_tokens": limits.max_input_tokens,
        "max_output_tokens": limits.max_new_tokens,
    }

    adapters = AdapterNames.of(settings)

    async def cards() -> list[dict[str, Any]]:
        """Return OpenAI's model objects of the model and all its adapters."""
        loaded = {} if adapters.register is None else await asyncio.to_thread(adapters.register.read)
        roots = settings.lora | {name: one.source for name, one in loaded.items() if name not in settings.lora}
        of_adapters = [{**card, "id": name, "root": root, "parent": card["id"]} for name, root in roots.items()]
        length = await backend.context_length()
        # Left out, as in OpenAI's card, until a replica has said it.
        context = {} if length is None else {"max_model_len": length}
        return [{**one, **context} for one in (card, *of_adapters)]

    @app.get("/v1/models")
    async def list_models() -> Response:
        """The model that is served, and its adapters."""
        return JSONResponse({"object": "list", "data": await cards()})

    @app.get("/v1/models/{name:path}")
    async def get_model(name: str) -> Response:
        """The model or adapter of that name: how long its prompts and answers may be."""
        for one in await cards():
            if one["id"] == name:
                return JSONResponse(one)
        raise model_not_found(name)


def max_chats(settings: Settings) -> int:
    """Return how many requests for replicas one ingress works on at once: as many as all replicas take."""
    return settings.max_requests * settings.autoscaling.max_replicas


def _add_generation(app: FastAPI, settings: Settings, backend: Backend, rates: Rates, backlog: Backlog) -> None:
    """Add the routes of chats, completions and ``/generate``."""
    chats, completions = ChatRequestReader.of(settings), CompletionRequestReader.of(settings)
    prompts = GenerateRequestReader(chats, settings.limits)

    async def read(request: Request, reader: Reader) -> ChatRequest:
        backend.check_room(request.state.owner)
        return await read_checked(request, settings.limits, reader.read)

    async def respond_to(request: Request, chat: ChatRequest, reshape: Reshape | None = None) -> Response:
        """Charge a request's tokens, resolve its vocabulary, and answer it from a replica."""
        with api_errors(request, chat.list_param):
            caller = caller_of(request)
            await take_tokens(rates, request.scope, settings, num_tokens(chat))
            vocabulary = await unless_client_leaves(request.receive, _resolve(backend, chat, caller.owner))
            answer = backend.answer(TextRequest(chat.body, vocabulary, chat.decoding, caller))
            answer = answer if reshape is None else reshape(answer)
            return await respond(request, answer, is_stream=chat.is_stream, backlog=backlog)

    @app.post("/v1/chat/completions")
    async def create_chat_completion(request: Request) -> Response:
        """The model's answer to a conversation; with ``vocab`` in words of a list."""
        return await respond_to(request, await read(request, chats))

    @app.post("/v1/completions")
    async def create_completion(request: Request) -> Response:
        """A text that goes on where the prompt ends; with ``vocab`` in words of a list."""
        return await respond_to(request, await read(request, completions))

    @app.post("/generate")
    async def generate(request: Request) -> Response:
        """A prompt, answered as a chat of one message, in the form of servers built on transformers."""
        chat = await read(request, prompts)
        try:
            return await respond_to(request, chat, reshape_answer)
        except ApiError as error:
            rename(error)
            raise


def _add_tokenization(app: FastAPI, settings: Settings, backend: Backend, backlog: Backlog) -> None:
    """Add the routes ``/tokenize`` and ``/detokenize``."""
    adapters = AdapterNames.of(settings)
    known: dict[str, Any] = {"limits": settings.limits, "model_id": settings.model_id, "adapters": adapters}

    async def respond_to(request: Request, read: Callable[..., dict[str, Any]]) -> Response:
        """Check the body with ``read``, and answer it from a replica."""
        body = await read_checked(request, settings.limits, partial(read, **known))
        with api_errors(request):
            answer = backend.convert_tokens(body, caller_of(request))
            return await respond(request, answer, is_stream=False, backlog=backlog)

    @app.post("/tokenize")
    async def tokenize(request: Request) -> Response:
        """The tokens of a text or of messages, as the model would get them."""
        return await respond_to(request, read_tokenize)

    @app.post("/detokenize")
    async def detokenize(request: Request) -> Response:
        """The text of tokens."""
        return await respond_to(request, read_detokenize)


async def _resolve(backend: Backend, chat: ChatRequest, owner: str) -> ResolvedVocabulary | None:
    """Resolve a chat's vocabulary and check that its answer has room; None for free text."""
    if chat.vocabulary is None:
        return None
    vocabulary = await backend.resolve(chat.vocabulary, owner)
    check_max_tokens(chat, vocabulary)
    return vocabulary
