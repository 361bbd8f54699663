"""Check a request's key, store its name as ``owner`` in the scope's state, and hold it to what the settings allow it.

Runs outside routing, so that nothing can be learned without a key, not even which paths exist. Removes ``?token=`` from
the query before anything else, such as an access log, can read it.
"""

import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.contract import ChatBody, prompts_of
from deployments.errors import BadRequestError, ForbiddenError, RateKind, RateLimitError, UnauthorizedError
from deployments.ingress.request_id import add_headers
from deployments.ingress.routing import raw_path
from deployments.protocol.generation.reader import ChatRequest
from deployments.rates import RateExceededError, Rates, RateState
from deployments.settings.keys import digest_of
from deployments.settings.service import Settings

_MESSAGE = (
    "A valid key is required. Send it as 'Authorization: Bearer <key>' or 'X-API-Key: <key>'"
    " (or as '?token=<key>', where the service allows that)."
)


class Authentication:
    """Raise ``UnauthorizedError`` for a request without a key, except for what ``is_open``.

    ``digests`` are those of the keys, by name. ``?token=`` is removed from the query in any case, and counts if
    ``allow_query_token``.
    """

    def __init__(
        self, app: ASGIApp, *, digests: Mapping[str, str], allow_query_token: bool, is_open: Callable[[bytes], bool]
    ) -> None:
        self._app = app
        self._digests = dict(digests)
        self._allow_query_token = allow_query_token
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            query_tokens = _take_query_tokens(scope)
            keys = [*_keys_in_headers(scope), *(query_tokens if self._allow_query_token else [])]
            owner = self._owner(keys)
            if owner is not None:
                scope.setdefault("state", {})["owner"] = owner
            elif not self._is_open(raw_path(scope)):
                raise UnauthorizedError(_MESSAGE)
        await self._app(scope, receive, send)

    def _owner(self, keys: list[bytes]) -> str | None:
        """Return the name of the first valid key; the time taken is the same whichever key matches."""
        given = [digest_of(key) for key in keys]
        names = [name for name, digest in self._digests.items() for key in given if hmac.compare_digest(key, digest)]
        return names[0] if names else None


def _keys_in_headers(scope: Scope) -> Iterator[bytes]:
    """Yield the keys in the headers ``X-API-Key`` and ``Authorization: Bearer``."""
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            yield value.strip()
        elif name == b"authorization":
            scheme, _, key = value.strip().partition(b" ")
            if scheme.lower() == b"bearer":
                yield key.strip()


def _take_query_tokens(scope: Scope) -> list[bytes]:
    """Remove every ``token`` from the query, and return them; in place, for the server logs this dict later."""
    tokens, others = [], []
    for pair in scope.get("query_string", b"").split(b"&"):
        name, _, value = pair.replace(b"+", b" ").partition(b"=")
        if unquote_to_bytes(name) == b"token":
            tokens.append(unquote_to_bytes(value))
        else:
            others.append(pair)
    if tokens:
        scope["query_string"] = b"&".join(others)
    return tokens


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
            if key.use not in ("all", scope["state"]["operation"].part or key.use):
                raise ForbiddenError(f"This key is for {key.use} alone. Use another for this path.")
            if key.requests_per_minute is not None:
                await _take(self._rates, scope, "requests", key.requests_per_minute, 1)
        await self._app(scope, receive, send)


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
    """Add a rate's ``x-ratelimit-*`` headers to the answer."""
    add_headers(
        scope,
        {
            f"x-ratelimit-limit-{kind}": str(state.limit),
            f"x-ratelimit-remaining-{kind}": str(state.remaining),
            f"x-ratelimit-reset-{kind}": f"{state.reset_s}s",
        },
    )
