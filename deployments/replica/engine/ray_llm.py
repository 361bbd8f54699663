"""What the replica uses of ``ray.serve.llm`` that has no public name, written for Ray 2.60 with vLLM 0.29.

An upgrade of Ray that moves any of it breaks here, and in ``tests/deployments/replica/engine/test_ray_llm.py``.
"""

from typing import Any

from ray.llm._internal.common.callbacks.base import CallbackBase
from ray.llm._internal.serve.engines.vllm.vllm_engine import VLLMEngine, _normalize_vllm_engine_kwargs
from ray.serve.llm.deployment import LLMServer
from starlette.datastructures import State

__all__ = ["CallbackBase", "VLLMEngine"]


def engine_client(server: LLMServer) -> Any:
    """Return vLLM's own client of the engine, an ``EngineClient``; the server takes requests of OpenAI's API only."""
    return server.engine._engine_client


def serving_chat(server: LLMServer) -> Any:
    """Return vLLM's ``OpenAIServingChat``, which turns chats into requests of the engine."""
    return server.engine._oai_serving_chat


def serving_completion(server: LLMServer) -> Any:
    """Return vLLM's ``OpenAIServingCompletion``."""
    return server.engine._oai_serving_completion


def serving_models(server: LLMServer) -> Any:
    """Return vLLM's ``OpenAIServingModels``, which knows the adapters."""
    return server.engine._oai_models


def set_serving_tokenization(server: LLMServer, serving: Any) -> None:
    """Connect vLLM's ``ServingTokenization``, which Ray 2.60 does not on vLLM 0.29: it looks for an older name."""
    server.engine._oai_serving_tokenization = serving


def set_engine(server: LLMServer, client: Any, state: State) -> None:
    """Give the server an engine that runs already: vLLM's client of it, and the state of vLLM's API server."""
    server.engine._engine_client = client
    server.engine._oai_models = state.openai_serving_models
    server.engine._oai_serving_chat = state.openai_serving_chat
    server.engine._oai_serving_completion = state.openai_serving_completion


def normalize_engine_kwargs(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the engine's arguments with vLLM's own types in place of plain dicts."""
    normalized: dict[str, Any] = _normalize_vllm_engine_kwargs(kwargs)
    return normalized
