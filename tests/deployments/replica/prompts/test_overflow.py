"""Conversations that are too long, with ``input_overflow: truncate``: which turns go, and how the answer says so."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.exceptions import VLLMValidationError

from deployments.contract import Caller, Decoding, ResolvedVocabulary, TextRequest
from deployments.replica.prompts.chat_template import drop_oldest_turns
from tests.deployments.replica.answers import test_chat_answerer
from tests.deployments.replica.answers.test_chat_answerer import DONE, ScriptedReplica, event, whole

tokenizer = test_chat_answerer.tokenizer
vocabulary = test_chat_answerer.vocabulary

SYSTEM = {"role": "system", "content": "S" * 10}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def tool(text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text}


TALK = [SYSTEM, user("one"), assistant("two"), user("three"), tool("four"), assistant("five"), user("six")]


def num_chars(messages: Any) -> int:
    return sum(len(message["content"]) for message in messages)


@pytest.mark.parametrize(
    ("most", "left"),
    [
        (num_chars(TALK) - 1, [0, 3, 4, 5, 6]),
        (num_chars(TALK) - 6, [0, 3, 4, 5, 6]),
        (num_chars(TALK) - 7, [0, 6]),
        (13, [0, 6]),
        (12, None),
    ],
)
async def test_as_few_of_the_oldest_turns_go_as_make_it_fit(most: int, left: list[int] | None) -> None:
    async def fits(messages: Any) -> bool:
        return num_chars(messages) <= most

    assert await drop_oldest_turns(TALK, fits) == (None if left is None else [TALK[number] for number in left])


async def test_system_messages_stay_wherever_they_are_and_so_does_what_follows_the_last_question() -> None:
    async def always(messages: Any) -> bool:
        return True

    talk = [assistant("hello"), user("one"), SYSTEM, assistant("two"), user("three"), tool("four")]
    assert await drop_oldest_turns(talk, always) == talk[1:]
    assert await drop_oldest_turns([SYSTEM, user("one"), tool("two"), assistant("three")], always) is None
    assert await drop_oldest_turns([assistant("hello")], always) is None


async def test_a_thousand_turns_are_looked_at_few_times() -> None:
    talk = [SYSTEM, *(user(str(number)) for number in range(999))]
    asked = []

    async def fits(messages: Any) -> bool:
        asked.append(len(messages))
        return len(messages) <= 100

    assert await drop_oldest_turns(talk, fits) == [SYSTEM, *talk[-99:]]
    assert len(asked) <= 11


class ShortReplica(ScriptedReplica):
    """One whose engine reads prompts of so many characters at most, and renders them as vLLM does."""

    most = 40

    def __init__(self, folder: Path, tokenizer: Any, script: Any, **args: Any) -> None:
        super().__init__(folder, tokenizer, script, **args)
        self.engine._oai_serving_chat.online_renderer = SimpleNamespace(render_chat=self._render)

    async def _render(self, request: Any) -> Any:
        if num_chars(request.messages) > self.most:
            raise VLLMValidationError("too long", parameter="input_tokens")

    async def chat(self, request: Any, raw_request_info: Any = None) -> Any:
        if num_chars(request.messages) <= self.most:
            return await super().chat(request)

        async def refused() -> Any:
            error = {"message": "too long", "code": 400, "param": "input_tokens"}
            yield SimpleNamespace(error=SimpleNamespace(model_dump=lambda: error))

        return refused()


LONG = [SYSTEM, user("o" * 20), assistant("t" * 20), user("t" * 20)]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_says_how_many_messages_it_left_out(tmp_path: Path, tokenizer: Any, stream: bool) -> None:
    script = [[event("any"), event("thing", "stop"), DONE]] if stream else [whole("anything")]
    replica = ShortReplica(tmp_path, tokenizer, script, input_overflow="truncate")
    answer = await replica.items(stream=stream, messages=LONG)
    assert [message["content"] for message in replica.request.messages] == [SYSTEM["content"], LONG[-1]["content"]]
    result = [json.loads(item.removeprefix("data:")) for item in answer[:-1]] if stream else answer
    assert result[0]["input_overflow"] == {"dropped_messages": 2}
    assert all("input_overflow" not in item for item in result[1:])
    [short] = await ShortReplica(tmp_path, tokenizer, [whole("x")], input_overflow="truncate").items(messages=LONG[3:])
    assert "input_overflow" not in short


async def test_what_cannot_be_shortened_is_the_error_of_before(tmp_path: Path, tokenizer: Any) -> None:
    too_long = [SYSTEM, user("short"), user("x" * 31)]
    for policy, messages in (("truncate", too_long), ("error", LONG)):
        [answer] = await ShortReplica(tmp_path, tokenizer, [], input_overflow=policy).items(messages=messages)
        assert (answer.status, answer.code, answer.param) == (400, "context_length_exceeded", "messages")


async def test_the_hint_counts_and_stays(tmp_path: Path, tokenizer: Any, vocabulary: ResolvedVocabulary) -> None:
    replica = ShortReplica(tmp_path, tokenizer, [whole("The cat sat.")], input_overflow="truncate")
    replica.most = 120
    body = {"model": "m", "max_tokens": 9, "messages": [user("o" * 60), assistant("t" * 20), user("three")]}
    decoding = Decoding(hint=True, no_repeat_ngram_size=0)
    result = replica._answerer.answer(TextRequest(body, vocabulary, decoding, Caller("alice", "req-1")))
    answers: list[Any] = [item async for item in result]
    [answer] = answers
    assert [message["role"] for message in replica.request.messages] == ["system", "user"]
    assert answer["input_overflow"] == {"dropped_messages": 2}
    assert answer["vocab"]["num_words"] == 3


async def test_a_text_of_a_stream_that_looks_like_the_field_is_left_alone(tmp_path: Path, tokenizer: Any) -> None:
    events = [event('"input_overflow": 1'), event("", "stop"), DONE]
    assert await ShortReplica(tmp_path, tokenizer, [events]).items(stream=True) == events
