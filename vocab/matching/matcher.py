"""One text in the making: which tokens may come next, and where an accepted token leads.

A state is one integer, so a rollback is a look back. The matcher knows its budget of tokens and keeps a way to a
whole word open within it. It knows nothing of lists (``vocab.matching.states`` does) or of vLLM, whose view of it is
``vocab.vllm_plugin.backend``'s.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from vocab.arrays.byte_trie import Int32Array
from vocab.errors import TokenBudgetError
from vocab.matching.masks import NO_BUDGET
from vocab.matching.repeats import Repeats
from vocab.matching.states import States

_MAX_TOKEN: Final = np.iinfo(np.int32).max


class Matcher:
    """Follows one text of an automaton, token by token.

    Args:
        states: The states it walks on; they may be shared by many matchers.
        stop_token_ids: The tokens that end a text; they are never part of one.
        max_tokens: How many tokens may come, the stop token included if it comes; None where that is not known.
        start: The state in which the text goes on; None for the empty text.
        repeats: Forbids tokens that would repeat what came; None for no such rule.

    Raises:
        TokenBudgetError: No text fits into ``max_tokens``.
    """

    def __init__(
        self,
        states: States,
        stop_token_ids: Iterable[int],
        max_tokens: int | None = None,
        *,
        start: int | None = None,
        repeats: Repeats | None = None,
    ) -> None:
        self._space = states
        self._stops = frozenset(stop_token_ids)
        # A client may name any number as a stop token.
        self._stop_tokens = np.asarray([i for i in sorted(self._stops) if 0 <= i <= _MAX_TOKEN], dtype=np.int32)
        self._max_tokens = max_tokens
        self._states = [states.start if start is None else start]
        self._repeats = repeats
        self._is_terminated = False
        # A text that goes on came here by tokens that left a way to its end open.
        if max_tokens is not None and start is None:
            fewest = states.fewest_tokens()
            if fewest is None or fewest > max_tokens:
                raise TokenBudgetError(f"no text of these words fits into {max_tokens} tokens")

    @property
    def state(self) -> int:
        return self._states[-1]

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token came."""
        return self._is_terminated

    @property
    def num_tokens(self) -> int:
        """Tokens accepted, a stop token included."""
        return len(self._states) - 1 + self._is_terminated

    def can_stop(self) -> bool:
        """Whether the text is complete."""
        return self._space.can_stop(self.state)

    def fill_bitmask(self, out: Int32Array) -> None:
        """Writes the tokens that may come next into ``out``, int32 (words,)."""
        self._space.fill(out, self._states[-1], self._budget_after_next(), self._stop_tokens)
        if self._repeats is not None:
            self._repeats.clear(out)

    def accept_token(self, token: int) -> bool:
        """Goes on by one token; False, and no change, where it may not come."""
        if self._is_terminated:
            return False
        if token in self._stops:
            self._is_terminated = self.can_stop()
            return self._is_terminated
        target = self._space.target(self._states[-1], token, self._budget_after_next())
        if target < 0:
            return False
        self._states.append(target)
        if self._repeats is not None:
            self._repeats.append(token)
        return True

    def rollback(self, num_tokens: int) -> None:
        """Takes the last tokens back.

        Raises:
            ValueError: There were not so many.
        """
        if not 0 <= num_tokens <= self.num_tokens:
            raise ValueError(f"cannot take {num_tokens} of {self.num_tokens} tokens back")
        if num_tokens and self._is_terminated:
            self._is_terminated = False
            num_tokens -= 1
        if num_tokens:
            del self._states[-num_tokens:]
            if self._repeats is not None:
                self._repeats.rollback(num_tokens)

    def reset(self) -> None:
        """Takes all tokens back."""
        self.rollback(self.num_tokens)

    def _budget_after_next(self) -> int:
        if self._max_tokens is None:
            return NO_BUDGET
        # Past the budget nothing is asked any more; the last state was complete.
        return max(self._max_tokens - len(self._states), 0)
