"""Leave out of an answer's logprobs what its word list forbids.

An engine names the likeliest tokens of each step. Where the list allows fewer, vLLM fills up with tokens that the mask
took, and where a mask failed any token may be among them. The answer's own tokens stay: their text is read anyway.
"""

import math
from collections.abc import Collection
from typing import Any

from vllm.outputs import CompletionOutput

from deployments.search.tokens import Constraint
from vocab.matching.masks import NO_BUDGET
from vocab.matching.states import State


class ListedLogprobs:
    """Follows the choices of one answer, token by token.

    Args:
        constraint: The list; None where xgrammar makes the masks, so that only tokens without a probability are known
            to be forbidden.
        end_tokens: Those that end a text.
        asked_for: Tokens whose logprobs the client asked for by number; they stay.
        is_delta: Whether each output has new tokens only.
    """

    def __init__(
        self, constraint: Constraint | None, end_tokens: Collection[int], asked_for: Collection[int], *, is_delta: bool
    ) -> None:
        self._states = None if constraint is None else constraint.states
        self._start: State = () if constraint is None else constraint.start
        self._end_tokens = end_tokens
        self._asked_for = asked_for
        self._is_delta = is_delta
        self._places: dict[int, State] = {}

    def keep_listed(self, output: CompletionOutput) -> None:
        """Change the logprobs of an output."""
        if output.logprobs is None:
            return
        place = self._places.get(output.index) if self._is_delta else None
        if place is None:
            place = self._start
        listed: list[dict[int, Any]] = []
        for token, entries in zip(output.token_ids, output.logprobs, strict=False):
            listed.append(
                {
                    other: entry
                    for other, entry in (entries or {}).items()
                    if other == token or other in self._asked_for or self._may_come(place, other, entry.logprob)
                }
            )
            if self._states is not None and token not in self._end_tokens:
                place = self._states.target(place, token, NO_BUDGET)
        output.logprobs = listed
        self._places[output.index] = place

    def _may_come(self, place: State, token: int, logprob: float) -> bool:
        if logprob == -math.inf:
            return False
        if self._states is None:
            return True
        if token in self._end_tokens:
            return self._states.can_stop(place)
        return bool(self._states.target(place, token, NO_BUDGET))
