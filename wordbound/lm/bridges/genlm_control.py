"""``WordListPotential``: a word list as a potential of genlm-control 0.4, for its samplers and SMC."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from genlm.control import Potential

from wordbound.lm.word_list import State, WordList

_MAX_STATES: Final = 10_000
"""As many states of contexts are cached, the latest used."""


class WordListPotential(Potential):
    """0 for the texts of a word list and their beginnings, and -inf for all others.

    Contexts are sequences of the tokens of ``vocab``; a state is looked up or followed, in microseconds a token.

    Args:
        words: The list, of the same model.
        vocab: The tokens of a ``PromptedLLM``: its ``vocab``.
        max_tokens: The most tokens of a text: only what can still be completed within them is allowed. None for no
            bound.
    """

    def __init__(self, words: WordList, vocab: Sequence[Any], max_tokens: int | None = None) -> None:
        super().__init__(list(vocab))
        self._words = words
        self._max_tokens = max_tokens
        self._ids = np.asarray([token.token_id for token in vocab])
        self._states: OrderedDict[tuple[int, ...], State | None] = OrderedDict({(): words.start})

    async def complete(self, context: Sequence[Any]) -> float:
        """Return 0.0 where the context is a text of the list, else -inf."""
        state = self._state(context)
        return 0.0 if state is not None and self._words.is_complete(state) else -np.inf

    async def prefix(self, context: Sequence[Any]) -> float:
        """Return 0.0 where the context begins a text of the list, else -inf."""
        return 0.0 if self._state(context) is not None else -np.inf

    async def logw_next(self, context: Sequence[Any]) -> Any:
        """Return the weights of all tokens and of the end after a context, 0 or -inf.

        Raises:
            ValueError: The context begins no text of the list.
        """
        state = self._state(context)
        if state is None:
            raise ValueError(f"Context {context!r} has weight zero under `prefix`.")
        mask = self._words.mask(state, self._num_left(context)).numpy()
        weights = self.alloc_logws()
        weights[:-1][mask[self._ids]] = 0.0
        if self._words.is_complete(state):
            weights[-1] = 0.0
        return self.make_lazy_weights(weights)

    def _num_left(self, context: Sequence[Any]) -> int | None:
        """Return how many tokens may still come, the end of the text included."""
        return None if self._max_tokens is None else max(self._max_tokens - len(context), 1)

    def _state(self, context: Sequence[Any]) -> State | None:
        """Return the list's state after a context; None where it begins no text."""
        ids = tuple(token.token_id for token in context)
        state = self._states.get(ids)
        if state is None and ids not in self._states:
            before = self._state(context[:-1])
            try:
                state = None if before is None else self._words.next(before, ids[-1])
            except ValueError:
                state = None
            self._states[ids] = state
            if len(self._states) > _MAX_STATES:
                self._states.popitem(last=False)
        return state

    def spawn(self) -> "WordListPotential":
        """Return another potential of the same list."""
        return WordListPotential(self._words, self.vocab, self._max_tokens)
