"""The reference of the HTTP API, from the OpenAPI document that the service has at ``/openapi.json``."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from deployments.batch.api import add_batch_routes
from deployments.ingress.app import create_app
from deployments.protocol.openapi import document
from deployments.settings.service import Settings
from tools.docs.schema import Schema, in_words, prose, show

_GROUPS: Final = {
    "Texts": ("chat", "completions", "generate"),
    "Word lists, word tools and documents": ("vocabularies", "documents"),
    "Batches": ("files", "batches", "batch"),
    "Tokens and next-token rows": ("tokenize", "detokenize", "logprobs", "token_logprobs", "tokens"),
    "Models and the service": ("models", "load_lora_adapter", "unload_lora_adapter", "health", "ready"),
}
"""Headings, and the tags of the routes below each."""

_MEDIA: Final = {
    "text/event-stream": "server-sent events",
    "text/csv": "CSV",
    "text/html": "HTML",
    "application/octet-stream": "bytes",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "DOCX",
}
"""What an answer that is no JSON is called."""

_HEAD: Final = "| member | meaning |\n|---|---|\n"


def make_document() -> dict[str, Any]:
    """Return the OpenAPI document of an application with the default settings; nothing is started."""
    settings = Settings(secret_token="of-no-service")  # noqa: S106 - nothing answers to it
    # The routes are described, not called.
    nobody: Any = None
    mount = partial(add_batch_routes, settings=settings, batches=nobody)
    return document(create_app(settings, nobody, [mount]), settings.limits)


def api_reference() -> str:
    """Return the routes with their members, and the objects that these are made of, as Markdown.

    Raises:
        ValueError: A route has a tag that no heading has.
    """
    made = make_document()
    operations = [
        (method.upper(), path, operation)
        for path, methods in made["paths"].items()
        for method, operation in methods.items()
    ]
    tags = {tag for group in _GROUPS.values() for tag in group}
    if unknown := {operation["tags"][0] for *_, operation in operations} - tags:
        raise ValueError(f"tools/docs/api.py names no heading for the routes of {', '.join(sorted(unknown))}")
    schemas, parts = made["components"]["schemas"], []
    bodies = {
        _name(content["schema"])
        for *_, operation in operations
        for content in operation.get("requestBody", {}).get("content", {}).values()
    }
    for heading, group in _GROUPS.items():
        parts.append(f"## {heading}\n")
        for method, path, operation in operations:
            if operation["tags"][0] in group:
                parts += _route(method, path, operation, schemas)
    parts.append("## Objects\n")
    parts += [part for name in sorted(schemas.keys() - bodies) for part in _object(name, schemas[name])]
    return "\n".join(parts)


def _route(method: str, path: str, operation: Schema, schemas: Schema) -> Iterator[str]:
    yield f"### `{method} {path}`\n"
    if description := operation.get("description"):
        yield f"{prose(description)}\n"
    if "security" in operation:
        yield "Needs no key.\n"
    if parameters := operation.get("parameters"):
        yield "| parameter | meaning |\n|---|---|\n" + "".join(
            f"| `{one['name']}`<br>{_cell(_type(one['schema']))}, in the {one['in']} | "
            f"{_cell(one['schema'].get('description', ''))} |\n"
            for one in parameters
        )
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]
        if "$ref" in schema:
            schema = schemas[_name(schema)]
        if "properties" not in schema:
            yield f"Body: {_type(schema)}{_as_media(media)}\n"
            continue
        yield f"Body{_as_media(media)}{': ' + prose(schema['description']) if 'description' in schema else ':'}\n"
        yield _members(schema)
    answers = operation["responses"]["200"]["content"]
    result = (_MEDIA.get(media) or _type(content["schema"]) for media, content in answers.items())
    yield f"Answer: {', or '.join(result)}\n"


def _object(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name} {{ #{_anchor(name)} }}\n"
    if description := schema.get("description"):
        yield f"{prose(description)}\n"
    if schema.get("properties"):
        yield _members(schema)
    elif "properties" not in schema:
        yield f"{_type(schema)}\n"


def _members(schema: Schema) -> str:
    required = schema.get("required", ())
    lines = []
    for name, member in schema["properties"].items():
        default = member.get("default")
        given = ", required" if name in required else "" if default is None else f", default {show(default)}"
        lines.append(f"| `{name}`<br>{_cell(_type(member) + given)} | {_cell(member.get('description', ''))} |\n")
    return _HEAD + "".join(lines)


def _type(schema: Schema) -> str:
    return in_words(schema, lambda name: f"[{name}](#{_anchor(name)})")


def _name(schema: Schema) -> str:
    """Return the name of the object that a schema refers to, empty where it is none."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _anchor(name: str) -> str:
    return "object-" + re.sub(r"\W+", "-", name).lower()


def _cell(text: str) -> str:
    return prose(text).replace("|", "\\|")


def _as_media(media: str) -> str:
    return "" if media == "application/json" else f" (`{media}`)"
