"""Hold a key to what its settings allow: its part of the service, and its requests and tokens a minute."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.types import Scope

from deployments.contract import ChatBody, prompts_of
from deployments.errors import BadRequestError, ForbiddenError, RateKind, RateLimitError
from deployments.ingress.stream import HEADERS
from deployments.protocol.reader import ChatRequest
from deployments.rates import Rates
from deployments.settings.service import Settings

CHARS_PER_TOKEN: Final = 4
"""As OpenAI estimates the tokens of a prompt that it has not read yet."""

_FEWER: Final = ("Ask for fewer with 'max_tokens', or for fewer texts.", "max_tokens")


def key_limit_check(settings: Settings, rates: Rates) -> Callable[[Scope], Awaitable[None]]:
    """Return a check that refuses what a key may not use, and requests beyond its rate; their bodies are not read."""

    async def check(scope: Scope) -> None:
        # Without a key it is one of the open paths.
        if (owner := scope["state"].get("owner")) is None:
            return
        key = settings.key(owner)
        if key.use not in ("all", scope["state"]["operation"].part or key.use):
            raise ForbiddenError(f"This key is for {key.use} alone. Use another for this path.")
        if key.requests_per_minute is not None:
            await _take(rates, scope, "requests", key.requests_per_minute, 1)

    return check


async def take_tokens(
    rates: Rates, scope: Scope, settings: Settings, cost: int, fewer: tuple[str, str] = _FEWER
) -> None:
    """Charge a request's highest cost to the tokens per minute of its key.

    ``fewer`` says how to ask for less, and names the field.

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
    """Estimate the tokens that a chat may cost: prompt, and ``max_tokens`` for each sequence."""
    return num_prompt_tokens(chat.body) + chat.decoding.num_sequences(chat.body) * int(chat.body["max_tokens"])


def num_prompt_tokens(body: ChatBody) -> int:
    """Estimate the tokens of a prompt by its characters; token ids are counted."""
    prompts: list[Any] = prompts_of(body) if "prompt" in body else [body["messages"]]
    return sum(
        len(prompt)
        if isinstance(prompt, list) and isinstance(prompt[0], int)
        else len(json.dumps(prompt, ensure_ascii=False)) // CHARS_PER_TOKEN
        for prompt in prompts
    )


async def _take(rates: Rates, scope: Scope, kind: RateKind, limit: int, cost: int) -> None:
    """Charge a key's rate and add its headers to the answer; ``RateLimitError`` where it is used up."""
    state = await rates.take(kind, limit, scope["state"]["owner"], cost)
    if state is None:
        return
    scope["state"].setdefault(HEADERS, {}).update(
        {
            f"x-ratelimit-limit-{kind}": str(state.limit),
            f"x-ratelimit-remaining-{kind}": str(state.remaining),
            f"x-ratelimit-reset-{kind}": f"{state.reset_s}s",
        }
    )
    if state.is_exceeded:
        raise RateLimitError(
            f"This key may use {limit} {kind} a minute; {state.remaining} are left and this request needs {cost}."
            f" Try again in {state.reset_s} s.",
            kind,
            state.reset_s,
        )
