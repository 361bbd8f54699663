"""The tokens of a text, as the engine would get them: vLLM's own ``/tokenize`` and ``/detokenize``, and its reading of
the prompts of a completion."""

from collections.abc import Mapping
from typing import Any

from ray.serve.llm.deployment import LLMServer
from vllm.entrypoints.serve.tokenize.protocol import (
    DetokenizeRequest,
    TokenizeChatRequest,
    TokenizeCompletionRequest,
)
from vllm.entrypoints.serve.tokenize.serving import ServingTokenization
from vllm.exceptions import VLLMClientError

from deployments.errors import EngineError
from deployments.ray_private import (
    engine_client,
    serving_chat,
    serving_completion,
    set_serving_tokenization,
)
from deployments.replica.engine import engine
from deployments.replica.engine.engine import Request


def install_tokenization(server: LLMServer) -> None:
    """Set up vLLM's ``/tokenize`` and ``/detokenize`` in the server."""
    chats = serving_chat(server)
    renderer = chats.online_renderer
    serving = ServingTokenization(
        chats.models,
        renderer,
        chat_template=renderer.chat_template,
        chat_template_content_format=renderer.chat_template_content_format,
        default_chat_template_kwargs=renderer.default_chat_template_kwargs,
    )
    set_serving_tokenization(server, serving)


async def convert_tokens(server: LLMServer, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a body with a ``prompt`` or ``messages``, or the text of one with ``tokens``, as vLLM does.

    Raises:
        EngineError: The engine does not take the request.
    """
    if "tokens" in body:
        num_known = int(engine_client(server).model_config.get_vocab_size())
        if any(token >= num_known for token in body["tokens"]):
            # The tokenizer would leave them out.
            raise EngineError(400, f"'tokens' must be token ids of this model, below {num_known}.", param="tokens")
        items = await server.detokenize(DetokenizeRequest(**body))
    else:
        kind = TokenizeChatRequest if "messages" in body else TokenizeCompletionRequest
        items = await server.tokenize(kind(**body))
    async for item in items:
        if hasattr(item, "error"):
            raise engine.refusal(item.error.model_dump())
        result: dict[str, Any] = item.model_dump(mode="json")
        return result
    raise EngineError(500, "the engine answered nothing")


async def completion_tokens(server: LLMServer, request: Request) -> list[list[int]]:
    """Tokenize the prompts of a completion as the engine would; return the tokens of each.

    Raises:
        EngineError: A prompt is too long, or the engine does not take it.
    """
    # vLLM has no public way to have a prompt read and not answered.
    renderer = serving_completion(server).online_renderer
    try:
        read = await renderer.render_completion(request)
    except (ValueError, VLLMClientError) as error:
        fault = {"code": 400, "message": str(error), "param": getattr(error, "parameter", None)}
        raise engine.refusal(fault, request._extras.max_input_tokens, "prompt") from None
    if hasattr(read, "error"):
        raise engine.refusal(read.error.model_dump(), request._extras.max_input_tokens, "prompt")
    return [list(prompt["prompt_token_ids"]) for prompt in read]
