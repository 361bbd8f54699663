"""Score a text: sums over its tokens, and the share of its words that repeats."""

import math
import re
from dataclasses import dataclass
from typing import Final, Self

from vocab.decoding.generator import Continuation
from vocab.marks import CLOSE_MARKS, OPEN_MARKS

# A hyphen or an apostrophe is part of a word, but not a word alone, as a dash between blanks.
_BETWEEN_MARKS: Final = re.compile(rf"[^\s{re.escape(CLOSE_MARKS + OPEN_MARKS)}–]+")


@dataclass(frozen=True, slots=True)
class TextScore:
    """Sums over the tokens of a text, the end-of-text token included if it came; natural logarithms.

    Attributes:
        log_p: Of log p, the model's own probability of each token at temperature 1.
        log_mass: Of the log of the mass that the mask left at each token; 0 for free text.
        log_weight: Of log p / q at the temperature of the draw; 0 for free text.
    """

    log_p: float = 0.0
    log_mass: float = 0.0
    log_weight: float = 0.0
    num_tokens: int = 0

    @classmethod
    def of(cls, *continuations: Continuation) -> Self:
        """Return the score of a text made of these parts, which may be none."""
        return cls(
            math.fsum(log_p for part in continuations for log_p in part.log_p),
            math.fsum(log_mass for part in continuations for log_mass in part.log_mass),
            math.fsum(log_weight for part in continuations for log_weight in part.log_weight),
            sum(len(part.tokens) for part in continuations),
        )

    @property
    def log_p_per_token(self) -> float:
        """log p divided by the number of tokens; minus infinity without tokens."""
        return self.log_p / self.num_tokens if self.num_tokens else -math.inf

    def bits_per_char(self, text: str) -> float | None:
        """Return -log2 p per character (code point) of the text; None for an empty one."""
        return -self.log_p / math.log(2) / len(text) if text else None

    def log_mass_per_word(self, num_words: int) -> float | None:
        """Return -log of the mass that the masks left per word: 0 where nothing was lost, None without words."""
        return -self.log_mass / num_words if num_words else None


@dataclass(frozen=True, slots=True)
class ScoredText:
    """A text to choose; ``num_missing`` of the words that have to occur are not in it."""

    text: str
    score: TextScore
    num_missing: int = 0


def words_of(text: str) -> list[str]:
    """Return the words of a text in any script that writes blanks between them, casefolded."""
    return [part.casefold() for part in _BETWEEN_MARKS.findall(text) if any(map(str.isalnum, part))]


def ngrams_of(words: list[str], length: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(length)), strict=False))


def distinct_ngram_share(text: str, length: int = 2) -> float:
    """Return the share of different ones among the runs of ``length`` words; 1 for a text that has none."""
    ngrams = ngrams_of(words_of(text), length)
    return len(set(ngrams)) / len(ngrams) if ngrams else 1.0


def repeated_ngram_share(text: str, length: int = 4) -> float:
    """Return the share of the runs of ``length`` words that came before; 0 for a text that has none."""
    ngrams = ngrams_of(words_of(text), length)
    return (len(ngrams) - len(set(ngrams))) / len(ngrams) if ngrams else 0.0
