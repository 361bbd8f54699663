"""Hold each key to what the settings allow it, as pure ASGI: which part of the service, how many requests and tokens.

Answers of keys with rates have OpenAI's ``x-ratelimit-…`` headers, whatever their status.
"""

import json
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.contract import ChatBody, prompts_of
from deployments.errors import BadRequestError, ForbiddenError, RateKind, RateLimitError
from deployments.ingress.layers.request_id import add_headers
from deployments.ingress.layers.routing import raw_path
from deployments.protocol.generation.reader import ChatRequest
from deployments.rates import RateExceededError, Rates, RateState
from deployments.settings import Settings

_INTERACTIVE: Final = (
    *(b"/v1/completions", b"/generate", b"/tokenize", b"/detokenize"),
    *(b"/v1/logprobs", b"/v1/token_logprobs", b"/v1/tokens"),
    *(b"/v1/vocabularies/next", b"/v1/vocabularies/swap", b"/v1/vocabularies/rewrite"),
)

CHARS_PER_TOKEN: Final = 4
"""As OpenAI estimates the tokens of a prompt that it has not read yet."""

_FEWER: Final = ("Ask for fewer with 'max_tokens', or for fewer texts.", "max_tokens")


class KeyLimits:
    """Refuse what a key may not use, and requests beyond its rate; before their bodies are read."""

    def __init__(self, app: ASGIApp, *, settings: Settings, rates: Rates) -> None:
        self._app = app
        self._settings = settings
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Without a key it is one of the open paths.
        if scope["type"] == "http" and (owner := scope["state"].get("owner")) is not None:
            key = self._settings.key(owner)
            part = _part_of_service(raw_path(scope))
            if part is not None and key.use not in ("all", part):
                raise ForbiddenError(f"This key is for {key.use} alone. Use another for this path.")
            if key.requests_per_minute is not None:
                await _take(self._rates, scope, "requests", key.requests_per_minute, 1)
        await self._app(scope, receive, send)


async def take_tokens(
    rates: Rates, scope: Scope, settings: Settings, cost: int, fewer: tuple[str, str] = _FEWER
) -> None:
    """Count what a request may cost towards the tokens of its key; ``fewer`` says how to ask for less, and the field.

    Raises:
        BadRequestError: It may cost more than the key ever has in a minute.
        RateLimitError: It may cost more than is left.
    """
    limit = settings.key(scope["state"]["owner"]).tokens_per_minute
    if limit is None:
        return
    if cost > limit:
        how, param = fewer
        raise BadRequestError(f"This request may take {cost} tokens, and this key has {limit} a minute. {how}", param)
    await _take(rates, scope, "tokens", limit, cost)


def num_tokens(chat: ChatRequest) -> int:
    """Return about how many tokens a chat may cost."""
    return num_prompt_tokens(chat.body) + chat.decoding.num_sequences(chat.body) * int(chat.body["max_tokens"])


def num_prompt_tokens(body: ChatBody) -> int:
    """Return about how many tokens the prompt has; those that come as tokens are counted."""
    prompts: list[Any] = prompts_of(body) if "prompt" in body else [body["messages"]]
    return sum(
        len(prompt)
        if isinstance(prompt, list) and isinstance(prompt[0], int)
        else len(json.dumps(prompt, ensure_ascii=False)) // CHARS_PER_TOKEN
        for prompt in prompts
    )


async def _take(rates: Rates, scope: Scope, kind: RateKind, limit: int, cost: int) -> None:
    try:
        state = await rates.take(kind, limit, scope["state"]["owner"], cost)
    except RateExceededError as error:
        _add_rate_headers(scope, kind, error.state)
        raise RateLimitError(
            f"This key may use {limit} {kind} a minute; {error.state.remaining} are left and this request needs {cost}."
            f" Try again in {error.retry_after_s} s.",
            kind,
            error.retry_after_s,
        ) from None
    if state is not None:
        _add_rate_headers(scope, kind, state)


def _add_rate_headers(scope: Scope, kind: RateKind, state: RateState) -> None:
    add_headers(
        scope,
        {
            f"x-ratelimit-limit-{kind}": str(state.limit),
            f"x-ratelimit-remaining-{kind}": str(state.remaining),
            f"x-ratelimit-reset-{kind}": f"{state.reset_s}s",
        },
    )


def _part_of_service(path: bytes) -> str | None:
    if path.startswith(b"/v1/chat/") or path in _INTERACTIVE:
        return "chat"
    return "batches" if path.startswith((b"/v1/files", b"/v1/batch")) else None
