"""The OpenAPI document of the service, and the page that shows it (Swagger UI, its files shipped with the package).

FastAPI lists the routes; their bodies and answers are added here, as handlers read bodies themselves.
"""

import base64
import hashlib
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, TypeAdapter
from starlette.responses import FileResponse, HTMLResponse, Response

from deployments.protocol.adapters import LoadLoraAdapterRequest, UnloadLoraAdapterRequest
from deployments.protocol.batches import MAX_BATCHES_LISTED, MAX_FILES_LISTED, PARAMETERS, BatchRequest
from deployments.protocol.documents import DOCX, DocumentRequest
from deployments.protocol.generation.chat import ChatCompletionRequest
from deployments.protocol.generation.completion import CompletionRequest
from deployments.protocol.generation.generate import GenerateRequest
from deployments.protocol.openapi.answers import ANSWERS, Error
from deployments.protocol.rows import LogprobsRequest, TokenLogprobsRequest
from deployments.protocol.tokenization import DetokenizeRequest, TokenizeRequest
from deployments.protocol.validation import Schema, bound_model, json_schema
from deployments.protocol.vocabularies import CheckRequest
from deployments.protocol.word_tools import ExercisesRequest, NextWordsRequest, RewriteRequest, SwapRequest
from deployments.protocol.worksheets import MEDIA_TYPES, WorksheetRequest
from deployments.settings.limits import Limits

_FOLDER: Final = Path(__file__).parent / "docs"
_FILES: Final = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}

DOCS_PATHS: Final = (b"/openapi.json", b"/docs", *(b"/docs/" + name.encode() for name in _FILES))

_ABOUT: Final = """OpenAI's chat completions and completions, with one addition: the words of an answer come from a word
list, which `vocab` names. Errors have OpenAI's shape; a message says what to change, and `param` names the field."""

_BYTES: Final = "application/octet-stream"
_BINARY: Final = {"type": "string", "format": "binary"}
_TEXT: Final = {"type": "string"}
_AFTER: Final = {"after": {"type": "string", "description": "The id of the last object that is already known."}}
_UPLOAD: Final = {
    "type": "object",
    "additionalProperties": False,
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
    "additionalProperties": False,
    "required": ["file"],
    "properties": {"file": {"type": "string", "format": "binary", "description": "A JSON list of chat requests."}},
}
_RESULTS: Final = {
    "type": "array",
    "items": {"anyOf": [{"$ref": "#/components/schemas/ChatCompletion"}, {"$ref": "#/components/schemas/Error"}]},
}


def document(app: FastAPI, limits: Limits) -> Schema:
    """Build the OpenAPI document of an application's routes, with the bounds of ``limits``."""
    chat = bound_model(ChatCompletionRequest, limits)
    requests: dict[str, type[BaseModel]] = {
        "POST /v1/chat/completions": chat,
        "POST /v1/completions": bound_model(CompletionRequest, limits),
        "POST /generate": bound_model(GenerateRequest, limits),
        "POST /tokenize": bound_model(TokenizeRequest, limits),
        "POST /detokenize": bound_model(DetokenizeRequest, limits),
        "POST /v1/logprobs": bound_model(LogprobsRequest, limits),
        "POST /v1/token_logprobs": bound_model(TokenLogprobsRequest, limits),
        "POST /v1/vocabularies/next": bound_model(NextWordsRequest, limits),
        "POST /v1/vocabularies/check": bound_model(CheckRequest, limits),
        "POST /v1/vocabularies/swap": bound_model(SwapRequest, limits),
        "POST /v1/vocabularies/rewrite": bound_model(RewriteRequest, limits),
        "POST /v1/vocabularies/exercises": bound_model(ExercisesRequest, limits),
        "POST /v1/documents/worksheet": bound_model(WorksheetRequest, limits),
        "POST /v1/documents": bound_model(DocumentRequest, limits),
        "POST /v1/batches": BatchRequest,
        "POST /v1/load_lora_adapter": LoadLoraAdapterRequest,
        "POST /v1/unload_lora_adapter": UnloadLoraAdapterRequest,
    }
    models: dict[type[Any], None] = dict.fromkeys([*requests.values(), Error, *ANSWERS.values()])
    _, schemas = TypeAdapter.json_schemas(
        [(model.__name__, "validation", TypeAdapter[Any](model)) for model in models],
        ref_template="#/components/schemas/{model}",
    )
    made = get_openapi(title="wordbound", version=version("wordbound"), description=_ABOUT, routes=app.routes)
    fields = json_schema(chat)["properties"]
    bodies = {name: ("application/json", _ref(model)) for name, model in requests.items()} | {
        "POST /v1/files": ("multipart/form-data", _UPLOAD),
        "POST /v1/batch/jobs": ("multipart/form-data", _JOB_UPLOAD),
        "POST /v1/documents/text": (_BYTES, _BINARY),
    }
    answers = {name: ("application/json", _ref(model)) for name, model in ANSWERS.items()} | {
        "GET /v1/files/{file_id}/content": (_BYTES, _BINARY),
        **dict.fromkeys(("POST /v1/load_lora_adapter", "POST /v1/unload_lora_adapter"), ("text/plain", _TEXT)),
        "POST /v1/documents": (DOCX, _BINARY),
        "POST /v1/documents/worksheet": (DOCX, _BINARY),
        "GET /v1/batch/jobs/{job_id}/results": ("application/json", _RESULTS),
    }
    queries: dict[str, Schema] = {
        "GET /v1/files": _AFTER
        | _limit(MAX_FILES_LISTED)
        | {"purpose": {"enum": ["batch", "batch_output"]}, "order": {"enum": ["asc", "desc"]}},
        "GET /v1/batches": _AFTER | _limit(MAX_BATCHES_LISTED),
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
    streamed = ("/v1/vocabularies/rewrite", "/v1/vocabularies/exercises")
    for path in ("/v1/chat/completions", "/v1/completions", "/generate", *streamed):
        answer = made["paths"][path]["post"]["responses"]["200"]
        # Without a schema: readers differ in whether one is of the whole stream or of each event.
        answer["content"] |= {"text/event-stream": {}}
    checked = made["paths"]["/v1/vocabularies/check"]["post"]["responses"]["200"]
    checked["content"] |= _content("text/csv", {"type": "string"}) | _content("text/html", {"type": "string"})
    sheet = made["paths"]["/v1/documents/worksheet"]["post"]["responses"]["200"]
    sheet["content"] = {media_type.partition(";")[0]: {"schema": _BINARY} for media_type in MEDIA_TYPES.values()}
    made["paths"]["/v1/logprobs"]["post"]["responses"]["200"]["content"] |= _content(_BYTES, _BINARY)
    schemes = {
        "key": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    made["components"] = {"schemas": schemas["$defs"], "securitySchemes": schemes}
    return {**made, "security": [{name: []} for name in schemes]}


def add_docs(app: FastAPI, limits: Limits) -> None:
    """Add ``/openapi.json`` and ``/docs`` to an application that has all its other routes."""
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


def _ref(model: type[Any]) -> Schema:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _limit(most: int) -> Schema:
    return {"limit": {"type": "integer", "minimum": 1, "maximum": most}}


def _content(media_type: str, schema: Schema) -> Schema:
    return {media_type: {"schema": schema}}
