"""Chats and completions as a test words them, and tables of what a reader takes and refuses."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pytest

from deployments.errors import ApiError
from deployments.protocol.reader import ChatRequest, ChatRequestReader, CompletionRequestReader, ServedModel
from tests.deployments.front import LIMITS, MODEL, SERVED, chat_body, completion_body

READER = ChatRequestReader(SERVED)
COMPLETIONS = CompletionRequestReader(SERVED, hint=False)

TOKEN_IDS = [1, 2, 3]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
BEGUN = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Once upon a time"}]

PREFILL: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False, "messages": BEGUN}

CANARY = "canary"
"""In a value that is refused: no message repeats it."""

Fault: TypeAlias = tuple[dict[str, Any], str, str]
"""The fields of a request, the ``param`` of its refusal, and a part of the message. A ``param`` that ends with "…" is
the beginning of one."""


def limited(**limits: Any) -> ServedModel:
    """The model of a service that has other limits."""
    return ServedModel(MODEL, LIMITS.model_copy(update=limits))


def read_chat(**fields: Any) -> ChatRequest:
    return READER.read(chat_body(**fields))


def read_completion(prompt: Any = "Once upon a time, ", **fields: Any) -> ChatRequest:
    return COMPLETIONS.read(completion_body(prompt, **fields))


def refusal(read: Callable[..., Any] = read_chat, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(**fields)
    assert len(caught.value.to_json()) <= 4096
    return caught.value


def refused_otherwise(faults: Iterable[Fault], read: Callable[..., Any] = read_chat, *, status: int = 400) -> list[str]:
    """Those that are taken, or refused with another status, another ``param`` or another message."""
    others = []
    for fields, param, part in faults:
        try:
            read(**fields)
        except ApiError as error:
            found = error.param or ""
            is_it = found.startswith(param[:-1]) if param.endswith("…") else found == param
            is_short = len(error.to_json()) <= 4096
            is_repeated = CANARY in error.message and "Unknown" not in error.message
            if not (is_it and error.status == status and is_short and part in error.message) or is_repeated:
                others.append(f"{str(fields)[:200]}: {error.status}, {found}: {error.message[:200]}")
        else:
            others.append(f"{str(fields)[:200]}: taken")
    return others


def not_taken(requests: Iterable[dict[str, Any]], read: Callable[..., Any] = read_chat) -> list[str]:
    """Those that are refused."""
    refused = []
    for fields in requests:
        try:
            read(**fields)
        except ApiError as error:
            refused.append(f"{str(fields)[:200]}: {error.message[:200]}")
    return refused


def each(values: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    """Each field with each of its values."""
    return [(name, value) for name, several in values.items() for value in several]


def values(part: str = "", inside: str = "", **of_fields: list[Any]) -> list[Fault]:
    """Each value of each field; where the fault is not the field's own, ``inside`` is its place in it."""
    return [({name: value}, name + inside, part) for name, value in each(of_fields)]


def says(sentence: str, **fields: Any) -> list[Fault]:
    """A fault whose message begins with the name of the field."""
    return [(fields, sentence.split("'")[1], sentence)]


def members(part: str = "must be", **of_members: list[Any]) -> list[Fault]:
    """Each value of each member of a vocabulary."""
    return [({"vocab": {"lang": "es", name: value}}, f"vocab.{name}", part) for name, value in each(of_members)]


def vocabularies(*rows: tuple[dict[str, Any], str, str], **more: Any) -> list[Fault]:
    """Faults of a vocabulary, each named by its member."""
    return [({"vocab": {**more, **vocab}}, f"vocab.{param}", part) for vocab, param, part in rows]


GOOD = each(
    {
        "temperature": [0.0, 2.0],
        "top_p": [1.0, 0.01],
        "min_p": [0.0, 0.1],
        "top_k": [-1, 0, 50],
        "frequency_penalty": [-2.0],
        "presence_penalty": [2.0],
        "repetition_penalty": [1.1],
        "seed": [-(2**63), 2**63 - 1],
        "n": [8],
        "stop": [[], ["a", "b", "c", "d"]],
        "stream": [True],
        "logprobs": [True],
        "logit_bias": [{"17": -100.0, "0": 100.0}],
        "min_tokens": [5],
        "stop_token_ids": [TOKEN_IDS],
        "allowed_token_ids": [TOKEN_IDS],
        "logprob_token_ids": [TOKEN_IDS],
        "bad_words": [["bad"]],
        "ignore_eos": [True],
        "skip_special_tokens": [False],
        "spaces_between_special_tokens": [False],
        "include_stop_str_in_output": [True],
        "add_generation_prompt": [False],
        "continue_final_message": [True],
        "chat_template_kwargs": [{"enable_thinking": False, "depth": 3, "style": "short"}],
        "include_reasoning": [False],
        "reasoning_effort": ["low"],
        "thinking_token_budget": [10],
        "parallel_tool_calls": [False],
        "return_token_ids": [True],
        "return_tokens_as_token_ids": [True],
        "repetition_detection": [{"max_pattern_size": 8, "min_count": 3}],
        "stream_interval": [4],
        "response_format": [
            {"type": "text"},
            {"type": "json_object"},
            {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
        ],
        "structured_outputs": [
            {"json": {"type": "object"}},
            {"choice": ["yes", "no"]},
            {"regex": "(yes|no)"},
            {"grammar": 'start: "yes"'},
            {"json_object": True},
        ],
        "tools": [[TOOL]],
    }
)
"""Fields of a chat that the engine knows."""
