"""When a required word is due: it is led up to, then forced, early enough for the budget and the last sentence."""

from collections.abc import Sequence
from typing import Final

from vocab.matching.controls import Controls, Progress
from vocab.matching.mask_kernels import NO_BUDGET

NO_WORDS: Final = -(2**30)
"""An N that not even added words reach."""

PACE_TOKENS: Final = 32
"""A required word is due so many tokens after the last one, or earlier where the budget is short."""

FEWER_WORDS: Final = ((4, 400), (8, 100), (12, 25))
"""Where a word is due, the next ones come from ever fewer frequent words, so that the text leads up to it: for so many
tokens from so many words. After that it is forced."""

_SPARE_TOKENS: Final = 4
"""Reserved to end the open word when required words are forced."""


class Pace:
    """Spreads the required words of a text over its budget of tokens.

    Args:
        controls: What its author asks.
        costs: Of each required word, how many tokens it takes at most.
        longest_end: How many tokens a text has at most after a word, if it ends as soon as it may.
    """

    def __init__(self, controls: Controls, costs: Sequence[int], longest_end: int) -> None:
        self._controls, self._costs, self._longest_end = controls, costs, longest_end
        self._num_uses = sum(one.count for one in controls.must_use)
        self.num_tokens = controls.num_tokens
        """The budget, less the tokens written before the text."""

    def begin_after(self, num_tokens: int) -> None:
        """Subtract tokens written before the text."""
        self.num_tokens = max(self._controls.num_tokens - num_tokens, 1)

    def n_words_when_due(self, missing: Sequence[int], after: Progress, budget: int) -> int | None:
        """Return the N for the next word while a required word is due, ``NO_WORDS`` to force it; else None.

        One is due by pace, by budget, or as one of the last words of the text.

        Args:
            missing: Of each required word, how often it must still come.
            after: The progress if the open word ends here.
            budget: As of ``ListStates.fill``.
        """
        words_left = self._controls.max_sentence_words - after.num_words
        if after.num_sentences >= self._controls.max_sentences and words_left <= sum(missing):
            return NO_WORDS
        if budget == NO_BUDGET:
            return None
        costs = sum(num * cost for num, cost in zip(missing, self._costs, strict=True))
        if budget <= self._longest_end + _SPARE_TOKENS + costs:
            return NO_WORDS
        pace = min(max(self.num_tokens // (self._num_uses + 1), 1), PACE_TOKENS)
        late = self.num_tokens - 1 - budget - pace * (self._num_uses - sum(missing) + 1)
        if late < 0:
            return None
        return next((num_words for num_tokens, num_words in FEWER_WORDS if late < num_tokens), NO_WORDS)
