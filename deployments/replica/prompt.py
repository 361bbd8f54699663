"""A request's prompt: what the chat template makes of messages, the hint added to them, and the tokens of a text.

The hint asks for simple, common words, in the language of the list. A model that means to use simple words has less of
its wishes masked. An adapter is told the size of the list too, as it was in training (``wordbound train``); a model
without one writes worse for it. The line never holds words of the list: a list is long, and what the model makes of
one it was told is not what the mask allows. It holds those few that have to occur.

A conversation that the service may not read whole is shortened: its oldest turns go, and the answer says so. A turn
begins with a message of the user and holds what follows it, calls of tools and their results included, so that what is
left is a conversation that a chat template takes. System messages and the last turn always stay, the longest of them
cut at its end where the settings say so.

The tokens of a text are those that the engine would get: vLLM's own ``/tokenize`` and ``/detokenize``, and its reading
of the prompts of a completion.
"""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from jinja2 import TemplateError, defaults, meta
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from ray.serve.llm.deployment import LLMServer
from vllm.entrypoints.serve.tokenize.protocol import DetokenizeRequest, TokenizeChatRequest, TokenizeCompletionRequest
from vllm.entrypoints.serve.tokenize.serving import ServingTokenization
from vllm.exceptions import VLLMClientError

from deployments.contract import ChatBody, Part
from deployments.errors import EngineError, printable
from deployments.ray_private import serving_chat, serving_completion
from deployments.replica.engine import configuration, engine
from deployments.replica.engine.engine import Request
from deployments.replica.plain_text import PlainText
from deployments.settings.service import Settings
from vocab.lists.tags import RENAMED
from vocab.lists.wordlists import language_of

logger = logging.getLogger("ray.serve")

Messages = list[dict[str, Any]]

_HINTS: Final[dict[str, dict[str, str]]] = json.loads(
    Path(__file__).with_name("hints.json").read_text(encoding="utf-8")
)

SIMPLE_WORDS_HINTS: Final = _HINTS["simple_words"]
"""By language. Serbian has none: its list may be in either script, and a line in the other would mislead."""

MUST_USE_HINTS: Final = _HINTS["must_use"]
"""By language, what stands before the words that have to occur; English elsewhere."""

ENGLISH: Final = SIMPLE_WORDS_HINTS["en"]

_PROBE: Final = "Probe"


def hint_line(lang: str | None, must_use: Sequence[str] = (), *, n_words: int | None = None) -> str:
    """Return the hint: a line that asks for simple words in a list's language, and for required words.

    With ``n_words`` it has the list's size, written as in the names of levels. It is English where the list has no
    language or no line.
    """
    language = language_of(lang or "en")
    language = RENAMED.get(language, language)
    line = SIMPLE_WORDS_HINTS.get(language, ENGLISH)
    if n_words is not None:
        line += f" (top-{n_words})"
    if must_use:
        line += f" {MUST_USE_HINTS.get(language, MUST_USE_HINTS['en'])} {', '.join(must_use)}."
    return line


def takes_system_messages(tokenizer: Any, chat_template: str | None) -> bool:
    """Return whether a chat template shows the model a system message: some raise an error (Gemma 2), some drop it.

    ``chat_template`` replaces the tokenizer's own; None for that.
    """
    messages = [{"role": "system", "content": _PROBE}, {"role": "user", "content": "Hello"}]
    try:
        return _PROBE in tokenizer.apply_chat_template(messages, chat_template=chat_template, tokenize=False)
    except Exception:
        # Templates are programs of strangers and raise whatever they like; the request itself will show what is wrong.
        return False


def with_line(messages: Messages, line: str, *, takes_system: bool) -> Messages:
    """Return the messages with the line at the end of a leading system message, or in one of its own.

    Where the template takes none, and the client sent none, it stands before the user's first text.
    """
    first = messages[0]
    if first["role"] in ("system", "developer"):
        return [{**first, "content": _join(first["content"], line)}, *messages[1:]]
    if takes_system:
        return [{"role": "system", "content": line}, *messages]
    for index, message in enumerate(messages):
        if message["role"] == "user":
            hinted = {**message, "content": _join(line, message["content"], between="\n\n")}
            return [*messages[:index], hinted, *messages[index + 1 :]]
    return messages


def _join(first: Any, second: Any, between: str = "\n") -> str:
    return between.join(text for text in map(text_of, (first, second)) if text)


def text_of(content: Any) -> str:
    """Return the text of a message's content, its parts as lines."""
    return "\n".join(part["text"] for part in content) if isinstance(content, list) else content or ""


_STANDARD: Final = frozenset(
    {
        *("add_generation_prompt", "continue_final_message", "documents", "messages", "tools"),
        *("chat_template", "raise_exception", "reasoning_effort", "strftime_now", "tokenize"),
        *defaults.DEFAULT_NAMESPACE,
    }
)
"""Given by transformers, vLLM or Jinja, or by a field of its own. Special tokens come on top, by their names."""

_GENERATION_TAG: Final = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
"""A tag that only transformers knows."""


def template_switches(tokenizer: Any, chat_template: str | None) -> frozenset[str]:
    """Return the variables of a chat template that clients may set, such as ``enable_thinking``.

    ``chat_template`` replaces the tokenizer's own; None for that.
    """
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    try:
        text = tokenizer.get_chat_template(chat_template)
        read = meta.find_undeclared_variables(environment.parse(_GENERATION_TAG.sub("", text)))
    except (ValueError, TemplateError) as error:
        logger.warning("the switches of the chat template are not known: %s", error)
        return frozenset()
    return frozenset(read) - _STANDARD - frozenset(tokenizer.SPECIAL_TOKENS_ATTRIBUTES)


_PROMPT_FIELDS: Final = frozenset({"messages", "tools", "chat_template_kwargs"})
"""Their strings may become part of the prompt."""


@dataclass(frozen=True)
class Prompts:
    """Prepares a client's messages for the model's tokenizer and chat template.

    ``switches`` are the names that ``chat_template_kwargs`` may have.
    """

    tokenizer: Any
    plain: PlainText
    has_chat_template: bool
    takes_system: bool
    switches: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tokenizer: Any, settings: Settings) -> Self:
        """Find out what the model's chat template takes, by trying it; takes some milliseconds."""
        template = configuration.chat_template(settings)
        return cls(
            tokenizer,
            PlainText(tokenizer),
            bool(tokenizer.chat_template or settings.engine_kwargs.get("chat_template")),
            takes_system_messages(tokenizer, template),
            template_switches(tokenizer, template),
        )

    def check_switches(self, body: ChatBody) -> None:
        """Refuse variables that the template does not read: vLLM would drop them, and some are not the client's.

        Raises:
            EngineError: With status 400; it names those that it reads.
        """
        for name in body.get("chat_template_kwargs", {}):
            if name not in self.switches:
                known = ", ".join(sorted(self.switches)) or "none"
                raise EngineError(
                    400,
                    f"'chat_template_kwargs' has no '{printable(name)}': the switches of this model's chat template "
                    f"are {known}.",
                    param="chat_template_kwargs",
                )

    def neutralize_special_tokens(self, body: ChatBody) -> ChatBody:
        """Return the body with special tokens in its texts made ordinary text."""
        return {key: self.plain.of_json(value) if key in _PROMPT_FIELDS else value for key, value in body.items()}


OVERFLOW_FIELD = "input_overflow"
"""Of an answer to such a conversation: of a whole one, and of the first chunk of a stream."""


async def drop_oldest_turns(messages: Messages, fits: Callable[[Messages], Awaitable[bool]]) -> Messages | None:
    """Drop as few of the oldest turns as make a conversation fit; None where even the last turn does not.

    ``fits`` is asked about eleven times for a thousand turns.
    """
    turns = _turns(messages)
    fewest, most = 1, len(turns) - 1
    if most < 1 or not await fits(_without(messages, turns[:most])):
        return None
    while fewest < most:
        middle = (fewest + most) // 2
        if await fits(_without(messages, turns[:middle])):
            most = middle
        else:
            fewest = middle + 1
    return _without(messages, turns[:most])


async def truncate_text(messages: Messages, fits: Callable[[Messages], Awaitable[bool]]) -> tuple[Messages | None, int]:
    """Drop all turns but the last, and cut as little as makes it fit from the end of the longest text that is left.

    Return the messages, None where that is not enough, and how many characters were cut. The answer that a request
    continues is not cut. ``fits`` is asked about twenty times for a million characters.
    """
    left = _without(messages, _turns(messages)[:-1])
    texts = {number: text_of(one["content"]) for number, one in enumerate(left) if one["role"] != "assistant"}
    number = max(texts, key=lambda one: len(texts[one]), default=0)
    text = texts.get(number, "")

    def cut(length: int) -> Messages:
        return [*left[:number], {**left[number], "content": text[:length]}, *left[number + 1 :]]

    shortest, longest = 1, len(text) - 1
    if longest < shortest or not await fits(cut(shortest)):
        return None, 0
    while shortest < longest:
        middle = (shortest + longest + 1) // 2
        if await fits(cut(middle)):
            shortest = middle
        else:
            longest = middle - 1
    return cut(shortest), len(text) - shortest


def annotate(item: Part, dropped: Mapping[str, int]) -> Part:
    """Add to the first item of an answer what was left out of its conversation."""
    return engine.changed(item, lambda answer: {**answer, OVERFLOW_FIELD: dict(dropped)})


def _turns(messages: Messages) -> list[list[int]]:
    """Group the numbers of the messages by turn; those of system messages are in none."""
    turns: list[list[int]] = []
    for number, message in enumerate(messages):
        if message["role"] in ("system", "developer"):
            continue
        if message["role"] == "user" or not turns:
            turns.append([])
        turns[-1].append(number)
    return turns


def _without(messages: Messages, turns: list[list[int]]) -> Messages:
    dropped = {number for turn in turns for number in turn}
    return [message for number, message in enumerate(messages) if number not in dropped]


def tokenization_of(server: LLMServer) -> ServingTokenization:
    """Return vLLM's ``/tokenize`` and ``/detokenize``, which Ray 2.60 does not have of vLLM 0.29."""
    chats = serving_chat(server)
    renderer = chats.online_renderer
    return ServingTokenization(
        chats.models,
        renderer,
        chat_template=renderer.chat_template,
        chat_template_content_format=renderer.chat_template_content_format,
        default_chat_template_kwargs=renderer.default_chat_template_kwargs,
    )


async def convert_tokens(serving: ServingTokenization, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a body with a ``prompt`` or ``messages``, or the text of one with ``tokens``, as vLLM does.

    Raises:
        EngineError: The engine does not take the request.
    """
    try:
        if "tokens" in body:
            num_known = int(serving.model_config.get_vocab_size())
            if any(token >= num_known for token in body["tokens"]):
                # The tokenizer would leave them out.
                raise EngineError(400, f"'tokens' must be token ids of this model, below {num_known}.", param="tokens")
            made = await serving.create_detokenize(DetokenizeRequest(**body), None)
        else:
            kind = TokenizeChatRequest if "messages" in body else TokenizeCompletionRequest
            made = await serving.create_tokenize(kind(**body), None)
    except (ValueError, VLLMClientError) as error:
        made = serving.create_error_response(error)
    if hasattr(made, "error"):
        raise engine.refusal(made.error.model_dump())
    return dict(made.model_dump(mode="json"))


async def completion_tokens(server: LLMServer, request: Request) -> list[list[int]]:
    """Tokenize the prompts of a completion as the engine would; return the tokens of each.

    Raises:
        EngineError: A prompt is too long, or the engine does not take it.
    """
    serving = serving_completion(server)
    with engine.refusals(serving, request):
        # vLLM has no public way to have a prompt read and not answered.
        read = await serving.online_renderer.render_completion(request)
    return [list(prompt["prompt_token_ids"]) for prompt in engine.checked(read, request)]
