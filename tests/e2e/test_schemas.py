"""JSON schemas on the real stack: what the engine could be busy with for long is refused, and others are served."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from tests.e2e.service import KEY, MODEL, Service
from tests.e2e.test_batches import read, start, wait

pytestmark = pytest.mark.e2e

LONG = {"$ref": "#" + "/a" * 10_000}
CYCLE = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
NOWHERE: list[dict[str, Any]] = [LONG, {"$ref": "#"}, CYCLE, {"allOf": [{"$ref": "#"}]}]

SLOW = {"anyOf": [{"type": "string", "maxLength": 200 + i} for i in range(9)]}
"""Within the limits on its size, and 18 s of a processor."""

SCHEMA = "response_format.json_schema.schema"


def asking(schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}


def ask(service: Service, fields: dict[str, Any], *, is_chat: bool = True) -> httpx2.Response:
    start = {"messages": [{"role": "user", "content": "Hello"}]} if is_chat else {"prompt": "Hello"}
    return httpx2.post(
        f"{service.url}/v1/{'chat/completions' if is_chat else 'completions'}",
        json={"model": MODEL, "max_tokens": 8, **start, **fields},
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=120,
    )


def assert_refused(answer: httpx2.Response, param: str, part: str) -> None:
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == param
    assert part in error["message"]
    assert len(answer.content) < 1000


@pytest.mark.parametrize("is_chat", [True, False])
def test_a_reference_that_leads_nowhere_is_refused_while_others_are_served(service: Service, is_chat: bool) -> None:
    ends, waits = threading.Event(), list[float]()

    def chat() -> None:
        while not ends.is_set():
            before = time.monotonic()
            assert ask(service, {}).status_code == 200
            waits.append(time.monotonic() - before)

    with ThreadPoolExecutor(1) as others:
        other = others.submit(chat)
        try:
            for schema in NOWHERE:
                before = time.monotonic()
                assert_refused(ask(service, asking(schema), is_chat=is_chat), SCHEMA, "$ref")
                assert time.monotonic() - before < 10
                wanted = {"structured_outputs": {"json": schema}}
                assert_refused(ask(service, wanted, is_chat=is_chat), "structured_outputs.json", "$ref")
        finally:
            ends.set()
        other.result()
    assert waits
    assert max(waits) < 30


def test_a_schema_that_takes_long_is_ended_while_others_are_served(service: Service) -> None:
    with ThreadPoolExecutor(2) as clients:
        slow = clients.submit(ask, service, asking(SLOW))
        waits = list[float]()
        while not slow.done() or not waits:
            before = time.monotonic()
            assert ask(service, {"vocab_lang": "en", "vocab_n_words": 300}).status_code == 200
            waits.append(time.monotonic() - before)
        assert_refused(slow.result(), SCHEMA, "make it smaller")
        assert max(waits) < 30
        # Known by now.
        assert_refused(ask(service, asking(SLOW)), SCHEMA, "make it smaller")


def test_choices_that_are_no_grammar_are_refused(service: Service) -> None:
    """A line break ends a string of the grammar that vLLM makes of choices, and its message repeats them."""
    fields = {"structured_outputs": {"choice": ["\n" + "/a" * 120] * 130}}
    assert_refused(ask(service, fields), "structured_outputs.choice", "cannot compile")
    answer = ask(service, {"structured_outputs": {"choice": ["yes", "no"]}})
    assert answer.json()["choices"][0]["message"]["content"] in ("yes", "no")


class Leaf(BaseModel):
    colour: bool
    size: int | None


class Tree(BaseModel):
    leaf: Leaf
    left: "Tree | None"


def test_a_recursive_schema_of_pydantics_is_kept_to(service: Service) -> None:
    answer = ask(service, {**asking(Tree.model_json_schema()), "max_tokens": 60, "temperature": 0})
    [choice] = answer.json()["choices"]
    if choice["finish_reason"] == "stop":
        Tree.model_validate_json(choice["message"]["content"])
    else:
        assert choice["message"]["content"].lstrip().startswith("{")


def test_lines_with_such_schemas_become_error_lines(service: Service) -> None:
    schemas: dict[str, dict[str, Any]] = {
        "good": Tree.model_json_schema(),
        "slow": SLOW,
        **{f"bad-{i}": bad for i, bad in enumerate(NOWHERE)},
    }
    lines = [
        {
            "custom_id": name,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, **asking(schema)},
        }
        for name, schema in schemas.items()
    ]
    batch = wait(service, start(service, "\n".join(map(json.dumps, lines)).encode()).id)
    errors = {line["custom_id"]: line for line in read(service, batch.error_file_id)}
    assert errors.keys() == schemas.keys() - {"good"}
    assert {line["response"]["status_code"] for line in errors.values() if line["response"]} <= {400}
    assert [line["custom_id"] for line in read(service, batch.output_file_id)] == ["good"]
