"""The adapters of an engine: merged into the model before it starts, loaded beside it, and which one a request has."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import vllm
from ray.serve.llm import LLMConfig
from ray.serve.llm.deployment import LLMServer
from vllm.entrypoints.serve.lora.protocol import LoadLoRAAdapterRequest, UnloadLoRAAdapterRequest
from vllm.platforms import current_platform

from deployments.adapter_register import Register, Registered
from deployments.contract import AUTO_ADAPTER, ResolvedVocabulary
from deployments.errors import EngineError, printable
from deployments.ray_private import serving_models
from deployments.replica.engine import engine
from deployments.replica.engine.merging import adaptable_layers, merge_model, outline
from deployments.settings.service import Settings, cache_dir
from vocab.adapters import Adapter, AdapterError, Shape, choose, module_shapes, smallest_rank
from vocab.vllm_plugin import cpu_patches

_MOST_AT_ONCE: Final = 8
"""Adapters in one step of the engine; each costs memory for the largest rank, whether it is used or not."""

_LEAST_AT_ONCE: Final = 4
"""Where some may be loaded at run time."""

_READ_AT_ONCE: Final = 16
"""Adapters in the memory of an engine's node, where some may be loaded at run time. vLLM reads one that it has dropped
from its folder again."""


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
        arguments = lora_arguments(settings, adapters.values(), None if register is None else adaptable_layers(base))
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
        """Refuse an adapter that the engine cannot apply beside its model.

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
        """Set in the engine's configuration the merged model, or vLLM's arguments for adapters."""
        engine = config.get_engine_config()
        if self.model is not None:
            config.model_loading_config.model_source = engine.hf_model_id = str(self.model)
        # Ray made the second copy where the application was built, which may be another machine.
        for kwargs in (config.engine_kwargs, engine.engine_kwargs):
            kwargs.update(self.arguments)


def lora_arguments(settings: Settings, adapters: Collection[Adapter], targets: list[str] | None) -> dict[str, Any]:
    """Return vLLM's arguments for serving these adapters; those that the settings give stay.

    ``targets`` are the layers that adapters loaded at run time may change; None where none are loaded.

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
    if current_platform.is_cpu() and not cpu_patches.patch_adapters():
        raise AdapterError(
            f"lora: vLLM {vllm.__version__} cannot keep adapters away from requests that have none on a CPU: install "
            f"{' or '.join(sorted(cpu_patches.TRIED_ON))}, or serve one adapter with lora_merge: true"
        )


logger = logging.getLogger("ray.serve")

_SYNC_S: Final = 5.0
"""How often the register is read, for changes that this replica has not heard of: it was starting, or out of reach."""


class LoadedAdapters:
    """The adapters that the engine of ``server`` has loaded, and which one a request has.

    A request has one by its key, what the engine calls it: the name of one of the settings, and for one that was loaded
    at run time a name of its content. What has been loaded under a key stays known, so that a request keeps its adapter
    when that is unloaded or replaced meanwhile.
    """

    def __init__(self, server: LLMServer, start: EngineAdapters) -> None:
        self._server = server
        self._start = start
        self._known: dict[str, Adapter] = dict(start.adapters)
        self._keys = {name: name for name in start.adapters}
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Load into the engine the adapters that are not merged: those of the settings and of the register.

        Raises:
            AdapterError: One is damaged, or the engine does not take it.
        """
        if self._start.merged is None:
            for name, adapter in self._start.adapters.items():
                await self._load(name, adapter)
            await self.sync()

    async def preload(self, name: str, registered: Registered) -> str | None:
        """Load an adapter that may soon be registered; return what is wrong with it, or None."""
        try:
            async with self._lock:
                await self._add(name, registered)
        except AdapterError as error:
            return str(error)
        return None

    async def sync(self) -> None:
        """Serve the adapters in the register, besides the settings' own; load those that are new.

        Raises:
            AdapterError: One is damaged, or the engine does not take it; the others are served.
        """
        if (register := self._start.register) is None:
            return
        async with self._lock:
            faults = []
            keys = {name: name for name in self._start.adapters}
            for name, registered in (await asyncio.to_thread(register.read)).items():
                if name in keys:
                    continue
                try:
                    keys[name] = registered.key(name)
                    if keys[name] not in self._known:
                        await self._add(name, registered)
                except AdapterError as error:
                    del keys[name]
                    faults.append(f"{error} (it is in {register.path}: take it out there)")
            self._keys = keys
        if faults:
            raise AdapterError(faults[0])

    async def keep_in_sync(self) -> None:
        """Read the register every few seconds, for as long as the engine runs, and serve what it has."""
        while self._start.register is not None:
            await asyncio.sleep(_SYNC_S)
            try:
                await self.sync()
            except Exception as error:
                logger.warning("the adapters of lora_dir are not all served: %s", error)

    async def choose(self, model: str, asked: str | None, vocabulary: ResolvedVocabulary | None) -> str | None:
        """Return the key of the adapter that answers a request, or None for none.

        ``model`` is the one that it names, ``asked`` that of its vocabulary, by name or key. Free requests of the base
        model have none but what is merged.

        Raises:
            EngineError: It was unloaded meanwhile.
        """
        if model != self._start.model_id:
            return await self._key(model)
        if vocabulary is None or self._start.merged is not None:
            return self._start.merged
        if asked is None or asked in self._known:
            return asked
        if asked != AUTO_ADAPTER:
            return await self._key(asked)
        cards = {name: self._known[key].card for name, key in self._keys.items()}
        chosen = choose(cards, vocabulary.lang, vocabulary.n_words)
        return None if chosen is None else self._keys[chosen]

    def is_trained_for(self, key: str | None, vocabulary: ResolvedVocabulary) -> bool:
        """Return whether the card of an adapter names lists of this language and length."""
        card = None if key is None else self._known[key].card
        return card is not None and card.fits(vocabulary.lang, vocabulary.n_words)

    def engine_name(self, key: str | None) -> str:
        """Return the model name by which vLLM's server knows an adapter; the base model's without one."""
        return self._start.model_id if key is None or self._start.merged is not None else key

    def lora_request(self, key: str | None) -> Any:
        """Return vLLM's ``LoRARequest`` of an adapter; None where it is merged, and for none."""
        return None if key is None or self._start.merged is not None else self._requests[key]

    async def _key(self, name: str) -> str:
        """Return the key of an adapter by its name, after a sync where it is unknown; 404 where it is gone."""
        if name not in self._keys:
            # It has just been registered, and this replica has not heard of it.
            await self.sync()
        if name not in self._keys:
            message = f"The adapter '{printable(name)}' has just been unloaded. GET /v1/models lists what there is."
            raise EngineError(404, message, param="model", code="model_not_found")
        return self._keys[name]

    async def _add(self, name: str, registered: Registered) -> None:
        if (register := self._start.register) is None:
            raise AdapterError(f"adapter {name}: this engine was started without lora_dir")
        adapter = await asyncio.to_thread(register.adapter, name, registered)
        self._start.check(adapter)
        await self._load(registered.key(name), adapter)
        self._known[registered.key(name)] = adapter

    async def _load(self, key: str, adapter: Adapter) -> None:
        """Load an adapter into the engine under a key, once; refuse weights that overflow."""
        if key in self._requests:
            # A request of somebody who still had it: the engine reads it again where it has dropped it.
            return
        models = serving_models(self._server)
        request = LoadLoRAAdapterRequest(lora_name=key, lora_path=str(await asyncio.to_thread(adapter.folder.resolve)))
        loaded = await models.load_lora_adapter(request)
        if not isinstance(loaded, str):
            raise AdapterError(f"adapter {adapter.name}: the engine does not take it: {loaded.error.message}")
        if not await engine.has_finite_logprobs(self._server, self._requests[key]):
            await models.unload_lora_adapter(UnloadLoRAAdapterRequest(lora_name=key))
            raise AdapterError(
                f"adapter {adapter.name}: its weights overflow, the model computes no probabilities with them: train "
                "it again with a smaller learning rate"
            )

    @property
    def _requests(self) -> Mapping[str, Any]:
        requests: Mapping[str, Any] = serving_models(self._server).lora_requests
        return requests


def name_of(key: str | None) -> str | None:
    """Return the name by which clients know an adapter, from the engine's key."""
    return None if key is None else key.partition("@")[0]
