"""Choose the texts that are worth learning from: whole, varied, likely, and unlike one another in their openings."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from vocab.decoding.select import distinct_ngram_share, repeated_ngram_share, words_of

OPENING_WORDS: Final = 4
LOOP_WORD_CHARS: Final = 4
"""Words shorter than this may come often: most of them are function words."""

_SENTENCE: Final = re.compile(r"(?s).*?[.!?…][\"'”’»)\]]*(?=\s|$)")


@dataclass(frozen=True)
class Text:
    """A text and how it was written.

    Attributes:
        prompt: The user's message.
        text: The answer.
        lang, n_words: The list; None for a free text.
        has_end: Whether the model ended the text by itself.
        num_tokens: Of the answer.
        bits_per_char: Under the base model; None where that is not known.
    """

    prompt: str
    text: str
    lang: str | None
    n_words: int | None
    has_end: bool
    num_tokens: int
    bits_per_char: float | None = None


@dataclass(frozen=True)
class FilterSettings:
    """Which texts are left out.

    Attributes:
        min_tokens: Shorter texts; else the model learns to be brief.
        end_tokens: Texts of fewer tokens do not teach their end.
        max_bits_share: Share of the texts with the most bits a character, of each size of list.
        min_distinct: A smaller share of distinct pairs of words.
        max_repeated: A larger share of runs of four words that came before.
        max_word_times: Texts with a word of four letters or more that occurs more often.
        max_opening_share: A larger share of all texts with the same first four words; the likeliest stay.
    """

    min_tokens: int = 20
    end_tokens: int = 64
    max_bits_share: float = 0.1
    min_distinct: float = 0.82
    max_repeated: float = 0.01
    max_word_times: int = 4
    max_opening_share: float = 0.008


def choose_texts(texts: Sequence[Text], settings: FilterSettings) -> tuple[list[Text], Counter[str]]:
    """Return the texts to learn from, and how many were left out for each reason."""
    reasons: Counter[str] = Counter()
    passed: list[Text] = []
    most_bits = _most_bits(texts, settings.max_bits_share)
    for text in texts:
        whole = text if text.has_end else without_last_sentence(text)
        reason = (
            "no whole sentence" if whole is None else _reason_to_leave_out(whole, settings, most_bits.get(text.n_words))
        )
        if whole is None or reason is not None:
            reasons[str(reason)] += 1
        else:
            passed.append(replace(whole, has_end=whole.has_end and whole.num_tokens >= settings.end_tokens))
    most = max(round(len(texts) * settings.max_opening_share), 1)
    openings: Counter[tuple[str, ...]] = Counter()
    chosen: list[Text] = []
    for text in sorted(passed, key=lambda text: text.bits_per_char or 0.0):
        opening = tuple(words_of(text.text)[:OPENING_WORDS])
        openings[opening] += 1
        if openings[opening] <= most:
            chosen.append(text)
        else:
            reasons["opens like others"] += 1
    return chosen, reasons


def without_last_sentence(text: Text) -> Text | None:
    """Cut the last whole sentence, hurried by the budget, and what follows it off a text; None if it has no other."""
    sentences = [found.end() for found in _SENTENCE.finditer(text.text)]
    if len(sentences) < 2:
        return None
    shorter = text.text[: sentences[-2]]
    num_tokens = round(text.num_tokens * len(shorter) / len(text.text))
    return replace(text, text=shorter, num_tokens=num_tokens)


def _reason_to_leave_out(text: Text, settings: FilterSettings, most_bits: float | None) -> str | None:
    """Return why a text is left out (short, unlikely or repetitive), or None."""
    if text.num_tokens < settings.min_tokens:
        return "short"
    if most_bits is not None and text.bits_per_char is not None and text.bits_per_char > most_bits:
        return "unlikely"
    if distinct_ngram_share(text.text) < settings.min_distinct:
        return "few different pairs of words"
    if repeated_ngram_share(text.text) > settings.max_repeated:
        return "repeated runs of words"
    times = Counter(word for word in words_of(text.text) if len(word) >= LOOP_WORD_CHARS)
    if max(times.values(), default=0) > settings.max_word_times:
        return "one word again and again"
    return None


def _most_bits(texts: Sequence[Text], share: float) -> dict[int | None, float]:
    """Return, by size of list, the bits per character that this share of its texts exceeds."""
    by_size: dict[int | None, list[float]] = {}
    for text in texts:
        if text.bits_per_char is not None:
            by_size.setdefault(text.n_words, []).append(text.bits_per_char)
    return {size: sorted(bits)[max(round(len(bits) * (1 - share)) - 1, 0)] for size, bits in by_size.items()}
