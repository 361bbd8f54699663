"""What a run yields and counts: events, their tokens, captures and usage."""

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypedDict

import numpy as np

NOT_COMPUTED: Final = math.nan
"""The probability of a token that no forward pass was made for."""


@dataclass(frozen=True, slots=True)
class RunToken:
    """A token of a run.

    Attributes:
        token_id: Its id.
        bytes: What it adds to the text.
        prob: The model's own probability, before any mask and at temperature 1; NaN where it was not computed, as for
            forced tokens with ``score_forced=False``.
        latency_ms: From the request for its row to its choice; of forced tokens, their share of the time they took.
        is_generated: It was sampled.
        is_forced: The constraint left nothing else, or a callback injected it.
        is_input: It replaces tokens of the prompt, which the constraint had spelled anew.
        is_backtracked: It was sampled, and the constraint replaced it at once.
        is_masked: The constraint does not allow it; true in ``top_k`` only.
        top_k: The model's likeliest tokens here, the likeliest first, and this token among them.
    """

    token_id: int
    bytes: bytes
    prob: float = NOT_COMPUTED
    latency_ms: float = 0.0
    is_generated: bool = False
    is_forced: bool = False
    is_input: bool = False
    is_backtracked: bool = False
    is_masked: bool = False
    top_k: tuple["RunToken", ...] = ()


@dataclass(frozen=True, slots=True)
class Capture:
    """What a named group of a grammar matched.

    Attributes:
        bytes: The match.
        logprob: The sum of the model's own log p of all tokens that have a part in it.
    """

    bytes: bytes
    logprob: float

    @property
    def text(self) -> str:
        """The match as text; what is no UTF-8 is replaced."""
        return self.bytes.decode(errors="replace")


Captures: TypeAlias = Mapping[str, Capture | Sequence[Capture]]
"""By name; a list for groups that a grammar captures as lists."""


@dataclass(frozen=True, slots=True)
class Event:
    """One advance of a run: first ``backtrack_bytes`` leave the end of the text, then ``new_bytes`` come.

    Attributes:
        new_bytes: What is added.
        tokens: The tokens that were added, and before them a sampled one that was replaced at once.
        backtrack: How many tokens were removed first, those of the prompt that are spelled anew among them.
        backtrack_bytes: Their bytes.
        captures: All captures so far.
        injection_backtrack: The tokens were removed for what a callback injected.
    """

    new_bytes: bytes
    tokens: tuple[RunToken, ...]
    backtrack: int = 0
    backtrack_bytes: bytes = b""
    captures: Captures = field(default_factory=dict)
    injection_backtrack: bool = False


class Times(list[float]):
    """Durations in milliseconds."""

    def quantile(self, share: float) -> float:
        """Return a quantile, 0.5 the median; 0.0 where there is no value."""
        return float(np.quantile(self, share)) if self else 0.0

    @property
    def p50(self) -> float:
        """The median."""
        return self.quantile(0.5)

    @property
    def p99(self) -> float:
        """The 99th percentile."""
        return self.quantile(0.99)

    @property
    def mean(self) -> float:
        """The average; 0.0 where there is no value."""
        return sum(self) / max(1, len(self))


@dataclass(slots=True)
class Usage:
    """What a run took.

    Attributes:
        round_trips: Runs; 1.
        input_tokens: Tokens of the prefixes of all forward passes, cached ones included.
        cached_input_tokens: Those of them that an earlier forward pass of the run had too, which engines cache.
        output_tokens: Tokens that were sampled.
        ff_tokens: Tokens that were appended without being sampled.
        forward_passes: Rows that were asked for, those of forced tokens too, and scores of captures.
        ttft_ms: From the start to the first sampled token.
        ttfm_ms: From the start to the first mask.
        mask_times_ms: Of each step, the time for following the constraint and its mask.
        mask_overheads_ms: The part of it in which no forward pass was under way.
        total_latency_ms: From the start to the end.
    """

    round_trips: int = 1
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    ff_tokens: int = 0
    forward_passes: int = 0
    ttft_ms: float = 0.0
    ttfm_ms: float = 0.0
    mask_times_ms: Times = field(default_factory=Times)
    mask_overheads_ms: Times = field(default_factory=Times)
    total_latency_ms: float = 0.0

    @property
    def token_savings(self) -> float:
        """The share of the tokens that were appended without being sampled; 0.0 before the first."""
        return self.ff_tokens / max(1, self.output_tokens + self.ff_tokens)

    @property
    def avg_latency_ms(self) -> float:
        """The average time of a token, sampled or not; 0.0 before the end."""
        return self.total_latency_ms / max(1, self.output_tokens + self.ff_tokens)


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a callback gets after a step.

    Attributes:
        number: Of the step, from 1.
        boundary: Why the step ended.
        stop_string: The one that the text ends with, where that ended it.
        tokens: The tokens of the step, and those that the constraint forced after its stop string.
        text: All of the text, up to the stop string that ended the step; what is no UTF-8 is replaced.
        captures: All captures so far.
    """

    number: int
    boundary: Literal["every_k", "stop_string"]
    stop_string: str | None
    tokens: tuple[RunToken, ...]
    text: str
    captures: Captures


class StopRun(Exception):  # noqa: N818 - a signal, as StopIteration
    """A callback raises it to end the run where it is."""


@dataclass(frozen=True, slots=True)
class Replace:
    """What a callback returns to go back: ``removed`` leaves the end of the text, then ``text`` comes."""

    removed: str
    text: str | bytes

    def __post_init__(self) -> None:
        # Callbacks are seldom type-checked, and what is wrong here would fail far from them.
        removed, text = type(self.removed), type(self.text)
        if not (issubclass(removed, str) and issubclass(text, str | bytes)):
            raise TypeError(f"removed must be str, and text str or bytes, not {removed.__name__} and {text.__name__}")


class StepFeedback(TypedDict, total=False):
    """What a callback injects, as guidance's callbacks return it; bytes go before text, and ``{}`` is nothing."""

    injected_text: str
    injected_bytes: bytes


Feedback: TypeAlias = str | bytes | Replace | StepFeedback | None
"""What a callback injects; None for nothing."""

Callback: TypeAlias = Callable[[StepContext], Feedback | Awaitable[Feedback]]


@dataclass(frozen=True, slots=True)
class Step:
    """When a run calls back, and what.

    After ``every_k`` tokens, or at one of ``stop_strings``, ``callback`` gets the step. It may return text to inject,
    which the constraint must allow: at a stop string that string is removed first, with ``Replace`` whatever it says,
    and what was forced after it too. It may be a coroutine function, raise, and raise ``StopRun`` to end the run.

    Raises:
        ValueError: ``every_k`` is below 1, a stop string is empty, or there is neither.
    """

    callback: Callback
    every_k: int | None = None
    stop_strings: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.every_k is not None and self.every_k < 1:
            raise ValueError(f"every_k must be at least 1, not {self.every_k}")
        if isinstance(self.stop_strings, str) or not all(self.stop_strings):
            raise ValueError('stop_strings must be a collection of strings of at least one character: [".", "\\n"]')
        if self.every_k is None and not self.stop_strings:
            raise ValueError("a step ends after every_k tokens or with one of stop_strings: give one of them, or both")


class RunError(ValueError):
    """A run that cannot go on. What was written is in the run: ``text``, ``tokens`` and ``captures``."""
