"""How likely an engine says its tokens are: its logprobs, read as p and as what the mask left of it.

It knows vLLM's two containers of logprobs and the ranks that ``vocab.matching.log_mass`` packs; nothing of requests
or searches.
"""

import math
from typing import Any, NamedTuple

from vllm.exceptions import GenerationError
from vllm.logprobs import FlatLogprobs
from vllm.outputs import CompletionOutput

from vocab.matching.log_mass import unpack


class EngineStepError(GenerationError):
    """The engine gave a step no answer, or one that cannot be."""


class TokenScore(NamedTuple):
    """Of one token: log p, log of the mass that the mask left, and log p / q; natural logarithms."""

    log_p: float
    log_mass: float
    log_weight: float


def scores_of(output: CompletionOutput, *, is_masked: bool) -> list[TokenScore]:
    """For each token of an output.

    Args:
        output: Of a request with ``logprobs=0``, or with ``flat_logprobs``: vLLM's other container forgets the rank of
            a token that is among the likeliest.
        is_masked: Whether the request was constrained; else a rank holds nothing of ours.

    Raises:
        EngineStepError: The engine does not say it.
    """
    logprobs = _logprobs(output)
    scores = []
    for position, token in enumerate(output.token_ids):
        one = logprobs[position][token]
        rank = logprobs.ranks[logprobs.start_indices[position]] if isinstance(logprobs, FlatLogprobs) else one.rank
        scores.append(TokenScore(_finite(one.logprob), *(_masses(rank) if is_masked else (0.0, 0.0))))
    return scores


def likeliest(output: CompletionOutput) -> list[tuple[int, float]]:
    """The tokens that might come first in an output, likeliest first, and log p of each.

    Raises:
        EngineStepError: The engine does not say it.
    """
    # A mask may leave fewer tokens than were asked for: the others come with no probability at all.
    ranked = [(token, one.logprob) for token, one in _logprobs(output)[0].items() if one.logprob != -math.inf]
    ranked.sort(key=lambda entry: -entry[1])
    return [(token, _finite(log_p)) for token, log_p in ranked]


def _logprobs(output: CompletionOutput) -> Any:
    logprobs = output.logprobs
    if logprobs is None or len(logprobs) != len(output.token_ids):
        raise EngineStepError("the engine did not say how likely its tokens are")
    return logprobs


def _masses(rank: int | None) -> tuple[float, float]:
    try:
        return unpack(rank or 0)
    except ValueError as error:
        raise EngineStepError(str(error)) from None


def _finite(log_p: float) -> float:
    if not math.isfinite(log_p):
        raise EngineStepError(f"the engine gave a token whose log p is {log_p}")
    return log_p
