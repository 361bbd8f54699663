"""The OpenAPI document of the service, and the page that shows it (Swagger UI, its files shipped with the package).

FastAPI lists the routes; their bodies and answers are added here, as handlers read bodies themselves.
"""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema
from starlette.responses import FileResponse, HTMLResponse, Response

from deployments.limits import Limits
from deployments.protocol.batches import PARAMETERS, BatchRequest
from deployments.protocol.chat import ChatCompletionRequest
from deployments.protocol.completion import CompletionRequest
from deployments.protocol.documents import DOCX, DocumentRequest
from deployments.protocol.generate import GenerateRequest
from deployments.protocol.rows import LogprobsRequest, TokenLogprobsRequest
from deployments.protocol.tokenization import DetokenizeRequest, TokenizeRequest
from deployments.protocol.validation import Schema, bounded, json_schema
from deployments.protocol.vocabularies import CheckReport, CheckRequest, VocabularyList, VocabularyWords
from deployments.protocol.word_tools import NextWordsRequest, RewriteRequest, SwapRequest

_FOLDER: Final = Path(__file__).parent / "docs"
_FILES: Final = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}

DOCS_PATHS: Final = (b"/openapi.json", b"/docs", *(b"/docs/" + name.encode() for name in _FILES))

_ABOUT: Final = """OpenAI's chat completions and completions, with one addition: the words of an answer come from a word
list, which `vocab` names. Errors have OpenAI's shape; a message says what to change, and `param` names the field."""


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class Error(BaseModel):
    error: ErrorDetail


class Health(BaseModel):
    status: Literal["ok", "unavailable"]


class DocumentText(BaseModel):
    text: str


class Model(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int | None = None
    """The model's context in tokens; missing until a replica has said it."""
    max_input_tokens: int
    """How long a prompt may be here."""
    max_output_tokens: int
    """How long an answer may be here."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[Model]


class AnswerMessage(BaseModel):
    role: Literal["assistant"]
    content: str | None = None
    reasoning: str | None = None


class Choice(BaseModel):
    index: int
    message: AnswerMessage
    finish_reason: str | None
    logprobs: dict[str, Any] | None = None


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int = 0
    total_tokens: int


class Overflow(BaseModel):
    dropped_messages: int


class ChatCompletion(BaseModel):
    """The answer; with ``stream`` server-sent events of ``chat.completion.chunk`` objects, then ``[DONE]``."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None
    vocab: dict[str, Any] | None = None
    """Of an answer with a vocabulary: the list, and how much of the text is made of it."""
    input_overflow: Overflow | None = None
    """Of an answer to a conversation that was too long, where the service shortens such; in a stream, of its first
    chunk."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Generated(BaseModel):
    """The answer; with ``stream`` server-sent events of ``{"text": …}``, a part each, the last of them with these
    members too, then ``[DONE]``."""

    generated_text: str
    token_count: int
    finish_reason: str | None
    vocab: dict[str, Any] | None = None
    """As in the answer to a chat."""
    input_overflow: Overflow | None = None

    model_config = ConfigDict(use_attribute_docstrings=True)


class CompletionChoice(BaseModel):
    index: int
    text: str
    finish_reason: str | None
    logprobs: dict[str, Any] | None = None


class Completion(BaseModel):
    """The answer; with ``stream`` server-sent events of such objects with parts of the text, then ``[DONE]``."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    vocab: dict[str, Any] | None = None
    """Of an answer with a vocabulary: the list, and how much of the text is made of it."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Tokens(BaseModel):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizedText(BaseModel):
    prompt: str


class TopLogprobs(BaseModel):
    object: Literal["logprobs"]
    index: int
    token_ids: list[int]
    """The likeliest tokens after the prompt, the likeliest first."""
    logprobs: list[float]

    model_config = ConfigDict(use_attribute_docstrings=True)


class LogprobsList(BaseModel):
    """With ``top_logprobs``. Without it: all numbers as little-endian bytes, row by row; the headers
    ``x-wordbound-shape`` ("prompts,tokens"), ``x-wordbound-dtype`` and ``x-wordbound-prompt-tokens`` describe them."""

    object: Literal["list"]
    model: str
    data: list[TopLogprobs]
    usage: Usage


class TokenLogprobs(BaseModel):
    object: Literal["token_logprobs"]
    model: str
    logprobs: list[float]
    usage: Usage


class TokenTable(BaseModel):
    object: Literal["tokens"]
    model: str
    vocab_size: int
    tokens: list[str]
    """The bytes of each token in base64; of a special token those of its name. Empty where the model has a number and
    the tokenizer no token."""
    special_ids: list[int]
    eos_token_ids: list[int]

    model_config = ConfigDict(use_attribute_docstrings=True)


class NextWord(BaseModel):
    word: str
    """As it would be written there."""
    logprob: float
    probability: float
    """The model's own, of all that may come next and not only of the list."""
    rank: int

    model_config = ConfigDict(use_attribute_docstrings=True)


class NextWords(BaseModel):
    object: Literal["vocabulary.next"]
    model: str
    data: list[NextWord]
    """The likeliest first."""
    remainder: float
    """The probability of everything else: other words, marks, the end of the text."""
    vocab: dict[str, Any]
    """The list, as in the answer to a chat."""
    usage: Usage

    model_config = ConfigDict(use_attribute_docstrings=True)


class OtherWord(BaseModel):
    word: str
    text: str
    """The sentence with it."""
    logprob: float
    """Of the word and the rest of the sentence, after what stands before them."""
    rank: int

    model_config = ConfigDict(use_attribute_docstrings=True)


class OtherWords(BaseModel):
    object: Literal["vocabulary.swap"]
    model: str
    word: str
    logprob: float
    """Of the word itself and the rest of the sentence."""
    data: list[OtherWord]
    """The likeliest first."""
    vocab: dict[str, Any]
    """The list, as in the answer to a chat."""
    usage: Usage

    model_config = ConfigDict(use_attribute_docstrings=True)


class Change(BaseModel):
    start: int
    """Where the words begin in the text of the request, in code points."""
    end: int
    before: str = Field(alias="from")
    to: str

    model_config = ConfigDict(use_attribute_docstrings=True)


class Coverage(BaseModel):
    before: float
    after: float


class RewrittenText(BaseModel):
    """The answer; with ``stream`` server-sent events of ``{"text": …}``, a part each, then one of this object, then
    ``[DONE]``."""

    object: Literal["vocabulary.rewrite"]
    model: str
    text: str
    changes: list[Change]
    names: list[str]
    """What was kept besides the words of the list."""
    coverage: Coverage
    """The share of running words that are listed; names that are kept count as listed."""
    vocab: dict[str, Any]
    """The list with the names, as in the answer to a chat."""
    usage: Usage

    model_config = ConfigDict(use_attribute_docstrings=True)


class File(BaseModel):
    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: Literal["batch", "batch_output"]
    status: str


class DeletedFile(BaseModel):
    id: str
    object: Literal["file"]
    deleted: bool


class Counts(BaseModel):
    total: int
    completed: int
    failed: int


class Batch(BaseModel):
    id: str
    object: Literal["batch"]
    endpoint: str
    status: Literal[
        "validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"
    ]
    errors: dict[str, Any] | None
    input_file_id: str
    output_file_id: str | None
    error_file_id: str | None
    completion_window: str
    created_at: int
    expires_at: int | None
    request_counts: Counts
    metadata: dict[str, str] | None


class JobError(BaseModel):
    message: str | None
    code: str | None


class Job(BaseModel):
    id: str
    job_id: str
    message: str
    object: Literal["batch.job"]
    status: Literal["pending", "processing", "completed", "failed"]
    submitted_at: int
    started_at: int | None
    finished_at: int | None
    error: JobError | None
    progress: Counts


Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    object: Literal["list"]
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FilePage(Page[File]):
    pass


class BatchPage(Page[Batch]):
    pass


_BYTES: Final = "application/octet-stream"
_BINARY: Final = {"type": "string", "format": "binary"}
_LIMIT: Final = {"limit": {"type": "integer", "minimum": 1}}
_AFTER: Final = {"after": {"type": "string", "description": "The id of the last object that is already known."}}
_UPLOAD: Final = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "JSON Lines: a request each."},
        "purpose": {"const": "batch"},
        "expires_after[anchor]": {"const": "created_at"},
        "expires_after[seconds]": {"type": "integer", "minimum": 3600, "maximum": 2592000},
    },
}
_JOB_UPLOAD: Final = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {"type": "string", "format": "binary", "description": "A JSON list of chat requests."}},
}
_RESULTS: Final = {
    "type": "array",
    "items": {"anyOf": [{"$ref": "#/components/schemas/ChatCompletion"}, {"$ref": "#/components/schemas/Error"}]},
}

_ANSWERS: Final[dict[str, type[BaseModel]]] = {
    "GET /health": Health,
    "GET /ready": Health,
    "GET /v1/models": ModelList,
    "GET /v1/models/{name}": Model,
    "POST /v1/chat/completions": ChatCompletion,
    "POST /generate": Generated,
    "POST /v1/completions": Completion,
    "POST /tokenize": Tokens,
    "POST /detokenize": DetokenizedText,
    "POST /v1/logprobs": LogprobsList,
    "POST /v1/token_logprobs": TokenLogprobs,
    "GET /v1/tokens": TokenTable,
    "GET /v1/vocabularies": VocabularyList,
    "GET /v1/vocabularies/{list_id}/words": VocabularyWords,
    "POST /v1/vocabularies/check": CheckReport,
    "POST /v1/vocabularies/next": NextWords,
    "POST /v1/vocabularies/swap": OtherWords,
    "POST /v1/vocabularies/rewrite": RewrittenText,
    "POST /v1/documents/text": DocumentText,
    "GET /v1/files": FilePage,
    "POST /v1/files": File,
    "GET /v1/files/{file_id}": File,
    "DELETE /v1/files/{file_id}": DeletedFile,
    "GET /v1/batches": BatchPage,
    "POST /v1/batches": Batch,
    "GET /v1/batches/{batch_id}": Batch,
    "POST /v1/batches/{batch_id}/cancel": Batch,
    "POST /v1/batch/jobs": Job,
    "GET /v1/batch/jobs/{job_id}": Job,
}


def document(app: FastAPI, limits: Limits) -> Schema:
    """Return the OpenAPI document of an application's routes, with the bounds of ``limits``."""
    chat = bounded(ChatCompletionRequest, limits)
    requests: dict[str, type[BaseModel]] = {
        "POST /v1/chat/completions": chat,
        "POST /v1/completions": bounded(CompletionRequest, limits),
        "POST /generate": bounded(GenerateRequest, limits),
        "POST /tokenize": bounded(TokenizeRequest, limits),
        "POST /detokenize": bounded(DetokenizeRequest, limits),
        "POST /v1/logprobs": bounded(LogprobsRequest, limits),
        "POST /v1/token_logprobs": bounded(TokenLogprobsRequest, limits),
        "POST /v1/vocabularies/next": bounded(NextWordsRequest, limits),
        "POST /v1/vocabularies/check": bounded(CheckRequest, limits),
        "POST /v1/vocabularies/swap": bounded(SwapRequest, limits),
        "POST /v1/vocabularies/rewrite": bounded(RewriteRequest, limits),
        "POST /v1/documents": bounded(DocumentRequest, limits),
        "POST /v1/batches": BatchRequest,
    }
    models: list[type[BaseModel]] = [*requests.values(), Error, *dict.fromkeys(_ANSWERS.values())]
    _, schemas = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    made = get_openapi(title="wordbound", version="1", description=_ABOUT, routes=app.routes)
    fields = json_schema(chat)["properties"]
    bodies = {name: ("application/json", _ref(model)) for name, model in requests.items()} | {
        "POST /v1/files": ("multipart/form-data", _UPLOAD),
        "POST /v1/batch/jobs": ("multipart/form-data", _JOB_UPLOAD),
        "POST /v1/documents/text": (_BYTES, _BINARY),
    }
    answers = {name: ("application/json", _ref(model)) for name, model in _ANSWERS.items()} | {
        "GET /v1/files/{file_id}/content": (_BYTES, _BINARY),
        "POST /v1/documents": (DOCX, _BINARY),
        "GET /v1/batch/jobs/{job_id}/results": ("application/json", _RESULTS),
    }
    queries: dict[str, Schema] = {
        "GET /v1/files": _AFTER
        | _LIMIT
        | {"purpose": {"enum": ["batch", "batch_output"]}, "order": {"enum": ["asc", "desc"]}},
        "GET /v1/batches": _AFTER | _LIMIT,
        "POST /v1/documents/text": {"name": {"type": "string", "description": "The file's name."}},
        "POST /v1/batch/jobs": {name: fields[name] for name in PARAMETERS},
        "GET /v1/vocabularies/{list_id}/words": {
            "offset": {"type": "integer", "minimum": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": limits.max_listed},
            "q": {"type": "string", "description": "A part of the words, in any capitals."},
        },
    }
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            operation["tags"] = [path.removeprefix("/v1/").strip("/").split("/")[0]]
            if name in answers:
                operation["responses"] = {
                    "200": {"description": "The answer.", "content": _content(*answers[name])},
                    "default": {"description": "An error.", "content": _content("application/json", _ref(Error))},
                }
            if name in bodies:
                operation["requestBody"] = {"required": True, "content": _content(*bodies[name])}
            operation.setdefault("parameters", []).extend(
                {"name": parameter, "in": "query", "schema": schema}
                for parameter, schema in queries.get(name, {}).items()
            )
    for path in ("/health", "/ready"):
        made["paths"][path]["get"]["security"] = []
    for path in ("/v1/chat/completions", "/v1/completions", "/generate", "/v1/vocabularies/rewrite"):
        answer = made["paths"][path]["post"]["responses"]["200"]
        answer["content"] |= _content("text/event-stream", {"type": "string"})
    checked = made["paths"]["/v1/vocabularies/check"]["post"]["responses"]["200"]
    checked["content"] |= _content("text/csv", {"type": "string"}) | _content("text/html", {"type": "string"})
    made["paths"]["/v1/logprobs"]["post"]["responses"]["200"]["content"] |= _content(_BYTES, _BINARY)
    schemes = {
        "key": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    made["components"] = {"schemas": schemas["$defs"], "securitySchemes": schemes}
    return {**made, "security": [{name: []} for name in schemes]}


def add_docs(app: FastAPI, limits: Limits) -> None:
    """Add ``DOCS_PATHS`` to an application that has all its other routes."""
    text = json.dumps(document(app, limits), ensure_ascii=False).encode()
    page = (_FOLDER / "index.html").read_text()
    [script] = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    headers = {
        "Content-Security-Policy": f"default-src 'none'; script-src 'self' 'sha256-{digest}'; connect-src 'self'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
        # The page's address may hold a key.
        "Referrer-Policy": "no-referrer",
    }

    @app.get("/openapi.json", include_in_schema=False)
    async def get_document() -> Response:
        return Response(text, media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def get_page() -> Response:
        return HTMLResponse(page, headers=headers)

    @app.get("/docs/{name}", include_in_schema=False)
    async def get_file(name: str) -> Response:
        return FileResponse(_FOLDER / name, media_type=_FILES[name])


def _ref(model: type[BaseModel]) -> Schema:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _content(media_type: str, schema: Schema) -> Schema:
    return {media_type: {"schema": schema}}
