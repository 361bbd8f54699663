"""A server of the Model Context Protocol (MCP): tools by which an assistant writes and checks texts within word lists.

Each tool asks a running service, whose errors are the tool's. An assistant reads the docstrings of tools and results.
"""

import inspect
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, cast

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field, ValidationError
from typing_extensions import override

import wordbound
from vocab import answers
from wordbound.client import AsyncClient
from wordbound.errors import ServiceError
from wordbound.routes import Vocab

INSTRUCTIONS: Final = """Texts for readers who know few words: write and rewrite_text keep every word to a word list,
such as the 1,000 most frequent English words, and check_text says which words of a text are not in it."""

MAX_REPORTED: Final = 50
"""Different words in the report of a check, the most frequent first: mended, the text is checked again."""


class WordList(BaseModel, extra="forbid"):
    """A word list: it has lang, level or words."""

    lang: Annotated[str | None, Field(description='"en", "de", "zh": list_vocabularies has all.')] = None
    n_words: Annotated[int | None, Field(ge=1, description="Only its most frequent words; else all.")] = None
    level: Annotated[str | None, Field(description='Instead of n_words, such as "top-1000".')] = None
    words: Annotated[list[str] | None, Field(description="A list of the user's own, of the language lang.")] = None
    extra_words: Annotated[list[str] | None, Field(description="Allowed besides, such as names.")] = None
    exclude_words: Annotated[list[str] | None, Field(description="Left out, in every form.")] = None

    def given_fields(self) -> Vocab:
        """Return the fields that were given, as the service takes a ``vocab``."""
        return cast("Vocab", self.model_dump(exclude_none=True))


class WrittenText(BaseModel):
    """max_rank is that of the rarest word; finish_reason is "length" where max_tokens ended the text."""

    text: str
    finish_reason: str | None
    num_words: int
    num_distinct_words: int
    max_rank: int
    missing_words: Annotated[list[str], Field(description="Those of must_use that the text lacks.")]
    prompt_words: Annotated[list[str], Field(description="Words of the prompt that were allowed, with their forms.")]


class UnlistedWord(BaseModel):
    """It is beyond n_words (rare), not in the list (unknown), left out (excluded), or no word at all (symbol)."""

    word: str
    reason: answers.Reason
    rank: int | None
    count: int
    nearest: Annotated[list[answers.NearestWord], Field(description="Listed words that are spelled alike.")]


class CheckedText(BaseModel):
    """coverage is the share of words that are allowed; null where there are none."""

    num_words: int
    coverage: float | None
    num_not_allowed: int
    not_allowed: list[UnlistedWord]


class RewrittenText(BaseModel):
    """Changes are from start to end in the given text; names were kept."""

    text: str
    changes: list[answers.Change]
    names: list[str]
    coverage: answers.Coverage


Text = Annotated[str, Field(description="At most 20,000 characters, where the service has no other limit.")]
Top = Annotated[int, Field(ge=1, description="How many words at most.")]


class Tools:
    """The tools, each a method."""

    def __init__(self, service: AsyncClient) -> None:
        self._service = service

    async def write(
        self,
        prompt: Annotated[str, Field(description="What to write, as one would ask a small language model.")],
        vocab: WordList,
        max_tokens: Annotated[int | None, Field(ge=1, description="An English word takes about 1.3.")] = None,
        must_use: Annotated[list[str] | None, Field(description="Words that the text is to have.")] = None,
        max_sentence_words: Annotated[int | None, Field(ge=2, description="Words of a sentence at most.")] = None,
        prompt_words: Annotated[bool, Field(description="Whether words of the prompt are allowed too.")] = False,
    ) -> WrittenText:
        """Write a text whose every word is in a word list, with the service's own model."""
        required = [{"word": word} for word in must_use or ()] or None
        asked = {**vocab.given_fields(), "must_use": required, "max_sentence_words": max_sentence_words}
        asked["prompt_words"] = prompt_words or None
        body = {"messages": [{"role": "user", "content": prompt}], "vocab": asked, "max_tokens": max_tokens}
        answer = await self._service.post("/v1/chat/completions", body)
        [choice], block = answer["choices"], answer["vocab"]
        missing = [word["word"] for word in block.get("must_use", ()) if word["used"] < word["count"]]
        written = {"text": choice["message"]["content"] or "", "finish_reason": choice["finish_reason"]}
        allowed = [one["word"] for one in block.get("prompt_words", ())]
        return WrittenText.model_validate({**block, **written, "missing_words": missing, "prompt_words": allowed})

    async def check_text(self, text: str, vocab: WordList) -> CheckedText:
        """Check which words of a text are not in a word list."""
        report = await self._service.check(text, vocab.given_fields())
        counts = Counter((place["word"], place["reason"]) for place in report["not_allowed"])
        places = {(place["word"], place["reason"]): place for place in report["not_allowed"]}
        words = [{**places[word], "count": count} for word, count in counts.most_common(MAX_REPORTED)]
        return CheckedText.model_validate({**report, "not_allowed": words})

    async def rewrite_text(self, text: Text, vocab: WordList, keep_names: bool = True) -> RewrittenText:
        """Rewrite a text in the words of a list, by sentences; send paragraphs. By default its names are kept."""
        answer = await self._service.rewrite(text, vocab.given_fields(), keep_names=keep_names)
        return RewrittenText.model_validate(answer)

    async def next_words(self, text: Text, vocab: WordList, top: Top = 10) -> list[answers.NextWord]:
        """Find the words of a list that are likeliest to follow a text."""
        return (await self._service.next_words(text, vocab.given_fields(), top=top))["data"]

    async def swap_word(self, text: Text, word: str, vocab: WordList, top: Top = 8) -> list[answers.OtherWord]:
        """Find words of a list for the place of a word in a text, where it stands first. Few mean the same: choose."""
        # A check knows where words begin and end, in languages without spaces too.
        report = await self._service.check(text, vocab.given_fields(), words=True)
        for one in report["words"]:
            if text[one["start"] : one["end"]].casefold() == word.casefold():
                answer = await self._service.swap(text, one["start"], one["end"], vocab.given_fields(), top=top)
                return answer["data"]
        raise ToolError(f"the text does not have the word {word!r}: name one of its words, as it stands there")

    async def list_vocabularies(self) -> dict[str, list[str]]:
        """List what vocab may name: languages, the service's own lists (file), and levels."""
        found = (await self._service.vocabularies())["data"]
        kinds = dict.fromkeys(one["kind"] for one in found)
        return {kind: [one["id"] for one in found if one["kind"] == kind] for kind in kinds}

    async def list_words(
        self,
        lang: Annotated[str, Field(description='A language or list, such as "en".')],
        contains: Annotated[str | None, Field(description="Only words that have this in them.")] = None,
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Top = 100,
    ) -> dict[str, int]:
        """List the words of a list with their ranks, the most frequent first."""
        found = await self._service.words(lang, q=contains, offset=offset, limit=limit)
        return {one["word"]: one["rank"] for one in found["data"]}


class Server(MCPServer[Any]):
    """A server whose errors say what to change."""

    @override
    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        """Call a tool; raises ToolError, of one line where the arguments or the service are at fault."""
        try:
            return await super().call_tool(*args, **kwargs)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in cause.errors())
                raise ToolError("; ".join(faults)) from cause
            if isinstance(cause, ServiceError):
                raise ToolError(str(cause)) from None
            raise


def create_server(service: AsyncClient) -> Server:
    """Create the server of all tools, which ask ``service``."""
    tools = Tools(service)
    made = [_tool(getattr(tools, name)) for name in vars(Tools) if not name.startswith("_")]
    return Server("wordbound", instructions=INSTRUCTIONS, version=wordbound.__version__, tools=made, log_level="ERROR")


def _tool(method: Callable[..., Any]) -> Tool:
    """Make the tool of a method; it refuses arguments that the method does not have."""
    hints = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    tool = Tool.from_function(method, description=inspect.getdoc(method), annotations=hints)
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema()
    return tool


async def serve_http(server: Server, listener: socket.socket, hosts: Sequence[str]) -> None:
    """Serve streamable HTTP on a socket, at ``/mcp``, to requests that name one of ``hosts``."""
    allowed = [name for host in hosts for name in (host, f"{host}:*")]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in allowed]
    security = TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=origins)
    # Tools keep nothing between calls, so there are no sessions, which a client that has gone would leave behind.
    app = server.streamable_http_app(transport_security=security, stateless_http=True)
    # Streams that clients keep open do not end by themselves; uvicorn calls their end an error.
    await uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=3)).serve([listener])
