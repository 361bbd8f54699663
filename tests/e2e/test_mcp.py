"""Every tool of ``wordbound mcp`` against the running application, over standard input and output."""

import sys
from typing import Any

import pytest

from tests.checker import assert_only_listed_words
from tests.e2e.service import KEY, Service
from tests.pages import ROOT

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

pytestmark = pytest.mark.e2e

EN = {"lang": "en", "n_words": 1000}
TEXT = "The dog found some money on the road. They took it to the police. The captain was happy."


async def test_every_tool_answers(service: Service) -> None:
    environment = {"WORDBOUND_URL": service.url, "WORDBOUND_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
    started = StdioServerParameters(command=sys.executable, args=["-m", "wordbound", "mcp"], env=environment)
    called = set[str]()
    async with Client(started) as assistant:

        async def call(tool: str, is_error: bool = False, /, **arguments: Any) -> Any:
            called.add(tool)
            result = await assistant.call_tool(tool, arguments)
            assert result.is_error == is_error, result.content
            return (
                result.content[0].text if result.content[0].type == "text" and is_error else result.structured_content
            )

        told = await call("write", prompt="A story about a dog", vocab=EN, max_tokens=40, must_use=["dog"])
        assert_only_listed_words(told["text"], "en", 1000)
        assert (told["missing_words"], told["max_rank"] <= 1000) == ([], True)
        [captain] = (await call("check_text", text=TEXT, vocab=EN))["not_allowed"]
        assert (captain["word"], captain["reason"], captain["count"]) == ("captain", "rare", 1)
        rewritten = await call("rewrite_text", text=TEXT, vocab=EN)
        assert_only_listed_words(rewritten["text"], "en", 1000)
        assert rewritten["coverage"]["after"] == 1
        found = (await call("next_words", text="The dog was", vocab=EN, top=2))["result"]
        assert len(found) == 2
        others = (await call("swap_word", text=TEXT, word="captain", vocab=EN, top=2))["result"]
        assert all(word["text"] == f"The {word['word']} was happy." for word in others)
        assert "en" in (await call("list_vocabularies"))["language"]
        assert next(iter(await call("list_words", lang="en", contains="cat", limit=3))).startswith("cat")
        assert "xx" in await call("write", True, prompt="Go", vocab={"lang": "xx"})
        assert "20000" in await call("rewrite_text", True, text="a " * 10_001, vocab=EN)
        assert called == {tool.name for tool in (await assistant.list_tools()).tools}
