"""``/generate``: its request as a chat, a chat's answer as its own, and the way through the front."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from deployments.contract import Answer
from deployments.errors import EngineError
from deployments.protocol.decoding import DEFAULT_SAMPLING
from deployments.protocol.generate import read_generate, reshape_answer
from deployments.protocol.reader import ChatRequest
from tests.deployments.front import LIMITS, MODEL, Front, assert_error, chat_body
from tests.deployments.protocol.readers import READER
from tests.deployments.stand_in import FEWEST_TOKENS, WORDS

PROMPT = "Tell me a story."
VOCABULARY: dict[str, Any] = {"vocab_lang": "en", "vocab_n_words": 1000}
DONE = "data: [DONE]\n\n"


def read(**fields: Any) -> ChatRequest:
    return read_generate({"prompt": PROMPT, **fields}, chats=READER)


def test_a_prompt_is_a_chat_of_one_message() -> None:
    sampling = {"temperature": 0.5, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.1, "presence_penalty": 0.3}
    assert read(max_new_tokens=7, **sampling).body == chat_body(PROMPT, max_tokens=7, **sampling)
    assert read(model=MODEL, temperature=None).body == chat_body(PROMPT, max_tokens=LIMITS.max_new_tokens)
    streamed = read(stream=True).body
    assert (streamed["stream"], streamed["stream_options"]) == (True, {"include_usage": True})


def test_a_vocabulary_is_named_as_in_a_chat() -> None:
    flat, whole = read(**VOCABULARY), read(vocab={"lang": "en", "n_words": 1000})
    assert flat.vocabulary == whole.vocabulary is not None
    assert (flat.list_param, whole.list_param) == ("vocab_lang", "vocab.lang")
    assert flat.body == chat_body(PROMPT, max_tokens=LIMITS.max_new_tokens, **DEFAULT_SAMPLING)


def chunk(text: str, **members: Any) -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": members.pop("finish_reason", None)}
    return f"data: {json.dumps({'choices': [choice], **members})}\n\n"


async def items(*answer: Answer) -> list[Any]:
    async def given() -> AsyncGenerator[Answer]:
        for item in answer:
            yield item

    return [item async for item in reshape_answer(given())]


async def test_the_last_event_of_a_stream_has_all_that_a_whole_answer_has() -> None:
    usage = {"choices": [], "usage": {"completion_tokens": 4}, "vocab": {"num_words": 2}}
    first = chunk("", input_overflow={"dropped_messages": 2})
    result = await items(
        first, chunk("One "), chunk("two.", finish_reason="stop"), f"data: {json.dumps(usage)}\n\n", DONE
    )
    end = {
        "generated_text": "One two.",
        "token_count": 4,
        "finish_reason": "stop",
        "input_overflow": {"dropped_messages": 2},
        "vocab": {"num_words": 2},
    }
    assert result[-1] == DONE
    events = [json.loads(item.removeprefix("data:")) for item in result[:-1]]
    assert events == [{"text": "One "}, {"text": "two."}, {"text": "", **end}]
    message = {"index": 0, "message": {"content": "One two."}, "finish_reason": "stop"}
    whole = {**usage, "choices": [message], "input_overflow": {"dropped_messages": 2}, "id": "chatcmpl-1"}
    assert await items(whole) == [end]


async def test_the_engines_refusal_is_told_in_the_names_of_this_route() -> None:
    for before in ((), (chunk("One "),)):
        error = EngineError(400, "The prompt is longer than 9 tokens: shorten the messages.", param="messages")
        [*_, told] = await items(*before, error)
        assert (told.message, told.param) == ("The prompt is longer than 9 tokens: shorten it.", "prompt")


async def test_an_answer_that_nobody_reads_any_more_is_closed() -> None:
    closed = asyncio.Event()

    async def given() -> AsyncGenerator[Answer]:
        try:
            yield chunk("One ")
            yield chunk("two.")
        finally:
            closed.set()

    answer = reshape_answer(given())
    assert "One " in str(await anext(answer))
    await answer.aclose()
    assert closed.is_set()


def ask(front: Front, prompt: Any = PROMPT, **fields: Any) -> Any:
    return front.post("/generate", {"prompt": prompt, **fields})


def test_a_prompt_is_answered_whole_and_as_a_stream(front: Front) -> None:
    text, answer, streamed = "".join(WORDS), ask(front, max_new_tokens=9), ask(front, stream=True)
    assert answer.json() == {"generated_text": text, "token_count": 3, "finish_reason": None}
    assert answer.headers["x-request-id"].startswith("req-")
    assert streamed.headers["content-type"].startswith("text/event-stream")
    *events, done = [line.removeprefix("data: ") for line in streamed.text.split("\n\n") if line]
    assert done == "[DONE]"
    assert "".join(json.loads(event)["text"] for event in events) == text
    assert json.loads(events[-1]).items() >= {"generated_text": text, "token_count": 3}.items()
    assert [call.body["messages"][0]["content"] for call in front.backend.calls] == [PROMPT] * 2
    assert all(call.is_closed for call in front.backend.calls)


def test_errors_of_the_front_and_of_the_graph_have_the_names_of_this_route(front: Front) -> None:
    error = assert_error(ask(front, max_new_tokens=FEWEST_TOKENS - 1, **VOCABULARY), 400, param="max_new_tokens")
    assert error["message"].startswith("'max_new_tokens' must be at least")
    assert_error(ask(front, "please refuse"), 400, code="context_length_exceeded")
    broken = ask(front, "please fail later", stream=True)
    assert broken.text.count("data: ") == len(WORDS[:1]) + 1
    assert "internal_error" in broken.text
