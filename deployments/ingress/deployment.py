"""The HTTP front: its routes, and what each does with a checked request.

A request passes, from the outside in: origin (where web pages may ask), request id, Host (with the demo's key origin
too), key, headers, route, limits of the key, then a handler here.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from fastapi import FastAPI, Request, Response
from ray import serve
from ray.serve.handle import DeploymentHandle
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse

from deployments.contract import Answer, ResolvedVocabulary, TextRequest, TokensRequest
from deployments.errors import ApiError, NotFoundError
from deployments.ingress.answers import api_errors, caller_of, respond, unless_client_leaves
from deployments.ingress.auth import Authentication, KeyLimits, num_tokens, take_tokens
from deployments.ingress.backend import Backend, HandleBackend
from deployments.ingress.body import read_checked
from deployments.ingress.connections.budgets import Backlog
from deployments.ingress.connections.proxy_callback import check_guarded
from deployments.ingress.request_id import Envelope
from deployments.ingress.route import Places, Routes, TakePlaces
from deployments.ingress.routes.adapters import add_adapters
from deployments.ingress.routes.documents import add_documents
from deployments.ingress.routes.rows import ROW_HEADERS, add_rows
from deployments.ingress.routes.vocabularies import add_vocabularies, add_word_tools
from deployments.ingress.routing import Gate, check_headers, check_host, known_key_check
from deployments.page.bundle import Bundle
from deployments.process_setup import run_ready_hook, set_up_process
from deployments.protocol.adapters import AdapterNames, model_not_found
from deployments.protocol.generation.chat import ChatCompletionRequest
from deployments.protocol.generation.completion import CompletionRequest
from deployments.protocol.generation.generate import GenerateRequest, GenerateRequestReader, rename, reshape_answer
from deployments.protocol.generation.reader import (
    ChatRequest,
    ChatRequestReader,
    CompletionRequestReader,
    check_max_tokens,
)
from deployments.protocol.openapi.answers import (
    ChatCompletion,
    Completion,
    DetokenizedText,
    Generated,
    Health,
    Model,
    ModelList,
    Tokens,
)
from deployments.protocol.openapi.document import document, documentation
from deployments.protocol.tokenization import DetokenizeRequest, TokenizeRequest, read_detokenize, read_tokenize
from deployments.rates import Rates
from deployments.settings.service import Settings

logger = logging.getLogger("ray.serve.wordbound")

_CORS_METHODS: Final = ("DELETE", "GET", "POST")

_CORS_EXPOSED: Final = (
    "Retry-After",
    "X-Request-Id",
    *ROW_HEADERS,
    *(f"x-ratelimit-{what}-{kind}" for kind in ("requests", "tokens") for what in ("limit", "remaining", "reset")),
)
"""What a script may read of an answer's headers, besides those that any page may read."""

Mount: TypeAlias = Callable[[Routes], None]
"""Adds the routes of batches to the application."""

Reader: TypeAlias = ChatRequestReader | GenerateRequestReader

Reshape: TypeAlias = Callable[[AsyncGenerator[Answer]], AsyncGenerator[Answer]]
"""Gives the answer to a chat another form."""


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
    _add_models(routes, settings, backend)
    add_adapters(routes, settings, backend)
    _add_generation(routes, settings, backend, rates, backlog, places)
    _add_tokenization(routes, settings, backend, backlog, places)
    add_rows(routes, settings, backend, rates, backlog, places)
    add_word_tools(routes, settings, backend, rates, backlog, places)
    add_vocabularies(routes, settings, backend, backlog)
    add_documents(routes, settings, backlog)
    for mount in mounts:
        mount(routes)
    if page is not None:
        _add_page(routes, page)
    # Last: the document describes the routes added so far.
    _add_documentation(routes, documentation(document(app, settings.limits)), is_open=settings.public_docs)
    # The layer added last is the outermost.
    app.add_middleware(TakePlaces, routes=routes)
    app.add_middleware(KeyLimits, settings=settings, rates=rates)
    app.add_middleware(Gate, check=routes.match)
    app.add_middleware(Gate, check=check_headers)
    app.add_middleware(
        Authentication,
        digests=settings.key_digests,
        allow_query_token=settings.allow_query_token,
        is_open=routes.is_open,
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
        mount_batches: Callable[[Routes, Any, DeploymentHandle], None] | None = None,
    ) -> None:
        set_up_process(settings)
        check_guarded()
        self._settings = settings
        self._backend = HandleBackend(replica, vocabulary, settings)
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


def _add_page(routes: Routes, page: Bundle) -> None:
    """Add the files of the author's page."""

    async def serve(request: Request) -> Response:
        return page.answer(request)

    for path in page.paths:
        for method in ("GET", "HEAD"):
            routes.add(method, path, part=None, is_open=True)(serve)


def _add_documentation(routes: Routes, answers: Mapping[str, Callable[[], Response]], *, is_open: bool) -> None:
    """Add the OpenAPI document, and the page that shows it."""

    async def serve(request: Request) -> Response:
        return answers[request.url.path]()

    for path in answers:
        routes.add("GET", path, part=None, is_open=is_open)(serve)


def _add_health(routes: Routes, backend: Backend) -> None:
    """Add the routes ``/health`` and ``/ready``."""

    @routes.add("GET", "/health", answer=Health, part=None, is_open=True)
    async def health() -> Response:
        """Whether this process works: one that does not answer should be replaced."""
        return JSONResponse({"status": "ok"})

    @routes.add("GET", "/ready", answer=Health, part=None, is_open=True)
    async def ready() -> Response:
        """Whether requests can be sent: not while the model is being loaded."""
        if await backend.is_ready():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "unavailable"}, status_code=503, headers={"Retry-After": "1"})


def _add_models(routes: Routes, settings: Settings, backend: Backend) -> None:
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


def _add_generation(
    routes: Routes, settings: Settings, backend: Backend, rates: Rates, backlog: Backlog, places: Places
) -> None:
    """Add the routes of chats, completions and ``/generate``."""
    chats, completions = ChatRequestReader.of(settings), CompletionRequestReader.of(settings)
    prompts = GenerateRequestReader(chats)
    text_route = partial(routes.add, "POST", part="chat", streams=True, places=places)

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

    @text_route("/v1/chat/completions", body=ChatCompletionRequest, answer=ChatCompletion)
    async def create_chat_completion(request: Request) -> Response:
        """The model's answer to a conversation; with ``vocab`` in words of a list."""
        return await respond_to(request, await read(request, chats))

    @text_route("/v1/completions", body=CompletionRequest, answer=Completion)
    async def create_completion(request: Request) -> Response:
        """A text that goes on where the prompt ends; with ``vocab`` in words of a list."""
        return await respond_to(request, await read(request, completions))

    @text_route("/generate", body=GenerateRequest, answer=Generated)
    async def generate(request: Request) -> Response:
        """A prompt, answered as a chat of one message, in the form of servers built on transformers."""
        chat = await read(request, prompts)
        try:
            return await respond_to(request, chat, reshape_answer)
        except ApiError as error:
            rename(error)
            raise


def _add_tokenization(routes: Routes, settings: Settings, backend: Backend, backlog: Backlog, places: Places) -> None:
    """Add the routes ``/tokenize`` and ``/detokenize``."""
    adapters = AdapterNames.of(settings)
    known: dict[str, Any] = {"limits": settings.limits, "model_id": settings.model_id, "adapters": adapters}

    async def respond_to(request: Request, read: Callable[..., dict[str, Any]]) -> Response:
        """Check the body with ``read``, and answer it from a replica."""
        body = await read_checked(request, settings.limits, partial(read, **known))
        with api_errors(request):
            answer = backend.answer(TokensRequest(body, caller_of(request)))
            return await respond(request, answer, is_stream=False, backlog=backlog)

    @routes.add("POST", "/tokenize", body=TokenizeRequest, answer=Tokens, part="chat", places=places)
    async def tokenize(request: Request) -> Response:
        """The tokens of a text or of messages, as the model would get them."""
        return await respond_to(request, read_tokenize)

    @routes.add("POST", "/detokenize", body=DetokenizeRequest, answer=DetokenizedText, part="chat", places=places)
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
