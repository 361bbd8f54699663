"""All that the service uses of Ray that has no public name, written for Ray 2.60 with vLLM 0.29.

An upgrade of Ray that moves any of it breaks here, and in ``tests/inner/test_ray_private.py``. What brings vLLM
along is imported where it is first used: ingresses and proxies need none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ray.serve.context import _get_global_client
from ray.serve.handle import DeploymentHandle

if TYPE_CHECKING:
    from ray.llm._internal.batch.stages.vllm_engine_stage import vLLMEngineStageUDF
    from ray.llm._internal.common.callbacks.base import CallbackBase
    from ray.llm._internal.serve.engines.vllm.vllm_engine import VLLMEngine
    from ray.serve.llm.deployment import LLMServer
    from starlette.datastructures import State

__all__ = ["CallbackBase", "VLLMEngine", "vLLMEngineStageUDF"]

_ENGINE: Final = "ray.llm._internal.serve.engines.vllm.vllm_engine"
_LAZY: Final = {
    "CallbackBase": "ray.llm._internal.common.callbacks.base",
    "VLLMEngine": _ENGINE,
    "vLLMEngineStageUDF": "ray.llm._internal.batch.stages.vllm_engine_stage",
}


def __getattr__(name: str) -> Any:
    """Import a class of ``ray.llm`` when it is first asked for (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def serve_client() -> Any:
    """Return Serve's client of this cluster; None where Serve does not run yet. Connects to Ray where nothing has."""
    return _get_global_client(raise_if_no_controller_running=False)


def engine_client(server: "LLMServer") -> Any:
    """Return vLLM's own client of the engine, an ``EngineClient``; the server takes requests of OpenAI's API only."""
    return server.engine._engine_client


def serving_chat(server: "LLMServer") -> Any:
    """Return vLLM's ``OpenAIServingChat``, which turns chats into requests of the engine."""
    return server.engine._oai_serving_chat


def serving_completion(server: "LLMServer") -> Any:
    """Return vLLM's ``OpenAIServingCompletion``."""
    return server.engine._oai_serving_completion


def serving_models(server: "LLMServer") -> Any:
    """Return vLLM's ``OpenAIServingModels``, which knows the adapters."""
    return server.engine._oai_models


def set_engine(server: "LLMServer", client: Any, state: "State") -> None:
    """Give the server an engine that runs already: vLLM's client of it, and the state of vLLM's API server."""
    server.engine._engine_client = client
    server.engine._oai_models = state.openai_serving_models
    server.engine._oai_serving_chat = state.openai_serving_chat
    server.engine._oai_serving_completion = state.openai_serving_completion


def normalize_engine_kwargs(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the engine's arguments with vLLM's own types in place of plain dicts."""
    normalized: dict[str, Any] = import_module(_ENGINE)._normalize_vllm_engine_kwargs(kwargs)
    return normalized


def resolve_mirror(config: Any) -> None:
    """Have an engine's configuration name the model as it lies on this node, where it comes from a bucket."""
    import_module(_ENGINE)._resolve_hf_model_id_from_mirror(config)


def by_grpc(handle: DeploymentHandle, *, stream: bool = False) -> DeploymentHandle:
    """Return a handle that calls its deployment by gRPC; with ``stream`` one of generators.

    As an object of Ray's each answer, and each piece of one, costs both processes twice as much. What has many
    megabytes is better there: by gRPC it is copied several times on the event loops. A handle keeps the choice of the
    process that deploys the application, so ``RAY_SERVE_USE_GRPC_BY_DEFAULT`` in the others does not count.
    All that travels can be pickled as it is; Serve's own way, for what was defined in a notebook, takes much longer.
    """
    return handle.options(
        stream=stream, _by_reference=False, request_serialization="pickle", response_serialization="pickle"
    )


def has_no_replica(handle: DeploymentHandle) -> bool:
    """Return whether a deployment has no running replica, as far as this process knows; False if unknown.

    It knows from the controller, and from those that it found dead.
    """
    known = _running_replicas(handle)
    return known is not None and not known and bool(handle.running_replicas_populated())


def has_replica(handle: DeploymentHandle) -> bool:
    """Return whether a deployment has a running replica, as far as this process knows; as ``has_no_replica``."""
    return bool(_running_replicas(handle))


def _running_replicas(handle: DeploymentHandle) -> Any:
    # The public way asks the controller, which learns of a death later.
    router = getattr(getattr(handle, "_router", None), "_asyncio_router", None)
    return getattr(getattr(router, "request_router", None), "curr_replicas", None)
