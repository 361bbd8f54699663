"""``WordListPotential``: a word list as a potential of genlm-control 0.4, for its samplers and SMC."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from cachetools import LRUCache
from genlm.control import Potential

from wordbound.lm.word_list import State, WordList

MAX_STATES = 10_000
"""As many states of contexts are cached, the latest used."""


class WordListPotential(Potential):
    """0 for the texts of a word list and their beginnings, and -inf for all others.

    Contexts are sequences of the tokens of ``vocab``; a state is looked up or followed, in microseconds a token.

    Args:
        words: The list, of the same model.
        vocab: The tokens of a ``PromptedLLM``: its ``vocab``.
        max_tokens: The most tokens of a text, its end included: only what can still end within them is allowed. None
            for no bound.
    """

    def __init__(self, words: WordList, vocab: Sequence[Any], max_tokens: int | None = None) -> None:
        super().__init__(list(vocab))
        self._words = words
        self._max_tokens = max_tokens
        self._ids = np.asarray([token.token_id for token in vocab])
        self._states: LRUCache[tuple[int, ...], State | None] = LRUCache(MAX_STATES)

    async def complete(self, context: Sequence[Any]) -> float:
        """Return 0.0 where the context is a text of the list, else -inf."""
        state = self._state(context)
        may_end = state is not None and self._words.is_complete(state) and self._fits(len(context))
        return 0.0 if may_end else -np.inf

    async def prefix(self, context: Sequence[Any]) -> float:
        """Return 0.0 where the context begins a text of the list that ends in time, else -inf."""
        return 0.0 if self._begun(context) is not None else -np.inf

    async def logw_next(self, context: Sequence[Any]) -> Any:
        """Return the weights of all tokens and of the end after a context, 0 or -inf.

        Raises:
            ValueError: The context begins no text of the list that ends in time.
        """
        state = self._begun(context)
        if state is None:
            raise ValueError(f"Context {context!r} has weight zero under `prefix`.")
        weights = self.alloc_logws()
        num_left = None if self._max_tokens is None else self._max_tokens - len(context) - 1
        if num_left != 0:
            mask = self._words.mask(state, num_left).numpy()
            weights[:-1][mask[self._ids]] = 0.0
        if self._words.is_complete(state):
            weights[-1] = 0.0
        return self.make_lazy_weights(weights)

    def _begun(self, context: Sequence[Any]) -> State | None:
        """Return the list's state after a context; None where it begins no text that ends in time."""
        state = self._state(context)
        fewest = None if state is None else self._words.tokens_to_end(state)
        return state if fewest is not None and self._fits(len(context) + fewest) else None

    def _fits(self, num_tokens: int) -> bool:
        return self._max_tokens is None or num_tokens < self._max_tokens

    def _state(self, context: Sequence[Any]) -> State | None:
        """Return the list's state after a context; None where it begins no text."""
        ids = tuple(token.token_id for token in context)
        length = len(ids)
        while length and ids[:length] not in self._states:
            length -= 1
        state: State | None = self._states[ids[:length]] if length else self._words.start
        for end in range(length + 1, len(ids) + 1):
            try:
                state = None if state is None else self._words.next(state, ids[end - 1])
            except ValueError:
                state = None
            self._states[ids[:end]] = state
        return state

    def spawn(self) -> "WordListPotential":
        """Return another potential of the same list."""
        return WordListPotential(self._words, self.vocab, self._max_tokens)
