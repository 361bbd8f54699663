"""The forms of answers: a chat's, a completion's, tool calls, any with token details; and what is added to all of them.

An answer with a vocabulary is read and trimmed in the form of a chat's (``constrained_answer``), which knows one text
and one list of entries for each choice. Tool calls are made of a text that was read: JSON in listed words.
"""

import json
import re
import time
from typing import Any, Final
from uuid import uuid4

from typing_extensions import override

from deployments.contract import ChatBody, Part
from deployments.replica.engine.engine import parse_event, write_event
from deployments.search.token_details import DetailRecorder

_LOGPROBS: Final = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
"""The members of a completion's ``logprobs``: lists with one entry for each token."""

_CALL: Final = re.compile(r'[\s\[,]*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"parameters"\s*:\s*(?=\S)')
"""The beginning of a call in a list of calls, up to its arguments."""


class ChatForm:
    """Converts a client's answer to the form of a chat's and back; for chats, nothing changes."""

    def to_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Convert the engine's answer, or a chunk of it, to the form of a chat's."""
        return answer

    def from_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Convert a chat's answer, or a chunk of it, to the form that the client gets."""
        return answer


class CompletionForm(ChatForm):
    """Converts one completion's answer to the form of a chat's and back.

    ``from_chat`` takes what ``to_chat`` gave, or a part of it.
    """

    def __init__(self, *, is_stream: bool) -> None:
        self._part = "delta" if is_stream else "message"
        # A stream's first part has them, and is held until its text is known to be whole.
        self._prompt_tokens: dict[int, list[int]] = {}

    @override
    def to_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "choices": [self._choice_to_chat(choice) for choice in answer["choices"]]}

    @override
    def from_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "choices": [self._choice_from_chat(choice) for choice in answer["choices"]]}

    def _choice_to_chat(self, choice: dict[str, Any]) -> dict[str, Any]:
        logprobs = choice.get("logprobs")
        if logprobs is not None:
            rows = zip(*(logprobs[name] for name in _LOGPROBS), strict=True)
            logprobs = {"content": [{"token": row[0], "row": row} for row in rows]}
        if (tokens := choice.get("prompt_token_ids")) is not None:
            self._prompt_tokens[choice["index"]] = tokens
        others = {name: value for name, value in choice.items() if name not in ("text", "prompt_token_ids")}
        return {**others, self._part: {"content": choice["text"]}, "logprobs": logprobs}

    def _choice_from_chat(self, choice: dict[str, Any]) -> dict[str, Any]:
        text = choice[self._part]["content"]
        logprobs = choice["logprobs"]
        if logprobs is not None:
            rows = [entry["row"] for entry in logprobs["content"]]
            logprobs = {name: [row[number] for row in rows] for number, name in enumerate(_LOGPROBS)}
        others = {name: value for name, value in choice.items() if name != self._part}
        made = {**others, "text": text, "logprobs": logprobs}
        if (tokens := self._prompt_tokens.pop(choice["index"], None)) is not None:
            made["prompt_token_ids"] = tokens
        return made


class DetailedForm(ChatForm):
    """Converts a stream as ``form`` does, with ``token_details`` in each choice.

    In between they are entries of logprobs, which are held back and trimmed with their text.
    """

    def __init__(self, form: ChatForm, details: DetailRecorder) -> None:
        self._form = form
        self._details = details

    @override
    def to_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        chat = self._form.to_chat(answer)
        for choice in chat["choices"]:
            has_text = any(value for name, value in choice["delta"].items() if name != "role")
            if has_text or choice.get("finish_reason") is not None:
                found = self._details.take(choice["index"])
                choice["logprobs"] = {"content": [{"bytes": one["bytes"], "token_details": one} for one in found]}
        return chat

    @override
    def from_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        choices = []
        for choice in answer["choices"]:
            entries = (choice.get("logprobs") or {}).get("content") or ()
            details = [entry["token_details"] for entry in entries]
            choices.append({**choice, "logprobs": None, "token_details": details})
        return self._form.from_chat({**answer, "choices": choices})


class ToolCallForm(ChatForm):
    """Converts a chat's answer as ``form`` does, and its text to tool calls.

    ``name`` is of the tool whose arguments the text is; None where it is a list of calls.
    """

    def __init__(self, form: ChatForm, name: str | None, *, is_stream: bool) -> None:
        self._form = form
        self._name = name
        self._part = "delta" if is_stream else "message"
        self._texts: dict[int, _CallText] = {}

    @override
    def to_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        return self._form.to_chat(answer)

    @override
    def from_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        made = self._form.from_chat(answer)
        return {**made, "choices": [self._choice_from_chat(choice) for choice in made["choices"]]}

    def _choice_from_chat(self, choice: dict[str, Any]) -> dict[str, Any]:
        part = {**choice[self._part]}
        calls = self._texts.setdefault(choice["index"], _CallText(self._name)).add(part.pop("content", None) or "")
        if self._part == "message":
            part["tool_calls"] = [{name: value for name, value in call.items() if name != "index"} for call in calls]
        elif calls:
            part["tool_calls"] = calls
        if "role" in part:
            part["content"] = None
        made = {**choice, self._part: part}
        if self._name is None and made.get("finish_reason") == "stop":
            # As vLLM has it: "stop" where the client named the tool.
            made["finish_reason"] = "tool_calls"
        return made


class _CallText:
    """The text of one choice, read as it grows; ``name`` as of ``ToolCallForm``."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._rest = ""
        self._num_calls = 0
        # Within the arguments of a call: how many brackets are open, and whether a string is, and an escape in it.
        self._is_open = False
        self._depth = 0
        self._in_string = False
        self._is_escaped = False

    def add(self, text: str) -> list[dict[str, Any]]:
        """Read the next part of the text; return the parts of calls in it, one for each call."""
        self._rest += text
        calls: dict[int, dict[str, Any]] = {}
        while self._rest:
            if not self._is_open and not self._begin(calls):
                break
            length, index = self._num_of_arguments(), self._num_calls - 1
            if length:
                call = calls.setdefault(index, {"index": index, "function": {"arguments": ""}})
                call["function"]["arguments"] += self._rest[:length]
            # Without the bracket that closes the call in a list.
            self._rest = self._rest[length if self._is_open else length + 1 :]
        return list(calls.values())

    def _begin(self, calls: dict[int, dict[str, Any]]) -> bool:
        """Add the beginning of a call, if the rest of the text has all of it; return whether it has."""
        name = self._name
        if name is None:
            if (begun := _CALL.match(self._rest)) is None:
                return False
            name, self._rest = json.loads(begun[1]), self._rest[begun.end() :]
        function = {"name": name, "arguments": ""}
        called = {"id": f"chatcmpl-tool-{uuid4().hex}", "type": "function", "function": function}
        calls[self._num_calls] = {"index": self._num_calls, **called}
        self._num_calls += 1
        self._is_open, self._depth = True, 0
        return True

    def _num_of_arguments(self) -> int:
        """Return how many characters of the rest are of the open call's arguments; close the call where they end."""
        for number, character in enumerate(self._rest):
            if self._in_string:
                self._in_string = self._is_escaped or character != '"'
                self._is_escaped = character == "\\" and not self._is_escaped
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth < 0:
                    self._is_open = False
                    return number
        return len(self._rest)


def answer_form(body: ChatBody, details: DetailRecorder | None = None) -> ChatForm:
    """Return the converter of answers for a completion or a chat; ``details`` has those of its tokens."""
    form = CompletionForm(is_stream=bool(body.get("stream"))) if "prompt" in body else ChatForm()
    return form if details is None else DetailedForm(form, details)


def with_timing(item: Part, started: float) -> Part:
    """Add how long an answer took to its usage, where the item has it: vLLM's ``metrics``, and the time since its turn.

    ``started`` is of ``time.perf_counter``.
    """
    # A quote inside a text would be escaped.
    answer = item if isinstance(item, dict) else parse_event(item) if '"usage":{' in item else None
    if answer is None:
        return item
    metrics = answer.pop("metrics", None) or {}
    if answer.get("usage") is not None:
        timing = {name: round(value, 3) for name, value in metrics.items() if isinstance(value, int | float)}
        answer["usage"]["timing"] = {**timing, "total_time_ms": round(1000 * (time.perf_counter() - started), 3)}
    return answer if isinstance(item, dict) else write_event(answer)


def with_model(item: Part, name: str) -> Part:
    """Replace the model's name in an item of an answer by the one that the client gave."""
    if isinstance(item, dict):
        return {**item, "model": name} if "model" in item else item
    event = parse_event(item)
    return item if event is None or "model" not in event else write_event({**event, "model": name})
