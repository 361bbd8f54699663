"""What it costs to carry tokens from engine to client: the service beside vLLM's own server, in turn in one run.

    python -m benchmarks load lane [--systems wordbound vllm] [--streams 1,8,32,128,256] [--tokens 256] [--rounds 3]
        [--arms free constrained] [--load-format dummy] [--replicas 1] [--tiny] [--stand-in]

All have the same engine arguments and environment. ``--tiny`` has a model of two layers of 64 with random weights,
``--stand-in`` an engine of the service that computes nothing and writes up to 20,000 tokens a second. ``free`` has no
word list, ``constrained`` the first 1,000 English words; ``whole`` is not streamed, ``details`` has those of each
token. Each stream asks again as soon as it has its answer of ``--tokens`` tokens. First token and the time between
pieces that arrive are medians and 99th percentiles in milliseconds; the CPU time of each kind of process is in
milliseconds for each token, and with ``--tokens`` below 16 for each answer. The client takes its share of the machine.
"""

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import psutil
from vllm.platforms import current_platform

from benchmarks.command import numbers
from benchmarks.load.client import Client, Request, Sent, chat, percentiles
from benchmarks.load.service import client_of, cpu_seconds, load_parser, running, used_by
from deployments.replica.engine.configuration import cpu_dtype, processor_flags
from tests.harness import free_port
from tests.tiny_adapters import write_model

ROUND_TOKENS: Final = {1: 768, 8: 384, 32: 256}
"""Tokens of each stream in a round, by the number of streams; 64 for more of them. An answer at least."""

MAX_ANSWERS: Final = 12
"""Of each stream in a round."""

FEW_TOKENS: Final = 16
"""Answers of fewer tokens show what a request costs, not what its tokens do."""

MAX_TOKENS: Final = 256
OPTIONS: Final[dict[str, Any]] = {"keeps_connections": True, "timeout_s": 600}
IDLE_S: Final = 20

ON_CPU: Final = current_platform.is_cpu()
ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"} | (
    {"VLLM_CPU_KVCACHE_SPACE": "2", "TORCH_COMPILE_DISABLE": "1", "VLLM_CPU_NUM_OF_RESERVED_CPU": "1"} if ON_CPU else {}
)

WHOLE: Final = {"stream": False}
DETAILS: Final = {"stream_options": {"include_usage": True, "token_details": True}}
LISTED: Final = {"vocab": {"lang": "en", "n_words": 1000}}
ARMS: Final[dict[str, dict[str, Any]]] = {
    "free": {},
    "free-whole": WHOLE,
    "free-details": DETAILS,
    "constrained": LISTED,
    "constrained-details": LISTED | DETAILS,
    "constrained-whole": LISTED | WHOLE,
}
OF_VLLM: Final = ("free", "free-whole")


class System(NamedTuple):
    """A server that runs."""

    client: Client
    processes: Callable[[], list[int]]


def main() -> None:
    arguments = _arguments()
    for name in arguments.systems:
        with vllm_server(arguments) if name == "vllm" else service(arguments) as system:
            asyncio.run(_measure(name, system, arguments))


def _arguments() -> argparse.Namespace:
    parser = load_parser(__doc__)
    parser.add_argument("--systems", nargs="+", choices=("vllm", "wordbound"), default=["vllm", "wordbound"])
    parser.add_argument("--streams", type=numbers, default=[1, 8, 32, 128, 256])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--tokens", type=int, default=MAX_TOKENS, choices=range(2, MAX_TOKENS + 1), metavar="TOKENS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load-format", default="auto", help="of the weights; dummy needs none (default: %(default)s)")
    parser.add_argument("--replicas", type=int, default=1, help="of the service: ingresses, and engines")
    return parser.parse_args()


def _engine(arguments: argparse.Namespace) -> dict[str, Any]:
    of_platform = {"enforce_eager": True, "dtype": cpu_dtype(processor_flags())[0]} if ON_CPU else {"dtype": "bfloat16"}
    # A real engine becomes slower by the room for sequences, used or not.
    max_num_seqs = max(256, *arguments.streams) if arguments.stand_in else 256
    return {"max_model_len": 1024, "max_num_seqs": max_num_seqs, "load_format": arguments.load_format, **of_platform}


@contextmanager
def vllm_server(arguments: argparse.Namespace) -> Iterator[System]:
    """vLLM's own server."""
    with tempfile.TemporaryDirectory() as name, (Path(name) / "vllm.log").open("wb") as log:
        model = write_model(Path(arguments.model), Path(name) / "tiny") if arguments.tiny else arguments.model
        options = {"model": model, "served-model-name": "one", "host": "127.0.0.1", "port": (port := free_port())}
        given = {key.replace("_", "-"): value for key, value in _engine(arguments).items()} | options
        command = [f"--{key}" + ("" if value is True else f"={value}") for key, value in given.items()]
        server = psutil.Popen(
            [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *command],
            stdout=log, stderr=subprocess.STDOUT, env=os.environ | ENVIRONMENT | {"HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        try:
            for _ in range(300):
                with suppress(httpx2.TransportError):
                    if server.poll() is not None or httpx2.get(f"{url}/health").is_success:
                        break
                time.sleep(1)
            if server.poll() is not None:
                raise SystemExit(f"vLLM's server did not start:\n{Path(log.name).read_text()[-2000:]}")
            client = Client(url, "", "one", **OPTIONS)
            yield System(client, lambda: [server.pid, *(child.pid for child in server.children(recursive=True))])
        finally:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(20)


@contextmanager
def service(arguments: argparse.Namespace) -> Iterator[System]:
    """Our service, with the demo's settings and ``--replicas`` of ingress and engine each."""
    engine = _engine(arguments)
    settings = {
        "ingress_replicas": arguments.replicas,
        "autoscaling": {"min_replicas": arguments.replicas, "max_replicas": arguments.replicas},
        "max_sequences": engine["max_num_seqs"],
        "max_queued_requests": 2 * engine["max_num_seqs"],
        "max_queue_s": 120,
        "torch_dtype": engine.pop("dtype"),
        "placement_bundles": [{"CPU": 1} if ON_CPU else {"CPU": 1, "GPU": 1}],
        "limits": {"max_input_tokens": 512, "max_new_tokens": MAX_TOKENS},
        "engine_kwargs": engine,
        "replica_env": ENVIRONMENT,
    }
    with running(arguments, settings) as demo:
        yield System(client_of(demo, **OPTIONS), demo.processes)


async def _measure(name: str, system: System, arguments: argparse.Namespace) -> None:
    arms = [arm for arm in arguments.arms if name != "vllm" or arm in OF_VLLM]
    async with system.client as client:
        for arm in arms:
            await client.ask(_request(arm, 0, arguments.tokens))
        await asyncio.sleep(5)
        before = used_by(system.processes(), cpu_seconds)
        await asyncio.sleep(IDLE_S)
        print(f"\n{name}: percent of a core without requests: {_spent(before, system, 100 / IDLE_S)}\n")
        print("| streams | | tokens/s by round | first p50 · p99 | between p50 · p99 | tokens a piece | CPU ms |")
        print("|---:|---|---|---|---|---:|---|", flush=True)
        for num_streams, arm in itertools.product(arguments.streams, arms):
            await _row(client, system, num_streams, arm, arguments)


async def _row(client: Client, system: System, num_streams: int, arm: str, arguments: argparse.Namespace) -> None:
    client.account.sent.clear()
    speeds, before, sent = [], used_by(system.processes(), cpu_seconds), client.account.sent
    times = min(max(ROUND_TOKENS.get(num_streams, 64) // arguments.tokens, 1), MAX_ANSWERS)
    for _ in range(arguments.rounds):
        start, started = len(sent), time.monotonic()
        turns = itertools.count()
        await client.closed_loop(num_streams, lambda: _request(arm, next(turns), arguments.tokens), times=times)  # noqa: B023
        speeds.append(f"{sum(one.num_tokens for one in sent[start:]) / (time.monotonic() - started):.0f}")
    if failed := [one.outcome for one in sent if one.outcome != "200"]:
        raise SystemExit(f"requests failed: {Counter(failed)}")
    num_tokens, is_short = sum(one.num_tokens for one in sent), arguments.tokens < FEW_TOKENS
    spent = _spent(before, system, 1000 / (len(sent) if is_short else num_tokens))
    print(
        f"| {num_streams} | {arm} | {', '.join(speeds)} | {' | '.join(pieces_of(sent))} | "
        f"{'an answer' if is_short else 'a token'}: {spent} |",
        flush=True,
    )


def pieces_of(sent: list[Sent]) -> tuple[str, str, str]:
    """Milliseconds to the first piece and between pieces, median and 99th percentile, and tokens a piece."""
    first = [1000 * one.first_s for one in sent if one.first_s]
    gaps = [1000 * gap for one in sent for gap in one.gaps_s]
    num_tokens, num_pieces = sum(one.num_tokens for one in sent), len(first) + len(gaps)
    shown = (percentiles(values, 0.5, 0.99, digits=0) for values in (first, gaps))
    return (*shown, f"{num_tokens / num_pieces:.1f}" if num_pieces else "–")  # type: ignore[return-value]


def _request(arm: str, number: int, num_tokens: int) -> Request:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": f"Tell me story {number}."}], "stream": True}
    body |= {"max_tokens": num_tokens, "min_tokens": num_tokens, "temperature": 1.0} | ARMS[arm]
    return chat(arm, **({"stream_options": {"include_usage": True}} if body["stream"] else {}) | body)


def _spent(before: dict[tuple[str, int], float], system: System, factor: float) -> str:
    """What was used outside the engine, and by each kind; what a process used that has ended since is not known."""
    spent: dict[str, float] = defaultdict(float)
    for (role, pid), seconds in used_by(system.processes(), cpu_seconds).items():
        spent[role] += factor * (seconds - before.get((role, pid), 0.0))
    outside = sum(value for role, value in spent.items() if not role.startswith("engine"))
    return f"**{outside:.3f}** outside the engine: " + " · ".join(f"{role} {spent[role]:.3f}" for role in sorted(spent))


if __name__ == "__main__":
    main()
