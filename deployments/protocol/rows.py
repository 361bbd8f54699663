"""The bodies of ``/v1/logprobs`` and ``/v1/token_logprobs``: what the model says of the token after a prompt.

These are the model's own probabilities, before any list, so that a request has no vocabulary.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, Tag

from deployments.errors import BadRequestError
from deployments.protocol.adapters import NO_ADAPTERS, AdapterNames
from deployments.protocol.generation.chat import TokenId
from deployments.protocol.generation.completion import Prompt, PromptText, PromptTokens
from deployments.protocol.validation import INT32_MAX, AtMost, Body, ModelName, by_kind, validate
from deployments.settings.limits import MAX_ROWS, Limits

DTYPES: Final = ("float32", "float16")


class LogprobsRequest(Body):
    """Asks for the log-probability of every token of the model after each prompt."""

    model: ModelName | None = None
    """The model that is served, or one of its adapters; by default the model."""
    prompt: Prompt
    """One text, or its tokens; or several prompts."""
    dtype: Literal["float32", "float16"] | None = None
    """Of the numbers in the answer, by default float32."""
    top_logprobs: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """The answer is JSON and has so many of the likeliest tokens of each prompt, instead of all."""
    add_special_tokens: bool | None = None
    """Whether a text gets the tokens that the tokenizer puts before any text, as by default."""


class TokenLogprobsRequest(Body):
    """Asks for the log-probability of each of some tokens, after the prompt and the tokens before it."""

    model: ModelName | None = None
    """The model that is served, or one of its adapters; by default the model."""
    prompt: Annotated[
        Annotated[PromptText, Tag("a scalar")] | Annotated[PromptTokens, Tag("a list")],
        by_kind,
        Field(json_schema_extra={"x-expected": "a text or a list of token ids, not empty"}),
    ]
    """One text, or its tokens."""
    token_ids: Annotated[list[TokenId], Field(min_length=1, fail_fast=True), AtMost("max_new_tokens")]
    add_special_tokens: bool | None = None
    """Whether a text gets the tokens that the tokenizer puts before any text, as by default."""


def read_logprobs(body: Any, *, limits: Limits, model_id: str, adapters: AdapterNames = NO_ADAPTERS) -> dict[str, Any]:
    """Check the parsed body of a request to ``/v1/logprobs``, and return it without what is null, with its ``dtype``.

    Whether the tokens are the model's, and the rows not too many bytes, is checked where the model is.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    prompt = body.get("prompt") if isinstance(body, dict) else None
    # Before the prompts are looked at, of which there may be as many as a body holds.
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) and len(prompt) > MAX_ROWS:
        raise BadRequestError(f"'prompt' must be at most {MAX_ROWS} prompts: send several requests.", "prompt")
    given = _read(LogprobsRequest, body, limits, model_id, adapters)
    return {"dtype": DTYPES[0], **given}


def read_token_logprobs(
    body: Any, *, limits: Limits, model_id: str, adapters: AdapterNames = NO_ADAPTERS
) -> dict[str, Any]:
    """Check the parsed body of a request to ``/v1/token_logprobs``, and return it without what is null.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    return _read(TokenLogprobsRequest, body, limits, model_id, adapters)


def _read(model: type[Body], body: Any, limits: Limits, model_id: str, adapters: AdapterNames) -> dict[str, Any]:
    """Check a body and the model that it names; return it without what is null."""
    given = validate(model, body, limits).model_dump(exclude_none=True)
    adapters.check_body(given, model_id)
    return given
