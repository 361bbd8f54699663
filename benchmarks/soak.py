"""Mixed traffic for minutes, with every request's fate: memory by process, and what kills at random cost.

    make soak                       # 20 minutes
    make chaos                      # a kill each minute, for 10 minutes, on two nodes
    python -m benchmarks soak [--minutes 20] [--rate 3] [--kill-every 60] [--nodes 2] [--stand-in] [--tiny]

Requests come at ``--rate`` a second, whatever became of those before them: free and constrained chats, whole and
streamed, lists that are new each time, checks, and clients that leave. All that came of a constrained answer is read
again; a text that is none of its list is printed, and is a failure. Then 500 clients leave at random moments, and the
time is taken until the engine's own metrics say that nothing runs, waits or holds memory. With ``--kill-every`` a
random process is killed with SIGKILL every so many seconds, and the traffic goes on for two minutes after the last.
``--nodes 2`` has a cluster of two nodes with a replica on each, and kills the second node too. ``--stand-in`` has
engines that compute nothing, ``--tiny`` a model of two layers.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import httpx
import psutil

from benchmarks.kills import VICTIMS, describe, outcome_of, pids_of
from deployments.demo.model import smollm2_path
from tests.harness import Demo
from tests.tiny_adapters import write_model
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.reader import TextReader

KINDS: Final = {"free": 1, "listed": 1, "listed, streamed": 1, "new list": 2, "check": 1, "leaves": 1}
"""Weights of the kinds of requests."""

N_WORDS: Final = 1000
MAX_TOKENS: Final = 16
TIMEOUT_S: Final = 120
LOOK_S: Final = 15
VANISHING: Final = 500
SETTLED_MINUTE: Final = 5
"""After so many minutes memory is to grow no more."""

CALM_MINUTES: Final = 2
"""After the last kill, in which times are to become what they were."""

_ENGINE: Final = {"engine": r"VLLM::EngineCore"}
_NODE: Final = {"node": r"\S*/raylet/raylet (?!.*__internal_head__)"}
_GAUGES: Final = ("vllm_num_requests_running", "vllm_num_requests_waiting", "vllm_kv_cache_usage_perc")


class Account:
    """Every request: its kind, what came of it, and how long that took."""

    def __init__(self) -> None:
        self.sent = Counter[str]()
        self.fates: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: dict[int, list[float]] = defaultdict(list)
        """Of good answers, by the minute in which they were asked for."""
        self.unlisted: list[str] = []


class Traffic:
    """Sends requests of all kinds to a service, and reads what comes back."""

    def __init__(self, demo: Demo, account: Account, seed: int) -> None:
        headers = {"Authorization": f"Bearer {demo.settings.secret_token.get_secret_value()}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._http = httpx.AsyncClient(base_url=demo.url, headers=headers, timeout=TIMEOUT_S, limits=limits)
        self._model = demo.model_id()
        self._account = account
        self._draw = random.Random(seed)
        self._num_lists = 0
        self._started_at = time.monotonic()

    async def run(self, seconds: float, rate: float) -> None:
        """Send requests at random moments, ``rate`` a second on average, and wait for the last answer."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < end:
                [kind] = self._draw.choices(list(KINDS), list(KINDS.values()))
                group.create_task(self._send(kind))
                await asyncio.sleep(self._draw.expovariate(rate))

    async def vanish(self, number: int) -> None:
        """Ask with ``number`` clients at once, of which each leaves within three seconds."""
        async with asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(self._leave(3.0, max_tokens=256))
                await asyncio.sleep(0.002)

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, kind: str) -> None:
        self._account.sent[kind] += 1
        asked_at = time.monotonic()
        fate = await outcome_of(self._ask(kind))
        self._account.fates[kind][fate] += 1
        if fate == "200":
            self._account.seconds[int((asked_at - self._started_at) // 60)].append(time.monotonic() - asked_at)

    async def _ask(self, kind: str) -> str:
        match kind:
            case "free":
                return describe(await self._http.post("/v1/chat/completions", json=self._body()))
            case "listed":
                return await self._whole(self._first_words, {"lang": "en", "n_words": N_WORDS})
            case "listed, streamed":
                return await self._streamed({"lang": "en", "n_words": N_WORDS})
            case "new list":
                self._num_lists += 1
                words = ("the", "dog", "is", "a", "word" + "".join(map(_letter, str(self._num_lists))))
                reader = TextReader(WordList("en", words, "inline"), ListOptions(), len(words))
                return await self._whole(reader, {"lang": "en", "words": words})
            case "check":
                body = {"text": "The dog sat there.", "vocab": {"lang": "en", "n_words": N_WORDS}}
                return describe(await self._http.post("/v1/vocabularies/check", json=body))
            case _:
                return await self._leave(1.0)

    def _body(self, vocab: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "messages": [{"role": "user", "content": "Tell me of a dog."}]}
        body |= {"max_tokens": MAX_TOKENS, **fields}
        return body if vocab is None else body | {"vocab": vocab}

    @cached_property
    def _first_words(self) -> TextReader:
        return TextReader(load_word_list("en", None), ListOptions(), N_WORDS)

    @cached_property
    def _any_end(self) -> TextReader:
        """Reads what came of a stream, which may be cut after any word."""
        return TextReader(load_word_list("en", None), ListOptions(end="word"), N_WORDS)

    async def _whole(self, reader: TextReader, vocab: dict[str, Any]) -> str:
        answer = await self._http.post("/v1/chat/completions", json=self._body(vocab))
        if answer.status_code == 200 and not reader.is_text(text := answer.json()["choices"][0]["message"]["content"]):
            self._account.unlisted.append(text)
        return describe(answer)

    async def _streamed(self, vocab: dict[str, Any]) -> str:
        text, last = "", ""
        try:
            request = self._http.stream("POST", "/v1/chat/completions", json=self._body(vocab, stream=True))
            async with request as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    return describe(answer)
                async for line in answer.aiter_lines():
                    if line.startswith("data: {"):
                        chunk = json.loads(line.removeprefix("data: "))
                        text += "".join(choice["delta"].get("content") or "" for choice in chunk.get("choices", ()))
                    last = line or last
        finally:
            # Whatever ended it: no byte that was sent may be of an unlisted word.
            written = text.rstrip()
            if self._any_end.whole_prefix_length(written) < len(written):
                self._account.unlisted.append(text)
        return "200" if last == "data: [DONE]" else "error event" if '"error"' in last else "cut"

    async def _leave(self, most_s: float, **fields: Any) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._draw.uniform(0, most_s)):
                body = self._body({"lang": "en", "n_words": N_WORDS}, stream=True, **fields)
                async with self._http.stream("POST", "/v1/chat/completions", json=body) as answer:
                    await answer.aread()
        return "left"


def _letter(digit: str) -> str:
    return chr(ord("a") + int(digit))


def memory(demo: Demo) -> Counter[str]:
    """Return the resident memory of each kind of process, in bytes."""
    found = Counter[str]()
    for pid in demo.processes():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process = psutil.Process(pid)
            found[_kind_of(process.cmdline())] += process.memory_info().rss
    return found


def _kind_of(command: list[str]) -> str:
    """Return a process's name: Ray's own title of it, the module that it runs, or its program."""
    line = " ".join(command)
    if match := re.match(r"(ray::[\w:]+|VLLM::\w+)", line):
        return match[1].removeprefix("ray::")
    if match := re.search(r"-m ([\w.]+)", line):
        return match[1]
    return Path(command[1] if "python" in command[0] and len(command) > 1 else command[0]).name if command else "?"


async def watch_memory(demo: Demo, samples: list[tuple[float, Counter[str]]]) -> None:
    """Sample memory every 15 seconds, until cancelled."""
    started_at = time.monotonic()
    while True:
        samples.append((time.monotonic() - started_at, await asyncio.to_thread(memory, demo)))
        await asyncio.sleep(LOOK_S)


async def kill_often(demo: Demo, every_s: float, minutes: float, draw: random.Random, killed: Counter[str]) -> None:
    """Kill a random process of a random kind every so many seconds."""
    started_at = time.monotonic()
    kinds = [*((name, pattern) for name, pattern in VICTIMS.items() if name != "GCS"), *_ENGINE.items(), *_NODE.items()]
    while (elapsed := time.monotonic() - started_at) < 60 * minutes:
        await asyncio.sleep(every_s - elapsed % every_s)
        draw.shuffle(kinds)
        for victim, pattern in kinds:
            if pids := await asyncio.to_thread(pids_of, demo, pattern):
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(pids), signal.SIGKILL)
                    killed[victim] += 1
                    break


async def seconds_until_free(demo: Demo) -> tuple[float | None, str]:
    """Return how long the engine's metrics took to say that it is free, and what they said last."""
    [url] = re.findall(r"metrics: (http\S+)", demo.log_path.read_text(errors="replace"))
    started_at, last = time.monotonic(), ""
    async with httpx.AsyncClient(timeout=30) as http:
        while (elapsed := time.monotonic() - started_at) < 60:
            lines = (await http.get(url)).text.splitlines()
            values = {
                name: sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"ray_{name}{{"))
                for name in _GAUGES
                if any(line.startswith(f"ray_{name}{{") for line in lines)
            }
            last = json.dumps(values)
            if len(values) == len(_GAUGES) and not any(values.values()):
                return elapsed, last
            await asyncio.sleep(0.1)
    return None, last


def print_account(account: Account, killed: Counter[str]) -> None:
    """Print the fates by kind of request, the time of good answers by minute, and unlisted texts."""
    num_answered = sum(sum(fates.values()) for fates in account.fates.values())
    print(f"\nsent {account.sent.total()}, accounted for {num_answered}; killed: {dict(killed) or 'nothing'}")
    good, waited = sum(fates["200"] for fates in account.fates.values()), account.sent.total() - account.sent["leaves"]
    print(f"  of {waited} that waited for their answer {good} got 200: {100 * good / max(waited, 1):.0f}%")
    for kind, sent in account.sent.items():
        print(f"  {kind}: {sent} sent; {dict(account.fates[kind].most_common())}")
    for minute, seconds in sorted(account.seconds.items()):
        p99 = quantiles(seconds, n=100)[98] if len(seconds) > 1 else seconds[0]
        print(f"  minute {minute}: {len(seconds)} good answers, p50 {median(seconds):.2f} s, p99 {p99:.2f} s")
    print(f"unlisted texts: {len(account.unlisted)}")
    for text in account.unlisted:
        print(f"  {text!r}")


def print_memory(samples: list[tuple[float, Counter[str]]]) -> None:
    """Print the memory of each kind of process after five minutes and at the end."""
    settled = [sample for at, sample in samples if at >= 60 * SETTLED_MINUTE] or [samples[0][1]]
    first, last = settled[0], samples[-1][1]
    if not last:
        print("\nno process of the service is left")
        return
    print(f"\nresident memory in MB after {SETTLED_MINUTE} minutes (or at first) and at the end")
    for name, size in sorted(last.items(), key=lambda item: -item[1]):
        before = first.get(name, 0)
        growth = f"{100 * (size / before - 1):+.1f}%" if before else "new"
        print(f"  {name}: {before / 1e6:.1f}, {size / 1e6:.1f}, {growth}")
    print(
        f"  all: {first.total() / 1e6:.0f}, {last.total() / 1e6:.0f}, {100 * (last.total() / first.total() - 1):+.1f}%"
    )


async def soak(demo: Demo, arguments: argparse.Namespace) -> bool:
    """Run the traffic, and print what came of it; return whether everything is accounted for and listed."""
    account, killed = Account(), Counter[str]()
    samples: list[tuple[float, Counter[str]]] = []
    traffic = Traffic(demo, account, arguments.seed)
    tasks = [asyncio.create_task(watch_memory(demo, samples))]
    if arguments.kill_every:
        killing = kill_often(demo, arguments.kill_every, arguments.minutes, random.Random(arguments.seed), killed)
        tasks.append(asyncio.create_task(killing))
    minutes = arguments.minutes + (CALM_MINUTES if arguments.kill_every else 0)
    await traffic.run(60 * minutes, arguments.rate)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print_account(account, killed)
    print_memory(samples)
    if not arguments.kill_every:
        await traffic.vanish(VANISHING)
        seconds, last = await seconds_until_free(demo)
        said = "never" if seconds is None else f"{seconds:.1f} s after the last"
        print(f"\n{VANISHING} clients left; the engine's metrics say that it is free: {said}; {last}")
    await traffic.close()
    answered = sum(sum(fates.values()) for fates in account.fates.values())
    return not account.unlisted and answered == account.sent.total()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a Hugging Face id or a local folder; by default the demo's")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=3.0, help="requests a second")
    parser.add_argument("--kill-every", type=float, default=0.0, help="seconds between two kills; 0 for none")
    parser.add_argument("--nodes", type=int, choices=(1, 2), default=1, help="each with a replica")
    parser.add_argument("--stand-in", action="store_true", help="engines that compute nothing")
    parser.add_argument("--tiny", action="store_true", help="a model of two layers")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    # Ray hands metrics on every ten seconds by default.
    os.environ.setdefault("RAY_metrics_report_interval_ms", "500")
    # A node of two offers one core, which the second replica does not find on the first one.
    settings = {
        "autoscaling": {"min_replicas": arguments.nodes, "max_replicas": arguments.nodes},
        "placement_bundles": [{"CPU": 1 if arguments.nodes == 1 else 0.6}],
        "engine_kwargs": {"enforce_eager": True, "max_model_len": 1024, "max_num_seqs": 64},
        "limits": {"max_input_tokens": 512, "max_new_tokens": 256},
    }
    import_path = "benchmarks.stand_in:build" if arguments.stand_in else None
    if arguments.stand_in:
        os.environ["STAND_IN_FAULTS"] = "1"
    module = None if arguments.nodes == 1 else "benchmarks.two_nodes"
    with tempfile.TemporaryDirectory(prefix="soak") as name:
        folder = Path(name)
        model = arguments.model or smollm2_path()
        model = write_model(model, folder / "tiny") if arguments.tiny else model
        demo = Demo(str(model), folder / "service", settings, import_path=import_path, module=module)
        demo.start()
        try:
            demo.wait_until_ready()
            is_good = asyncio.run(soak(demo, arguments))
        finally:
            demo.stop()
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
