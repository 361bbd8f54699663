"""An engine with one GPU: its worker runs in the engine's own process, as vLLM has it by itself.

Ray's executor would send every step to a process that it starts beside the replica's. With one worker there is nothing
to spread, and masks are made on the GPU only where scheduler and worker share a process (``vocab.vllm_plugin.device``).
So the replica takes the GPU, and its child processes have it too.
"""

from typing import Any

from ray.serve.llm import LLMConfig
from typing_extensions import override
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import FrontendArgs
from vllm.usage.usage_lib import UsageContext

from deployments.ray_private import VLLMEngine, normalize_engine_kwargs, resolve_mirror


def gpus_of_replica(config: LLMConfig) -> float:
    """Return the share of GPUs that a replica takes for its engine's one worker; 0 on a CPU, or where Ray has workers.

    An operator who names ``distributed_executor_backend`` gets Ray's.
    """
    engine = config.get_engine_config()
    is_ours = "distributed_executor_backend" not in config.engine_kwargs and len(engine.placement_bundles) == 1
    is_one = engine.num_devices == 1 and (config.engine_kwargs.get("data_parallel_size") or 1) == 1
    return float(engine.placement_bundles[0].get("GPU", 0)) if is_ours and is_one else 0


class Engine(VLLMEngine):
    """Ray's engine; with one GPU that of the replica."""

    @override
    def _prepare_engine_config(self, callback_ctx: Any) -> tuple[AsyncEngineArgs, FrontendArgs, Any]:
        if not gpus_of_replica(self.llm_config):
            prepared: tuple[AsyncEngineArgs, FrontendArgs, Any] = super()._prepare_engine_config(callback_ctx)
            return prepared
        config = self.llm_config.get_engine_config()
        resolve_mirror(config)
        kwargs = normalize_engine_kwargs(config.get_initialization_kwargs())
        # vLLM's own choice.
        del kwargs["distributed_executor_backend"]
        arguments = AsyncEngineArgs(**kwargs)
        made = arguments.create_engine_config(UsageContext.OPENAI_API_SERVER)
        return arguments, FrontendArgs(**config.frontend_kwargs), made
