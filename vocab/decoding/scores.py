"""What a text cost, and how much of it repeats.

It adds up what an engine said of each token, and counts words of a text by the marks between them. It knows no lists,
no tokenizers and no engines, and does not say which text is better: ``vocab.decoding.select`` does.
"""

import math
import re
from dataclasses import dataclass
from typing import Final, Self

from vocab.decoding.generator import Continuation
from vocab.marks import CLOSE_MARKS, OPEN_MARKS

# A hyphen or an apostrophe stands inside words; alone, as a dash between blanks, it is none.
_BETWEEN_MARKS: Final = re.compile(rf"[^\s{re.escape(CLOSE_MARKS + OPEN_MARKS)}–]+")


@dataclass(frozen=True, slots=True)
class TextScore:
    """Sums over the tokens of a text, the end-of-text token included if it came; natural logarithms.

    Attributes:
        log_p: Of log p, the model's own probability of each token at temperature 1.
        log_mass: Of the log of the mass that the mask left at each token; 0 for free text.
        log_weight: Of log p / q at the temperature of the draw; 0 for free text.
        num_tokens: How many there are.
    """

    log_p: float = 0.0
    log_mass: float = 0.0
    log_weight: float = 0.0
    num_tokens: int = 0

    @classmethod
    def of(cls, *continuations: Continuation) -> Self:
        """That of a text made of these parts; of no parts, that of the empty text."""
        return cls(
            math.fsum(log_p for part in continuations for log_p in part.log_p),
            math.fsum(log_mass for part in continuations for log_mass in part.log_mass),
            math.fsum(log_weight for part in continuations for log_weight in part.log_weight),
            sum(len(part.tokens) for part in continuations),
        )

    @property
    def log_p_per_token(self) -> float:
        """log p divided by the number of tokens; minus infinity where there are none."""
        return self.log_p / self.num_tokens if self.num_tokens else -math.inf

    def bits_per_char(self, text: str) -> float | None:
        """-log2 p per character (code point) of the text; None for an empty one."""
        return -self.log_p / math.log(2) / len(text) if text else None

    def log_mass_per_word(self, num_words: int) -> float | None:
        """-log of the mass that the masks left per word, so 0 where nothing was lost; None where there are no words."""
        return -self.log_mass / num_words if num_words else None


@dataclass(frozen=True, slots=True)
class ScoredText:
    """A text to choose, from its beginning, and its score."""

    text: str
    score: TextScore


def words_of(text: str) -> list[str]:
    """The words of a text in any script that writes blanks between them, without regard to capitals."""
    return [part.casefold() for part in _BETWEEN_MARKS.findall(text) if any(map(str.isalnum, part))]


def ngrams_of(words: list[str], length: int) -> list[tuple[str, ...]]:
    """All runs of ``length`` words."""
    return list(zip(*(words[start:] for start in range(length)), strict=False))


def distinct_ngram_share(text: str, length: int = 2) -> float:
    """How many different runs of ``length`` words there are for each run; 1 for a text that has none."""
    ngrams = ngrams_of(words_of(text), length)
    return len(set(ngrams)) / len(ngrams) if ngrams else 1.0


def repeated_ngram_share(text: str, length: int = 4) -> float:
    """The share of the runs of ``length`` words that came before; 0 for a text that has none."""
    ngrams = ngrams_of(words_of(text), length)
    return (len(ngrams) - len(set(ngrams))) / len(ngrams) if ngrams else 0.0
