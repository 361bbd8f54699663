"""``AsyncTransformer``: a model of transformers in this process."""

import asyncio
import contextlib
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

import torch
from typing_extensions import override

from deployments.adapter_files import CONFIG, WEIGHTS, Adapter, module_shapes
from wordbound.lm.adapters import REMOVED_ADAPTER
from wordbound.lm.base import AsyncLM
from wordbound.lm.cache import CachedTokens, TokenTrie
from wordbound.lm.forwards import can_continue, next_logits, scores_after
from wordbound.lm.gathering import Gatherer, Ids
from wordbound.lm.loading import load_tokenizer


class AsyncTransformer(AsyncLM):
    """Rows from a causal language model of transformers.

    A batch is a padded forward. The keys and values of the tokens used last are cached, so that a prefix that goes on
    from an earlier one costs its new tokens only, and long beginnings that several have in common are computed once.
    Models with windows or states of their own read each prefix from its beginning.

    Forwards are executed in the thread of the event loop, which they block, one at a time.

    Args:
        hf_model: The model.
        hf_tokenizer: Its tokenizer, or None.
        batch_size: The most prefixes in a forward.
        timeout: How long, in seconds, a batch stays open where other work keeps the event loop busy.
        cache_size: How many rows are cached; 256 are 50 MB at 49k tokens.
        cache_opts: Options of ``OutputCache``.
        kv_cache_tokens: How many tokens' keys and values are cached, of the model and of each adapter; 4,096 are 190 MB
            for a model of 135M parameters in float32, 537 MB for one of 8B in 16 bits.
    """

    def __init__(
        self,
        hf_model: Any,
        hf_tokenizer: Any,
        batch_size: int = 20,
        timeout: float = 0.02,
        cache_size: int = 256,
        cache_opts: Mapping[str, Any] | None = None,
        kv_cache_tokens: int = 4096,
    ) -> None:
        config = hf_model.config.get_text_config()
        super().__init__(
            hf_tokenizer,
            vocab_size=config.vocab_size,
            max_prefix_len=getattr(config, "max_position_embeddings", None),
            batch_size=batch_size,
            timeout=timeout,
            cache_size=cache_size,
            cache_opts=cache_opts,
        )
        self.model = hf_model.eval()
        self.device = hf_model.device
        # The model and what is cached of it are one thread's at a time.
        self._model_lock = threading.RLock()
        self._cached_tokens: dict[str | None, CachedTokens] = {None: CachedTokens(kv_cache_tokens)}
        # The adapter that the model has switched on; peft sets each module's, which takes milliseconds.
        self._active: str | None = None
        with torch.no_grad():
            self._continues = can_continue(hf_model)

    @classmethod
    def from_name(
        cls,
        model_id: str,
        bitsandbytes_opts: Mapping[str, Any] | None = None,
        hf_opts: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Load a model and its tokenizer with transformers.

        Args:
            model_id: The model's name at the Hugging Face Hub, or its folder.
            bitsandbytes_opts: Options of transformers' ``BitsAndBytesConfig``.
            hf_opts: Options of ``AutoModelForCausalLM.from_pretrained``. By default: on a GPU ``device_map="auto"`` and
                the weights' own dtype; on a CPU float32, which is exact and there faster than bfloat16 as a rule.
            kwargs: Options of this class.

        Raises:
            ValueError: The model has no tokenizer.
        """
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig

        options: dict[str, Any] = (
            {"device_map": "auto", "dtype": "auto"} if torch.cuda.is_available() else {"dtype": torch.float32}
        )
        options |= hf_opts or {}
        if "torch_dtype" in options:
            # The name that transformers had before.
            options["dtype"] = options.pop("torch_dtype")
        if bitsandbytes_opts:
            options["quantization_config"] = BitsAndBytesConfig(**bitsandbytes_opts)
        tokenizer = load_tokenizer(model_id)
        return cls(AutoModelForCausalLM.from_pretrained(model_id, **options), tokenizer, **kwargs)

    # Rows.

    @override
    async def compute_rows(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        return self.compute_rows_sync(prefixes, lora_name)

    @override
    def compute_rows_sync(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        with self._model_with(lora_name) as model:
            return _rows(next_logits(model, prefixes, self._cached_tokens[lora_name] if self._continues else None))

    @override
    def next_token_logprobs_uncached(self, token_ids: Sequence[int], lora_name: str | None = None) -> torch.Tensor:
        """As ``next_token_logprobs_sync``, by a forward of the whole prefix alone that caches nothing."""
        loaded_name, ids = self._key(token_ids, lora_name)
        with self._model_with(loaded_name) as model:
            return _rows(next_logits(model, [ids], None))[0]

    @override
    async def compute_scores(self, prompt: Ids, ids: Ids, lora_name: str | None) -> torch.Tensor:
        return self.compute_scores_sync(prompt, ids, lora_name)

    @override
    def compute_scores_sync(self, prompt: Ids, ids: Ids, lora_name: str | None) -> torch.Tensor:
        with self._model_with(lora_name) as model:
            return scores_after(model, prompt, ids, self._cached_tokens[lora_name])

    # What is cached.

    @override
    def cache_kv(self, prompt_tokens: Sequence[int], lora_name: str | None = None) -> None:
        """Cache the keys and values of a prompt until ``clear_kv_cache``; what was cached after it is dropped.

        Does nothing for a model that reads each prefix from its beginning.

        Raises:
            ValueError: As ``next_token_logprobs``; or the prompt has more than ``kv_cache_tokens``.
        """
        from transformers import DynamicCache

        loaded_name, ids = self._key(prompt_tokens, lora_name)
        with self._model_with(loaded_name) as model:
            if self._continues:
                cached = self._cached_tokens[loaded_name]
                next_logits(model, [ids], cached)
                node = cached.pin(ids)
                node.past_key_values = DynamicCache(cached.read([cached.path(ids)]))

    @override
    def clear_kv_cache(self) -> None:
        """Drop all cached keys and values, those of ``cache_kv`` too."""
        with self._model_lock:
            for cached in self._cached_tokens.values():
                cached.clear()

    def walk_cache(self, token_ids: Sequence[int], lora_name: str | None = None) -> tuple[TokenTrie, int, Any, int]:
        """Find how much of a prefix is cached, by its tokens and by ``cache_kv``.

        Returns:
            The node of the longest beginning whose keys and values are cached, its number of tokens, the keys and
            values of the longest beginning that ``cache_kv`` caches (or None), and the number of its tokens.
        """
        node, num_found, past, base = self._cached_tokens[self.loaded_name(lora_name)].root, 0, None, 0
        for token_id in token_ids:
            if not node.has_token(token_id):
                break
            node, num_found = node.get_token(token_id), num_found + 1
            if node.past_key_values is not None and num_found < len(token_ids):
                past, base = node.past_key_values, num_found
        return node, num_found, past, base

    @property
    def _caches(self) -> dict[str | None, TokenTrie]:
        """By adapter, the tree of what is cached: genlm-backend's name for it."""
        return {
            name: self._cached_tokens[loaded_name].root for name, loaded_name in [(None, None), *self._adapters.items()]
        }

    # Adapters.

    @contextlib.contextmanager
    def _model_with(self, loaded_name: str | None) -> Iterator[Any]:
        """Lock the model for this thread, switch to an adapter or to none, and yield it."""
        with self._model_lock, torch.no_grad():
            if loaded_name not in self._cached_tokens:
                raise ValueError(REMOVED_ADAPTER)
            if loaded_name != self._active:
                self._switch(loaded_name)
            yield self.model

    def _switch(self, loaded_name: str | None) -> None:
        if loaded_name is None:
            # Where none is left there is nothing to switch off.
            with contextlib.suppress(ValueError):
                self.model.disable_adapters()
        else:
            self.model.set_adapter(loaded_name)
            self.model.enable_adapters()
        self._active = loaded_name

    @contextlib.contextmanager
    def _changing_adapters(self) -> Iterator[None]:
        with self._model_lock, warnings.catch_warnings():
            # Of a second adapter, and of the end of one that was active: both are wanted.
            for message in ("Already found a `peft_config` attribute", "Adapter .* was active which is now deleted"):
                warnings.filterwarnings("ignore", message=message)
            yield

    @override
    def load_adapter(self, lora_path: str, loaded_name: str) -> None:
        adapter = Adapter.read(lora_path, lora_path)
        try:
            from peft import PeftConfig
            from safetensors.torch import load_file
        except ModuleNotFoundError as error:
            raise ImportError("adapters need peft: install wordbound[lm]", name="peft") from error
        with self._changing_adapters():
            adapter.check_model(module_shapes(self.model))
            adapter.check_engine()
            config = PeftConfig.from_pretrained(str(adapter.folder))
            try:
                found = self.model.load_adapter(
                    adapter_name=loaded_name, peft_config=config, adapter_state_dict=load_file(adapter.folder / WEIGHTS)
                )
                # Those of other adapters are missing too. Else these would be random, or left out, with a warning.
                missing = {key for key in found.missing_keys if f".{loaded_name}." in key}
                if wrong := {*missing, *found.unexpected_keys, *found.mismatched_keys}:
                    raise ValueError(f"{len(wrong)} tensors, such as {min(map(str, wrong))}")
            except (RuntimeError, ValueError, KeyError) as error:
                with contextlib.suppress(ValueError):
                    self.model.delete_adapter(loaded_name)
                raise ValueError(
                    f"the weights of adapter {adapter.folder} are not those of its {CONFIG}: save it again ({error})"
                ) from error
            finally:
                # It was switched on, but for a model whose others were switched off.
                self._switch(None)
            self._cached_tokens[loaded_name] = CachedTokens(self._cached_tokens[None].max_tokens)

    @override
    def unload_adapter(self, loaded_name: str) -> None:
        with self._changing_adapters():
            self._switch(None)
            self.model.delete_adapter(loaded_name)
            del self._cached_tokens[loaded_name]

    # Queries that somebody else's program adds.

    @property
    def queries(self) -> list[Ids]:
        """The prefixes that wait for a batch, of all event loops."""
        return [ids for gatherer in list(self._gatherers.values()) for _, ids in gatherer.waiting]

    @queries.setter
    def queries(self, value: Sequence[Ids]) -> None:
        if len(value):
            raise ValueError("queries can be emptied only: add_query adds one")
        self.reset_async_queries()

    def add_query(
        self,
        query: Sequence[int],
        future: "asyncio.Future[torch.Tensor]",
        past: None = None,
        lora_name: str | None = None,
    ) -> None:
        """Let ``future`` have the row of a prefix with the next batch of the running event loop.

        Raises:
            ValueError: As ``next_token_logprobs``; or a ``past``: the whole prefix is given; what is cached is found.
        """
        if past is not None:
            raise ValueError("give the whole prefix and no past: cache_kv keeps what is to be reused")
        self._gatherers.of_loop(partial(Gatherer, self)).add(self._key(query, lora_name), future)

    def batch_evaluate_queries(self) -> None:
        """Close the running event loop's batch, which is computed at its next pass; nothing outside of a loop."""
        with contextlib.suppress(RuntimeError, KeyError):
            self._gatherers[asyncio.get_running_loop()].close_batch()


def _rows(logits: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.float(), dim=-1).cpu()
