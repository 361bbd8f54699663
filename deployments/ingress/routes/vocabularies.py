"""The routes about word lists: which there are, what words they have, and which words of a text are in one."""

from functools import partial
from typing import Final

from fastapi import FastAPI, Request, Response

from deployments.errors import ApiError, BadRequestError, NotFoundError, root_cause, to_api_error
from deployments.ingress.answers import ClientLeft, WholeAnswer, unless_client_leaves
from deployments.ingress.backend import Backend
from deployments.ingress.body import read_checked
from deployments.ingress.connections.backlog import Backlog
from deployments.ingress.layers.routing import Routes
from deployments.ingress.query import read_query, whole_number
from deployments.protocol.vocabularies import DEFAULT_LIMIT, WORD_PARAMETERS, read_check
from deployments.settings import Settings
from deployments.vocabulary.lists import AskCheck, AskVocabularies, AskWords, Question
from vocab.errors import UnknownLanguageError, UnsupportedScriptError
from vocab.text.checking.formats import Format

CHECK_PATH: Final = b"/v1/vocabularies/check"
LIST_ROUTES: Final[Routes] = {
    CHECK_PATH: ("POST",),
    b"/v1/vocabularies": ("GET",),
    b"/v1/vocabularies/*/words": ("GET",),
}

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


def add_vocabularies(app: FastAPI, settings: Settings, backend: Backend, backlog: Backlog) -> None:
    limits = settings.limits

    async def ask(request: Request, question: Question, list_param: str = "vocab_lang") -> bytes:
        try:
            return await unless_client_leaves(request.receive, backend.ask(question, request.state.owner))
        except (ApiError, ClientLeft):
            raise
        except Exception as error:
            # Here and not further out: Serve adds a handler of its own for some of them to the application.
            cause = root_cause(error)
            if isinstance(question, AskWords) and isinstance(cause, UnknownLanguageError | UnsupportedScriptError):
                raise NotFoundError(str(cause), "list_id") from error
            raise to_api_error(error, request.state.request_id, list_param) from error

    @app.get("/v1/vocabularies")
    async def list_vocabularies(request: Request) -> Response:
        """The word lists that ``vocab.lang`` may name."""
        read_query(request, ())
        return Response(await ask(request, AskVocabularies()), media_type="application/json")

    @app.get("/v1/vocabularies/{list_id}/words")
    async def list_words(request: Request, list_id: str) -> Response:
        """The words of a list in rank order; with ``q`` those that have it in them, first those that begin with it."""
        query = read_query(request, WORD_PARAMETERS)
        limit = whole_number(query, "limit")
        limit = min(DEFAULT_LIMIT, limits.max_listed) if limit is None else limit
        if not 1 <= limit <= limits.max_listed:
            raise BadRequestError(f"'limit' must be from 1 to {limits.max_listed}.", "limit")
        if len(looked_for := query.get("q", "")) > MAX_QUERY_CHARS:
            raise BadRequestError(f"'q' must be at most {MAX_QUERY_CHARS} characters.", "q")
        question = AskWords(list_id, whole_number(query, "offset") or 0, limit, looked_for)
        return Response(await ask(request, question), media_type="application/json")

    @app.post("/v1/vocabularies/check")
    async def check_text(request: Request) -> Response:
        """Which words of a text are in a list, and where those are that are not: what ``wordbound check`` writes."""
        asked = await read_checked(request, limits, partial(read_check, limits=limits), limits.max_check_bytes)
        question = AskCheck(asked.spec, asked.text, asked.form, asked.new_words, asked.with_words)
        answer = await ask(request, question, asked.list_param)
        headers = _PAGE_HEADERS if asked.form == "html" else None
        return WholeAnswer(answer, _MEDIA_TYPES[asked.form], backlog, headers)
