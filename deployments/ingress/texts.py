"""The routes of texts: chats, completions and ``/generate``; and those of the tokens of a text."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, TypeAlias

from fastapi import Request, Response

from deployments.contract import Answer, Caller, TextRequest, TokensRequest
from deployments.errors import ApiError
from deployments.ingress.body import read_checked
from deployments.ingress.connections.budgets import Backlog
from deployments.ingress.key_limits import num_tokens, take_tokens
from deployments.ingress.replicas import Backend
from deployments.ingress.route import Places, Routes
from deployments.ingress.stream import api_errors, caller_of, respond
from deployments.protocol.answers import ChatCompletion, Completion, DetokenizedText, Generated, Tokens
from deployments.protocol.generate import GenerateRequest, read_generate, rename, reshape_answer
from deployments.protocol.generation import ChatCompletionRequest, CompletionRequest
from deployments.protocol.reader import (
    ChatRequest,
    ChatRequestReader,
    CompletionRequestReader,
    ServedModel,
    check_max_tokens,
)
from deployments.protocol.tokens import DetokenizeRequest, TokenizeRequest, read_detokenize, read_tokenize
from deployments.rates import Rates
from deployments.settings.service import Settings

Reshape: TypeAlias = Callable[[AsyncGenerator[Answer]], AsyncGenerator[Answer]]
"""Gives the answer to a chat another form."""


def add_texts(
    routes: Routes, settings: Settings, backend: Backend, rates: Rates, backlog: Backlog, places: Places
) -> None:
    """Add the routes of chats, completions and ``/generate``."""
    chats, completions = ChatRequestReader.of(settings), CompletionRequestReader.of(settings)
    text_route = partial(routes.add, "POST", part="chat", streams=True, places=places)

    async def read(request: Request, check: Callable[[Any], ChatRequest]) -> ChatRequest:
        backend.check_room(request.state.owner)
        return await read_checked(request, settings.limits, check)

    async def answer(chat: ChatRequest, caller: Caller) -> AsyncGenerator[Answer]:
        """Resolve a request's vocabulary, and yield its answer from a replica."""
        vocabulary = None
        if chat.vocabulary is not None:
            vocabulary = await backend.resolve(chat.vocabulary, caller.owner)
            check_max_tokens(chat, vocabulary)
        async with aclosing(backend.answer(TextRequest(chat.body, vocabulary, chat.decoding, caller))) as items:
            async for item in items:
                yield item

    async def respond_to(request: Request, chat: ChatRequest, reshape: Reshape | None = None) -> Response:
        """Charge a request's tokens, and answer it."""
        with api_errors(request, chat.list_param):
            await take_tokens(rates, request.scope, settings, num_tokens(chat))
            items = answer(chat, caller_of(request))
            items = items if reshape is None else reshape(items)
            return await respond(request, items, is_stream=chat.is_stream, backlog=backlog)

    @text_route("/v1/chat/completions", body=ChatCompletionRequest, answer=ChatCompletion)
    async def create_chat_completion(request: Request) -> Response:
        """The model's answer to a conversation; with ``vocab`` in words of a list."""
        return await respond_to(request, await read(request, chats.read))

    @text_route("/v1/completions", body=CompletionRequest, answer=Completion)
    async def create_completion(request: Request) -> Response:
        """A text that goes on where the prompt ends; with ``vocab`` in words of a list."""
        return await respond_to(request, await read(request, completions.read))

    @text_route("/generate", body=GenerateRequest, answer=Generated)
    async def generate(request: Request) -> Response:
        """A prompt, answered as a chat of one message, in the form of servers built on transformers."""
        chat = await read(request, partial(read_generate, chats=chats))
        # The prompt may hold any words, and a text of a list has none but those.
        echoes = chats.compatible.echoes and chat.vocabulary is None
        begun = chat.body["messages"][0]["content"] if echoes else ""
        try:
            return await respond_to(request, chat, partial(reshape_answer, begun=begun))
        except ApiError as error:
            rename(error)
            raise


def add_tokenization(routes: Routes, settings: Settings, backend: Backend, backlog: Backlog, places: Places) -> None:
    """Add the routes ``/tokenize`` and ``/detokenize``."""
    served = ServedModel.of(settings)

    async def respond_to(request: Request, read: Callable[..., dict[str, Any]]) -> Response:
        """Check the body with ``read``, and answer it from a replica."""
        body = await read_checked(request, settings.limits, partial(read, served=served))
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
