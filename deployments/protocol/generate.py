"""``POST /generate``, as servers built on transformers have it: a prompt, answered as a chat of one message.

Only the shape is its own. The request becomes a chat request, which is checked, counted and answered as any other,
with the model's chat template; its answer and its errors come back under the names of this route.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field

from deployments.contract import Answer
from deployments.errors import ApiError, BadRequestError
from deployments.protocol.generation import (
    NumTokens,
    Penalty,
    Probability,
    RepetitionPenalty,
    Seed,
    Temperature,
    TopK,
)
from deployments.protocol.reader import ChatRequest, ChatRequestReader
from deployments.protocol.validation import NamesModel, expected_error, validate
from deployments.protocol.vocabulary import VocabularyFields

_DONE: Final = "[DONE]"

_NAMES: Final = {"messages": "prompt", "max_tokens": "max_new_tokens"}
"""Fields of a chat, and what they are called here."""


_PROMPT: Final = "a text that is not blank"


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise expected_error(_PROMPT)
    return text


class GenerateRequest(VocabularyFields, NamesModel):
    """A prompt. It is put to the model as a user's message, in the model's chat template."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "prompt": "Tell me a story about a dog.",
                "max_new_tokens": 100,
                "vocab_lang": "en",
                "vocab_n_words": 1000,
            }
        }
    )

    prompt: Annotated[str, Field(json_schema_extra={"x-expected": _PROMPT}), AfterValidator(_check_not_blank)]
    max_new_tokens: NumTokens | None = None
    """How long the answer may be; by default as long as the service allows."""
    temperature: Temperature | None = None
    top_k: TopK | None = None
    """-1 and 0 for all tokens."""
    top_p: Probability | None = None
    repetition_penalty: RepetitionPenalty | None = None
    presence_penalty: Penalty | None = None
    seed: Seed | None = None
    stream: bool | None = None
    """Answer by server-sent events."""


def read_generate(body: Any, *, chats: ChatRequestReader) -> ChatRequest:
    """Check the parsed body of a request to ``/generate``, and return the chat request that stands for it.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    if not isinstance(body, dict):
        raise BadRequestError("The body must be a JSON object.")
    given = {name: value for name, value in body.items() if value is not None}
    given = chats.compatible.fill_in(given, chats.limits, "max_new_tokens")
    prompt = validate(GenerateRequest, given, chats.limits).prompt
    chat = {name: value for name, value in given.items() if name not in ("prompt", "max_new_tokens")}
    chat["messages"] = [{"role": "user", "content": prompt}]
    if "max_new_tokens" in given:
        chat["max_tokens"] = given["max_new_tokens"]
    if chat.get("stream"):
        chat["stream_options"] = {"include_usage": True}
    try:
        return chats.read(chat)
    except ApiError as error:
        rename(error)
        raise


def rename(error: ApiError) -> None:
    """Rename a chat's fields in an error to those of ``/generate``, in place."""
    for name, here in _NAMES.items():
        error.message = error.message.replace(f"'{name}'", f"'{here}'")
    error.message = error.message.replace("shorten the messages", "shorten it")
    error.param = _NAMES.get(error.param or "", error.param)


async def reshape_answer(answer: AsyncGenerator[Answer], begun: str = "") -> AsyncGenerator[Answer]:
    """Convert the answer to a chat into the form of ``/generate``; the whole text begins with ``begun``.

    A whole answer is ``{"generated_text", "token_count", "finish_reason"}``, with ``vocab`` and ``input_overflow``
    where a chat has them. An event of a stream is ``{"text"}``, a part of it; the last one before ``[DONE]`` has all
    the members of a whole answer.
    """
    end: dict[str, Any] = {"generated_text": begun, "token_count": 0, "finish_reason": None}
    async with aclosing(answer):
        async for item in answer:
            if isinstance(item, ApiError):
                rename(item)
                yield item
            elif isinstance(item, dict):
                _add_chunk(end, item, "message")
                yield end
            elif (data := item.removeprefix("data:").strip()) == _DONE:
                yield _event({"text": "", **end})
                yield item
            elif part := _add_chunk(end, json.loads(data), "delta"):
                yield _event({"text": part})


def _add_chunk(end: dict[str, Any], item: dict[str, Any], name: str) -> str:
    """Add a chat's answer, or a chunk of one, to the final object ``end``; return its text."""
    text = ""
    for choice in item["choices"]:
        text = choice[name].get("content") or ""
        end["finish_reason"] = choice.get("finish_reason") or end["finish_reason"]
    end["generated_text"] += text
    if usage := item.get("usage"):
        end["token_count"] = usage["completion_tokens"]
    end.update({member: item[member] for member in ("vocab", "input_overflow") if item.get(member)})
    return text


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"
