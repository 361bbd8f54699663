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

from deployments.replica.engine import engine
from deployments.replica.engine.engine import EngineError, Request


def install_tokenization(server: LLMServer) -> None:
    """Let the server tokenize, which Ray 2.60 does not connect on vLLM 0.29: it looks for it by an older name."""
    chats = server.engine._oai_serving_chat
    renderer = chats.online_renderer
    server.engine._oai_serving_tokenization = ServingTokenization(
        chats.models,
        renderer,
        chat_template=renderer.chat_template,
        chat_template_content_format=renderer.chat_template_content_format,
        default_chat_template_kwargs=renderer.default_chat_template_kwargs,
    )


async def convert_tokens(server: LLMServer, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a body with a ``prompt`` or ``messages``, or the text of one with ``tokens``, as vLLM does.

    Raises:
        EngineError: The engine does not take the request.
    """
    if "tokens" in body:
        num_known = int(engine.client(server).model_config.get_vocab_size())
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
    """Return the tokens of each prompt of a completion.

    Raises:
        EngineError: A prompt is too long, or the engine does not take it.
    """
    # Ray 2.60 has no public way to have a prompt read and not answered.
    renderer = server.engine._oai_serving_completion.online_renderer
    try:
        read = await renderer.render_completion(request)
    except (ValueError, VLLMClientError) as error:
        fault = {"code": 400, "message": str(error), "param": getattr(error, "parameter", None)}
        raise engine.refusal(fault, request._max_input_tokens, "prompt") from None
    if hasattr(read, "error"):
        raise engine.refusal(read.error.model_dump(), request._max_input_tokens, "prompt")
    return [list(prompt["prompt_token_ids"]) for prompt in read]
