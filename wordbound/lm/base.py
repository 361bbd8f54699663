"""``AsyncLM``: next-token distributions of a language model, the same calls for every backend.

A backend writes ``compute_rows``; checks, gathering, the cache of rows, scores and samples are here.
"""

import asyncio
import operator
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Self

import torch
from typing_extensions import override

from wordbound.lm.adapters import WithAdapters
from wordbound.lm.cache import OutputCache
from wordbound.lm.gathering import Gatherer, Ids, Key, PerLoop, run_sync, running_loop
from wordbound.lm.programs import WithRuns
from wordbound.lm.programs.constraint import ListConstraint, Unconstrained
from wordbound.lm.sampling import Sampling
from wordbound.lm.tokens import Token, decode_vocab

if TYPE_CHECKING:
    from wordbound.lm.word_list import WordList

MAX_BATCH_BYTES: Final = 4 << 30
"""Of the rows that one call returns: 21,845 prefixes at 49,152 tokens."""


class AsyncLM(WithAdapters, WithRuns, ABC):
    """A language model that is asked for next-token distributions.

    A row is a float32 tensor (V,): the log-softmax of the model's own logits, before any mask. V is ``vocab_size``,
    the width of the model's output, which may be more than the tokenizer has tokens. Rows are shared with the cache
    and with others who asked for the same prefix: do not change them in place.

    Concurrent calls on one event loop are gathered into batches. An object may be used from several event loops, one
    after the other or in several threads. The ``_sync`` methods work everywhere; inside a running event loop they
    block it.

    Args:
        tokenizer: A tokenizer of transformers, or None: then only ids go in and out.
        vocab_size: The width of a row, V.
        max_prefix_len: The longest prefix that has a next token; None where there is no limit.
        batch_size: The most prefixes in a batch.
        timeout: How long, in seconds, a batch stays open where other work keeps the event loop busy.
        cache_size: How many rows are cached for prefixes that are asked for again, the latest used; 0 for none.
        cache_opts: Options of ``OutputCache``: ``{"move_to_cpu": True}`` caches rows off the GPU.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        vocab_size: int,
        max_prefix_len: int | None = None,
        batch_size: int = 20,
        timeout: float = 0.02,
        cache_size: int = 0,
        cache_opts: Mapping[str, Any] | None = None,
    ) -> None:
        if batch_size < 1 or timeout < 0 or cache_size < 0:
            raise ValueError(
                "batch_size must be at least 1, timeout and cache_size at least 0: "
                f"got {batch_size}, {timeout} and {cache_size}"
            )
        super().__init__()
        self.tokenizer = tokenizer
        self.vocab_size = vocab_size
        self.max_prefix_len = max_prefix_len
        self.batch_size = batch_size
        self.timeout = timeout
        self._gatherers = PerLoop[Gatherer]()
        self._lock = threading.Lock()
        self.cache = OutputCache(cache_size, **(cache_opts or {}))

    # What a backend writes.

    @abstractmethod
    async def compute_rows(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        """Compute the rows after n prefixes, float32 (n, V) of log p; no two prefixes are equal, and all are checked.

        ``lora_name`` is what ``load_adapter`` got, or None. Called with at most ``batch_size`` prefixes, by several
        tasks at a time if it awaits. An exception is raised in everybody who waits for one of them. Cancelled where
        nobody waits for any of them.
        """

    def compute_rows_sync(self, prefixes: Sequence[Ids], lora_name: str | None) -> torch.Tensor:
        """Compute rows as ``compute_rows``, blocking and for any number of prefixes.

        A backend that need not wait for others overrides it.
        """
        return run_sync(self.compute_rows(prefixes, lora_name))

    async def compute_scores(self, prompt: Ids, ids: Ids, lora_name: str | None) -> torch.Tensor:
        """Compute float32 (n,): log p of each of n tokens, at least one, after the prompt and the ones before it.

        By n rows; a backend that can do it by one prefill overrides it.
        """
        rows = await self._rows([(lora_name, prompt + ids[:i]) for i in range(len(ids))])
        return torch.stack([row[token].cpu() for row, token in zip(rows, ids, strict=True)])

    def compute_scores_sync(self, prompt: Ids, ids: Ids, lora_name: str | None) -> torch.Tensor:
        """Compute scores as ``compute_scores``, blocking."""
        return run_sync(self.compute_scores(prompt, ids, lora_name))

    # Rows.

    async def next_token_logprobs(self, token_ids: Sequence[int], lora_name: str | None = None) -> torch.Tensor:
        """Return float32 (V,): log p of every token after ``token_ids``.

        Raises:
            ValueError: ``token_ids`` is empty, too long, or holds what is no id; or there is no such adapter.
        """
        (row,) = await self._rows([self._key(token_ids, lora_name)])
        return row

    async def batch_next_token_logprobs(
        self, token_ids_list: Sequence[Sequence[int]], lora_name: str | None = None
    ) -> torch.Tensor:
        """Return float32 (n, V): the rows of n prefixes, in their order. Errors as in ``next_token_logprobs``."""
        return torch.stack(await self._rows(self._keys(token_ids_list, lora_name)))

    def next_token_logprobs_sync(self, token_ids: Sequence[int], lora_name: str | None = None) -> torch.Tensor:
        """As ``next_token_logprobs``, for code that does not await. It joins no batch; its row is cached as well."""
        (row,) = self._rows_sync([self._key(token_ids, lora_name)])
        return row

    def batch_next_token_logprobs_sync(
        self, token_ids_list: Sequence[Sequence[int]], lora_name: str | None = None
    ) -> torch.Tensor:
        """As ``batch_next_token_logprobs``, for code that does not await."""
        return torch.stack(self._rows_sync(self._keys(token_ids_list, lora_name)))

    def next_token_logprobs_uncached(self, token_ids: Sequence[int], lora_name: str | None = None) -> torch.Tensor:
        """As ``next_token_logprobs_sync``, without the cache of rows. A backend may go round its other caches too."""
        loaded_name, ids = self._key(token_ids, lora_name)
        return self.compute_rows_sync([ids], loaded_name)[0]

    # Scores of given tokens.

    async def token_logprobs(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], lora_name: str | None = None
    ) -> torch.Tensor:
        """Return float32 (n,): log p of each of n ``token_ids`` after the prompt and the ones before it.

        One prefill where the backend can, n rows elsewhere.

        Raises:
            ValueError: As ``next_token_logprobs``; the prompt must have at least one token, ``token_ids`` may be empty.
        """
        asked = self._checked_for_scoring(prompt_ids, token_ids, lora_name)
        return await self.compute_scores(*asked) if len(token_ids) else torch.empty(0)

    def token_logprobs_sync(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], lora_name: str | None = None
    ) -> torch.Tensor:
        """As ``token_logprobs``, for code that does not await."""
        asked = self._checked_for_scoring(prompt_ids, token_ids, lora_name)
        return self.compute_scores_sync(*asked) if len(token_ids) else torch.empty(0)

    # Samples.

    async def sample(
        self,
        prompt_token_ids: Sequence[int],
        max_tokens: int,
        eos_token_ids: Iterable[int],
        temperature: float = 1.0,
        seed: int | None = None,
        lora_name: str | None = None,
        vocab: "WordList | None" = None,
    ) -> list[int]:
        """Return up to ``max_tokens`` sampled ids, without the one that ended them.

        Args:
            prompt_token_ids: What the text goes on from.
            max_tokens: The most tokens.
            eos_token_ids: The tokens that end a text; may be empty.
            temperature: 0 takes the likeliest token each time.
            seed: With the same one, the same ids. None for others each time.
            lora_name: The adapter.
            vocab: A word list. Only its texts are sampled, and each ends whole within ``max_tokens``.

        Raises:
            ValueError: As ``next_token_logprobs``; a bad temperature or ``max_tokens``; or no text of ``vocab`` fits.
        """
        if max_tokens < 0:
            raise ValueError(f"max_tokens must be at least 0, not {max_tokens}")
        sampling = Sampling(temperature, seed=seed)
        generator = sampling.generator()
        ends = tuple(eos_token_ids)
        constraint = Unconstrained(ends) if vocab is None else ListConstraint(vocab, ends)
        prompt, ids = list(prompt_token_ids), list[int]()
        while len(ids) < max_tokens:
            place = constraint.place(max_tokens - len(ids))
            if place.mask is not None and not place.mask.any():
                raise ValueError(f"no text of the word list fits into {max_tokens} tokens: raise max_tokens")
            row = await self.next_token_logprobs(prompt + ids, lora_name)
            token = sampling.draw(place.masked(row.cpu()), generator)
            if token in constraint.eos_token_ids:
                break
            constraint.accept(token)
            ids.append(token)
        return ids

    async def batch_sample(
        self,
        prompt_token_ids_list: Sequence[Sequence[int]],
        max_tokens: int,
        eos_token_ids: Iterable[int],
        temperature: float = 1.0,
        seed: int | None = None,
        lora_name: str | None = None,
        vocab: "WordList | None" = None,
    ) -> list[list[int]]:
        """Sample one text after each prompt, at the same time. Prompt i has the seed ``seed + i``."""
        # Checked first, so that one bad prompt does not leave the others running.
        self._keys(prompt_token_ids_list, lora_name)
        ends = tuple(eos_token_ids)
        seeds = [None if seed is None else seed + i for i in range(len(prompt_token_ids_list))]
        tasks = [
            asyncio.ensure_future(self.sample(prompt, max_tokens, ends, temperature, own_seed, lora_name, vocab))
            for prompt, own_seed in zip(prompt_token_ids_list, seeds, strict=True)
        ]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    # The vocabulary.

    @property
    def byte_vocab(self) -> list[Token]:
        """The ``Token`` of every id, with the bytes it stands for. ValueError where there is no tokenizer."""
        return self._vocab[0]

    @property
    def str_vocab(self) -> list[str]:
        """The text of every id. ValueError where there is no tokenizer."""
        return self._vocab[1]

    @cached_property
    def _vocab(self) -> tuple[list[Token], list[str]]:
        if self.tokenizer is None:
            raise ValueError(
                "this model has no tokenizer, so its tokens have no text: load one and give it as tokenizer="
            )
        return decode_vocab(self.tokenizer)

    # Caches, adapters, the end.

    def clear_cache(self) -> None:
        """Drop all cached rows, keys and values."""
        self.clear_kv_cache()
        self.clear_rows()

    @override
    def clear_rows(self) -> None:
        """Drop all cached rows, but not keys and values."""
        with self._lock:
            self.cache.clear()

    def cache_kv(self, prompt_tokens: Sequence[int], lora_name: str | None = None) -> None:
        """Cache the keys and values of a prompt, so that prefixes that begin with it continue from there.

        Does nothing where the engine caches them by itself.
        """

    def clear_kv_cache(self) -> None:
        """Drop cached keys and values, but not rows; nothing where the engine caches them by itself."""

    def reset_async_queries(self) -> None:
        """Drop the queries that no batch has taken yet; who waits for one gets a RuntimeError."""
        for loop, gatherer in list(self._gatherers.items()):
            if loop is running_loop():
                gatherer.reset()
            elif not loop.is_closed():
                # In its own thread; a loop that has ended has cancelled everything.
                loop.call_soon_threadsafe(gatherer.reset)

    def cleanup(self) -> None:
        """Release what the model holds, such as caches and waiting queries. May be called twice."""
        self.reset_async_queries()
        self.clear_cache()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cleanup()

    # From prefixes to rows.

    async def compute_batch(self, prefixes: Sequence[Ids], lora_name: str | None) -> list[torch.Tensor]:
        """Compute the rows of a gathered batch and cache them; the gatherers call it."""
        return self._cache_rows(prefixes, await self.compute_rows(prefixes, lora_name), lora_name)

    async def _rows(self, keys: list[Key]) -> list[torch.Tensor]:
        """Return the rows of keys, from the cache or computed in batches with other callers'."""
        found = self._cached(keys)
        if missing := [key for key in keys if key not in found]:
            rows = await self._gatherers.of_loop(partial(Gatherer, self)).rows(missing)
            found |= dict(zip(missing, rows, strict=True))
        return [found[key] for key in keys]

    def _rows_sync(self, keys: list[Key]) -> list[torch.Tensor]:
        """Return the rows of keys, from the cache or computed now, ``batch_size`` at a time."""
        found = self._cached(keys)
        missing = list(dict.fromkeys(key for key in keys if key not in found))
        for start in range(0, len(missing), self.batch_size):
            chunk = missing[start : start + self.batch_size]
            prefixes, lora_name = [ids for _, ids in chunk], chunk[0][0]
            rows = self._cache_rows(prefixes, self.compute_rows_sync(prefixes, lora_name), lora_name)
            found |= dict(zip(chunk, rows, strict=True))
        return [found[key] for key in keys]

    def _cached(self, keys: Iterable[Key]) -> dict[Key, torch.Tensor]:
        if not self.cache.maxsize:
            return {}
        with self._lock:
            return {key: self.cache[key] for key in keys if key in self.cache}

    def _cache_rows(self, prefixes: Sequence[Ids], rows: torch.Tensor, lora_name: str | None) -> list[torch.Tensor]:
        """Check the shape of computed rows, cache them, and return them one by one."""
        if rows.shape != (len(prefixes), self.vocab_size):
            raise RuntimeError(
                f"{type(self).__name__} made rows of {tuple(rows.shape)}, not of {(len(prefixes), self.vocab_size)}"
            )
        # Copies: who keeps one row of a batch should not keep the memory of all of them.
        kept = [row.clone() for row in rows] if len(prefixes) > 1 else [rows[0]]
        if self.cache.maxsize:
            with self._lock:
                for ids, row in zip(prefixes, kept, strict=True):
                    self.cache[lora_name, ids] = row
        return kept

    # Checks.

    def _key(self, token_ids: Sequence[int], lora_name: str | None) -> Key:
        """Check a prefix and its adapter, and return the key of its row; ValueError where one is bad."""
        loaded_name = self.loaded_name(lora_name)
        ids = self._checked_ids(token_ids)
        if not ids:
            raise ValueError("token ids must not be empty: give at least one, such as the tokenizer's bos_token_id")
        if self.max_prefix_len is not None and len(ids) > self.max_prefix_len:
            raise ValueError(f"{len(ids)} tokens are more than the model's context: at most {self.max_prefix_len}")
        return loaded_name, ids

    def _keys(self, token_ids_list: Sequence[Sequence[int]], lora_name: str | None) -> list[Key]:
        """Check prefixes, and that their rows fit into memory; return the keys of the rows."""
        if not len(token_ids_list):
            raise ValueError("an empty list of prefixes has no rows: give at least one prefix")
        most = MAX_BATCH_BYTES // (4 * self.vocab_size)
        if len(token_ids_list) > most:
            raise ValueError(
                f"{len(token_ids_list):,} prefixes are more rows than fit into memory at once: ask for at most {most:,}"
                f" at a time, each of {self.vocab_size:,} numbers"
            )
        return [self._key(token_ids, lora_name) for token_ids in token_ids_list]

    def _checked_for_scoring(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], lora_name: str | None
    ) -> tuple[Ids, Ids, str | None]:
        """Check a prompt and the tokens to score; return both, and the name of the loaded adapter."""
        ids = self._checked_ids(token_ids)
        loaded_name, prompt = self._key(prompt_ids, lora_name)
        # The last token is scored, and nothing is asked after it.
        if self.max_prefix_len is not None and len(prompt) + len(ids) - 1 > self.max_prefix_len:
            raise ValueError(
                f"a prompt of {len(prompt)} tokens and {len(ids)} to score are more than the model's context: "
                f"at most {self.max_prefix_len + 1} together"
            )
        return prompt, ids, loaded_name

    def _checked_ids(self, token_ids: Sequence[Any]) -> Ids:
        """Return ids, of numpy's and torch's integers too, as ints; ValueError where one is none of this model."""
        last = self.vocab_size - 1
        token_ids = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        for token in token_ids:
            if isinstance(token, bool) or not hasattr(token, "__index__"):
                raise ValueError(f"token ids must be ints from 0 to {last}, not {token!r}")
        ids = tuple(map(operator.index, token_ids))
        if ids and not 0 <= min(ids) <= max(ids) <= last:
            wrong = next(token for token in ids if not 0 <= token <= last)
            raise ValueError(f"token ids must be from 0 to {last}, this model's vocabulary, not {wrong}")
        return ids
