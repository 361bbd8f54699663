"""The service's replica without Serve, over an engine that Ray Data's stage started.

What a replica does with a request is inherited, with the proof that the engine keeps to lists.
"""

from argparse import Namespace
from typing import Any

from ray.llm._internal.serve.engines.vllm.vllm_engine import VLLMEngine, _normalize_vllm_engine_kwargs
from ray.serve.llm import LLMConfig
from starlette.datastructures import State
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import FrontendArgs

from deployments.replica.deployment import Replica
from deployments.replica.engine.engine import engine_config, max_sequences
from deployments.settings import Settings


class OfflineReplica(Replica):
    """One engine; ``client`` is vLLM's own of that engine, and ``vocabulary`` an actor's handle."""

    async def __init__(  # type: ignore[misc]  # awaited, as Serve does
        self, settings: Settings, *, vocabulary: Any, client: Any
    ) -> None:
        self._client = client
        await super().__init__(engine_config(settings), settings=settings, vocabulary=vocabulary)

    async def _watch_engine(self, settings: Settings) -> None:
        """Do nothing: the stage starts a dead engine again."""

    def _num_batch_sequences(self, settings: Settings) -> int:  # noqa: ARG002
        """Return all of them: nothing else uses this engine."""
        return max_sequences(self)

    async def start(self) -> None:
        """Replace ``LLMServer.start``, which would start an engine."""
        # Imported here, as Ray does: it raises the level of the root logger, which belongs to the importing program.
        from vllm.entrypoints.openai.api_server import init_app_state

        self.engine = VLLMEngine(self._llm_config)
        state = State()
        await init_app_state(
            self._client,
            state,
            _server_args(self._llm_config),
            await self._client.get_supported_tasks(),
        )
        # What its own start would set; Ray 2.60 has no public way to pass an engine.
        self.engine._engine_client = self._client
        self.engine._oai_models = state.openai_serving_models
        self.engine._oai_serving_chat = state.openai_serving_chat
        self.engine._oai_serving_completion = state.openai_serving_completion


async def make_replica(settings: Settings, *, vocabulary: Any, client: Any) -> OfflineReplica:
    """Return the replica, once its engine has proved that it keeps to a list.

    Raises:
        EngineProofError: It does not.
        ValueError: The limits do not fit the model's context.
    """
    made = OfflineReplica.__new__(OfflineReplica)
    await made.__init__(settings, vocabulary=vocabulary, client=client)  # type: ignore[misc]
    return made


def engine_arguments(settings: Settings) -> dict[str, Any]:
    """Return the engine's arguments as the service would pass them, except how it is spread over workers."""
    kwargs = dict(engine_config(settings).get_engine_config().get_initialization_kwargs())
    if "distributed_executor_backend" not in settings.engine_kwargs:
        del kwargs["distributed_executor_backend"]
    # Ray's stage passes these itself.
    return {name: value for name, value in kwargs.items() if name not in ("model", "enable_log_requests")}


def normalize_engine_kwargs(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with vLLM's own types in place of plain dicts."""
    made: dict[str, Any] = _normalize_vllm_engine_kwargs(kwargs)
    return made


def _server_args(config: LLMConfig) -> Namespace:
    engine = config.get_engine_config()
    kwargs = engine.get_initialization_kwargs()
    return Namespace(
        **(vars(FrontendArgs(**engine.frontend_kwargs)) | vars(AsyncEngineArgs(**normalize_engine_kwargs(kwargs))))
    )
