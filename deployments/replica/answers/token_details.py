"""Token details: what each part of a stream says of its tokens, in place of log-probabilities.

vLLM is asked for logprobs with token ids, of the model itself before any mask (``UNMASKED_TOP``). They are held back
and trimmed with their text like any logprobs, for they travel as entries of these.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from deployments.contract import ChatBody
from deployments.replica.answers.completion import ChatForm
from vocab.matching.log_mass import UNMASKED_TOP, unmark

DEFAULT_TOP_K: Final = 5

EXTRA_ARGUMENTS: Final[Mapping[str, Any]] = {UNMASKED_TOP: True}
"""Of the engine's sampling parameters, for a request with details."""

_ID_PREFIX: Final = "token_id:"
"""Before the number, where vLLM names tokens by their ids."""


def requested_top_k(body: ChatBody) -> int | None:
    """Return how many of the likeliest tokens a request wants with each of its own; None for no details."""
    options = body.get("stream_options") or {}
    return int(options.get("top_k", DEFAULT_TOP_K)) if options.get("token_details") else None


def with_logprobs(body: ChatBody) -> ChatBody:
    """Return a body with the fields by which vLLM gives what details are made of; as it is without details."""
    top_k = requested_top_k(body)
    if top_k is None:
        return body
    options = {name: value for name, value in body["stream_options"].items() if name not in ("token_details", "top_k")}
    # vLLM counts the sampled token among them.
    asked = {"logprobs": top_k + 1} if "prompt" in body else {"logprobs": True, "top_logprobs": top_k + 1}
    return {**body, **asked, "stream_options": options, "return_tokens_as_token_ids": True}


class TokenDetailsForm(ChatForm):
    """Puts ``token_details`` into each choice of a stream's chunks; ``form`` is that of the answer itself.

    ``token_bytes`` has the bytes of each token.
    """

    def __init__(self, form: ChatForm, token_bytes: Sequence[bytes], top_k: int) -> None:
        self._form = form
        self._token_bytes = token_bytes
        self._top_k = top_k
        self._started = time.perf_counter()
        self._arrived: dict[int, float] = {}
        """By choice, when its last tokens came."""

    def to_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        chat = self._form.to_chat(answer)
        for choice in chat["choices"]:
            if entries := (choice.get("logprobs") or {}).get("content"):
                now, index = time.perf_counter(), choice["index"]
                latency_ms = 1000 * (now - self._arrived.get(index, self._started)) / len(entries)
                self._arrived[index] = now
                choice["logprobs"]["content"] = [self._with_details(entry, latency_ms) for entry in entries]
        return chat

    def from_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        choices = []
        for choice in answer["choices"]:
            entries = (choice.get("logprobs") or {}).get("content") or ()
            choices.append({**choice, "logprobs": None, "token_details": [entry["token_details"] for entry in entries]})
        return self._form.from_chat({**answer, "choices": choices})

    def _with_details(self, entry: Mapping[str, Any], latency_ms: float) -> dict[str, Any]:
        """Return an entry of logprobs, of a chat or a completion, with its details and the bytes of its token."""
        if "row" in entry:
            _, reported, listed, _ = entry["row"]
            likeliest = listed or {}
        else:
            reported = entry["logprob"]
            likeliest = {other["token"]: other["logprob"] for other in entry["top_logprobs"]}
        token = _id_of(entry["token"])
        own, is_forced = unmark(reported)
        ranked = sorted(((_id_of(name), *unmark(value)) for name, value in likeliest.items()), key=lambda one: -one[1])
        top = ranked[: self._top_k]
        if top and token not in [one[0] for one in top]:
            top.append((token, own, False))
        details = {
            **self._describe(token, own),
            "latency_ms": round(latency_ms, 3),
            "is_generated": True,
            "is_forced": is_forced,
            "top_k": [
                {**self._describe(other, log_p), "is_masked": is_marked and other != token}
                for other, log_p, is_marked in top
            ],
        }
        return {"bytes": details["bytes"], **entry, "token_details": details}

    def _describe(self, token: int, log_p: float) -> dict[str, Any]:
        """Return a token's id, bytes and probability."""
        spelled = self._token_bytes[token] if token < len(self._token_bytes) else b""
        return {"token_id": token, "bytes": list(spelled), "prob": math.exp(min(log_p, 0.0))}


def _id_of(name: str) -> int:
    """Return the id of a token that vLLM names by it."""
    return int(name.removeprefix(_ID_PREFIX))
