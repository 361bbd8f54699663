"""The OpenAPI document of the service, and the page that shows it (Swagger UI, its files shipped with the package).

FastAPI lists the routes; their bodies and answers are added here, as handlers read bodies themselves.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.responses import FileResponse, HTMLResponse, Response

from deployments.protocol.answers import Error
from deployments.protocol.generation import ChatCompletionRequest
from deployments.protocol.validation import Body, Schema, with_limits
from deployments.settings.keys import Part
from deployments.settings.limits import Limits

_FOLDER: Final = Path(__file__).parent / "swagger_ui"
_FILES: Final = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}

_ABOUT: Final = """OpenAI's chat completions and completions, with one addition: the words of an answer come from a word
list, which `vocab` names. Errors have OpenAI's shape; a message says what to change, and `param` names the field."""

BYTES: Final = "application/octet-stream"
BINARY: Final[Schema] = {"type": "string", "format": "binary"}
TEXT: Final[Schema] = {"type": "string"}

OperationBody: TypeAlias = type[Body] | Mapping[str, Schema] | None
OperationAnswer: TypeAlias = type[Any] | Mapping[str, type[Any] | Schema] | None


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A method of a path, as its declaration has it (``deployments.ingress.route.Routes.add``)."""

    method: str
    path: str
    part: Part | None
    body: OperationBody
    answer: OperationAnswer
    streams: bool
    query: Mapping[str, Schema] | Iterable[str]
    is_open: bool


def document(app: FastAPI, limits: Limits) -> Schema:
    """Build the OpenAPI document of an application's routes, with the bounds of ``limits``."""
    operations: Iterable[Operation] = app.state.routes.operations
    shown = {(one.method, one.path): one for one in operations if one.answer is not None}
    bodies = {name: _by_media(one.body) for name, one in shown.items()}
    answers = {name: _by_media(one.answer) for name, one in shown.items()}
    given = [content for name in shown for content in (*bodies[name].values(), *answers[name].values())]
    models: dict[type[Any], None] = dict.fromkeys([*(one for one in given if isinstance(one, type)), Error])
    _, schemas = TypeAdapter.json_schemas(
        [(model.__name__, "validation", TypeAdapter[Any](model)) for model in models],
        ref_template="#/components/schemas/{model}",
    )
    schemas = with_limits(schemas, limits)
    made = get_openapi(title="wordbound", version=version("wordbound"), description=_ABOUT, routes=app.routes)
    chat_fields = schemas["$defs"][ChatCompletionRequest.__name__]["properties"]
    for path, methods in made["paths"].items():
        for method, described in methods.items():
            name = method.upper(), path
            operation = shown[name]
            described["tags"] = [path.removeprefix("/v1/").strip("/").split("/")[0]]
            content = _content(answers[name])
            if operation.streams:
                # Without a schema: readers differ in whether one is of the whole stream or of each event.
                content["text/event-stream"] = {}
            described["responses"] = {
                "200": {"description": "The answer.", "content": content},
                "default": {"description": "An error.", "content": _content({"application/json": Error})},
            }
            if bodies[name]:
                described["requestBody"] = {"required": True, "content": _content(bodies[name])}
            query = operation.query
            fields = query if isinstance(query, Mapping) else {name: chat_fields[name] for name in query}
            described.setdefault("parameters", []).extend(
                {"name": parameter, "in": "query", "schema": schema} for parameter, schema in fields.items()
            )
            if operation.is_open:
                described["security"] = []
    schemes = {
        "key": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    made["components"] = {"schemas": schemas["$defs"], "securitySchemes": schemes}
    return {**made, "security": [{name: []} for name in schemes]}


def documentation(document: Schema) -> Mapping[str, Callable[[], Response]]:
    """Return what answers the paths of the documentation: the document, and the page that shows it."""
    page = (_FOLDER / "index.html").read_text()
    [script] = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    headers = {
        "Content-Security-Policy": f"default-src 'none'; script-src 'self' 'sha256-{digest}'; connect-src 'self'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
        # The page's address may hold a key.
        "Referrer-Policy": "no-referrer",
    }
    text = json.dumps(document, ensure_ascii=False).encode()
    return {
        "/openapi.json": partial(Response, text, media_type="application/json"),
        "/docs": partial(HTMLResponse, page, headers=headers),
        **{f"/docs/{name}": partial(FileResponse, _FOLDER / name, media_type=kind) for name, kind in _FILES.items()},
    }


def _by_media(given: OperationBody | OperationAnswer) -> Mapping[str, type[Any] | Schema]:
    if given is None:
        return {}
    return given if isinstance(given, Mapping) else {"application/json": given}


def _content(by_media: Mapping[str, type[Any] | Schema]) -> Schema:
    return {
        media_type: {"schema": {"$ref": f"#/components/schemas/{one.__name__}"} if isinstance(one, type) else one}
        for media_type, one in by_media.items()
    }
