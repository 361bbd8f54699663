"""The routes of the word tools: what may come next, other words for one, and a text in the words of a list."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fastapi import FastAPI, Request, Response

from deployments.contract import Caller, Tool
from deployments.errors import ApiError, to_api_error
from deployments.ingress.answers import ClientLeft, respond, unless_client_leaves
from deployments.ingress.backend import Backend
from deployments.ingress.body import read_checked
from deployments.ingress.connections.backlog import Backlog
from deployments.ingress.layers.key_limits import CHARS_PER_TOKEN, take_tokens
from deployments.limits import Limits
from deployments.protocol.adapters import AdapterNames
from deployments.protocol.word_tools import ToolRequest, read_next, read_rewrite, read_swap
from deployments.rates import Rates
from deployments.settings import Settings

TOOL_PATHS: Final = (b"/v1/vocabularies/next", b"/v1/vocabularies/swap", b"/v1/vocabularies/rewrite")

_CANDIDATES: Final = 100
_CHARS_READ: Final = 900
"""Of a text to swap a word of: each candidate is read with what stands around it, as far as it counts."""

_TOKENS_PER_CHAR: Final = 50
"""Of a text to rewrite in 1,000 words: each word that is not listed takes about 1,000, and one in five is not."""

_SHORTER: Final = ("Send a shorter text.", "text")


def add_word_tools(app: FastAPI, settings: Settings, backend: Backend, rates: Rates, backlog: Backlog) -> None:
    limits = settings.limits
    known: dict[str, Any] = {"limits": limits, "model_id": settings.model_id, "adapters": AdapterNames.of(settings)}

    async def respond_to(request: Request, tool: Tool, read: Callable[..., ToolRequest]) -> Response:
        backend.check_room(request.state.owner)
        asked = await read_checked(request, limits, partial(read, **known))
        caller = Caller(request.state.owner, request.state.request_id)
        try:
            await take_tokens(rates, request.scope, settings, num_tool_tokens(tool, asked.body, limits), _SHORTER)
            vocabulary = await unless_client_leaves(request.receive, backend.resolve(asked.vocabulary, caller.owner))
            answer = backend.word_tool(tool, asked.body, vocabulary, asked.vocabulary, caller)
            is_stream = bool(asked.body.get("stream"))
            return await respond(request, answer, is_stream=is_stream, request_id=caller.request_id, backlog=backlog)
        except (ApiError, ClientLeft):
            raise
        except Exception as error:
            # Here and not further out: Serve adds a handler of its own for some of them to the application.
            raise to_api_error(error, caller.request_id, asked.list_param) from error

    @app.post("/v1/vocabularies/next")
    async def next_words(request: Request) -> Response:
        """The words of a list that are likeliest to follow a text, by the model's own probabilities."""
        return await respond_to(request, "next", read_next)

    @app.post("/v1/vocabularies/swap")
    async def swap_word(request: Request) -> Response:
        """The words of a list that fit best in the place of a word of a text."""
        return await respond_to(request, "swap", read_swap)

    @app.post("/v1/vocabularies/rewrite")
    async def rewrite(request: Request) -> Response:
        """A text in the words of a list, sentence by sentence."""
        return await respond_to(request, "rewrite", read_rewrite)


def num_tool_tokens(tool: Tool, body: dict[str, Any], limits: Limits) -> int:
    """Return about how many tokens a word tool may cost. A row counts as one, for it is a token that is drawn."""
    num_chars = len(body["text"])
    if tool == "next":
        return num_chars // CHARS_PER_TOKEN + limits.max_next_rows
    if tool == "swap":
        return limits.max_next_rows + _CANDIDATES * min(num_chars, _CHARS_READ) // CHARS_PER_TOKEN
    return min(_TOKENS_PER_CHAR * num_chars, limits.max_rewrite_tokens)
