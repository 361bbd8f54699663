"""The forms of answers: a chat's, a completion's, either with token details; and what is added to any of them.

An answer with a vocabulary is read and trimmed in the form of a chat's (``constrained_answer``), which knows one text
and one list of entries for each choice.
"""

import time
from typing import Any, Final

from typing_extensions import override

from deployments.contract import ChatBody, Part
from deployments.replica.engine.engine import parse_event, write_event
from deployments.search.token_details import DetailRecorder

_LOGPROBS: Final = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
"""The members of a completion's ``logprobs``: lists with one entry for each token."""


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
        """Convert a completion's choice to a chat's, with its text as a message or delta."""
        logprobs = choice.get("logprobs")
        if logprobs is not None:
            rows = zip(*(logprobs[name] for name in _LOGPROBS), strict=True)
            logprobs = {"content": [{"token": row[0], "row": row} for row in rows]}
        if (tokens := choice.get("prompt_token_ids")) is not None:
            self._prompt_tokens[choice["index"]] = tokens
        others = {name: value for name, value in choice.items() if name not in ("text", "prompt_token_ids")}
        return {**others, self._part: {"content": choice["text"]}, "logprobs": logprobs}

    def _choice_from_chat(self, choice: dict[str, Any]) -> dict[str, Any]:
        """Convert a choice back to a completion's: text, logprobs as lists, prompt tokens."""
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
