"""The body of a completion, whose text goes on where the prompt ends: OpenAI's fields, those that vLLM adds, this
service's own, and those that are refused."""

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Discriminator, Field, Tag

from deployments.protocol.generation.chat import (
    GenerationRequest,
    NumTokens,
    SamplingFields,
    Text,
    TokenId,
    is_old_name,
)
from deployments.protocol.validation import INT64_MAX, AtMost, Body

_REFUSED: Final = (
    "ec_transfer_params kv_transfer_params prompt_embeds prompt_logprobs routed_experts_prompt_start suffix "
    "thinking_token_budget truncate_prompt_tokens truncation_side use_beam_search vllm_xargs"
)
UNSUPPORTED_FIELDS: Final = frozenset(_REFUSED.split())
"""Fields of OpenAI or vLLM that this service does not take, whatever their value."""

MAX_TOKENS: Final = 16
"""Of a completion that names no number, as OpenAI and vLLM have it."""


def is_refused(name: str) -> bool:
    """Return whether a completion may not have this field of OpenAI or vLLM."""
    return name in UNSUPPORTED_FIELDS or is_old_name(name)


def _kind_of_prompt(value: Any) -> str:
    """Return the union tag of a prompt: a text or tokens, one or several of them."""
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, str):
        return "texts"
    if isinstance(first, list):
        return "lists of tokens"
    return "tokens" if isinstance(value, list) else "a text"


PromptText = Annotated[str, Field(min_length=1)]
PromptTokens = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]
Prompt = Annotated[
    Annotated[PromptText, Tag("a text")]
    | Annotated[PromptTokens, Tag("tokens")]
    | Annotated[list[PromptText], Field(fail_fast=True), Tag("texts")]
    | Annotated[list[PromptTokens], Field(fail_fast=True), Tag("lists of tokens")],
    Discriminator(_kind_of_prompt),
    Field(
        json_schema_extra={
            "x-expected": "a text, a list of token ids, or a list of several texts or of several such lists, none of "
            "them empty"
        }
    ),
]


class CompletionFields(SamplingFields):
    """The fields of a completion that reach the engine."""

    prompt: Prompt
    """One text, or its tokens; or several prompts, which are answered together."""
    echo: bool | None = None
    """The answer begins with the prompt."""
    logprobs: Annotated[int, Field(ge=0), AtMost("max_top_logprobs")] | None = None
    """How many of the likeliest tokens the answer names at each place, besides its own."""
    add_special_tokens: bool | None = None
    """Whether a text gets the tokens that the tokenizer puts before any text, as by default."""


class CompletionMetadataFields(Body):
    """Fields that change no answer and go no further: OpenAI's bookkeeping, and ids that only the server may give."""

    cache_salt: Text | None = None
    priority: Annotated[int, Field(ge=-INT64_MAX - 1, le=INT64_MAX)] | None = None
    request_id: Text | None = None
    return_token_offsets: bool | None = None
    session_id: Text | None = None
    user: Text | None = None


class CompletionRequest(GenerationRequest, CompletionMetadataFields, CompletionFields):
    """A completion. A field that is null is the same as one that is missing; an unknown field is an error."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "model": "the name that GET /v1/models lists",
                "prompt": "Once upon a time, there was a dog. ",
                "max_tokens": 60,
                "vocab": {"lang": "en", "n_words": 1000},
            }
        }
    )

    max_tokens: NumTokens | None = None
    """How long the completion may be; by default 16."""
