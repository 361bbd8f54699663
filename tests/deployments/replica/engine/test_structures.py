"""Schemas of clients are tried in a process of their own, once each, and the keys take turns."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoTokenizer

from deployments.errors import ApiError
from deployments.replica.engine.structures import Structures, compiles_tools, structures
from deployments.settings.keys import NO_OWNER
from tests.deployments.processes import is_gone, wait_until
from tests.deployments.replica.world import ReplicaWorld
from vocab.compiler.jobs import CheckStructure, Reply
from vocab.errors import CompileError, CompileQueueError, CompileTimeoutError, StructureError

GOOD = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
SLOW = {"anyOf": [{"type": "string", "maxLength": 200 + i} for i in range(9)]}
UNKNOWN = {"$ref": "#/a/b"}


def with_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}


def tool(parameters: dict[str, Any] | None, name: str = "look") -> dict[str, Any]:
    function = {"name": name} | ({} if parameters is None else {"parameters": parameters})
    return {"type": "function", "function": function}


async def refusal(found: Structures, body: dict[str, Any], owner: str = "alice") -> ApiError | None:
    try:
        await found.check(body, owner)
    except ApiError as error:
        return error
    return None


@pytest.fixture
async def real(smollm2_path: Path) -> AsyncIterator[Structures]:
    made = Structures(AutoTokenizer.from_pretrained(smollm2_path), 49_152)
    yield made
    await made.close()


@pytest.mark.fault(22)
async def test_the_process_ends_what_is_slow_and_lives(real: Structures) -> None:
    assert await refusal(real, {"messages": []}) is None
    pid = real.pid
    assert pid is None, "nothing to compile, and a process"
    assert await refusal(real, with_schema(GOOD)) is None
    pid = real.pid
    assert pid is not None
    slow, unknown, good = await asyncio.gather(
        refusal(real, with_schema(SLOW)),
        refusal(real, with_schema(UNKNOWN)),
        refusal(real, {"structured_outputs": {"choice": ["yes", "no"]}}, "bob"),
    )
    assert slow is not None
    assert (slow.status, slow.param) == (400, "response_format.json_schema.schema")
    assert "make it smaller" in slow.message
    assert unknown is not None
    assert unknown.status == 400
    assert good is None
    assert real.pid == pid
    os.kill(pid, signal.SIGKILL)
    assert await refusal(real, with_schema({**GOOD, "title": "new"}), NO_OWNER) is None
    assert real.pid != pid
    wait_until(lambda: is_gone(pid))


async def test_a_result_is_asked_for_once(world: ReplicaWorld) -> None:
    schema = {**GOOD, "title": "once"}
    world.compiler.reply = Reply(error=StructureError("it is odd"))
    at_once = await asyncio.gather(*(world.ask(**with_schema(schema)) for _ in range(2)))
    for items in (*at_once, await world.ask(**with_schema(schema))):
        refused = items[0].message
        assert refused == "The engine cannot compile 'response_format.json_schema.schema': it is odd."
    assert len(world.compiler.asked) == 1
    await world.ask(**with_schema({**schema, "title": "another"}))
    assert len(world.compiler.asked) == 2


async def test_a_failure_is_told_with_a_time_and_forgotten(world: ReplicaWorld) -> None:
    schema = with_schema({**GOOD, "title": "failed"})
    for reply, status, code in (
        (CompileQueueError("as many as may"), 429, "too_many_schemas"),
        (CompileTimeoutError("too long"), 503, "overloaded"),
        (CompileError("the process died"), 503, "overloaded"),
        # A reply of another kind is no answer.
        (Reply(error=CompileError("out of memory")), 503, "overloaded"),
    ):
        world.compiler.reply = reply
        [refused] = await world.ask(**schema)
        assert (refused.status, refused.code, dict(refused.headers)["Retry-After"]) == (status, code, "2")
    world.compiler.reply = Reply()
    [answer] = await world.ask(**schema)
    assert isinstance(answer, dict)


def test_all_that_vllm_would_compile_is_found() -> None:
    defined = {"$ref": "#/$defs/a", "$defs": {"a": GOOD}}
    tools = [tool(defined), tool(None, "wait")]
    named = {"type": "function", "function": {"name": "look"}}
    text = json.dumps
    faults = []
    expected: list[tuple[dict[str, Any], bool, list[tuple[str, CheckStructure]]]] = [
        ({}, False, []),
        ({"response_format": {"type": "json_object"}}, False, []),
        ({"structured_outputs": {"json_object": True}}, False, []),
        ({"tools": tools, "tool_choice": "none"}, True, []),
        ({"tools": tools}, False, []),
        ({"tools": tools}, True, [("tools", CheckStructure(text(defined)))]),
        ({"tools": tools, "tool_choice": named}, False, [("tools", CheckStructure(text(defined)))]),
    ]
    asked: list[tuple[str, Any, CheckStructure]] = [
        ("json", GOOD, CheckStructure(text(GOOD))),
        ("choice", ['"a"', "b"], CheckStructure('root ::= "\\"a\\"" | "b"', "ebnf")),
        ("regex", "a+", CheckStructure("a+", "regex")),
        ("grammar", 'root ::= "a"', CheckStructure('root ::= "a"', "ebnf")),
        ("grammar", 'start: "a"', CheckStructure('start: "a"', "lark")),
    ]
    expected += [
        ({"structured_outputs": {field: value}}, False, [(f"structured_outputs.{field}", job)])
        for field, value, job in asked
    ]
    for body, with_tools, jobs in expected:
        if (found := list(structures(body, with_tools=with_tools))) != jobs:
            faults.append((body, with_tools, found))
    assert not faults
    [(param, job)] = structures({"tools": tools, "tool_choice": "required"})
    assert param == "tools"
    assert json.loads(job.text)["$defs"] == {"a": GOOD}
    assert defined["$defs"] == {"a": GOOD}, "the body was changed"


def test_parsers_that_constrain_tools_are_known() -> None:
    for parser, compiles in ((None, False), ("hermes", True), ("phi4_mini_json", False)):
        settings: Any = SimpleNamespace(engine_kwargs={} if parser is None else {"tool_call_parser": parser})
        assert compiles_tools(settings) is compiles
