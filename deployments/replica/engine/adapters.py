"""Adapters in an engine: merged into the model that it loads, or loaded beside it by vLLM.

Touches the private parts of Ray's server and vLLM's that this needs, as ``engine`` does for the rest.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ray.serve.llm import LLMConfig
from ray.serve.llm.deployment import LLMServer
from vllm.entrypoints.serve.lora.protocol import LoadLoRAAdapterRequest
from vllm.platforms import current_platform

from deployments.adapters.folder import Adapter, AdapterError, Card, choose, smallest_rank
from deployments.adapters.merging import merged_model, module_shapes
from deployments.contract import AUTO_ADAPTER, ResolvedVocabulary
from deployments.settings import Settings, cache_dir

_MOST_AT_ONCE: Final = 8
"""Adapters in one step of the engine; each costs memory for the largest rank, whether it is used or not."""


def with_merge_settled(settings: Settings) -> Settings:
    """Return the settings with ``lora_merge`` decided; every process of the service has to see the same."""
    if settings.lora_merge != "auto":
        return settings
    merges = len(settings.lora) == 1 and current_platform.is_cpu()
    return settings.model_copy(update={"lora_merge": merges})


@dataclass(frozen=True)
class EngineAdapters:
    """The adapters of one engine, and which of them a request has.

    Attributes:
        model_id: The name of the base model.
        adapters: By name.
        merged: The adapter that is part of the model's weights, if any.
        model: The folder of the model with that adapter.
    """

    model_id: str
    adapters: Mapping[str, Adapter]
    merged: str | None = None
    model: Path | None = None

    @classmethod
    def read(cls, settings: Settings) -> Self:
        """Read and check the adapters of the settings on this node, and merge the one that is to be merged.

        Raises:
            AdapterError: One cannot be served.
        """
        adapters = {name: Adapter.read(name, source) for name, source in settings.lora.items()}
        merged, model = settings.merged_adapter, None
        if adapters:
            trust = settings.trust_remote_code
            modules = module_shapes(settings.model_name, trust_remote_code=trust)
            kwargs = dict(settings.engine_kwargs)
            if merged is None:
                _add_lora(kwargs, adapters)
            for adapter in adapters.values():
                max_rank = None if merged else int(kwargs["max_lora_rank"])
                adapter.check(settings.model_name, modules, max_rank)
            if merged is not None:
                cache = cache_dir() / "merged"
                model = merged_model(settings.model_name, adapters[merged], cache, trust_remote_code=trust)
        return cls(settings.model_id, adapters, merged, model)

    def configure(self, config: LLMConfig) -> None:
        """Have the engine of a configuration load the merged model, or take adapters."""
        engine = config.get_engine_config()
        if self.model is not None:
            config.model_loading_config.model_source = engine.hf_model_id = str(self.model)
        # Ray made the second copy where the application was built, which may be another machine.
        for kwargs in (config.engine_kwargs, engine.engine_kwargs):
            self.add_arguments(kwargs)

    def add_arguments(self, engine_kwargs: dict[str, Any]) -> None:
        """Add vLLM's arguments for adapters, where there are any that are not merged."""
        if self.adapters and self.merged is None:
            _add_lora(engine_kwargs, self.adapters)

    async def load(self, server: LLMServer) -> None:
        """Load the adapters that are not merged into a running engine.

        Raises:
            AdapterError: The engine does not take one.
        """
        if self.merged is not None:
            return
        models = server.engine._oai_models
        for name, adapter in self.adapters.items():
            request = LoadLoRAAdapterRequest(
                lora_name=name, lora_path=str(await asyncio.to_thread(adapter.folder.resolve))
            )
            loaded = await models.load_lora_adapter(request)
            if not isinstance(loaded, str):
                raise AdapterError(f"lora.{name}: the engine does not take it: {loaded.error.message}")

    def choose(self, model: str, asked: str | None, vocabulary: ResolvedVocabulary | None) -> str | None:
        """Return the adapter of a request, or None: ``model`` is the one that it names, ``asked`` that of its
        vocabulary. Free requests of the base model have none but what is merged."""
        if model in self.adapters:
            return model
        if vocabulary is None or self.merged is not None:
            return self.merged
        if asked != AUTO_ADAPTER:
            return asked
        return choose(self.cards, vocabulary.lang, vocabulary.n_words)

    def is_trained_for(self, adapter: str | None, vocabulary: ResolvedVocabulary) -> bool:
        """Return whether the card of an adapter names lists of this language and length."""
        card = None if adapter is None else self.cards.get(adapter)
        return card is not None and card.fits(vocabulary.lang, vocabulary.n_words)

    def engine_name(self, adapter: str | None) -> str:
        """Return the model that has the adapter, as vLLM's server names it."""
        return self.model_id if adapter is None or self.merged is not None else adapter

    @property
    def cards(self) -> dict[str, Card | None]:
        return {name: adapter.card for name, adapter in self.adapters.items()}


def lora_request(server: LLMServer, adapter: str | None) -> Any:
    """Return vLLM's ``LoRARequest`` of an adapter; None where it is merged, and for none."""
    return None if adapter is None else server.engine._oai_models.lora_requests.get(adapter)


def _add_lora(engine_kwargs: dict[str, Any], adapters: Mapping[str, Adapter]) -> None:
    """Add vLLM's arguments for adapters; those that the settings give stay.

    Raises:
        AdapterError: The rank of one is larger than vLLM takes.
    """
    engine_kwargs["enable_lora"] = True
    # vLLM 0.29 would also wrap the language model's head, and then fails on a request for the log-probabilities of its
    # prompt: on a CPU the engine dies of a wrong shape.
    engine_kwargs["lora_target_modules"] = sorted(
        {module.rsplit(".", 1)[-1] for adapter in adapters.values() for module in adapter.shapes}
    )
    engine_kwargs.setdefault("max_loras", min(len(adapters), _MOST_AT_ONCE))
    # vLLM reads one that it has dropped from its folder again.
    engine_kwargs.setdefault("max_cpu_loras", max(len(adapters), engine_kwargs["max_loras"]))
    engine_kwargs.setdefault("max_lora_rank", smallest_rank(adapters.values()))
