"""What clients see while parts of the service are killed, and while it ends: a table by second.

    python -m benchmarks kills [--only vocabulary controller ...] [--streams 50] [--drain 15]

Starts the demo's application twice. In the first, its parts are killed with SIGKILL, one after another, while a client
of each kind asks once a second; then it is ended by SIGINT, and the second by SIGTERM, with ``--streams`` streams under
way, of which every second one is longer than the drain. Takes about ten minutes.
"""

import argparse
import asyncio
import itertools
import os
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from deployments.demo.model import smollm2_path
from tests.harness import Demo

VICTIMS: Final = {
    "vocabulary": r"ray::ServeReplica:wordbound:Vocabulary",
    "ingress": r"ray::ServeReplica:wordbound:Ingress",
    "replica": r"ray::ServeReplica:wordbound:Replica",
    "proxy": r"ray::ProxyActor",
    "HAProxy": r"\S*/haproxy ",
    "controller": r"ray::ServeController",
    "GCS": r"\S*/gcs/gcs_server ",
}
"""What the command lines of its processes begin with; Ray's GCS is the last, for all else may end with it."""
SIGNALS: Final = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}

WATCH_S: Final = 80
"""After a kill; less where every kind has been answered well for ``STEADY_S``."""
LEAST_WATCH_S: Final = 15
STEADY_S: Final = 5
MAX_OPEN: Final = 3
"""Requests of one kind that wait; another is sent when one has ended."""
SLOW_S: Final = 1.5
"""An answer that took longer is shown with its time."""

LONG, SHORT = 1000, 24


@dataclass
class Seen:
    """One request: when it was sent, in seconds after the event, what came of it, and how long that took."""

    sent_at: float
    outcome: str
    took_s: float = 0.0


class Client:
    """Asks the service as several kinds of clients do, and notes what each sees."""

    def __init__(self, demo: Demo) -> None:
        headers = {"Authorization": f"Bearer {demo.settings.secret_token.get_secret_value()}"}
        # A connection of its own for each request: one that is kept would hide that nobody listens.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.AsyncClient(base_url=demo.url, headers=headers, timeout=90, limits=limits)
        self._model = demo.model_id()
        self._numbers = itertools.count(int(time.time()))
        self.start = time.monotonic()
        self.seen: dict[str, list[Seen]] = {}

    async def close(self) -> None:
        await self._http.aclose()

    @property
    def kinds(self) -> dict[str, Callable[[], Awaitable[httpx.Response]]]:
        return {
            "`/health`": lambda: self._http.get("/health"),
            "`/ready`": lambda: self._http.get("/ready"),
            "chat": lambda: self._chat(None),
            "chat, known list": lambda: self._chat({"lang": "en", "n_words": 1000}),
            "chat, new list": lambda: self._chat({"words": ["the", "dog", f"number{next(self._numbers)}"]}),
            "check of a text": lambda: self._http.post(
                "/v1/vocabularies/check", json={"text": "The dog.", "vocab": {"lang": "en", "n_words": 1000}}
            ),
        }

    async def _chat(self, vocab: dict[str, Any] | None) -> httpx.Response:
        return await self._http.post("/v1/chat/completions", json=self.body(vocab, max_tokens=4))

    def body(self, vocab: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
        body = {"model": self._model, "messages": [{"role": "user", "content": "Tell me of a dog."}], **fields}
        return body if vocab is None else body | {"vocab": vocab}

    @asynccontextmanager
    async def asking(self, every_s: float = 1.0) -> AsyncIterator[None]:
        """Ask in the background, from now on, which is second 0."""
        self.start, self.seen = time.monotonic(), {kind: [] for kind in self.kinds}
        tasks = [asyncio.create_task(self._ask_often(kind, every_s)) for kind in self.kinds]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_often(self, kind: str, every_s: float) -> None:
        async with asyncio.TaskGroup() as group:
            is_free = asyncio.Semaphore(MAX_OPEN)
            while True:
                await is_free.acquire()
                group.create_task(self._ask(kind)).add_done_callback(lambda _: is_free.release())
                await asyncio.sleep(every_s)

    async def _ask(self, kind: str) -> None:
        seen = Seen(time.monotonic() - self.start, "no answer")
        self.seen[kind].append(seen)
        try:
            seen.outcome = await outcome_of(self.kinds[kind]())
        finally:
            seen.took_s = time.monotonic() - self.start - seen.sent_at

    def is_steady(self) -> bool:
        """Whether all that was sent in the last seconds has been answered well."""
        now = time.monotonic() - self.start
        last = [[seen for seen in all_seen if seen.sent_at > now - STEADY_S] for all_seen in self.seen.values()]
        good = (seen.outcome == "200" or seen.sent_at > now - 1.2 for of_kind in last for seen in of_kind)
        sent = [seen for of_kind in self.seen.values() for seen in of_kind]
        open_long = any(seen.outcome == "no answer" and seen.sent_at < now - 1.2 for seen in sent)
        return all(len(of_kind) >= STEADY_S - 2 for of_kind in last) and all(good) and not open_long

    async def stream(self, max_tokens: int) -> Seen:
        """Read one stream; what is noted is when it ended, and how."""
        last, seen = "", Seen(0.0, "cut")
        with suppress(httpx.TransportError):
            body = self.body({"lang": "en", "n_words": 1000}, max_tokens=max_tokens, min_tokens=max_tokens, stream=True)
            async with self._http.stream("POST", "/v1/chat/completions", json=body) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    seen.outcome = describe(answer)
                async for line in answer.aiter_lines():
                    last = line or last
            if last == "data: [DONE]":
                seen.outcome = "whole"
            elif '"error"' in last:
                seen.outcome = "error event"
        seen.sent_at = time.monotonic() - self.start
        return seen


async def outcome_of(asked: Awaitable[httpx.Response | str]) -> str:
    """Return what came of a request: ``describe`` of its answer, a text as it is, or how the connection failed."""
    try:
        answer = await asked
    except httpx.TimeoutException:
        return "no answer"
    except httpx.ConnectError:
        return "refused connection"
    except httpx.TransportError:
        return "broken connection"
    return answer if isinstance(answer, str) else describe(answer)


def describe(answer: httpx.Response) -> str:
    """The status, and what a client's library would miss of an error."""
    if answer.is_success:
        return str(answer.status_code)
    after = "" if answer.status_code != 503 or "retry-after" in answer.headers else ", no Retry-After"
    try:
        is_ours = "error" in answer.json() or "status" in answer.json()
    except ValueError:
        is_ours = False
    return f"{answer.status_code}{'' if is_ours else ' in plain text'}{after}"


def by_second(seen: Iterable[Seen]) -> str:
    """What one kind of client saw, requests in a row with the same outcome as one."""
    parts: list[tuple[str, list[Seen]]] = []
    for one in sorted(seen, key=lambda one: one.sent_at):
        label = one.outcome if one.took_s < SLOW_S else f"{one.outcome} after"
        if not parts or parts[-1][0] != label:
            parts.append((label, []))
        parts[-1][1].append(one)
    result = []
    for label, group in parts:
        first, last = int(group[0].sent_at), int(group[-1].sent_at)
        when = f"{first}" if first == last else f"{first}–{last}"
        longest = max(one.took_s for one in group)
        result.append(f"{when}: {label} {longest:.0f} s" if label.endswith("after") else f"{when}: {label}")
    return "; ".join(result)


def pids_of(demo: Demo, pattern: str) -> list[int]:
    found = []
    for pid in demo.processes():
        with suppress(psutil.NoSuchProcess):
            if re.match(pattern, " ".join(psutil.Process(pid).cmdline())):
                found.append(pid)
    return found


async def kill(demo: Demo, victim: str) -> list[str]:
    if not (pids := pids_of(demo, VICTIMS[victim])):
        return []
    client = Client(demo)
    # Each kind once before, so that what is known is known.
    for ask in client.kinds.values():
        with suppress(httpx.TransportError):
            await ask()
    async with client.asking():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        while (elapsed := time.monotonic() - client.start) < WATCH_S:
            await asyncio.sleep(0.5)
            # What has no store any more goes on for a minute.
            if victim != "GCS" and elapsed > LEAST_WATCH_S and client.is_steady():
                break
    await client.close()
    return [f"| kill -9 of the {victim} | {kind} | {by_second(seen)} |" for kind, seen in client.seen.items()]


async def end(demo: Demo, name: str, num_streams: int) -> list[str]:
    client = Client(demo)
    lengths = [SHORT if number % 2 else LONG for number in range(num_streams)]
    streams = [asyncio.create_task(client.stream(length)) for length in lengths]
    await asyncio.sleep(5)
    async with client.asking():
        demo.send_signal(SIGNALS[name])
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(demo.wait, 90)
        ended_at = time.monotonic() - client.start
        await asyncio.sleep(1)
    ends = await asyncio.gather(*streams)
    await client.close()
    counted = Counter((int(seen.sent_at), seen.outcome) for seen in ends)
    result = "; ".join(f"{second}: {number} {outcome}" for (second, outcome), number in sorted(counted.items()))
    rows = [f"| {name} | {num_streams} streams | {result} |"]
    rows += [f"| {name} | {kind} | {by_second(seen)} |" for kind, seen in client.seen.items()]
    left = len(demo.processes())
    return [*rows, f"| {name} | the process | ended after {ended_at:.1f} s; {left} processes left |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a Hugging Face id or a local folder; by default the demo's")
    parser.add_argument("--only", nargs="*", choices=[*VICTIMS, *SIGNALS], default=[*VICTIMS, *SIGNALS])
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--drain", type=float, default=15.0, help="the service's drain_s")
    arguments = parser.parse_args()
    model = arguments.model or str(smollm2_path())
    victims = [name for name in arguments.only if name in VICTIMS]
    signals = [name for name in arguments.only if name in SIGNALS]
    print("| event | client | by second |\n|---|---|---|", flush=True)
    # A service for the kills, the last of which ends it, and one for each signal.
    for name in ([None] if victims else []) + signals:
        with tempfile.TemporaryDirectory(prefix="kills") as folder:
            demo = Demo(model, Path(folder), {"drain_s": arguments.drain})
            demo.start()
            try:
                demo.wait_until_ready()
                if name is not None:
                    print("\n".join(asyncio.run(end(demo, name, arguments.streams))), flush=True)
                for victim in victims if name is None else ():
                    print("\n".join(asyncio.run(kill(demo, victim))), flush=True)
            finally:
                demo.stop()


if __name__ == "__main__":
    main()
