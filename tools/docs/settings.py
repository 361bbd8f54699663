"""The reference of the settings, from the classes that read them."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import griffe

from deployments.settings.service import Settings
from deployments.settings.sources import ENVIRONMENT, OLD_NAMES, PREFIX
from deployments.settings.types import REPLACED
from tools.docs.schema import Schema, in_words, prose, show

ROOT: Final = Path(__file__).parents[2]
_FILES: Final = {
    "Settings": "service",
    "BatchSettings": "batch",
    "Limits": "limits",
    "BatchLimits": "limits",
    "Key": "keys",
    "Autoscaling": "types",
    "Policy": "types",
}
_HEADING: Final = re.compile(r"^    # ([A-Z][\w ]+)$", re.MULTILINE)
"""A comment between the settings of the class, such as "The model"."""


def settings_reference() -> str:
    """Return all settings, by their headings in the class, and then those of each object, as Markdown."""
    schema = Settings.model_json_schema()
    source = (
        (ROOT / "deployments" / "settings" / "service.py").read_text(encoding="utf-8").partition("class Settings(")[2]
    )
    headings = list(_HEADING.finditer(source))
    lines = {name: source.index(f"\n    {name}: ") for name in schema["properties"]}
    starts = [found.start() for found in headings] + [len(source)]
    parts, defs = [], schema["$defs"]
    for found, end in zip(headings, starts[1:], strict=True):
        parts.append(f"## {found[1]}\n")
        names = [name for name, line in lines.items() if found.start() < line < end]
        for name in names:
            parts += _setting(name, schema["properties"][name], "Settings")
        for name in names:
            parts += _object(name, schema["properties"][name], defs)
    return "\n".join(parts)


def _object(key: str, schema: Schema, defs: Schema) -> Iterator[str]:
    """Return a section for a setting that is an object, and for those in it."""
    values = schema.get("additionalProperties")
    inner = values if isinstance(values, dict) else schema
    refs = [one["$ref"] for one in (inner, *inner.get("anyOf", ())) if "$ref" in one]
    for ref in refs:
        name = ref.rpartition("/")[2]
        path = f"{key}.<name>" if inner is not schema else key
        yield f"## Members of `{path}` {{ #{_section(key)} }}\n"
        yield f"{prose(_members(name).docstring.value)}\n"
        properties = {member: found for member, found in defs[name]["properties"].items() if member not in REPLACED}
        for member, found in properties.items():
            yield from _setting(f"{path}.{member}", found, name)
        for member, found in properties.items():
            yield from _object(f"{path}.{member}", found, defs)


def _setting(key: str, schema: Schema, owner: str) -> Iterator[str]:
    yield f"### `{key}` {{ #{anchor(key)} }}\n"
    facts = [in_words(schema, lambda name: f"object ([{name}](#{_section(key)}))")]
    if (default := schema.get("default")) is not None and "$ref" not in schema:
        facts.append(f"default {show(default)}{_in_units(key, default)}")
    if variables := variables_of(key):
        facts.append(", ".join(f"`{name}`" for name in variables))
    yield " · ".join(facts) + "\n"
    # What is inherited is described in the schema.
    member = _members(owner).members.get(key.rpartition(".")[2])
    docstring = schema.get("description") if member is None else member.docstring and member.docstring.value
    if docstring:
        yield f"{prose(docstring)}\n"


def variables_of(key: str) -> list[str]:
    """Return the variables of the environment that give a setting: the short names, then the one with the prefix."""
    if "<" in key:
        return []
    short = [name for name, setting in ENVIRONMENT.items() if setting == key]
    short += [name for name, old in OLD_NAMES.items() if key in old.settings and not name.startswith("LLM_")]
    return [*short, PREFIX + key.replace(".", "__").upper()]


def anchor(key: str) -> str:
    return re.sub(r"[^\w.]+", "-", key).strip("-")


def _section(key: str) -> str:
    return "members-of-" + anchor(key)


@cache
def _members(name: str) -> Any:
    path = ROOT / "deployments" / "settings" / f"{_FILES[name]}.py"
    return griffe.visit(path.stem, path, path.read_text(encoding="utf-8"))[name]


def _in_units(key: str, value: Any) -> str:
    if not key.endswith("_bytes") or not isinstance(value, int):
        return ""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value % 2**power == 0:
            return f" ({value >> power} {unit})"
    return ""
