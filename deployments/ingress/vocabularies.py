"""The routes about word lists: which there are, what words they have, and which words of a text are in one;
and the word tools: next words, other words for one, a text in the words of a list, exercises from one."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from fastapi import Request, Response

from deployments.contract import Answer, Caller, Tool, WordToolRequest
from deployments.errors import BadRequestError, NotFoundError, root_cause
from deployments.ingress.body import read_checked, read_query, whole_number
from deployments.ingress.connections.budgets import Backlog
from deployments.ingress.key_limits import CHARS_PER_TOKEN, take_tokens
from deployments.ingress.replicas import Backend
from deployments.ingress.route import Handler, Places, Routes
from deployments.ingress.stream import WholeAnswer, api_errors, caller_of, respond, unless_client_leaves
from deployments.protocol.answers import Exercises
from deployments.protocol.openapi import TEXT
from deployments.protocol.reader import ServedModel
from deployments.protocol.word_tools import (
    DEFAULT_LIMIT,
    WORD_PARAMETERS,
    CheckRequest,
    ExercisesRequest,
    NextWordsRequest,
    RewriteRequest,
    SwapRequest,
    ToolFields,
    ToolRequest,
    read_check,
    read_tool,
)
from deployments.rates import Rates
from deployments.settings.limits import MAX_CHECK_BYTES, MAX_LISTED, MAX_NEXT_ROWS, MAX_REWRITE_TOKENS
from deployments.settings.service import Settings
from deployments.vocabulary.queries import AskVocabularies, AskWords, Question
from vocab.answers import CheckReport, NextWords, OtherWords, RewrittenText, VocabularyList, VocabularyWords
from vocab.errors import UnknownLanguageError, UnsupportedScriptError
from vocab.text.formats import Format

CHECKS_AT_ONCE: Final = 32
"""Of one ingress, all keys together; those of a key wait for one another. Costs 2 MB of text and 30 MB of answer each
while it is made."""

MAX_QUERY_CHARS: Final = 100
"""Of what is looked for in words, as long as a word of a request may be."""

_MEDIA_TYPES: Final[dict[Format, str]] = {"json": "application/json", "csv": "text/csv", "html": "text/html"}
_PAGE_HEADERS: Final = {
    # The page holds what the caller sent, and nothing of it is to run or to be fetched.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


def add_vocabularies(routes: Routes, settings: Settings, backend: Backend, backlog: Backlog) -> None:
    """Add the routes that list the word lists and their words, and that check a text."""
    limits = settings.limits

    async def ask(request: Request, question: Question, list_param: str = "vocab_lang") -> bytes:
        """Ask the vocabulary deployment; words of a list that does not exist are 404."""
        with api_errors(request, list_param):
            try:
                return await unless_client_leaves(request.receive, backend.ask(question, request.state.owner))
            except Exception as error:
                cause = root_cause(error)
                if isinstance(question, AskWords) and isinstance(cause, UnknownLanguageError | UnsupportedScriptError):
                    raise NotFoundError(str(cause), "list_id") from error
                raise

    @routes.add("GET", "/v1/vocabularies", answer=VocabularyList, part=None)
    async def list_vocabularies(request: Request) -> Response:
        """The word lists that ``vocab.lang`` may name."""
        read_query(request, ())
        return Response(await ask(request, AskVocabularies()), media_type="application/json")

    words_query = {
        "offset": {"type": "integer", "minimum": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LISTED},
        "q": {"type": "string", "description": "A part of the words, in any capitals."},
    }

    @routes.add("GET", "/v1/vocabularies/{list_id}/words", answer=VocabularyWords, query=words_query, part=None)
    async def list_words(request: Request, list_id: str) -> Response:
        """The words of a list in rank order; with ``q`` those that have it in them, first those that begin with it."""
        query = read_query(request, WORD_PARAMETERS)
        limit = whole_number(query, "limit")
        limit = DEFAULT_LIMIT if limit is None else limit
        if not 1 <= limit <= MAX_LISTED:
            raise BadRequestError(f"'limit' must be from 1 to {MAX_LISTED}.", "limit")
        if len(looked_for := query.get("q", "")) > MAX_QUERY_CHARS:
            raise BadRequestError(f"'q' must be at most {MAX_QUERY_CHARS} characters.", "q")
        question = AskWords(list_id, whole_number(query, "offset") or 0, limit, looked_for)
        return Response(await ask(request, question), media_type="application/json")

    @routes.add(
        "POST",
        "/v1/vocabularies/check",
        body=CheckRequest,
        answer={"application/json": CheckReport, "text/csv": TEXT, "text/html": TEXT},
        part=None,
        places=Places(CHECKS_AT_ONCE),
    )
    async def check_text(request: Request) -> Response:
        """Which words of a text are in a list, and where those are that are not: what ``wordbound check`` writes."""
        asked = await read_checked(request, limits, partial(read_check, limits=limits), MAX_CHECK_BYTES)
        answer = await ask(request, asked, asked.list_param)
        headers = _PAGE_HEADERS if asked.form == "html" else None
        return WholeAnswer(answer, _MEDIA_TYPES[asked.form], backlog, headers)


_CANDIDATES: Final = 100
_CHARS_READ: Final = 900
"""Of a text to swap a word of: each candidate is read with what stands around it, as far as it counts."""

_TOKENS_PER_CHAR: Final = 50
"""Of a text to rewrite in 1,000 words: each word that is not listed takes about 1,000, and one in five is not."""

_TOKENS_PER_ITEM: Final = 2_000
"""Of an exercise: some forty words are read in the place of one of its sentence."""

_SHORTER: Final = ("Send a shorter text.", "text")


def add_word_tools(
    routes: Routes, settings: Settings, backend: Backend, rates: Rates, backlog: Backlog, places: Places
) -> None:
    """Add the routes of the word tools: next, swap, rewrite and exercises."""
    served = ServedModel.of(settings)

    def tool_route(tool: Tool, **declared: Any) -> Callable[[Handler], Handler]:
        return routes.add("POST", f"/v1/vocabularies/{tool}", part="chat", places=places, **declared)

    async def answer(tool: Tool, asked: ToolRequest, caller: Caller) -> AsyncGenerator[Answer]:
        """Resolve a request's vocabulary, and yield its answer from a replica."""
        vocabulary = await backend.resolve(asked.vocabulary, caller.owner)
        request = WordToolRequest(tool, asked.body, vocabulary, asked.vocabulary, caller)
        async with aclosing(backend.answer(request)) as items:
            async for item in items:
                yield item

    async def respond_to(request: Request, tool: Tool, body: type[ToolFields]) -> Response:
        """Charge a request's tokens, and answer it."""
        backend.check_room(request.state.owner)
        asked = await read_checked(request, settings.limits, partial(read_tool, body, served=served))
        with api_errors(request, asked.list_param):
            await take_tokens(rates, request.scope, settings, _num_tool_tokens(tool, asked.body), _SHORTER)
            items = answer(tool, asked, caller_of(request))
            return await respond(request, items, is_stream=bool(asked.body.get("stream")), backlog=backlog)

    @tool_route("next", body=NextWordsRequest, answer=NextWords)
    async def next_words(request: Request) -> Response:
        """The words of a list that are likeliest to follow a text, by the model's own probabilities."""
        return await respond_to(request, "next", NextWordsRequest)

    @tool_route("swap", body=SwapRequest, answer=OtherWords)
    async def swap_word(request: Request) -> Response:
        """The words of a list that fit best in the place of a word of a text."""
        return await respond_to(request, "swap", SwapRequest)

    @tool_route("rewrite", body=RewriteRequest, answer=RewrittenText, streams=True)
    async def rewrite(request: Request) -> Response:
        """A text in the words of a list, sentence by sentence."""
        return await respond_to(request, "rewrite", RewriteRequest)

    @tool_route("exercises", body=ExercisesRequest, answer=Exercises, streams=True)
    async def make_exercises(request: Request) -> Response:
        """Exercises from a text in the words of a list, each with its key."""
        return await respond_to(request, "exercises", ExercisesRequest)


def _num_tool_tokens(tool: Tool, body: dict[str, Any]) -> int:
    """Estimate the tokens that a word tool may cost.

    A row counts as one, for it is a token that is drawn.
    """
    num_chars = len(body["text"])
    match tool:
        case "next":
            return num_chars // CHARS_PER_TOKEN + MAX_NEXT_ROWS
        case "swap":
            return MAX_NEXT_ROWS + _CANDIDATES * min(num_chars, _CHARS_READ) // CHARS_PER_TOKEN
        case "rewrite":
            return min(_TOKENS_PER_CHAR * num_chars, MAX_REWRITE_TOKENS)
        case "exercises":
            num_items: int = body["num_items"] * len(body["kinds"])
            return min(_TOKENS_PER_ITEM * num_items, MAX_REWRITE_TOKENS)
