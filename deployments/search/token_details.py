"""Token details: what each part of a stream says of its tokens.

The engine is asked for logprobs, of the model itself before any mask (``UNMASKED_TOP``).
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from vllm.outputs import CompletionOutput
from vllm.sampling_params import SamplingParams

from deployments.contract import ChatBody
from deployments.search.logprobs import Entry
from vocab.matching.log_mass import UNMASKED_TOP, unmark

DEFAULT_TOP_K: Final = 5


def requested_top_k(body: ChatBody) -> int | None:
    """Return how many of the likeliest tokens a request wants with each of its own; None for no details."""
    options = body.get("stream_options") or {}
    return int(options.get("top_k", DEFAULT_TOP_K)) if options.get("token_details") else None


class DetailWriter:
    """Writes the details of one request's tokens, once the engine's outputs have their text.

    Args:
        token_bytes: The bytes of each token.
        top_k: How many of the likeliest tokens are listed with each.
    """

    def __init__(self, token_bytes: Sequence[bytes], top_k: int) -> None:
        self._token_bytes = token_bytes
        self._top_k = top_k
        self._started = time.perf_counter()
        self._arrived: dict[int, float] = {}
        self._waiting: dict[int, list[Entry]] = {}

    def ask(self, params: SamplingParams) -> None:
        """Have the engine report what details are made of."""
        params.logprobs = self._top_k
        params.extra_args = {**(params.extra_args or {}), UNMASKED_TOP: True}

    def entries(self, output: CompletionOutput) -> list[Entry]:
        """Return an entry for each token whose text has come with this output of new tokens, or before."""
        waiting = self._waiting.setdefault(output.index, [])
        if output.token_ids:
            now = time.perf_counter()
            latency_ms = 1000 * (now - self._arrived.get(output.index, self._started)) / len(output.token_ids)
            self._arrived[output.index] = now
            for token, given in zip(output.token_ids, output.logprobs or (), strict=False):
                details = self._details(token, given or {}, round(latency_ms, 3))
                waiting.append(Entry(details, len(details["bytes"])))
        if not output.text and output.finish_reason is None:
            return []
        del self._waiting[output.index]
        return waiting

    def _details(self, token: int, entries: Mapping[int, Any], latency_ms: float) -> dict[str, Any]:
        """Return the details of a token, from vLLM's logprobs of its step."""
        likeliest = sorted(
            [(*unmark(entry.logprob), other) for other, entry in entries.items()], key=lambda one: -one[0]
        )
        own, is_forced = unmark(entries[token].logprob)
        return {
            "token_id": token,
            "bytes": self._spelled(token),
            "prob": _exp(own),
            "latency_ms": latency_ms,
            "is_generated": True,
            "is_forced": is_forced,
            "top_k": [
                {
                    "token_id": other,
                    "bytes": self._spelled(other),
                    "prob": _exp(log_p),
                    # A sampled token is marked where it was forced.
                    "is_masked": is_marked and other != token,
                }
                for log_p, is_marked, other in likeliest
            ]
            if self._top_k
            else [],
        }

    def _spelled(self, token: int) -> list[int]:
        return list(self._token_bytes[token]) if token < len(self._token_bytes) else []


def _exp(log_p: float) -> float:
    """Return p of log p, which rounding may have left a little above 0."""
    return math.exp(min(log_p, 0.0))
