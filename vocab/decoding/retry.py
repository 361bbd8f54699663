"""Take back words that a list forces to another ending, and have them drawn again.

A model begins the word that it means, and a later token may be listed in other words only: " B|ahn" for " B|rot". The
sign of such a corner is a mask that takes nearly all of the model's probability inside a word. Where that word may end
already, only what would have gone on with it counts: that an unlisted word was to follow says nothing against it. Then
the word is taken back, and drawn anew from the same place, without the beginnings that were tried and without tokens
that leave a word open. What is drawn stands only where it is likelier than the best that was tried can become
(approximately aligned decoding, Melcer et al. 2024, arXiv:2410.01103, by words); else that is written after all.

``Retry`` only decides. Who draws the tokens, and takes them back, is an engine (``vocab.vllm_plugin.retrying``).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vocab.arrays.kernels import Int32Array
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.decoding.ends import Ending as Ending
from vocab.marks import APOSTROPHES
from vocab.matching.mask_kernels import set_token_bits
from vocab.matching.matcher import Matcher

MAX_TRIES: Final = 4
"""Times that one word is taken back."""

_LEAST_VALUE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Draw:
    """A token that was drawn for a text, and what the model gave to it and others. Logarithms are natural.

    Attributes:
        log_p: log p of the token.
        log_mass: log of the sum of p over all tokens that were allowed in its place.
        refused: The likeliest tokens that the mask took there, with p of each; as many as are known.
        allowed: The likeliest that it left, alike.
    """

    token: int
    log_p: float
    log_mass: float
    refused: Sequence[tuple[int, float]] = ()
    allowed: Sequence[tuple[int, float]] = ()


@dataclass(frozen=True, slots=True)
class _Try:
    """A beginning of a word that led into a corner, and log p of the likeliest text that can come of it, at most."""

    tokens: tuple[int, ...]
    log_value: float


def letter_tokens(facts: TokenizerFacts) -> npt.NDArray[np.bool_]:
    """Return which tokens go on with a word, bool (tokens,).

    Those that begin with a letter, a part of one, or an apostrophe.
    """
    texts = ((spelled, spelled.decode("utf-8", "ignore")) for spelled in facts.token_bytes)
    # Without a whole character, the token is a part of one.
    return np.asarray(
        [text[0].isalpha() or text[0] in APOSTROPHES if text else bool(spelled) for spelled, text in texts],
        dtype=np.bool_,
    )


class Retry:
    """Decide which words of one text are taken back.

    For each drawn token call ``take_back``, and where it stays, after the matcher has accepted it, ``advance``.

    Args:
        matcher: Follows the text; ``take_back`` moves it back.
        letters: As of ``letter_tokens``.
        share: Of the model's probability; a mask that leaves less inside a word is a corner; 0 for none.
        budget: How many tokens may be taken back in all.
        wanted: Tokens that a client's bias raises; a word that has one stays, whatever the model gives it.
        ending: Where the text ends; None for where the engine ends it.

    Attributes:
        num_words: Words taken back so far.
        num_tokens: Tokens drawn in vain so far.
    """

    def __init__(
        self,
        matcher: Matcher,
        letters: npt.NDArray[np.bool_],
        share: float,
        budget: int,
        wanted: Collection[int] = (),
        ending: Ending | None = None,
    ) -> None:
        self.num_words = self.num_tokens = 0
        self._matcher = matcher
        self._letters = letters
        self._log_share = math.log(share) if share else -math.inf
        self._budget = budget
        self._wanted = frozenset(wanted)
        self._ending = ending
        self._before = matcher.state
        self._open: list[tuple[int, float]] = []
        self._tried: list[_Try] = []
        self._forced: list[int] = []
        self._is_accepted = False

    @property
    def num_open(self) -> int:
        """Return how many tokens at the end of the text may still be taken back."""
        return len(self._open) if self._log_share > -math.inf else 0

    @property
    def num_left(self) -> int | None:
        """Return within how many tokens the text ends, where that is decided before its budget decides it."""
        return None if self._ending is None else self._ending.num_left

    def restrict(self, out: Int32Array) -> None:
        """Leave in a mask, int32 (words,), what may be drawn for a word that was taken back; any other stays."""
        if self._forced or self.num_left == 0:
            out[:] = 0
            set_token_bits(out, np.asarray(self._forced[:1] or self._matcher.stop_tokens, dtype=np.int32), True)
        elif self._tried and not self._open and self.num_left is None:
            firsts = np.asarray([one.tokens[0] for one in self._tried], dtype=np.int32)
            set_token_bits(out, firsts, False)
            self._matcher.states.keep_whole_words(out, self._matcher.state, self._matcher.stop_tokens)

    def take_back(self, draw: Draw) -> int | None:
        """Return how many tokens before a drawn one are taken back with it; None where it stays."""
        num_open = self._take_word_back(draw)
        if num_open is not None or self._ending is None or self._forced:
            return num_open
        if not self._ending.is_decided(draw.token, draw.allowed):
            return None
        self.num_tokens += 1
        return 0

    def _take_word_back(self, draw: Draw) -> int | None:
        """Return how many tokens before a drawn one are taken back with it, for it led into a corner; None for none."""
        # Where the end is near it was chosen for these words.
        if self._forced or self._is_accepted or self.num_left is not None:
            return None
        if not self._open:
            best = self._best
            if best is None or draw.log_p >= best.log_value:
                return None
            self._write_again(best)
            return self._lose(0)
        log_value, tokens = self._log_value(draw), tuple(token for token, _ in self._open)
        is_spent = self.num_tokens + len(tokens) + 1 > self._budget
        if log_value >= self._log_share or is_spent or not self._wanted.isdisjoint((*tokens, draw.token)):
            return None
        tried = _Try(tokens, math.fsum(log_p for _, log_p in self._open) + log_value)
        self._tried.append(tried)
        is_last = len(self._tried) > MAX_TRIES
        if is_last and self._best is tried:
            self._is_accepted = True
            return None
        self._matcher.rollback(len(tokens))
        self._open.clear()
        if is_last or not self._has_others():
            self._write_again(max(self._tried, key=lambda one: one.log_value))
        self.num_words += 1
        return self._lose(len(tokens))

    def advance(self, draw: Draw) -> None:
        """Note that a drawn token stays; the matcher has accepted it."""
        matcher, before = self._matcher, self._before
        self._before = after = matcher.state
        if self._forced:
            del self._forced[0]
        if self._ending is not None:
            self._ending.advance(before)
        is_in_word = not matcher.is_terminated and matcher.states.is_in_word(after)
        if self._open and not (is_in_word and matcher.states.continues_word(before, draw.token, after)):
            self._open.clear()
            self._settle()
        if is_in_word:
            self._open.append((draw.token, draw.log_p))
        else:
            self._settle()

    @property
    def _best(self) -> _Try | None:
        return max(self._tried, key=lambda one: one.log_value, default=None)

    def _log_value(self, draw: Draw) -> float:
        """Return the log of the share of p that stays within what the open word, or the text after it, can become."""
        if draw.log_mass >= self._log_share or not self._matcher.states.ends_word(self._matcher.state):
            return draw.log_mass
        # What the likeliest are says what the others are, of which no one tells.
        lost = math.fsum(p for token, p in draw.refused if token < len(self._letters) and self._letters[token])
        share = lost / (math.fsum(p for _, p in draw.refused) or 1)
        return math.log(max(1 - share * (1 - math.exp(draw.log_mass)), _LEAST_VALUE))

    def _has_others(self) -> bool:
        """Return whether anything else may be drawn where the words that were tried begin."""
        mask = np.zeros((self._matcher.states.words.num_tokens + 31) // 32, dtype=np.int32)
        self._matcher.fill_bitmask(mask)
        self.restrict(mask)
        return bool(mask.any())

    def _write_again(self, tried: _Try) -> None:
        """Have what was tried written after all."""
        self._forced, self._is_accepted = list(tried.tokens), True

    def _lose(self, num_open: int) -> int:
        self.num_tokens += num_open + 1
        self._before = self._matcher.state
        return num_open

    def _settle(self) -> None:
        """Forget what was tried for a word that can no longer be taken back."""
        self._tried, self._is_accepted = [], bool(self._forced)
