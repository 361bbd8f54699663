"""``AsyncVirtualLM``: next-token rows from a vLLM engine in this process.

A thread of its own steps the engine while there are requests. Each prefix is one request of one token, so that the
engine's own scheduler batches what comes at the same time, whoever asks. A request continues from what the engine
computed for the longest prefix that it still keeps, so that a text that grows costs one token at each step.
"""

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, ClassVar, Final, Self

import torch
from cachetools import FIFOCache
from typing_extensions import override
from vllm import EngineArgs
from vllm.lora.request import LoRARequest
from vllm.outputs import RequestOutput
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine.llm_engine import LLMEngine
from vllm.v1.executor import Executor

from deployments.adapter_files import Adapter, module_shapes
from deployments.replica.engine.configuration import resolve_dtype
from vocab.vllm_plugin import register, use_plugin
from vocab.vllm_plugin.kv_fork import TRANSFER_CONFIG, ForkHint
from vocab.vllm_plugin.own_probabilities import rows_args, rows_of
from wordbound.lm.adapters import REMOVED_ADAPTER
from wordbound.lm.base import AsyncLM
from wordbound.lm.gathering import Ids, num_equal
from wordbound.lm.vllm_thread import EngineThread, Request

MAX_CACHED: Final = 4096
"""Prefixes whose computation may still be cached in the engine; it keeps fewer where its blocks are used up."""

MAX_BACK: Final = 64
"""How many tokens may lie between a prefix and the cached one that it continues. Each costs a look-up."""

MIN_SHARED: Final = 16
"""Tokens that several new prefixes begin with, which are then computed once, before them."""

_MAX_ADAPTERS: Final = 8


class AsyncVirtualLM(AsyncLM):
    """A model in a vLLM engine of this process.

    ``from_name`` makes one. Rows are float32 (V,) on the CPU. The engine's ``max_num_seqs`` bounds what is computed
    together; more waits in the engine. Keys and values of prefixes are cached by the engine itself.

    Args:
        llm_engine: The engine, or vLLM's ``LLM`` around it, used by nobody else. ``cleanup`` ends it.
        logprobs_capture: Of genlm-backend's programs, and not needed: the plugin returns the rows.
        cache_size: As ``AsyncLM``.
        cache_opts: As ``AsyncLM``.
        batch_size: As ``AsyncLM``; the engine's ``max_num_seqs`` by default.
        timeout: As ``AsyncLM``.

    Raises:
        ValueError: The engine draws several tokens at a step (speculative decoding), or its model generates nothing.
    """

    default_params: ClassVar[Mapping[str, Any]] = {
        "max_tokens": 1,
        "n": 1,
        "detokenize": False,
        "stop": None,
        "ignore_eos": True,
    }
    """vLLM's ``SamplingParams`` of a row."""

    def __init__(
        self,
        llm_engine: Any,
        logprobs_capture: Any = None,  # noqa: ARG002
        cache_size: int = 0,
        cache_opts: Mapping[str, Any] | None = None,
        batch_size: int | None = None,
        timeout: float = 0.02,
    ) -> None:
        engine: LLMEngine = getattr(llm_engine, "llm_engine", llm_engine)
        config = engine.vllm_config
        if config.speculative_config is not None:
            raise ValueError("an engine with drafts returns no rows: leave speculative_config out of engine_opts")
        self._worker = EngineThread(engine)
        super().__init__(
            engine.tokenizer,
            vocab_size=config.model_config.get_vocab_size(),
            # One place is left for the token that is drawn.
            max_prefix_len=config.model_config.max_model_len - 1,
            batch_size=config.scheduler_config.max_num_seqs if batch_size is None else batch_size,
            timeout=timeout,
            cache_size=cache_size,
            cache_opts=cache_opts,
        )
        self._names = count(1)
        self._lora_ids = count(1)
        self._cached_names: FIFOCache[tuple[str | None, Ids], str] = FIFOCache(MAX_CACHED)
        self._keeps = config.kv_transfer_config is not None
        self._lora_config = config.lora_config
        self._hf_config = config.model_config.hf_config
        # By the name that only this loading has.
        self._lora_requests: dict[str, LoRARequest] = {}
        self._finalizer = weakref.finalize(self, self._worker.end)

    @classmethod
    def from_name(cls, model_name: str, engine_opts: Mapping[str, Any] | None = None, **options: Any) -> Self:
        """Load a model into a new vLLM engine of this process.

        Args:
            model_name: A Hugging Face id or a local folder.
            engine_opts: vLLM's ``EngineArgs``, such as ``max_model_len`` or ``gpu_memory_utilization``; for adapters
                ``enable_lora``, ``max_lora_rank``, and ``max_cpu_loras``, the most that are loaded (8 by default).
            **options: As for the class.

        Raises:
            ValueError: An argument is one that vLLM does not take.
        """
        arguments: dict[str, Any] = {"model": model_name, "enable_prefix_caching": True, "disable_log_stats": True}
        if current_platform.is_cpu():
            # Its blocks are of 128 tokens, and prefix caching reuses whole blocks only.
            arguments["kv_transfer_config"] = dict(TRANSFER_CONFIG)
        arguments |= engine_opts or {}
        if arguments.get("enable_lora"):
            arguments.setdefault("max_cpu_loras", max(_MAX_ADAPTERS, arguments.get("max_loras", 1)))
        arguments["dtype"] = resolve_dtype(arguments.get("dtype", "auto"))
        use_plugin()
        # vLLM loads plugins once in a process, which may have been before.
        register()
        try:
            config = EngineArgs(**arguments).create_engine_config()
        except TypeError as error:
            raise ValueError(f"engine_opts: {error}") from error
        engine = LLMEngine(config, Executor.get_class(config), log_stats=False, multiprocess_mode=False)
        return cls(engine, **options)

    @property
    def underlying_model(self) -> Any:
        """The torch module, where the engine's worker is in this process."""
        return self._worker.engine.model_executor.driver_worker.worker.model_runner.model

    @override
    async def compute_rows(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        if beginning := self._beginning(prefixes, lora_name):
            await self._generate([self._row_request(beginning, lora_name)])
        outputs = await self._generate([self._row_request(ids, lora_name) for ids in prefixes])
        return torch.cat([rows_of(output)[:1] for output in outputs])

    @override
    async def compute_scores(self, prompt: Ids, ids: Ids, lora_name: str | None) -> torch.Tensor:
        params = SamplingParams(
            temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY
        )
        [output] = await self._generate([Request(self._name(), prompt + ids, params, self._lora_request(lora_name))])
        scores = (output.prompt_logprobs or [])[len(prompt) :]
        return torch.tensor([score[token].logprob for score, token in zip(scores, ids, strict=True) if score])

    @override
    def cache_kv(self, prompt_tokens: Sequence[int], lora_name: str | None = None) -> None:
        """Compute a prompt now, so that the engine caches its keys and values.

        They stay while the engine has room; beyond whole blocks, for half a minute.
        """
        self.next_token_logprobs_uncached(prompt_tokens, lora_name)

    @override
    def clear_kv_cache(self) -> None:
        """Forget keys and values; those of requests under way stay."""
        self._cached_names.clear()
        self._worker.clear()

    @override
    def cleanup(self) -> None:
        """End the engine. Whoever waits for a row gets a RuntimeError."""
        self.reset_async_queries()
        self.cache.clear()
        self._finalizer()

    # Adapters.

    @override
    def load_adapter(self, lora_path: str, loaded_name: str) -> None:
        adapter = Adapter.read(lora_path, lora_path)
        config = self._lora_config
        if config is None:
            raise ValueError("this engine was started without adapters: give engine_opts={'enable_lora': True}")
        adapter.check_engine(config.max_lora_rank)
        if len(self._lora_requests) >= config.max_cpu_loras:
            # The engine would forget one, and read its files again when it is used.
            raise ValueError(
                f"{config.max_cpu_loras} adapters are loaded already: remove one, or raise max_cpu_loras in engine_opts"
            )
        # vLLM leaves out weights whose module it does not have, and those that are too small leave others in place.
        if (outline := _model_without_weights(self._hf_config)) is not None:
            adapter.check_model(module_shapes(outline))
        request = LoRARequest(loaded_name, next(self._lora_ids), str(adapter.folder))
        try:
            self._worker.call(lambda engine: engine.add_lora(request))
        except ValueError as error:
            raise ValueError(f"vLLM does not take adapter {adapter.folder}: {error}") from error
        self._lora_requests[loaded_name] = request

    @override
    def unload_adapter(self, loaded_name: str) -> None:
        """Remove an adapter from the engine; its requests under way fail."""
        request = self._lora_requests.pop(loaded_name)
        for key in [key for key in self._cached_names if key[0] == loaded_name]:
            del self._cached_names[key]
        self._worker.call(lambda engine: engine.remove_lora(request.lora_int_id), ends=request)

    def _lora_request(self, loaded_name: str | None) -> LoRARequest | None:
        if loaded_name is None:
            return None
        if loaded_name not in self._lora_requests:
            raise ValueError(REMOVED_ADAPTER)
        return self._lora_requests[loaded_name]

    def _row_request(self, ids: Ids, lora_name: str | None) -> "Request":
        name = self._name()
        extra_args = rows_args()
        if self._keeps:
            extra_args |= ForkHint(keep=name, parent=self._parent(ids, lora_name)).to_extra_args()
            self._cached_names[lora_name, ids] = name
        params = SamplingParams(
            temperature=0.0, extra_args=extra_args, output_kind=RequestOutputKind.FINAL_ONLY, **self.default_params
        )
        return Request(name, ids, params, self._lora_request(lora_name))

    def _beginning(self, prefixes: Sequence[Ids], lora_name: str | None) -> Ids:
        """Return the beginning that the uncached ones of these prefixes share, where it is worth a step of its own."""
        if not self._keeps:
            # The engine finds what requests of one step share, by its blocks of 16 tokens.
            return ()
        new = [ids for ids in prefixes if self._parent(ids, lora_name) is None]
        if len(new) < 2:
            return ()
        first, last = min(new), max(new)
        length = num_equal(first, last)
        return first[:length] if length >= MIN_SHARED else ()

    def _parent(self, ids: Ids, lora_name: str | None) -> str | None:
        """Return the request that cached the longest beginning of a prefix, or None."""
        for length in range(len(ids), max(len(ids) - MAX_BACK, 0), -1):
            if name := self._cached_names.get((lora_name, ids[:length])):
                return name
        return None

    def _name(self) -> str:
        return f"rows-{next(self._names)}"

    async def _generate(self, requests: Sequence["Request"]) -> list[RequestOutput]:
        """Run requests in the engine and wait for their outputs; abort all where one fails."""
        self._worker.add(requests)
        try:
            return await asyncio.gather(*(asyncio.wrap_future(request.future) for request in requests))
        except BaseException:
            # Cancelled, or one of them failed: nobody reads the others.
            self._worker.abort([request.name for request in requests])
            raise


def _model_without_weights(hf_config: Any) -> Any:
    """Return the model of transformers without its weights; None where transformers has none of this architecture."""
    from transformers import AutoModelForCausalLM

    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(hf_config)
    except (ValueError, KeyError, AttributeError, ImportError):
        return None
    return model if type(model).__name__ in (hf_config.architectures or ()) else None
