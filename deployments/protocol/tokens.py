"""The bodies of the routes about tokens: those of a text, and what the model says of the one after a prompt.

The latter are the model's own probabilities, before any list, so that a request has no vocabulary.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, Tag

from deployments.errors import BadRequestError
from deployments.protocol.generation import Prompt, PromptText, PromptTokens, TokenId
from deployments.protocol.messages import Messages
from deployments.protocol.reader import ServedModel
from deployments.protocol.structure import Tools
from deployments.protocol.validation import INT32_MAX, AtMost, Body, NamesModel, by_kind, validate
from deployments.settings.limits import MAX_ROWS


class TokenizeRequest(NamesModel):
    """Asks for the tokens of a ``prompt``, as ``/v1/completions`` reads it, or of ``messages``, as a chat does."""

    prompt: str | None = None
    messages: Messages | None = None
    add_special_tokens: bool | None = None
    """Whether the tokenizer puts its own tokens before the text: by default before a prompt, and not before messages,
    whose template has them."""
    return_token_strs: bool | None = None
    """Whether the answer also spells each token, as the tokenizer has it."""
    add_generation_prompt: bool | None = None
    """Of messages: whether the beginning of an answer follows them, as by default."""
    continue_final_message: bool | None = None
    """Of messages: whether the last one is left open. Needs ``add_generation_prompt`` to be false."""
    tools: Tools | None = None
    """Of messages: the tools that the template gets."""


class DetokenizeRequest(NamesModel):
    """Asks for the text of tokens."""

    tokens: Annotated[list[TokenId], Field(fail_fast=True)]


_OF_MESSAGES: Final = ("add_generation_prompt", "continue_final_message", "tools")


def read_tokenize(body: Any, *, served: ServedModel) -> dict[str, Any]:
    """Check the parsed body of a request to ``/tokenize``, and return it without what is null.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    given = _read(TokenizeRequest, body, served)
    # Adapters share the model's tokenizer.
    given.pop("model", None)
    if ("prompt" in given) == ("messages" in given):
        raise BadRequestError("Give either 'prompt' or 'messages', and not both.", "prompt")
    for name in _OF_MESSAGES:
        if name in given and "messages" not in given:
            raise BadRequestError(f"'{name}' needs 'messages'. Leave it out.", name)
    if given.get("continue_final_message") and given.get("add_generation_prompt") is not False:
        raise BadRequestError(
            "'continue_final_message' needs 'add_generation_prompt' to be false.", "add_generation_prompt"
        )
    return given


def read_detokenize(body: Any, *, served: ServedModel) -> dict[str, Any]:
    """Check the parsed body of a request to ``/detokenize``, and return it without what is null.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    given = _read(DetokenizeRequest, body, served)
    given.pop("model", None)
    return given


class LogprobsRequest(NamesModel):
    """Asks for the log-probability of every token of the model after each prompt."""

    prompt: Prompt
    """One text, or its tokens; or several prompts."""
    dtype: Literal["float32", "float16"] | None = None
    """Of the numbers in the answer, by default float32."""
    top_logprobs: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """The answer is JSON and has so many of the likeliest tokens of each prompt, instead of all."""
    add_special_tokens: bool | None = None
    """Whether a text gets the tokens that the tokenizer puts before any text, as by default."""


class TokenLogprobsRequest(NamesModel):
    """Asks for the log-probability of each of some tokens, after the prompt and the tokens before it."""

    prompt: Annotated[
        Annotated[PromptText, Tag("a scalar")] | Annotated[PromptTokens, Tag("a list")],
        by_kind,
        Field(json_schema_extra={"x-expected": "a text or a list of token ids, not empty"}),
    ]
    """One text, or its tokens."""
    token_ids: Annotated[list[TokenId], Field(min_length=1, fail_fast=True), AtMost("max_new_tokens")]
    add_special_tokens: bool | None = None
    """Whether a text gets the tokens that the tokenizer puts before any text, as by default."""


def read_logprobs(body: Any, *, served: ServedModel) -> dict[str, Any]:
    """Check the parsed body of a request to ``/v1/logprobs``, and return it without what is null, with its ``dtype``.

    Whether the tokens are the model's, and the rows not too many bytes, is checked where the model is.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    prompt = body.get("prompt") if isinstance(body, dict) else None
    # Before the prompts are looked at, of which there may be as many as a body holds.
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) and len(prompt) > MAX_ROWS:
        raise BadRequestError(f"'prompt' must be at most {MAX_ROWS} prompts: send several requests.", "prompt")
    return {"dtype": "float32", **_read(LogprobsRequest, body, served)}


def read_token_logprobs(body: Any, *, served: ServedModel) -> dict[str, Any]:
    """Check the parsed body of a request to ``/v1/token_logprobs``, and return it without what is null.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    return _read(TokenLogprobsRequest, body, served)


def _read(model: type[Body], body: Any, served: ServedModel) -> dict[str, Any]:
    given = validate(model, body, served.limits).model_dump(exclude_none=True)
    served.check_body(given)
    return given
