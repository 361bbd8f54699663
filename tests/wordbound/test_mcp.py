"""``wordbound mcp``, asked by the client of its own package: the tools, what each asks the service, and errors."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.deployments.batch.direct import DirectBatches
from tests.deployments.front import KEY, MODEL, app_of
from tests.pages import ROOT, blocks_run_by
from tests.wordbound.cli.conftest import ScriptedBackend, StandInService, assert_refused, closed_port, run, serving
from vocab.text.changes import PromptWord
from wordbound import AsyncClient

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult

from wordbound.mcp import MAX_REPORTED, create_server

LONG = "a" * 20_001
EN = {"lang": "en", "n_words": 1000}
TEXT = "The cat sat on teh mat. Teh cat was happy."
TOOLS = ["write", "check_text", "rewrite_text", "next_words", "swap_word", "list_vocabularies", "list_words"]
[SNIPPET] = blocks_run_by(__file__, "docs/clients.md")
ABOUT: dict[str, Any] = {"model": MODEL, "vocab": {}, "usage": {"prompt_tokens": 1, "total_tokens": 1}}
NEXT = [{"word": "dog", "logprob": -0.5, "probability": 0.6, "rank": 1}]
OTHERS = [{"word": "ten", "text": "The cat sat on ten mat.", "logprob": -2.0, "rank": 300}]
REWRITTEN = {
    "text": "The cat sat on the bed.",
    "changes": [{"start": 15, "end": 22, "from": "teh mat", "to": "the bed"}],
    "names": [],
    "coverage": {"before": 0.8, "after": 1.0},
}


TOLD: dict[str, dict[str, Any]] = {
    "next": {"object": "vocabulary.next", "data": NEXT, "remainder": 0.4},
    "swap": {"object": "vocabulary.swap", "word": "teh", "logprob": -9.0, "data": OTHERS},
    "rewrite": {"object": "vocabulary.rewrite", **REWRITTEN},
}


@pytest.fixture(scope="module")
def service() -> Iterator[StandInService]:
    backend = ScriptedBackend(told={tool: [{**answer, **ABOUT}] for tool, answer in TOLD.items()})
    for url in serving(app_of(backend)):
        yield StandInService(url, backend, DirectBatches())


@dataclass
class Assistant:
    """A client in the server's process, for the service at an address."""

    url: str
    key: str = KEY

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        service = AsyncClient(self.url, self.key, max_retries=0)
        async with service, Client(create_server(service)) as client:
            yield client

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        async with self.connected() as client:
            return await client.call_tool(name, arguments)


@pytest.fixture
def assistant(service: StandInService) -> Assistant:
    return Assistant(service.url)


async def call(assistant: Client | Assistant, tool: str, **arguments: Any) -> Any:
    """What a tool answers."""
    result = await assistant.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def error_of(assistant: Client | Assistant, tool: str, **arguments: Any) -> str:
    """The message of a tool's error, which is one line."""
    result = await assistant.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    [content] = result.content
    assert content.type == "text"
    assert "\n" not in content.text
    assert KEY not in content.text
    return content.text


async def test_every_tool_and_argument_says_what_it_is(assistant: Assistant) -> None:
    async with assistant.connected() as client:
        tools, instructions = (await client.list_tools()).tools, client.instructions
    assert [tool.name for tool in tools] == TOOLS
    for tool in tools:
        assert tool.description
        assert tool.output_schema
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
        assert tool.input_schema["additionalProperties"] is False
    schema = tools[0].input_schema
    assert schema["required"] == ["prompt", "vocab"]
    members = schema["$defs"]["WordList"]
    assert members["additionalProperties"] is False
    assert [name for name, member in members["properties"].items() if not member.get("description")] == []
    assert "check_text" in (instructions or "")


async def test_a_text_is_written_within_the_list(
    service: StandInService, assistant: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = [{"word": "dog", "count": 1, "used": 1}, {"word": "sea", "count": 1, "used": 0}]
    monkeypatch.setitem(service.backend.block, "must_use", used)
    monkeypatch.setitem(service.backend.block, "prompt_words", [{"word": "map", "rank": 1755, "forms": ["maps"]}])
    asked = {"max_tokens": 50, "must_use": ["dog", "sea"], "max_sentence_words": 9, "prompt_words": True}
    told = await call(assistant, "write", prompt="A story", vocab={**EN, "extra_words": ["Anna"]}, **asked)
    counts = {"num_words": 4, "num_distinct_words": 4, "max_rank": 943}
    assert told == counts | {
        "text": "The dog was happy.", "finish_reason": "stop", "missing_words": ["sea"], "prompt_words": ["map"],
    }  # fmt: skip
    assert service.body["messages"] == [{"role": "user", "content": "A story"}]
    assert service.body["max_tokens"] == 50
    call_made = service.backend.calls[-1]
    assert call_made.vocabulary is not None and call_made.vocabulary.prompt_words == (PromptWord("A story", 1755),)
    author = call_made.decoding.author
    assert author is not None
    assert (author.max_sentence_words, [one.word for one in author.must_use]) == (9, ["dog", "sea"])
    assert (await call(assistant, "write", prompt="A story", vocab={"level": "top-1000", "lang": "en"}))["text"]


async def test_a_check_groups_the_words_that_are_not_listed(assistant: Assistant) -> None:
    told = await call(assistant, "check_text", text=TEXT, vocab={**EN, "exclude_words": ["happy"]})
    assert (told["num_words"], told["coverage"], told["num_not_allowed"]) == (10, 0.3, 7)
    found = {one["word"]: (one["reason"], one["count"]) for one in told["not_allowed"]}
    assert (found["cat"], found["happy"]) == (("rare", 2), ("excluded", 1))
    assert next(one["nearest"][0] for one in told["not_allowed"] if one["word"] == "teh") == {"word": "the", "rank": 1}
    long = " ".join(f"x{first}{second}x" for first in "abcdefghij" for second in "abcdefgh")
    told = await call(assistant, "check_text", text=f"{long} xahx xahx", vocab={"words": ["go"]})
    assert (len(told["not_allowed"]), told["num_not_allowed"]) == (MAX_REPORTED, 82)
    assert (told["not_allowed"][0]["word"], told["not_allowed"][0]["count"]) == ("xahx", 3)


async def test_the_word_tools_answer_in_short(service: StandInService, assistant: Assistant) -> None:
    assert await call(assistant, "rewrite_text", text=TEXT, vocab=EN, keep_names=False) == REWRITTEN
    assert (service.body["text"], service.body["keep_names"]) == (TEXT, False)
    assert await call(assistant, "next_words", text="The", vocab=EN, top=1) == {"result": NEXT}
    assert (service.body["text"], service.body["top"]) == ("The", 1)
    assert await call(assistant, "swap_word", text=TEXT, word="Teh", vocab=EN) == {"result": OTHERS}
    assert (service.body["start"], service.body["end"], service.body["top"]) == (15, 18, 8)
    await call(assistant, "swap_word", text="他长大了。", word="长大", vocab={"lang": "zh"})
    assert (service.body["start"], service.body["end"]) == (1, 3)


async def test_lists_are_listed(assistant: Assistant) -> None:
    told = await call(assistant, "list_vocabularies")
    assert {"en", "zh"} <= {*told["language"]}
    assert "top-1000" in told["level"]
    words = await call(assistant, "list_words", lang="en", contains="cat", limit=3)
    assert next(iter(words)).startswith("cat")
    assert len(words) == 3
    assert (await call(assistant, "list_words", lang="en", offset=1, limit=1)).popitem()[1] == 2


BAD_INPUT: list[tuple[str, dict[str, Any], str]] = [
    ("write", {"prompt": "Go", "vocab": {"lang": "xx"}}, "There is no list 'xx'. Known: en, es."),
    ("write", {"prompt": "please refuse", "vocab": EN}, "Too long."),
    ("write", {"prompt": "please fail", "vocab": EN}, "The server failed on this request. Its id"),
    ("write", {"prompt": "please be busy", "vocab": EN}, "is busy"),
    ("write", {"prompt": "Go", "vocab": EN, "must_use": ["two words"] * 99}, "vocab.must_use"),
    ("write", {"vocab": EN}, "prompt: Field required"),
    ("write", {"prompt": "Go", "vocab": {"lang": "en"}, "n_words": 5}, "n_words: Extra inputs are not permitted"),
    ("check_text", {"text": "Go", "vocab": {"lang": "en", "words_in": 5}}, "vocab.words_in: Extra inputs"),
    ("check_text", {"text": "Go", "vocab": {"lang": "en", "n_words": "few"}}, "vocab.n_words: Input should be"),
    ("check_text", {"text": ["Go"], "vocab": "en"}, "text: Input should be a valid string; vocab: Input should"),
    ("rewrite_text", {"text": LONG, "vocab": EN}, "20000"),
    ("next_words", {"text": "Go", "vocab": EN, "top": 0}, "top: Input should be greater than or equal to 1"),
    ("swap_word", {"text": TEXT, "word": "dog", "vocab": EN}, "the text does not have the word 'dog': name one"),
    ("list_words", {"lang": "en", "limit": 100_000}, "limit"),
    ("list_vocabularies", {"kind": "file"}, "kind: Extra inputs are not permitted"),
    ("delete", {}, "Unknown tool: delete"),
]


async def test_bad_input_is_an_error_that_says_what_to_change(assistant: Assistant) -> None:
    wrong = []
    async with assistant.connected() as client:
        for tool, arguments, message in BAD_INPUT:
            if message not in (found := await error_of(client, tool, **arguments)):
                wrong.append((tool, str(arguments)[:80], message, found))
    assert wrong == []


async def test_without_a_service_or_its_key_a_tool_says_what_to_do(service: StandInService) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    message = await error_of(Assistant(url), "list_vocabularies")
    assert message == f"no service answers at {url}: start one with `wordbound demo` or set WORDBOUND_URL"
    message = await error_of(Assistant(service.url, "wrong-key"), "write", prompt="Go", vocab=EN)
    assert "does not know this key: set WORDBOUND_API_KEY" in message
    assert "wrong-key" not in message


async def test_an_assistant_starts_it_as_the_page_says(service: StandInService, tmp_path: Path) -> None:
    [entry] = json.loads(SNIPPET.text)["mcpServers"].values()
    assert entry["command"] == "wordbound"
    # The command of this environment and this code.
    env = {name: service.url if "URL" in name else KEY for name in entry["env"]} | {"PYTHONPATH": str(ROOT)}
    command = ["-m", "wordbound", *entry["args"]]
    started = StdioServerParameters(command=sys.executable, args=command, env=env, cwd=tmp_path)
    with (tmp_path / "log").open("w+") as log:
        async with Client(stdio_client(started, errlog=log)) as assistant:
            assert [tool.name for tool in (await assistant.list_tools()).tools] == TOOLS
            assert (await call(assistant, "write", prompt="Go", vocab=EN))["text"] == "The dog was happy."
            assert "There is no list 'xx'" in await error_of(assistant, "write", prompt="Go", vocab={"lang": "xx"})
            assert "prompt: Field required" in await error_of(assistant, "write", vocab=EN)
            assert (await call(assistant, "list_words", lang="zh", limit=1)) == {"的": 1}
        log.seek(0)
        assert log.read() == ""


@contextmanager
def served(service: StandInService, *options: str) -> Iterator[str]:
    """The address at which the command serves; it ends by Ctrl-C."""
    environment = {"WORDBOUND_URL": service.url, "WORDBOUND_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "wordbound", "mcp", "--http", *options]
    with subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.fullmatch(r"serving at http://\S+:(\d+)/mcp\n", line)
            assert found, line + process.stderr.read()
            yield f"http://127.0.0.1:{found[1]}/mcp"
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
        assert (process.wait(), KEY in rest, "Traceback" in rest) == (130, False, False), rest


async def test_over_http_it_serves_this_machine_alone_and_keeps_nothing_of_a_client_that_has_gone(
    service: StandInService,
) -> None:
    with served(service, "127.0.0.1:0") as url:
        async with Client(url) as assistant:
            assert [tool.name for tool in (await assistant.list_tools()).tools] == TOOLS
            assert await call(assistant, "next_words", text="The", vocab=EN) == {"result": NEXT}
            assert "'xx'" in await error_of(assistant, "check_text", text="Go", vocab={"lang": "xx"})
        assert status_of(url, host="rebound.example.com") == 421
        assert status_of(url, origin="http://page.example.com") == 403
        assert status_of(url, origin="http://localhost:3000") == 200
        answers = [handshake(url) for _ in range(20)]
        # A session would have an id, and last until its client ends it.
        assert [(one.status_code, one.headers.get("mcp-session-id")) for one in answers] == [(200, None)] * 20
        # As a client of that version goes on.
        told = post(url, "tools/call", {"name": "list_words", "arguments": {"lang": "zh", "limit": 1}})
        [event] = re.findall(r"^data: (.+)$", told.text, re.MULTILINE)
        assert json.loads(event)["result"]["structuredContent"] == {"的": 1}


async def test_other_hosts_are_served_by_the_names_that_are_given(service: StandInService) -> None:
    with served(service, "0.0.0.0:0", "--allowed-hosts", "mcp.example.com") as url:
        assert status_of(url, host="mcp.example.com") == 200
        assert status_of(url, host="mcp.example.com:8765", origin="https://mcp.example.com") == 200
        assert status_of(url, host="other.example.com") == 421


def handshake(url: str, **headers: str) -> httpx2.Response:
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return post(url, "initialize", about, **headers)


def post(url: str, method: str, params: dict[str, Any], **headers: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    return httpx2.post(url, json=body, headers={**accepted, **headers}, trust_env=False)


def status_of(url: str, **headers: str) -> int:
    """Of a handshake."""
    return handshake(url, **headers).status_code


def test_what_cannot_be_served_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORDBOUND_API_KEY", raising=False)
    for options, message in (
        (["--http", "0.0.0.0:8765"], "who reaches 0.0.0.0 would use your key: choose 127.0.0.1, or name --allowed-"),
        (["--http", "[::]:8765"], "who reaches :: would use your key"),
        (["--http", "8765"], "--http takes an address and a port, such as 127.0.0.1:8765, and not '8765'"),
        (["--http", "127.0.0.1:http"], "--http takes an address and a port"),
        (["--http", "127.0.0.1:99999"], "--http takes an address and a port"),
        (["--http", "no.such.invalid:80", "--allowed-hosts", "a"], "--http no.such.invalid:80: "),
        (["--url", "http://mcp.example.com"], "set WORDBOUND_API_KEY to a key of the service"),
    ):
        assert_refused(run("mcp", *options), 2, "wordbound mcp: ", message)
    for url in serving(None):
        address = url.removeprefix("http://")
        assert_refused(run("mcp", "--http", address), 2, f"--http {address}: ", "in use")
    # Without its package it says what to install.
    monkeypatch.delitem(sys.modules, "wordbound.mcp")
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert_refused(run("mcp"), 2, "wordbound mcp: ", "pip install 'wordbound[mcp]'")
