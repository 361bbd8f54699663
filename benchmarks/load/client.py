"""The load client: requests of all kinds, open or closed loops of them, and an account of what each of them got."""

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import aiohttp

OPEN: Final = "under way"
SLOW_S: Final = 1.5
"""An answer that took longer is shown with its time."""

TextCheck = Callable[[str, bool], bool]
"""Whether a text is one of its list; the second value is whether it came whole."""


class Request(NamedTuple):
    """What is sent.

    Attributes:
        kind: By which it is counted.
        path: Of the service.
        body: As JSON, or None; a chat names the service's model where it names none.
        fields: More arguments of aiohttp's ``request``.
        leaves_s: After which its client leaves.
        is_listed: Judges the text of a chat.
    """

    kind: str
    path: str
    body: dict[str, Any] | None = None
    fields: Mapping[str, Any] = {}
    leaves_s: float | None = None
    is_listed: TextCheck | None = None


def chat(kind: str, *, is_listed: TextCheck | None = None, leaves_s: float | None = None, **fields: Any) -> Request:
    """Return a chat; ``fields`` are of its body."""
    body = {"messages": [{"role": "user", "content": "Tell me a long story about a dog."}], "max_tokens": 16}
    return Request(kind, "/v1/chat/completions", body | fields, leaves_s=leaves_s, is_listed=is_listed)


@dataclass
class Sent:
    """One request: when it was sent, by the account's clock, what came of it, and how long it and its pieces took."""

    kind: str
    sent_at: float
    outcome: str = OPEN
    took_s: float = 0.0
    first_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    num_tokens: int = 0


class Account:
    """All that was sent, and texts that are none of their list."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.unlisted: list[str] = []
        self._start = time.monotonic()

    @property
    def second(self) -> float:
        return time.monotonic() - self._start

    def restart(self) -> None:
        """Count seconds from now on, and forget nothing."""
        moved = self.second
        self._start += moved
        for one in self.sent:
            one.sent_at -= moved

    def outcomes(self, kind: str | None = None) -> Counter[str]:
        return Counter(one.outcome for one in self.sent if kind in (None, one.kind))

    def by_kind(self) -> list[str]:
        """How many of each kind there were, and what came of them."""
        kinds = dict.fromkeys(one.kind for one in self.sent)
        lines = [f"  {kind}: {dict(self.outcomes(kind).most_common())}" for kind in kinds]
        answered = len(self.sent) - self.outcomes()[OPEN]
        return [f"sent {len(self.sent)}, accounted for {answered}; unlisted texts: {self.unlisted or 'none'}", *lines]

    def by_step(self, step_s: int) -> list[str]:
        """What came of those that were sent in each step, and the times of good answers."""
        lines = []
        for at, group in itertools.groupby(self._in_order(), lambda one: int(one.sent_at // step_s) * step_s):
            of_step = list(group)
            good = percentiles([one.took_s for one in of_step if one.outcome == "200"], 0.5, 0.99, 1)
            counts = dict(Counter(one.outcome for one in of_step))
            lines.append(f"  from second {at}: {counts}; 200 after (p50 · p99 · longest) {good} s")
        return lines

    def by_second(self, kind: str) -> str:
        """What one kind of client saw, requests in a row with the same outcome as one."""

        def label(one: Sent) -> str:
            return one.outcome if one.took_s < SLOW_S else f"{one.outcome} after"

        result = []
        for outcome, group in itertools.groupby((one for one in self._in_order() if one.kind == kind), label):
            of_outcome = list(group)
            first, last = int(of_outcome[0].sent_at), int(of_outcome[-1].sent_at)
            longest = f" {max(one.took_s for one in of_outcome):.0f} s" if outcome.endswith("after") else ""
            result.append(f"{first}{'' if first == last else f'–{last}'}: {outcome}{longest}")
        return "; ".join(result)

    def _in_order(self) -> list[Sent]:
        return sorted(self.sent, key=lambda one: one.sent_at)


def percentiles(values: list[float], *shares: float, digits: int = 2) -> str:
    """Show these shares of values, from 0 to 1."""
    ordered = sorted(values)
    found = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in shares)
    return " · ".join(f"{value:.{digits}f}" for value in found) if ordered else "–"


class Client:
    """Sends requests to a service as one key, and writes into an account what came of each.

    Each has a connection of its own, for one that is kept would hide that nobody listens; ``keeps_connections`` has
    them kept.
    """

    def __init__(
        self, url: str, key: str, model: str, *, keeps_connections: bool = False, timeout_s: float = 120
    ) -> None:
        self.account = Account()
        self._url, self._model, self._keeps_connections, self._timeout_s = url, model, keeps_connections, timeout_s
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, force_close=not self._keeps_connections)
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        session = aiohttp.ClientSession(self._url, headers=self._headers, connector=connector, timeout=timeout)
        self._http = await self._stack.enter_async_context(session)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def ask(self, request: Request) -> Sent:
        """Send a request and read its answer; what fails is an outcome too."""
        sent = Sent(request.kind, self.account.second)
        self.account.sent.append(sent)
        try:
            async with asyncio.timeout(request.leaves_s):
                sent.outcome = await self._ask(request, sent)
        except TimeoutError:
            sent.outcome = "no answer" if request.leaves_s is None else "left"
        except aiohttp.ClientConnectorError:
            sent.outcome = "refused connection"
        except (aiohttp.ClientError, ConnectionError):
            sent.outcome = "broken connection"
        finally:
            sent.took_s = self.account.second - sent.sent_at
        return sent

    async def open_loop(self, rate: float, make: Callable[[], Request], ended: asyncio.Event) -> None:
        """Send at random moments, ``rate`` a second on average; return when the last was answered."""
        async with asyncio.TaskGroup() as group:
            while not ended.is_set():
                group.create_task(self.ask(make()))
                await asyncio.sleep(random.expovariate(rate))

    async def closed_loop(self, num_clients: int, make: Callable[[], Request], **limits: float) -> None:
        """Have so many clients ask one thing after another, for ``seconds`` or so many ``times``."""
        end = time.monotonic() + limits.get("seconds", float("inf"))

        async def client() -> None:
            for number in itertools.count():
                if time.monotonic() > end or number >= limits.get("times", float("inf")):
                    return
                if (await self.ask(make())).outcome != "200":
                    # As a client that does not heed ``Retry-After``, but is no flood.
                    await asyncio.sleep(0.05)

        await asyncio.gather(*(client() for _ in range(num_clients)))

    async def _ask(self, request: Request, sent: Sent) -> str:
        body, fields = request.body, dict(request.fields)
        if body is not None:
            fields["json"] = {"model": self._model, **body} if "messages" in body else body
        method = "GET" if body is None and not fields else "POST"
        async with self._http.request(method, request.path, **fields) as answer:
            if answer.status != 200 or not (body or {}).get("stream"):
                content = await answer.read()
                if answer.status == 200 and "messages" in (body or {}):
                    found = json.loads(content)
                    sent.num_tokens = found["usage"]["completion_tokens"]
                    self._judge(request, found["choices"][0]["message"]["content"], is_whole=True)
                return describe(answer.status, answer.headers, content)
            return await self._read(request, sent, answer.content)

    async def _read(self, request: Request, sent: Sent, lines: aiohttp.StreamReader) -> str:
        text, last = [], b""
        before = start = time.monotonic()
        try:
            async for line in lines:
                if b'"usage":{' in line:
                    sent.num_tokens = json.loads(line[6:])["usage"]["completion_tokens"]
                elif b'"content":"' in line and b'"content":""' not in line:
                    now = time.monotonic()
                    if before == start:
                        sent.first_s = self.account.second - sent.sent_at
                    else:
                        sent.gaps_s.append(now - before)
                    before = now
                    if request.is_listed:
                        text.append(json.loads(line[6:])["choices"][0]["delta"]["content"])
                last = line.strip() or last
        finally:
            # Whatever ended it: no byte that was sent may be of an unlisted word.
            self._judge(request, "".join(text), is_whole=False)
        return "200" if last == b"data: [DONE]" else "error event" if b'"error"' in last else "cut"

    def _judge(self, request: Request, text: str, *, is_whole: bool) -> None:
        if request.is_listed and not request.is_listed(text, is_whole):
            self.account.unlisted.append(text)


def describe(status: int, headers: Mapping[str, str], content: bytes) -> str:
    """The status, and what a client's library would miss of an error."""
    if status < 300:
        return str(status)
    after = "" if status != 503 or "Retry-After" in headers else ", no Retry-After"
    try:
        is_ours = bool({"error", "status"} & json.loads(content).keys())
    except (ValueError, AttributeError):
        is_ours = False
    return f"{status}{'' if is_ours else ' in plain text'}{after}"
