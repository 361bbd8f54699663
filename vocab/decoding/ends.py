"""End a text that will not fit into its budget where an end reads well, before the budget forces one anywhere.

The automaton makes room for the end of a sentence, and no more: a text that runs into its budget gets a mark after
whatever word stands there. Here the choice is made earlier, token by token, by what the model itself gives to an end.
"""

from collections.abc import Sequence
from typing import Final

from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.matcher import Matcher
from vocab.matching.text_states import State

FREE_SHARE: Final = 2 / 3
"""Of the budget, after which a sentence that ends freely may be the last."""

NUM_LAST: Final = 16
"""Tokens before the end of the budget among which an end is looked for."""

LEAST_P: Final = 0.02
"""What the model gives to the end of a sentence, at least, where one is forced with four tokens left; with sixteen it
is four times as much."""


class Ending:
    """Decide where one text ends that may only end with a sentence.

    Args:
        matcher: Follows the text; its budget is shortened where the text is to end.
        budget: How many tokens the text may have.

    Attributes:
        num_left: In so many tokens the text ends; None where that is not decided.
    """

    def __init__(self, matcher: Matcher, budget: int) -> None:
        self.num_left: int | None = None
        self._matcher = matcher
        self._budget = budget
        self._num_sentences = 0

    def is_decided(self, token: int, allowed: Sequence[tuple[int, float]]) -> bool:
        """Decide before a token that was drawn; return whether the text ends instead, within ``num_left`` tokens.

        ``allowed`` are the likeliest of those that may come, with p of each.
        """
        matcher = self._matcher
        num_tokens = matcher.num_tokens
        is_early = num_tokens < self._budget * FREE_SHARE or matcher.num_early > 0
        if self.num_left is not None or is_early or matcher.budget_after_next() == NO_BUDGET:
            return False
        # Without a stop token nothing could end a text between sentences.
        if token in matcher.stop_tokens or not len(matcher.stop_tokens):
            return False
        num_to_close = self._num_to_close(matcher.state)
        # As many tokens as a sentence of this text had so far, its mark included.
        has_room = (self._budget - num_tokens) * max(self._num_sentences, 1) >= num_tokens
        if num_to_close is None:
            self._decide_in_sentence(token, allowed, self._budget - num_tokens)
        elif not has_room and not (num_to_close and self._tokens_to_end(token)):
            # Else the token closes what is open by itself.
            self._end_within(num_to_close)
        return self.num_left is not None

    def advance(self, before: State) -> None:
        """Note that the text goes on after a state."""
        self._num_sentences += self._has_ended(self._matcher.state) and not self._has_ended(before)

    def _decide_in_sentence(self, token: int, allowed: Sequence[tuple[int, float]], num_left: int) -> None:
        """End the sentence where the model gives an end as much as may be hoped for later."""
        if num_left > NUM_LAST:
            return
        ends = [(other, p, num) for other, p in allowed if (num := self._tokens_to_end(other)) is not None]
        if token not in [end for end, _, _ in ends] and sum(p for _, p, _ in ends) >= LEAST_P * num_left / 4:
            self._end_within(max(num for _, _, num in ends))

    def _end_within(self, num_tokens: int) -> None:
        self.num_left = num_tokens
        self._matcher.end_within(num_tokens)

    def _tokens_to_end(self, token: int) -> int | None:
        """Return in how many tokens a text ends that a token begins to end, itself included; None where it does not."""
        matcher = self._matcher
        target = matcher.states.target(matcher.state, token, matcher.budget_after_next())
        num_to_close = self._num_to_close(target) if target else None
        return None if num_to_close is None else 1 + num_to_close

    def _num_to_close(self, state: State) -> int | None:
        """Return how many tokens a text still needs whose sentence has ended; None where it has not.

        It is one where brackets or quotation marks are open.
        """
        states = self._matcher.states
        if states.may_stop(state):
            return 0
        is_between = not states.is_in_word(state) and states.tokens_to_end(state) == 1
        return 1 if is_between and states.starts_sentence(state) else None

    def _has_ended(self, state: State) -> bool:
        """Return whether a sentence has ended, be it within quotation marks."""
        return self._matcher.states.can_stop(state) or self._num_to_close(state) is not None
