"""The adapters that an engine has loaded beside its model, and which one a request has."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from ray.serve.llm.deployment import LLMServer
from vllm.entrypoints.serve.lora.protocol import LoadLoRAAdapterRequest, UnloadLoRAAdapterRequest

from deployments.adapter_files import Adapter, AdapterError, choose
from deployments.adapter_register import Registered
from deployments.contract import AUTO_ADAPTER, ResolvedVocabulary
from deployments.errors import EngineError, printable
from deployments.ray_private import serving_models
from deployments.replica.engine import engine
from deployments.replica.engine.engine_adapters import EngineAdapters

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
