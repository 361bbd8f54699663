"""End a text that will not fit into its budget where an end reads well, before the budget forces one anywhere.

The automaton makes room for the end of a sentence, and no more: a text that runs into its budget gets a mark after
whatever word stands there. Here the choice is made earlier, token by token, by what the model itself gives to an end.
"""

from collections.abc import Sequence
from typing import Final

from vocab.matching.mask_kernels import NO_BUDGET
from vocab.matching.matcher import Matcher

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
        if matcher.states.may_stop(matcher.state):
            # As many tokens as a sentence of this text had so far, its mark included.
            if (self._budget - num_tokens) * max(self._num_sentences, 1) < num_tokens:
                self.num_left = 0
        else:
            self._decide_in_sentence(token, allowed, self._budget - num_tokens)
        return self.num_left is not None

    def advance(self, *, had_ended: bool) -> None:
        """Note that the text goes on; ``had_ended`` is whether its last sentence had ended before the token."""
        self._num_sentences += not had_ended and self._matcher.can_stop()

    def _decide_in_sentence(self, token: int, allowed: Sequence[tuple[int, float]], num_left: int) -> None:
        """End the sentence where the model gives an end as much as may be hoped for later."""
        if num_left > NUM_LAST:
            return
        ends = [(other, p, num) for other, p in allowed if (num := self._tokens_to_end(other)) is not None]
        if token not in [end for end, _, _ in ends] and sum(p for _, p, _ in ends) >= LEAST_P * num_left / 4:
            self.num_left = max(num for _, _, num in ends)
            self._matcher.end_within(self.num_left)

    def _tokens_to_end(self, token: int) -> int | None:
        """Return in how many tokens a text ends that a token begins to end, itself included; None where it does not."""
        matcher, states = self._matcher, self._matcher.states
        target = states.target(matcher.state, token, matcher.budget_after_next())
        if not target:
            return None
        if states.may_stop(target):
            return 1
        # A mark in brackets or quotation marks, which then close; but an author may ask for more.
        is_mark = not states.is_in_word(target) and states.readings(target) == target
        return 2 if is_mark and states.tokens_to_end(target) == 1 else None
