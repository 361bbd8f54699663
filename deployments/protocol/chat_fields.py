"""The fields of a chat request, as tables: what each may hold, which are refused, which do not go with a vocabulary.

OpenAI's fields and those that vLLM adds; a field in none of the tables is unknown. The tables say nothing of what
fields ask of one another, and nothing of what exists: models, lists and tokens.
"""

from collections.abc import Mapping
from typing import Any, Final

from deployments.limits import Limits
from deployments.protocol.decoding_fields import decoding_fields
from deployments.protocol.fields import (
    Check,
    boolean,
    integer,
    json_object,
    list_of,
    logit_bias,
    mapping,
    number,
    one_of,
    stop,
    string,
)
from deployments.protocol.messages import messages
from deployments.protocol.structure import response_format, structured_outputs, tool_choice, tools
from deployments.protocol.vocabulary_fields import vocabulary_fields

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_MAX_NAME_CHARS: Final = 1024

REFUSED: Final = frozenset(
    {
        "add_special_tokens",
        "audio",
        "chat_template",
        "chat_template_kwargs",
        "documents",
        "echo",
        "ec_transfer_params",
        "function_call",
        "functions",
        "kv_transfer_params",
        "media_io_kwargs",
        "mm_processor_kwargs",
        "prediction",
        "prompt_logprobs",
        "return_prompt_text",
        "routed_experts_prompt_start",
        "truncate_prompt_tokens",
        "truncation_side",
        "use_beam_search",
        "verbosity",
        "vllm_xargs",
        "web_search_options",
    }
)
"""Fields that OpenAI or vLLM know and this service does not take, whatever their value."""

REFUSED_PREFIX: Final = "guided_"
"""vLLM's older names for structured outputs, the name of the backend among them."""

COMBINABLE: Final[Mapping[str, tuple[Any, ...]]] = {
    "add_generation_prompt": (True,),
    "allowed_token_ids": (),
    "bad_words": ([],),
    "continue_final_message": (False,),
    "function_call": ("none",),
    "functions": ([],),
    "ignore_eos": (False,),
    "logprob_token_ids": ([],),
    "min_tokens": (0,),
    "repetition_detection": (),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "stop_token_ids": ([],),
    "structured_outputs": (),
    "thinking_token_budget": (),
    "tool_choice": ("none",),
    "tools": ([],),
}
"""Fields that could lead out of a word list or to an answer without an end, and the values besides null that cannot."""


def is_refused(name: str) -> bool:
    return name in REFUSED or name.startswith(REFUSED_PREFIX)


def passed_on(limits: Limits) -> dict[str, Check]:
    """The fields that reach the engine."""
    token_ids = list_of(integer(0, _INT32_MAX), limits.max_token_ids)
    return {
        "add_generation_prompt": boolean,
        "allowed_token_ids": list_of(integer(0, _INT32_MAX), limits.max_token_ids, min_items=1),
        "bad_words": list_of(string(1, limits.max_stop_chars), limits.max_bad_words),
        "continue_final_message": boolean,
        "frequency_penalty": number(-2, 2),
        "ignore_eos": boolean,
        "include_reasoning": boolean,
        "include_stop_str_in_output": boolean,
        "logit_bias": logit_bias(limits.max_logit_bias),
        "logprob_token_ids": token_ids,
        "logprobs": boolean,
        "messages": messages(limits),
        "min_p": number(0, 1),
        "min_tokens": integer(0, limits.max_new_tokens),
        "model": string(1, _MAX_NAME_CHARS),
        "n": integer(1, limits.max_n),
        "parallel_tool_calls": boolean,
        "presence_penalty": number(-2, 2),
        "reasoning_effort": one_of("none", "minimal", "low", "medium", "high", "xhigh", "max"),
        "repetition_detection": mapping(
            max_pattern_size=integer(0, 1000), min_pattern_size=integer(0, 1000), min_count=integer(0, 1000)
        ),
        "repetition_penalty": number(0, 10, low_excluded=True),
        "response_format": response_format(limits),
        "return_token_ids": boolean,
        "return_tokens_as_token_ids": boolean,
        "seed": integer(-_INT64_MAX - 1, _INT64_MAX),
        "skip_special_tokens": boolean,
        "spaces_between_special_tokens": boolean,
        "stop": stop(limits.max_stop, limits.max_stop_chars),
        "stop_token_ids": token_ids,
        "stream": boolean,
        "stream_interval": integer(1, limits.max_new_tokens),
        "stream_options": mapping(include_usage=boolean, continuous_usage_stats=boolean, include_obfuscation=boolean),
        "structured_outputs": structured_outputs(limits),
        "temperature": number(0, 2),
        "thinking_token_budget": integer(-1, _INT32_MAX),
        "tool_choice": tool_choice,
        "tools": tools(limits),
        "top_k": integer(-1, _INT32_MAX),
        "top_logprobs": integer(0, limits.max_top_logprobs),
        "top_p": number(0, 1, low_excluded=True),
    }


def left_out() -> dict[str, Check]:
    """The fields that change no answer: bookkeeping of OpenAI's, and ids that only the server may give."""
    text = string(0, _MAX_NAME_CHARS)
    return {
        "cache_salt": text,
        "metadata": json_object,
        "modalities": list_of(one_of("text"), 1),
        "priority": integer(-_INT64_MAX - 1, _INT64_MAX),
        "prompt_cache_key": text,
        "prompt_cache_retention": text,
        "request_id": text,
        "return_assistant_tokens_mask": boolean,
        "return_token_offsets": boolean,
        "safety_identifier": text,
        "service_tier": text,
        "session_id": text,
        "store": boolean,
        "user": text,
    }


def consumed(limits: Limits) -> dict[str, Check]:
    """The fields that become something else in the checked request."""
    cap = integer(1, limits.max_new_tokens)
    return {
        "max_tokens": cap,
        "max_completion_tokens": cap,
        **vocabulary_fields(limits),
        **decoding_fields(limits),
    }
