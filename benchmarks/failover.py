"""What an engine's death, its standing still, and a change of the number of replicas cost clients: two nodes, two
replicas, requests that come whatever became of those before them.

    python -m benchmarks failover [--only kill stop scale] [--load 0.7] [--tiny] [--stand-in]

*kill*: SIGKILL of one of two engines at ``--load`` of what both carried before. *stop*: SIGSTOP of one. *scale*: more
requests than one replica is to have, for two minutes, and then few. Prints each second's fates, and what was lost.
``--tiny`` has a model of two layers, which leaves the cores to what is around it, ``--stand-in`` an engine that
computes nothing.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx

from benchmarks.kills import Seen, outcome_of, pids_of
from deployments.demo.model import smollm2_path
from tests.harness import Demo
from tests.tiny_adapters import write_model

EVENTS: Final = ("kill", "stop", "scale")
ENGINE: Final = r"VLLM::EngineCore"
MAX_TOKENS: Final = 16
OPEN: Final = "under way"
STEP_S: Final = 5
"""Of the table."""
CAPACITY_S: Final = 15
CLIENTS: Final = 32
"""Of the measurement of what both carry."""
HIGH, LOW = 12, 1
"""Requests that one client each keeps open, to have a second replica started, and ended."""


class Load:
    """Sends chats with a list to a service, and records what becomes of each."""

    def __init__(self, url: str, key: str, model: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=120, limits=limits)
        self._model = model
        self._start = time.monotonic()
        self.sent: list[Seen] = []

    def restart(self) -> None:
        """Count seconds from now on, and forget nothing."""
        now = time.monotonic()
        for one in self.sent:
            one.sent_at -= now - self._start
        self._start = now

    @property
    def second(self) -> float:
        return time.monotonic() - self._start

    @property
    def num_open(self) -> int:
        return sum(one.outcome == OPEN for one in self.sent)

    async def open_loop(self, rate: float, ended: asyncio.Event) -> None:
        """Send at random moments, ``rate`` a second on average; return when the last was answered."""
        async with asyncio.TaskGroup() as group:
            while not ended.is_set():
                group.create_task(self.ask())
                await asyncio.sleep(random.expovariate(rate))

    async def closed_loop(self, num_clients: int, seconds: float) -> float:
        """Have so many clients ask one thing after another; return how many good answers came a second."""
        end, first = time.monotonic() + seconds, len(self.sent)

        async def client() -> None:
            while time.monotonic() < end:
                await self.ask()

        started = time.monotonic()
        await asyncio.gather(*(client() for _ in range(num_clients)))
        return sum(one.outcome == "200" for one in self.sent[first:]) / (time.monotonic() - started)

    async def ask(self) -> None:
        one = Seen(self.second, OPEN)
        self.sent.append(one)
        message = {"role": "user", "content": f"Story {len(self.sent)}: tell me of a dog."}
        body: dict[str, Any] = {"model": self._model, "messages": [message], "max_tokens": MAX_TOKENS}
        body["vocab"] = {"lang": "en", "n_words": 1000}
        one.outcome = await outcome_of(self._http.post("/v1/chat/completions", json=body))
        one.took_s = self.second - one.sent_at

    def table(self) -> str:
        """Return fates and times by the seconds in which requests were sent."""
        steps: dict[int, list[Seen]] = {}
        for one in self.sent:
            steps.setdefault(int(one.sent_at // STEP_S) * STEP_S, []).append(one)
        return "\n".join(
            f"  from second {at}: {dict(Counter(one.outcome for one in of_step))}, "
            f"median {median(one.took_s for one in of_step):.1f} s, longest {max(one.took_s for one in of_step):.1f} s"
            for at, of_step in sorted(steps.items())
        )


def load_of(demo: Demo) -> Load:
    return Load(demo.url, demo.settings.secret_token.get_secret_value(), demo.model_id())


async def lose(demo: Demo, load: Load, number: signal.Signals, share: float) -> None:
    """Send a signal to one engine under load, and print what it costs until its replacement answers."""
    capacity = await load.closed_loop(CLIENTS, CAPACITY_S)
    rate = share * capacity
    load.sent.clear()
    print(f"\n{number.name} of an engine: both carry {capacity:.1f} requests a second; {rate:.1f} are sent", flush=True)
    num_ready = _num_ready(demo)
    ended = asyncio.Event()
    asyncio.get_running_loop().call_later(150, ended.set)
    sending = asyncio.create_task(load.open_loop(rate, ended))
    await asyncio.sleep(15)
    load.restart()
    in_flight = load.num_open
    os.kill(pids_of(demo, ENGINE)[0], number)
    started, replaced_s = time.monotonic(), None
    while not sending.done():
        await asyncio.sleep(0.2)
        if replaced_s is None and _num_ready(demo) > num_ready:
            replaced_s = time.monotonic() - started
    await sending
    before = Counter(one.outcome for one in load.sent if one.sent_at < 0)
    after = [one for one in load.sent if 0 <= one.sent_at < 30]
    failed = Counter(one.outcome for one in after if one.outcome != "200")
    print(load.table())
    print(f"in flight at both: {in_flight}; sent before: {dict(before)}")
    print(f"sent in the next 30 s: {len(after)}, of which failed: {dict(failed) or 'none'}")
    hung = [one.sent_at for one in load.sent if one.sent_at >= 0 and one.took_s > 30]
    print(f"the last that waited more than 30 s was sent at second {max(hung, default=0):.1f} ({len(hung)} of them)")
    print(f"another replica was ready after {replaced_s and round(replaced_s)} s", flush=True)


async def scale(demo: Demo, load: Load) -> None:
    """Ask with many clients, then with few, and print the number of engines by time and what was lost."""
    load.restart()
    engines: list[tuple[float, int]] = []
    started = time.monotonic()

    async def watch() -> None:
        while True:
            number = len(pids_of(demo, ENGINE))
            if not engines or engines[-1][1] != number:
                engines.append((round(time.monotonic() - started, 1), number))
            await asyncio.sleep(0.5)

    watching = asyncio.create_task(watch())
    await load.closed_loop(HIGH, 120)
    await load.closed_loop(LOW, 120)
    watching.cancel()
    print(f"\n{HIGH} clients for two minutes, then {LOW}; engines from second: {json.dumps(engines)}")
    print(load.table())
    print(f"sent {len(load.sent)}: {dict(Counter(one.outcome for one in load.sent))}", flush=True)


def _num_ready(demo: Demo) -> int:
    return demo.log_path.read_text(errors="replace").count("is ready; its engine keeps")


@contextmanager
def running(model: str, autoscaling: dict[str, Any], import_path: str | None = None) -> Iterator[Demo]:
    """Run the service on two nodes, of which each has room for one replica."""
    settings: dict[str, Any] = {
        "autoscaling": autoscaling,
        "placement_bundles": [{"CPU": 0.6}],
        "engine_stall_s": 60,
        "engine_kwargs": {"enforce_eager": True, "max_model_len": 1024, "max_num_seqs": 64},
        "limits": {"max_input_tokens": 512, "max_new_tokens": 256},
        "batch": {"enabled": False},
    }
    with tempfile.TemporaryDirectory(prefix="failover") as folder:
        demo = Demo(model, Path(folder), settings, module="benchmarks.two_nodes", import_path=import_path)
        demo.start()
        try:
            demo.wait_until_ready()
            yield demo
        finally:
            demo.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a local folder; by default the demo's model")
    parser.add_argument("--only", nargs="*", choices=EVENTS, default=EVENTS)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--stand-in", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="failover-model") as folder:
        path = arguments.model or smollm2_path()
        model = str(write_model(path, Path(folder) / "tiny") if arguments.tiny else path)
        import_path = "benchmarks.stand_in:build" if arguments.stand_in else None
        if lost := [name for name in ("kill", "stop") if name in arguments.only]:
            with running(model, {"min_replicas": 2, "max_replicas": 2}, import_path) as demo:
                for name in lost:
                    number = signal.SIGKILL if name == "kill" else signal.SIGSTOP
                    asyncio.run(lose(demo, load_of(demo), number, arguments.load))
        if "scale" in arguments.only:
            quick = {"target_sequences": 6, "upscale_delay_s": 3, "downscale_delay_s": 20, "look_back_period_s": 5}
            with running(model, {"min_replicas": 1, "max_replicas": 2, **quick}) as demo:
                asyncio.run(scale(demo, load_of(demo)))


if __name__ == "__main__":
    main()
