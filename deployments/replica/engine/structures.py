"""Try the schemas, expressions and grammars of clients in a process that can be killed, before vLLM sees them.

vLLM compiles a schema in a thread of its engine's process, in which the grammars of all others wait for it, and its
messages of what it refuses repeat the schema. So each is compiled beforehand by ``vocab.compiler.structure_worker``,
with limits of time and memory. The process is started with the first, and the owners of requests take turns.
"""

import hashlib
import json
import logging
import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Final

import xgrammar
from vllm.entrypoints.openai.chat_completion.protocol import (
    ChatCompletionNamedToolChoiceParam,
    ChatCompletionToolsParam,
)
from vllm.tool_parsers import ToolParserManager
from vllm.tool_parsers.utils import get_json_schema_from_tools
from vllm.v1.structured_output.utils import choice_as_grammar

from deployments.contract import ChatBody
from deployments.errors import EngineError
from deployments.protocol.listed_json import listed_schema
from deployments.protocol.structure import SCHEMA_FIELD
from deployments.settings.service import Settings
from deployments.single_flight import SingleFlight
from deployments.vocabulary.compile_pool import CompileLimits, ProcessInTurns
from vocab.compiler.compile_process import CompileProcess
from vocab.compiler.jobs import CheckStructure
from vocab.errors import CompileError, CompileQueueError, StructureError
from vocab.matching.reference import is_lark

MAX_KNOWN: Final = 1000
"""Results that are cached, by digest: some hundred bytes each."""

MAX_WAITING: Final = 32
"""Structures of one key that may wait, each for as long as its predecessors take: 2 s of a processor at most."""

_LIMITS: Final = CompileLimits(deadline_s=60.0, idle_s=600.0)
"""The start of the process counts, 4 s. The libraries take 300 MB of its memory; its forks have limits of their own."""

_RETRY_AFTER_S: Final = 2

_FEWEST_FOLLOWED: Final = 64
_MOST_FOLLOWED: Final = 1024
"""Tokens of an answer through which a structure is followed. Beyond them the engine alone watches its masks."""

logger = logging.getLogger("ray.serve")


class Structures:
    """Checks whether the engine can compile the schemas, choices, expressions and grammars that clients ask for.

    ``tokenizer`` is the model's, which xgrammar reads for ``vocab_size`` tokens; ``with_tools`` whether the engine
    compiles tools that need not be used. Call from one event loop.
    """

    def __init__(self, tokenizer: Any, vocab_size: int, *, with_tools: bool = False) -> None:
        self._with_tools = with_tools

        def start(max_memory_bytes: int) -> CompileProcess:
            arguments = [sys.executable, "-m", "vocab.compiler.structure_worker"]
            return CompileProcess(arguments, max_memory_bytes, _facts(tokenizer, vocab_size))

        self._process = ProcessInTurns(start, _LIMITS, _LIMITS.idle_s, MAX_WAITING)
        self._known = SingleFlight(MAX_KNOWN, cancels_unwanted=True)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def check(self, body: ChatBody, owner: str, *, in_list: bool = False) -> None:
        """Compile the structures of a body, their strings ``in_list`` or free.

        Raises:
            EngineError: One cannot be compiled (400), or not now (429, 503).
        """
        try:
            for param, job in structures(body, with_tools=self._with_tools, in_list=in_list):
                digest = hashlib.sha256(repr(job).encode("utf-8", "surrogatepass")).digest()
                fault = await self._known.get(digest, lambda job=job: self._fault(job, owner))  # type: ignore[misc]
                if fault is not None:
                    raise EngineError(400, f"The engine cannot compile '{param}': {fault}.", param=param)
        except CompileQueueError:
            raise EngineError(
                429,
                f"{MAX_WAITING} schemas and grammars of this key wait, as many as may. Try again in a moment.",
                code="too_many_schemas",
                retry_after_s=_RETRY_AFTER_S,
            ) from None
        except CompileError as error:
            logger.error("a schema was not compiled: %s", error)
            raise EngineError(
                503,
                "The schema or grammar could not be compiled in time. Try again in a moment.",
                code="overloaded",
                retry_after_s=_RETRY_AFTER_S,
            ) from None

    async def _fault(self, job: CheckStructure, owner: str) -> str | None:
        error = (await self._process.ask(job, owner)).error
        if error is not None and not isinstance(error, StructureError):
            raise CompileError(str(error))
        return None if error is None else str(error)

    async def close(self) -> None:
        await self._process.close()


def compiles_tools(settings: Settings) -> bool:
    """Return whether vLLM constrains the answer by the schemas of tools that need not be used."""
    parser = settings.engine_kwargs.get("tool_call_parser")
    return parser is not None and ToolParserManager.get_tool_parser(parser).structural_tag_model is not None


def structures(
    body: ChatBody, *, with_tools: bool = False, in_list: bool = False
) -> Iterator[tuple[str, CheckStructure]]:
    """Yield each structure that the engine will compile for a checked body, with the field it comes from.

    Raises:
        EngineError: The tools contradict each other.
    """
    if in_list:
        if (found := listed_schema(body)) is not None:
            field, of_strings = found
            yield field, CheckStructure(of_strings.to_text(), "listed")
        return
    check = partial(CheckStructure, num_tokens=_num_followed(body.get("max_tokens", 0)))
    wanted = body.get("structured_outputs") or {}
    if (schema := wanted.get("json")) is not None:
        yield "structured_outputs.json", check(json.dumps(schema))
    if (choices := wanted.get("choice")) is not None:
        yield "structured_outputs.choice", check(choice_as_grammar(choices), "ebnf")
    if (regex := wanted.get("regex")) is not None:
        yield "structured_outputs.regex", check(regex, "regex")
    if (grammar := wanted.get("grammar")) is not None:
        yield "structured_outputs.grammar", check(grammar, "lark" if is_lark(grammar) else "ebnf")
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        yield SCHEMA_FIELD, check(json.dumps(form["json_schema"]["schema"]))
    for schema in _tool_schemas(body.get("tools") or [], body.get("tool_choice", "auto"), with_tools=with_tools):
        yield "tools", check(json.dumps(schema))


def _num_followed(max_tokens: int) -> int:
    """Return the next power of two, so that what is cached serves similar requests."""
    return min(max(1 << (max_tokens - 1).bit_length(), _FEWEST_FOLLOWED), _MOST_FOLLOWED)


def _tool_schemas(
    tools: list[dict[str, Any]], choice: str | dict[str, Any], *, with_tools: bool
) -> Iterator[dict[str, Any] | str]:
    """Yield the one schema of tools of which one must be used, else those of optional tools.

    vLLM makes the one; the others may be part of a grammar.
    """
    if not tools or choice == "none":
        return
    if choice == "auto":
        if with_tools:
            yield from (tool["function"]["parameters"] for tool in tools if "parameters" in tool["function"])
        return
    named = choice if isinstance(choice, str) else ChatCompletionNamedToolChoiceParam.model_validate(choice)
    try:
        # vLLM takes the definitions out of what it is given.
        made = [ChatCompletionToolsParam.model_validate(tool) for tool in deepcopy(tools)]
        schema = get_json_schema_from_tools(named, made)
    except ValueError:
        raise EngineError(
            400,
            "'tools' must have each name in '$defs' once, or with one meaning, and the tool that 'tool_choice' names.",
            param="tools",
        ) from None
    if schema is not None:
        yield schema


def _facts(tokenizer: Any, vocab_size: int) -> bytes:
    """Return xgrammar's description of the tokenizer, as a line of JSON."""
    # As vLLM's backend reads it.
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab_size)
    text: str = info.serialize_json()
    return text.encode() + b"\n"
