"""Leave out of an answer's logprobs what its word list forbids.

An engine names the likeliest tokens of each step. Where the list allows fewer, vLLM fills up with tokens that the mask
took, and where a mask failed any token may be among them. The answer's own tokens stay: their text is read anyway.
"""

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from vllm.outputs import CompletionOutput

from deployments.search.tokens import Constraint
from vocab.arrays.byte_trie import Int32Array
from vocab.matching.matcher import Matcher


class ListedLogprobs:
    """Removes from an answer's logprobs the tokens that its word list forbids.

    It follows the answer's choices, token by token, with the masks that the engine fills.

    A text is followed within the request's budget, as in the engine: near its end the budget decides which of an
    author's wishes are dropped, so that a text followed without one may come where nothing is allowed.

    Args:
        constraint: The list; None where xgrammar makes the masks, so that only tokens without a probability are known
            to be forbidden.
        end_tokens: Those that end a text and have none themselves, as the engine's matcher has them.
        asked_for: Tokens whose logprobs the client asked for by number; they stay.
        is_delta: Whether each output has new tokens only.
    """

    def __init__(
        self, constraint: Constraint | None, end_tokens: Collection[int], asked_for: Collection[int], *, is_delta: bool
    ) -> None:
        self._constraint = constraint
        self._end_tokens = end_tokens
        self._asked_for = asked_for
        self._is_delta = is_delta
        self._followed: dict[int, _FollowedText] = {}

    def keep_listed(self, output: CompletionOutput) -> None:
        """Remove forbidden tokens from the logprobs of an output, in place."""
        if output.logprobs is None:
            return
        text = self._followed.get(output.index) if self._is_delta else None
        if text is None and self._constraint is not None:
            text = self._followed[output.index] = _FollowedText(self._constraint, self._end_tokens)
        listed: list[dict[int, Any]] = []
        for token, entries in zip(output.token_ids, output.logprobs, strict=False):
            mask = None if text is None else text.mask()
            listed.append(
                {
                    other: entry
                    for other, entry in (entries or {}).items()
                    if other == token or other in self._asked_for or _may_come(mask, other, entry.logprob)
                }
            )
            if text is not None:
                text.accept(token)
        output.logprobs = listed


class _FollowedText:
    """A text as the engine's matcher follows it; after a token that its mask forbids, nothing more is allowed."""

    def __init__(self, constraint: Constraint, end_tokens: Collection[int]) -> None:
        self._matcher = Matcher.of(constraint.reference, constraint.states, end_tokens)
        self._mask: Int32Array = np.zeros((constraint.states.words.num_tokens + 31) // 32, dtype=np.int32)
        self._is_allowed = True

    def mask(self) -> Int32Array:
        """Return the mask of the next token, int32 (words,), until the next call."""
        if self._is_allowed:
            self._matcher.fill_bitmask(self._mask)
        else:
            self._mask[:] = 0
        return self._mask

    def accept(self, token: int) -> None:
        """Follow the text by one token."""
        self._is_allowed = self._is_allowed and self._matcher.accept_token(token)


def _may_come(mask: Int32Array | None, token: int, logprob: float) -> bool:
    """Return whether a token has a probability and the mask, if any, allows it."""
    if logprob == -math.inf:
        return False
    return mask is None or (token < 32 * len(mask) and bool(mask[token >> 5] >> np.int32(token & 31) & 1))
