"""Follow one text: which tokens may come next, and where an accepted token leads, within a budget of tokens."""

from collections.abc import Iterable
from typing import Final, Self

import numpy as np

from vocab.arrays.kernels import Int32Array
from vocab.errors import TokenBudgetError
from vocab.matching.mask_kernels import NO_BUDGET, set_token_bits
from vocab.matching.reference import GrammarReference
from vocab.matching.repeats import Repeats
from vocab.matching.text_states import State, TextStates

_MAX_TOKEN: Final = np.iinfo(np.int32).max


class Matcher:
    """Follow one text, token by token, so that it can always end with a whole word within its budget.

    Args:
        states: Where tokens lead; may be shared by many matchers.
        stop_token_ids: The tokens that end a text; never part of one.
        max_tokens: The budget, the stop token included if it comes; None for no budget.
        start: The state in which the text goes on; None for the empty text.
        repeats: Forbids tokens that would repeat a run; None for no such rule.
        min_tokens: No stop token comes before so many others, unless nothing else may come.
        is_checked: Whether a text is known to fit into ``max_tokens``, as of one that goes on.

    Raises:
        TokenBudgetError: No text fits into ``max_tokens``.
    """

    def __init__(
        self,
        states: TextStates,
        stop_token_ids: Iterable[int],
        max_tokens: int | None = None,
        *,
        start: State | None = None,
        repeats: Repeats | None = None,
        min_tokens: int = 0,
        is_checked: bool = False,
    ) -> None:
        self.states = states
        self._stops = frozenset(stop_token_ids)
        # A client may name any number as a stop token.
        self._stop_tokens = np.asarray([i for i in sorted(self._stops) if 0 <= i <= _MAX_TOKEN], dtype=np.int32)
        self._max_tokens = max_tokens
        self._path = [states.start if start is None else start]
        self._repeats = repeats
        self._min_tokens = min_tokens
        self._num_before = 0
        self._is_terminated = False
        if max_tokens is not None and not is_checked:
            fewest = states.tokens_to_end(self.state)
            if fewest is None or fewest > max_tokens:
                raise TokenBudgetError(f"no text of these words fits into {max_tokens} tokens")

    @classmethod
    def of(cls, reference: GrammarReference, states: TextStates, stop_token_ids: Iterable[int]) -> Self:
        """Make the matcher of a request from its grammar reference; its states are ``states``.

        Raises:
            TokenBudgetError: No text fits into its budget.
            ValueError: It names a state that its list does not have.
        """
        states.check(reference.start or ())
        return cls(
            states,
            stop_token_ids,
            reference.max_tokens,
            start=states.begin(reference.place) if reference.start is None else reference.start,
            repeats=None if reference.no_repeat is None else Repeats(reference.no_repeat, reference.seen),
            min_tokens=reference.min_tokens,
            # A text that goes on was checked when it began.
            is_checked=reference.start is not None,
        )

    @property
    def state(self) -> State:
        return self._path[-1]

    @property
    def is_terminated(self) -> bool:
        """Return whether a stop token came."""
        return self._is_terminated

    @property
    def stop_tokens(self) -> Int32Array:
        """Return the tokens that end the text, ascending."""
        return self._stop_tokens

    @property
    def repeats(self) -> Repeats | None:
        return self._repeats

    @property
    def num_early(self) -> int:
        """Return before how many more tokens no stop token comes, unless nothing else may."""
        return max(self._min_tokens - self.num_tokens, 0)

    @property
    def num_tokens(self) -> int:
        """Return how many tokens were accepted, a stop token included."""
        return len(self._path) - 1 + self._is_terminated

    def can_stop(self) -> bool:
        """Return whether the text is complete, so that a stop token may come."""
        return self.states.can_stop(self.state)

    def budget_after_next(self) -> int:
        """Return how many tokens may follow the next one; ``NO_BUDGET`` without a budget."""
        if self._max_tokens is None:
            return NO_BUDGET
        # Past the budget no mask is asked for; the last state was complete.
        return max(self._max_tokens - self._num_before - len(self._path), 0)

    def fill_bitmask(self, out: Int32Array) -> None:
        """Write the mask for the next token into ``out``, int32 (words,)."""
        self.states.fill(out, self._path[-1], self.budget_after_next(), self._stop_tokens)
        if self.num_tokens < self._min_tokens:
            self._clear_stops(out)
        if self._repeats is not None:
            self._repeats.clear(out)

    def accept_token(self, token: int) -> bool:
        """Advance by one token; return False, and change nothing, where it is not allowed."""
        if self._is_terminated:
            return False
        if token in self._stops:
            self._is_terminated = self.can_stop() and not self._is_too_early()
            return self._is_terminated
        target = self.states.target(self._path[-1], token, self.budget_after_next())
        if not target:
            return False
        self._path.append(target)
        if self._repeats is not None:
            self._repeats.append(token)
        return True

    def begin_after(self, num_tokens: int) -> None:
        """Charge the tokens that a model thought before this text to its budget; may be repeated with the same number.

        Where no text fits into the rest there is no budget: what is then cut is for others to trim.
        """
        if self._max_tokens is None or num_tokens == self._num_before:
            return
        self._num_before = num_tokens
        self.states.begin_after(num_tokens)
        fewest = self.states.tokens_to_end(self._path[0])
        if fewest is None or fewest > self._max_tokens - num_tokens:
            self._max_tokens = None

    def end_within(self, num_tokens: int) -> None:
        """Shorten the budget to so many tokens more; a text has to fit into them."""
        self._max_tokens = self._num_before + self.num_tokens + num_tokens

    def rollback(self, num_tokens: int) -> None:
        """Undo the last accepted tokens.

        Raises:
            ValueError: There were fewer.
        """
        if not 0 <= num_tokens <= self.num_tokens:
            raise ValueError(f"cannot take {num_tokens} of {self.num_tokens} tokens back")
        if num_tokens and self._is_terminated:
            self._is_terminated = False
            num_tokens -= 1
        if num_tokens:
            del self._path[-num_tokens:]
            if self._repeats is not None:
                self._repeats.rollback(num_tokens)

    def reset(self) -> None:
        """Undo all accepted tokens."""
        self.rollback(self.num_tokens)

    def _clear_stops(self, out: Int32Array) -> None:
        """Clear the stop tokens in a mask, unless nothing would be left."""
        set_token_bits(out, self._stop_tokens, False)
        if self.can_stop() and not out.any():
            set_token_bits(out, self._stop_tokens, True)

    def _is_too_early(self) -> bool:
        """Return whether ``min_tokens`` forbids a stop token here, because others may still come."""
        if self.num_tokens >= self._min_tokens:
            return False
        others = np.zeros((self.states.words.num_tokens + 31) // 32, dtype=np.int32)
        self.states.fill(others, self.state, self.budget_after_next(), self._stop_tokens)
        set_token_bits(others, self._stop_tokens, False)
        return bool(others.any())
