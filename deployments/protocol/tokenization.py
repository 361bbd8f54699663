"""The bodies of ``/tokenize`` and ``/detokenize``, as vLLM's server has them."""

from typing import Annotated, Any, Final

from pydantic import Field

from deployments.errors import BadRequestError
from deployments.protocol.adapters import NO_ADAPTERS, AdapterNames
from deployments.protocol.generation.chat import TokenId
from deployments.protocol.generation.messages import Messages
from deployments.protocol.generation.structure import Tools
from deployments.protocol.validation import Body, ModelName, validate
from deployments.settings.limits import Limits


class TokenizeRequest(Body):
    """Asks for the tokens of a ``prompt``, as ``/v1/completions`` reads it, or of ``messages``, as a chat does."""

    model: ModelName | None = None
    """The model that is served, or one of its adapters; by default the model."""
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


class DetokenizeRequest(Body):
    """Asks for the text of tokens."""

    model: ModelName | None = None
    """The model that is served, or one of its adapters; by default the model."""
    tokens: Annotated[list[TokenId], Field(fail_fast=True)]


_OF_MESSAGES: Final = ("add_generation_prompt", "continue_final_message", "tools")


def read_tokenize(body: Any, *, limits: Limits, model_id: str, adapters: AdapterNames = NO_ADAPTERS) -> dict[str, Any]:
    """Check the parsed body of a request to ``/tokenize``, and return it without what is null.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    request = validate(TokenizeRequest, body, limits)
    given = request.model_dump(exclude_none=True)
    # Adapters share the model's tokenizer.
    adapters.check_model(given.pop("model", model_id), model_id)
    if (request.prompt is None) == (request.messages is None):
        raise BadRequestError("Give either 'prompt' or 'messages', and not both.", "prompt")
    for name in _OF_MESSAGES:
        if name in given and request.messages is None:
            raise BadRequestError(f"'{name}' needs 'messages'. Leave it out.", name)
    if request.continue_final_message and request.add_generation_prompt is not False:
        raise BadRequestError(
            "'continue_final_message' needs 'add_generation_prompt' to be false.", "add_generation_prompt"
        )
    return given


def read_detokenize(
    body: Any, *, limits: Limits, model_id: str, adapters: AdapterNames = NO_ADAPTERS
) -> dict[str, Any]:
    """Check the parsed body of a request to ``/detokenize``, and return it without what is null.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    given = validate(DetokenizeRequest, body, limits).model_dump(exclude_none=True)
    adapters.check_model(given.pop("model", model_id), model_id)
    return given
