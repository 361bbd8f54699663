"""What clients see of a service while something happens to it, with an account of every request.

    make soak                       # nothing happens for 20 minutes
    make chaos                      # a random process is killed each minute, for 10 minutes, on two nodes
    python -m benchmarks load faults [EVENT …] [--minutes 2] [--rate 6] [--load 0.7] [--every 60] [--nodes 2]
        [--streams 20] [--drain 15] [--stand-in] [--tiny]

Requests come at random moments, ``--rate`` a second on average, whatever became of those before them: free and
constrained chats, whole and streamed, lists that are new each time, checks, probes, and clients that leave. ``--load``
sends that share of what closed loops got before. All that came of a constrained answer is read again; a text that is
none of its list is printed, and is a failure. Each EVENT has a service of its own, and comes in the second that is 0;
``random`` is one of the kills, each ``--every`` seconds. ``scale`` sends a tenth from then on. Printed are what came of
the requests, in all, by step and by kind and second, the number of engines and of those that were ready, and the memory
of each kind of process. ``--nodes 2`` has a cluster of two nodes with a replica on each. ``--stand-in`` has engines
that compute nothing, of which two texts in a hundred are wrong or stand still.
"""

import argparse
import asyncio
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import count, pairwise
from subprocess import TimeoutExpired
from typing import Final

import httpx2

from benchmarks.load.client import Client, Request, chat
from benchmarks.load.service import SMALL, by_role, client_of, load_parser, memory, running, used_by
from tests.harness import Demo
from vocab.lists.wordlists import WordList, load_word_list
from vocab.options import ListOptions
from vocab.text.reader import TextReader

N_WORDS: Final = 1000
VOCAB: Final = {"lang": "en", "n_words": N_WORDS}
LONG, SHORT = 250, 24
"""Tokens of the streams that are under way at an end."""

BEFORE_S: Final = 15
CAPACITY_S: Final = 15
CALM_S: Final = 120
"""After random kills, in which all is to become what it was."""

NUM_VANISHING: Final = 500
LOOK_S: Final = 1.0
MOST_S: Final = 60.0
"""That the engine may have something left."""

Seen = list[tuple[float, int, int, Counter[str]]]
"""Seconds, engines, those that were ready so far, and MB by kind of process."""

KILLS: Final = ("vocabulary", "ingress", "replica", "engine", "proxy", "HAProxy", "controller", "node", "GCS")
"""Kinds of processes; Ray's GCS is the last, for all else may end with it, and is none of the random ones."""

EVENTS: Final = ("none", *(f"kill-{role}" for role in KILLS), "stop-engine", "random", "SIGINT", "SIGTERM", "scale")


@cache
def _reader(options: ListOptions) -> TextReader:
    return TextReader(load_word_list("en", None), options, N_WORDS)


def is_listed(text: str, is_whole: bool) -> bool:
    """Whether a text is one of the first words; a stream may be cut after any word."""
    if is_whole:
        return _reader(ListOptions()).is_text(text)
    written = text.rstrip()
    return _reader(ListOptions(end="word")).whole_prefix_length(written) == len(written)


def _new_list(numbers: Iterator[int]) -> Request:
    word = "word" + "".join(chr(ord("a") + int(digit)) for digit in str(next(numbers)))
    words = ("the", "dog", "is", "a", word)
    reader = TextReader(WordList("en", words, "inline"), ListOptions(), len(words))
    return chat("new list", vocab={"lang": "en", "words": words}, is_listed=lambda text, _: reader.is_text(text))


def mixed(draw: random.Random) -> Callable[[], Request]:
    """Return what makes a request of a random kind."""
    numbers = count()
    kinds: list[Callable[[], Request]] = [
        lambda: Request("/health", "/health"),
        lambda: Request("/ready", "/ready"),
        lambda: chat("free"),
        lambda: chat("listed", vocab=VOCAB, is_listed=is_listed),
        lambda: chat("listed, streamed", vocab=VOCAB, is_listed=is_listed, stream=True),
        lambda: _new_list(numbers),
        lambda: Request("check", "/v1/vocabularies/check", {"text": "The dog sat there.", "vocab": VOCAB}),
        lambda: chat("leaves", vocab=VOCAB, stream=True, leaves_s=draw.uniform(0, 1)),
    ]
    return lambda: draw.choice(kinds)()


def _stream(length: int) -> Request:
    return chat(f"stream of {length}", vocab=VOCAB, stream=True, max_tokens=length, min_tokens=length)


def main() -> None:
    arguments = _arguments()
    if arguments.stand_in:
        os.environ["STAND_IN_FAULTS"] = "1"
    is_good = True
    for event in arguments.events:
        print(f"\n{event}:", flush=True)
        replicas = {"min_replicas": arguments.nodes, "max_replicas": arguments.nodes}
        if event == "scale":
            replicas = {"min_replicas": 1, "max_replicas": 2, "target_sequences": 6, "look_back_period_s": 5}
            replicas |= {"upscale_delay_s": 3, "downscale_delay_s": 20}
        settings = {"autoscaling": replicas, "drain_s": arguments.drain, "engine_stall_s": 60, **SMALL}
        with running(arguments, settings, 2 if event == "scale" else arguments.nodes) as demo:
            is_good &= asyncio.run(measure(demo, event, arguments))
    sys.exit(not is_good)


def _arguments() -> argparse.Namespace:
    parser = load_parser(__doc__)
    parser.add_argument("events", nargs="*", choices=EVENTS, default=["none"], metavar="EVENT", help=", ".join(EVENTS))
    parser.add_argument("--minutes", type=float, default=2.0, help="from the event on")
    parser.add_argument("--rate", type=float, default=6.0, help="requests a second")
    parser.add_argument("--load", type=float, help="in place of --rate, by what the service carries")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two random kills")
    parser.add_argument("--streams", type=int, default=20, help="under way at SIGINT and SIGTERM, half of them long")
    parser.add_argument("--drain", type=float, default=15.0, help="the service's drain_s")
    parser.add_argument("--nodes", type=int, choices=(1, 2), default=1, help="each with a replica")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


async def measure(demo: Demo, event: str, arguments: argparse.Namespace) -> bool:
    """Have an event under load, and print what came of it; return whether all is accounted for and listed."""
    draw, ended, seen = random.Random(arguments.seed), asyncio.Event(), Seen()
    make, seconds = mixed(draw), 60 * arguments.minutes
    async with client_of(demo) as client:
        account, rate = client.account, arguments.rate
        if arguments.load:
            await client.closed_loop(32, make, seconds=CAPACITY_S)
            rate = arguments.load * account.outcomes()["200"] / CAPACITY_S
            account.sent.clear()
        sending = asyncio.create_task(client.open_loop(rate, make, ended))
        await asyncio.sleep(BEFORE_S)
        lengths = (SHORT, LONG) * (arguments.streams // 2 if event.startswith("SIG") else 0)
        streams = [asyncio.create_task(client.ask(_stream(length))) for length in lengths]
        await asyncio.sleep(5 if streams else 0)
        account.restart()
        watching = asyncio.create_task(_watch(demo, client, seen))
        print(f"{rate:.1f} requests a second; under way: {account.outcomes()['under way']}")
        await _happen(demo, event, seconds, partial(_kill, demo, draw), arguments)
        if event == "scale":
            ended.set()
            few_ended = asyncio.Event()
            asyncio.get_running_loop().call_later(seconds, few_ended.set)
            await client.open_loop(rate / 10, make, few_ended)
        ended.set()
        await asyncio.gather(sending, *streams)
        watching.cancel()
        if event == "none":
            await _vanish(demo, client, draw)
    print(*account.by_kind(), *account.by_step(5 if seconds < 300 else 60), sep="\n")
    kinds = dict.fromkeys(one.kind for one in account.sent)
    print(*(f"| {event} | {kind} | {account.by_second(kind)} |" for kind in kinds), sep="\n")
    _print_seen(seen)
    return not account.unlisted and not account.outcomes()["under way"]


async def _happen(
    demo: Demo, event: str, seconds: float, kill: Callable[..., None], arguments: argparse.Namespace
) -> None:
    """Have the event, and wait for what comes of it."""
    end = time.monotonic() + seconds
    if event.startswith("SIG"):
        started = time.monotonic()
        demo.send_signal(getattr(signal, event))
        with suppress(TimeoutExpired):
            await asyncio.to_thread(demo.wait, arguments.drain + 90)
        print(f"the process ended after {time.monotonic() - started:.1f} s; {len(demo.processes())} processes left")
        return
    if event.startswith("kill-"):
        kill(event.removeprefix("kill-"))
    elif event == "stop-engine":
        kill("engine", number=signal.SIGSTOP)
    while event == "random" and time.monotonic() + arguments.every < end:
        await asyncio.sleep(arguments.every)
        await asyncio.to_thread(kill, *KILLS[:-1])
    await asyncio.sleep(max(end - time.monotonic(), 0) + (CALM_S if event == "random" else 0))


def _kill(demo: Demo, draw: random.Random, *roles: str, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to one process of a kind of these that there is."""
    found = by_role(demo.processes())
    if present := [role for role in roles if found.get(role)]:
        role = draw.choice(present)
        with suppress(ProcessLookupError):
            os.kill(draw.choice(found[role]).pid, number)
        print(f"{number.name} to {role}", flush=True)


async def _watch(demo: Demo, client: Client, seen: Seen) -> None:
    """Note the engines, those that were ever ready, and memory by kind, each second until cancelled."""
    while True:
        used = await asyncio.to_thread(lambda: used_by(demo.processes(), memory))
        ready = demo.log_path.read_text(errors="replace").count("is ready; its engine keeps")
        by_kind = Counter[str]()
        for (role, _), size in used.items():
            by_kind[role] += round(size)
        seen.append((client.account.second, sum(role == "engine" for role, _ in used), ready, by_kind))
        await asyncio.sleep(LOOK_S)


def _print_seen(seen: Seen) -> None:
    for (_, *before, _), (at, *now, _) in pairwise([(0.0, 0, 0, Counter[str]()), *seen]):
        if before != now:
            print(f"  second {at:.0f}: {now[0]} engines; {now[1]} were ready so far")
    first, end = seen[len(seen) // 4][-1], seen[-1][-1]
    print("resident memory in MB after a quarter of the time and at the end")
    for role, size in end.most_common():
        print(f"  {role}: {first[role]}, {size}, {100 * (size / first[role] - 1) if first[role] else 100:+.1f}%")


async def _vanish(demo: Demo, client: Client, draw: random.Random) -> None:
    """Have many clients leave at random moments, and print when the engine's metrics have nothing left."""

    def leaving() -> Request:
        return chat("vanishes", vocab=VOCAB, stream=True, max_tokens=256, leaves_s=draw.uniform(0, 3))

    await client.closed_loop(NUM_VANISHING, leaving, times=1)
    [url] = re.findall(r"metrics: (http\S+)", demo.log_path.read_text(errors="replace"))
    started, values = time.monotonic(), list[str]()
    while (not values or any(map(float, values))) and time.monotonic() - started < MOST_S:
        text = (await asyncio.to_thread(httpx2.get, url, timeout=30)).text
        values = re.findall(
            r"^ray_vllm_(?:num_requests_running|num_requests_waiting|kv_cache_usage_perc)\{.* (\S+)$", text, re.M
        )
        await asyncio.sleep(0.1)
    took_s = time.monotonic() - started
    print(f"{NUM_VANISHING} clients left; after {took_s:.1f} s the engine has running, waiting and blocks {values}")


if __name__ == "__main__":
    main()
