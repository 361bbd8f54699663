"""Adapters in an engine that is about to start: merged into the model that it loads, or to be loaded beside it by vLLM.

``loaded_adapters`` has those of an engine that runs.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import vllm
from ray.serve.llm import LLMConfig
from vllm.platforms import current_platform

from deployments.adapters.merging import linear_names, merge_model, outline
from deployments.adapters.register import Register
from deployments.settings import Settings, cache_dir
from vocab.adapters import Adapter, AdapterError, Shape, module_shapes, smallest_rank
from vocab.vllm_plugin import cpu_adapters

_MOST_AT_ONCE: Final = 8
"""Adapters in one step of the engine; each costs memory for the largest rank, whether it is used or not."""

_LEAST_AT_ONCE: Final = 4
"""Where some may be loaded at run time."""

_READ_AT_ONCE: Final = 16
"""Adapters in the memory of an engine's node, where some may be loaded at run time. vLLM reads one that it has dropped
from its folder again."""


def with_merge_settled(settings: Settings) -> Settings:
    """Return the settings with ``lora_merge`` decided; every process of the service has to see the same."""
    if settings.lora_merge != "auto":
        return settings
    merges = len(settings.lora) == 1 and settings.lora_dir is None and current_platform.is_cpu()
    return settings.model_copy(update={"lora_merge": merges})


@dataclass(frozen=True)
class EngineAdapters:
    """The adapters of one engine.

    Attributes:
        model_id: The name of the base model.
        adapters: Those of the settings, by name.
        merged: The adapter that is part of the model's weights, if any.
        model: The folder of the model with that adapter.
        register: Those that are loaded at run time; None where none are.
        arguments: vLLM's, where there are any that are not merged.
        model_name: The model's Hugging Face id or folder.
        modules: The shape of each module of the model that has a weight.
    """

    model_id: str
    adapters: Mapping[str, Adapter]
    merged: str | None = None
    model: Path | None = None
    register: Register | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    model_name: str = ""
    modules: Mapping[str, Shape] = field(default_factory=dict)

    @classmethod
    def read(cls, settings: Settings) -> Self:
        """Read and check the adapters of the settings on this node, and merge the one that is to be merged.

        Raises:
            AdapterError: One cannot be served, or this vLLM serves none.
        """
        adapters = {name: Adapter.read(name, source) for name, source in settings.lora.items()}
        merged, register = settings.merged_adapter, Register.of(settings)
        if not adapters and register is None:
            return cls(settings.model_id, adapters)
        trust = settings.trust_remote_code
        base = outline(settings.model_name, trust_remote_code=trust)
        modules = module_shapes(base)
        if merged is not None:
            adapters[merged].check_model(modules, settings.model_name)
            cache = cache_dir() / "merged"
            model = merge_model(settings.model_name, adapters[merged], cache, trust_remote_code=trust)
            return cls(settings.model_id, adapters, merged, model)
        _check_platform()
        arguments = lora_arguments(settings, adapters.values(), None if register is None else linear_names(base))
        made = cls(
            settings.model_id,
            adapters,
            register=register,
            arguments=arguments,
            model_name=settings.model_name,
            modules=modules,
        )
        for adapter in adapters.values():
            made.check(adapter)
        return made

    def check(self, adapter: Adapter) -> None:
        """Check that the engine can apply an adapter beside its model.

        Raises:
            AdapterError: It cannot.
        """
        adapter.check_model(self.modules, self.model_name)
        adapter.check_engine(int(self.arguments["max_lora_rank"]))
        names = self.arguments["lora_target_modules"]
        if others := [module for module in sorted(adapter.shapes) if module.rsplit(".", 1)[-1] not in names]:
            raise AdapterError(
                f"adapter {adapter.name}: the engine applies nothing to {others[0]}: train one of linear layers "
                f"({', '.join(names)})"
            )

    def configure(self, config: LLMConfig) -> None:
        """Have the engine of a configuration load the merged model, or take adapters."""
        engine = config.get_engine_config()
        if self.model is not None:
            config.model_loading_config.model_source = engine.hf_model_id = str(self.model)
        # Ray made the second copy where the application was built, which may be another machine.
        for kwargs in (config.engine_kwargs, engine.engine_kwargs):
            kwargs.update(self.arguments)


def lora_arguments(settings: Settings, adapters: Collection[Adapter], targets: list[str] | None) -> dict[str, Any]:
    """Return vLLM's arguments for adapters; those that the settings give stay. ``targets`` are the layers that adapters
    may change which are loaded at run time; None where none are.

    Raises:
        AdapterError: The rank of one is larger than vLLM takes.
    """
    loads = targets is not None
    given = settings.engine_kwargs
    largest = smallest_rank(adapters)
    most = given.get("max_loras") or min(max(len(adapters), _LEAST_AT_ONCE if loads else 1), _MOST_AT_ONCE)
    arguments = {
        "enable_lora": True,
        # vLLM 0.29 would also wrap the language model's head, and then fails on a request for the log-probabilities of
        # its prompt: on a CPU the engine dies of a wrong shape.
        "lora_target_modules": targets
        or sorted({module.rsplit(".", 1)[-1] for adapter in adapters for module in adapter.shapes}),
        "max_loras": most,
        # vLLM reads one that it has dropped from its folder again.
        "max_cpu_loras": max(len(adapters), most, _READ_AT_ONCE if loads else 1),
        "max_lora_rank": max(largest, smallest_rank(())) if loads else largest,
    }
    return arguments | {name: given[name] for name in arguments.keys() & given.keys() - {"lora_target_modules"}}


def _check_platform() -> None:
    if current_platform.is_cpu() and not cpu_adapters.install():
        raise AdapterError(
            f"lora: vLLM {vllm.__version__} cannot keep adapters away from requests that have none on a CPU: install "
            f"{' or '.join(sorted(cpu_adapters.TRIED_ON))}, or serve one adapter with lora_merge: true"
        )
