"""Draw several candidates side by side, whole texts or sentence by sentence; score them and choose among them.

By **likelihood**: the highest log p per token, among texts that do not repeat themselves. Likelihood alone picks texts
that loop: on SmolLM2-135M with 1,000 words, the best of 8 repeats 19% of its runs of 4 words, one sample 5%.

By **posterior**: draw one with probability proportional to p / q. This is importance resampling (Rubin 1987, SIR): with
more and more texts drawn by q it approaches a draw of p given that the text is allowed.
"""

import math
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

import numpy as np

from vocab.decoding.generator import Continuation, Generator, Place, run_together
from vocab.marks import CLOSE_MARKS, OPEN_MARKS

# A hyphen or an apostrophe is part of a word, but not a word alone, as a dash between blanks.
_BETWEEN_MARKS: Final = re.compile(rf"[^\s{re.escape(CLOSE_MARKS + OPEN_MARKS)}–]+")

_THAI: Final = "\u0e00-\u0e7f"
_WIDE: Final = "\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED_OR_OTHERS: Final = re.compile(rf"[{_THAI}{_WIDE}]|[^{_THAI}{_WIDE}]+")
_IS_THAI: Final = re.compile(f"[{_THAI}]")
_IS_WIDE: Final = re.compile(f"[{_WIDE}]")

_CHARS_PER_WORD: Final = ((_IS_WIDE, 2), (_IS_THAI, 4))
"""Of words that are not parted by blanks: the 1,000 most frequent of zh, ja and th have 1.7, 2.0 and 4.7."""


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
        """Return log p divided by the number of tokens; minus infinity without tokens."""
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
    """Return the words of a text, casefolded; in scripts without blanks between words, the characters."""
    parts = (part for run in _BETWEEN_MARKS.findall(text) for part in _UNSPACED_OR_OTHERS.findall(run))
    return [part.casefold() for part in parts if any(map(str.isalnum, part)) or _IS_THAI.match(part)]


def _runs_of(text: str, num_words: int) -> list[tuple[str, ...]]:
    """Return the runs of so many words; of as many characters as these have, in scripts without blanks between them."""
    words = words_of(text)
    for script, num_chars in _CHARS_PER_WORD:
        if 2 * sum(map(bool, map(script.match, words))) > len(words):
            num_words *= num_chars
    return ngrams_of(words, num_words)


def ngrams_of(words: list[str], length: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(length)), strict=False))


def distinct_ngram_share(text: str, length: int = 2) -> float:
    """Return the share of different ones among the runs of ``length`` words; 1 for a text that has none."""
    ngrams = _runs_of(text, length)
    return len(set(ngrams)) / len(ngrams) if ngrams else 1.0


def repeated_ngram_share(text: str, length: int = 4) -> float:
    """Return the share of the runs of ``length`` words that came before; 0 for a text that has none."""
    ngrams = _runs_of(text, length)
    return (len(ngrams) - len(set(ngrams))) / len(ngrams) if ngrams else 0.0


Select = Literal["likelihood", "posterior"]

REPEATED_WORDS: Final = 4
MAX_REPEATED_SHARE: Final = 0.05
"""A text with a larger share of repeated runs of ``REPEATED_WORDS`` words ranks after all others. Samples of the free
model repeat 0.03 of theirs."""

_UINT64: Final = 2**64


def random_source(seed: int | None) -> np.random.Generator:
    """Return the random source of one request's choices; any integer is a seed, None gives a new one each time."""
    return np.random.default_rng(None if seed is None else seed % _UINT64)


def choose_text(
    select: Select, texts: Sequence[ScoredText], num_chosen: int = 1, random: np.random.Generator | None = None
) -> list[int]:
    """Choose texts: return at most ``num_chosen`` indices, best or drawn first; duplicates only after all others.

    ``texts`` has at least one; ``random`` is used by ``posterior`` only.
    """
    if select == "likelihood":
        order = rank_by_likelihood(texts)
    else:
        order = draw_by_weight([text.score.log_weight for text in texts], len(texts), random or random_source(None))
    # The first of each text comes as it would if equal texts were one, with the sum of their weights.
    firsts = {texts[index].text: index for index in reversed(order)}
    return sorted(order, key=lambda index: firsts[texts[index].text] != index)[:num_chosen]


def rank_by_likelihood(texts: Sequence[ScoredText]) -> list[int]:
    """Return the indices of all texts, best first by log p per token; texts that repeat themselves come later.

    Of the texts that repeat themselves the least comes first; after all others come those without words that have to
    occur, the fewest missing first.
    """

    def key(index: int) -> tuple[int, float, float]:
        text = texts[index]
        return text.num_missing, excess_repetition(text.text), -text.score.log_p_per_token

    return sorted(range(len(texts)), key=key)


def excess_repetition(text: str) -> float:
    """Return the share of repeated runs of words where it exceeds ``MAX_REPEATED_SHARE``, else 0."""
    share = repeated_ngram_share(text, REPEATED_WORDS)
    return share if share > MAX_REPEATED_SHARE else 0.0


def draw_probabilities(log_weights: Sequence[float]) -> list[float]:
    """Return probabilities proportional to exp(log weight); equal ones where every weight is zero."""
    largest = max(log_weights)
    if largest == -math.inf:
        return [1 / len(log_weights)] * len(log_weights)
    weights = [math.exp(log_weight - largest) for log_weight in log_weights]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def draw_by_weight(log_weights: Sequence[float], num_drawn: int, random: np.random.Generator) -> list[int]:
    """Draw indices without replacement, each time by ``draw_probabilities`` of those left."""
    left = list(range(len(log_weights)))
    drawn: list[int] = []
    while left and len(drawn) < num_drawn:
        probabilities = draw_probabilities([log_weights[index] for index in left])
        drawn.append(left.pop(int(random.choice(len(left), p=probabilities))))
    return drawn


async def choose_candidates(
    generator: Generator,
    budget: int,
    *,
    num_candidates: int,
    num_chosen: int = 1,
    select: Select = "likelihood",
    seed: int | None = None,
) -> list[Continuation]:
    """Draw ``num_candidates`` texts and return ``num_chosen`` of them, best or drawn first.

    Args:
        generator: Draws them, with a seed of its own; cancelling this coroutine cancels its draws.
        budget: How many tokens each may have.
        num_candidates: At least ``num_chosen``.
        seed: Of the choice.

    Raises:
        Exception: What the first failing draw raised.
    """
    drawn = await draw_many(generator, generator.start, budget, num_candidates)
    texts = [replace(_whole([one]), num_missing=generator.num_missing(one.place)) for one in drawn]
    return [drawn[index] for index in choose_text(select, texts, num_chosen, random_source(seed))]


async def search_sentences(
    generator: Generator,
    budget: int,
    *,
    width: int,
    select: Select = "likelihood",
    seed: int | None = None,
) -> AsyncGenerator[Continuation, None]:
    """Write a text sentence by sentence: draw several continuations, keep one, and go on from there.

    Yields the parts of the text as they are chosen; only the last one ends by stop or length. By likelihood a
    continuation is judged together with the text before it. With ``posterior`` this is sequential Monte Carlo with the
    sentence as the unit and one particle: with more continuations, each sentence approaches a draw of p given that this
    sentence is allowed. It does not look ahead to how hard the next sentence becomes.

    Args:
        generator: Draws, with a seed of its own; closing this generator or cancelling its next step cancels the draws.
        budget: How many tokens the text may have, at least 1.
        width: How many continuations are drawn at each step.
        seed: Of the choices.

    Raises:
        Exception: What the first failing draw raised.
    """
    random = random_source(seed)
    place, num_draws = generator.start, 0
    parts: list[Continuation] = []
    while True:
        drawn = await draw_many(generator, place, budget, width, first_index=num_draws, to_sentence_end=True)
        num_draws += width
        chosen = drawn[choose_text(select, [_whole([*parts, part]) for part in drawn], 1, random)[0]]
        budget -= len(chosen.tokens)
        # Without tokens there is no way forward: the next draws would be from the same place.
        if chosen.finish == "sentence" and (budget <= 0 or not chosen.tokens):
            chosen = replace(chosen, finish="length")
        yield chosen
        if chosen.finish != "sentence":
            return
        parts.append(chosen)
        place = chosen.place


async def draw_many(
    generator: Generator,
    place: Place,
    budget: int,
    num_draws: int,
    *,
    first_index: int = 0,
    to_sentence_end: bool = False,
) -> list[Continuation]:
    """Return independent draws from one place, made side by side with ``Generator.sample``.

    Their indices count on from ``first_index``, so that they differ from other steps' of the request.

    Raises:
        Exception: What the first failing draw raised; the others are cancelled.
    """
    return await run_together(
        generator.sample(place, budget, to_sentence_end=to_sentence_end, index=index)
        for index in range(first_index, first_index + num_draws)
    )


def _whole(parts: list[Continuation]) -> ScoredText:
    """Join the parts of a text, and score it as a whole."""
    return ScoredText("".join(part.text for part in parts), TextScore.of(*parts))
