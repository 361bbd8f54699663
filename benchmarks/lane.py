"""What it costs to carry tokens from engine to client: the service beside vLLM's own server, with a very small model.

    python -m benchmarks lane [--streams 1,8,32,128,256] [--tokens 256] [--rounds 3] [--demo-model] [--replicas 1]
        [--systems vllm,wordbound,stand-in] [--arms "free;constrained"] [--load-format dummy]

Both systems run in turn in one run, with the same engine arguments and environment. The model has two layers of 64 and
random weights, with the demo's tokenizer; with ``--demo-model`` it is the demo's. ``stand-in`` is the service with an
engine that computes nothing and writes up to 20,000 tokens a second (``stand_in``). ``free`` has no word list,
``constrained`` the first 1,000 English words; ``whole`` is not streamed, ``details`` has those of each token. Each
stream asks again as soon as it has its answer of ``--tokens`` tokens. Tokens are those that the answers count. First
token and the time between pieces that arrive are medians and 99th percentiles in milliseconds; the CPU time of each
kind of process is in milliseconds for each token, and with ``--tokens`` below 16 for each answer. The client takes its
share of the machine from both. On a GPU each system has it whole.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import aiohttp
import psutil
from vllm.platforms import current_platform

from deployments.replica.engine.configuration import cpu_dtype, processor_flags
from deployments.settings.service import DEMO_TOKEN
from tests.harness import Demo, free_port
from tests.tiny_adapters import write_model

VOCAB: Final = {"lang": "en", "n_words": 1000}
ROUND_TOKENS: Final = {1: 768, 8: 384, 32: 256}
"""Tokens of each stream in a round, by the number of streams; 64 for more of them. An answer at least."""

MAX_ANSWERS: Final = 12
"""Of each stream in a round."""

FEW_TOKENS: Final = 16
"""Answers of fewer tokens show what a request costs, not what its tokens do."""

MAX_STREAMS: Final = 1024
"""Of the stand-in; a real engine becomes slower by the room for them, used or not."""
MAX_TOKENS: Final = 256

IDLE_S: Final = 20

ON_CPU: Final = current_platform.is_cpu()
ENGINE: Final[dict[str, Any]] = {
    "max_model_len": 1024,
    "max_num_seqs": 256,
    **({"enforce_eager": True, "dtype": cpu_dtype(processor_flags())[0]} if ON_CPU else {"dtype": "bfloat16"}),
}
ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"} | (
    {"VLLM_CPU_KVCACHE_SPACE": "2", "TORCH_COMPILE_DISABLE": "1", "VLLM_CPU_NUM_OF_RESERVED_CPU": "1"} if ON_CPU else {}
)

CpuTimes: TypeAlias = dict[int, tuple[str, float]]
"""By process id: its role, and seconds of CPU time."""

ROLES: Final = (
    ("engine", r"VLLM::"),
    ("replica", r"ray::ServeReplica:wordbound:Replica"),
    ("ingress", r"ray::ServeReplica:wordbound:Ingress"),
    ("vocabulary", r"ray::ServeReplica:wordbound:Vocabulary"),
    ("other deployments", r"ray::ServeReplica"),
    ("proxy", r"ray::ProxyActor|\S*haproxy"),
    ("controller", r"ray::ServeController"),
    ("API server", r".*vllm\.entrypoints"),
    ("Ray", r".*(raylet|gcs_server|ray::|/ray/)"),
)
"""Kinds of processes by the beginning of their command lines; the first that fits."""

HEAD: Final = "| streams | | tokens/s by round | first p50 · p99 | between p50 · p99 | tokens a piece | CPU ms |"

ARMS: Final[dict[str, dict[str, Any]]] = {
    "free": {},
    "free, whole": {"stream": False},
    "free, details": {"stream_options": {"token_details": True}},
    "constrained": {"vocab": VOCAB},
    "constrained, details": {"vocab": VOCAB, "stream_options": {"token_details": True}},
    "constrained, whole": {"vocab": VOCAB, "stream": False},
}
OF_VLLM: Final = ("free", "free, whole")


@dataclass
class Load:
    """What a round of answers took; times in seconds."""

    num_answers: int = 0
    num_tokens: int = 0
    num_pieces: int = 0
    first: list[float] = field(default_factory=list)
    between: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class System:
    """A server that runs."""

    url: str
    model: str
    processes: Callable[[], list[int]]
    headers: dict[str, str]


def main() -> None:
    arguments = _arguments()
    ENGINE["load_format"] = arguments.load_format
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = arguments.model if arguments.demo_model else write_model(arguments.model, folder / "tiny")
        starts: dict[str, Any] = {
            "vllm": vllm_server,
            "wordbound": partial(service, num_replicas=arguments.replicas),
            "stand-in": partial(
                service,
                num_replicas=arguments.replicas,
                max_sequences=MAX_STREAMS,
                import_path="benchmarks.stand_in:build",
            ),
        }
        for name in arguments.systems:
            with starts[name](model, folder) as system:
                asyncio.run(_measure(name, system, arguments))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="the folder of the demo's model")
    parser.add_argument("--demo-model", action="store_true", help="measure that model, in place of the tiny one")
    parser.add_argument(
        "--streams", type=lambda text: [int(part) for part in text.split(",")], default=[1, 8, 32, 128, 256]
    )
    parser.add_argument("--systems", type=lambda text: text.split(","), default=["vllm", "wordbound"])
    parser.add_argument("--arms", type=lambda text: text.split(";"), default=list(ARMS), help="separated by ;")
    parser.add_argument("--tokens", type=int, default=MAX_TOKENS, choices=range(2, MAX_TOKENS + 1), metavar="TOKENS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load-format", default="auto", help="of the weights; dummy needs none (default: %(default)s)")
    parser.add_argument("--replicas", type=int, default=1, help="of the service: ingresses, and engines")
    return parser.parse_args()


@contextmanager
def vllm_server(model: Path, folder: Path) -> Iterator[System]:
    """vLLM's own server."""
    port = free_port()
    options = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in ENGINE.items()]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port)]
    log_path = folder / "vllm.log"
    with log_path.open("wb") as log:
        server = psutil.Popen(
            [*command, "--host", "127.0.0.1", *options], stdout=log, stderr=subprocess.STDOUT,
            env=os.environ | ENVIRONMENT | {"HF_HUB_OFFLINE": "1"},
        )  # fmt: skip

    def processes() -> list[int]:
        return [server.pid, *(child.pid for child in server.children(recursive=True))]

    url = f"http://127.0.0.1:{port}"
    try:
        asyncio.run(_wait_until_ready(f"{url}/health", server, log_path))
        yield System(url, str(model), processes, {})
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(20)


async def _wait_until_ready(url: str, server: psutil.Popen, log_path: Path, timeout_s: float = 300) -> None:
    deadline = time.monotonic() + timeout_s
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < deadline and server.poll() is None:
            with suppress(aiohttp.ClientError):
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(1)
    raise SystemExit(f"vLLM's server did not start; its log is {log_path}")


@contextmanager
def service(
    model: Path,
    folder: Path,
    *,
    num_replicas: int = 1,
    max_sequences: int = ENGINE["max_num_seqs"],
    import_path: str = "deployments.app:build",
) -> Iterator[System]:
    """Our service, with the demo's settings and ``num_replicas`` of ingress and engine each."""
    settings = {
        "ingress_replicas": num_replicas,
        "autoscaling": {"min_replicas": num_replicas, "max_replicas": num_replicas},
        "max_sequences": max_sequences,
        "max_queued_requests": 2 * max_sequences,
        "max_queue_s": 120,
        "torch_dtype": ENGINE["dtype"],
        "placement_bundles": [{"CPU": 1} if ON_CPU else {"CPU": 1, "GPU": 1}],
        "limits": {"max_input_tokens": 512, "max_new_tokens": MAX_TOKENS},
        "engine_kwargs": {
            **{name: value for name, value in ENGINE.items() if name != "dtype"},
            "max_num_seqs": max_sequences,
        },
        "replica_env": ENVIRONMENT,
    }
    demo = Demo(str(model), folder / "service", settings, import_path=import_path)
    try:
        demo.start()
        demo.wait_until_ready()
        yield System(demo.url, demo.model_id(), demo.processes, {"Authorization": f"Bearer {DEMO_TOKEN}"})
    finally:
        demo.stop()


async def _measure(name: str, system: System, arguments: argparse.Namespace) -> None:
    arms = {arm: ARMS[arm] for arm in arguments.arms if name != "vllm" or arm in OF_VLLM}
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(
        system.url, headers=system.headers, connector=connector, timeout=timeout
    ) as session:
        for fields in arms.values():
            await _answer(session, system.model, fields, 0, arguments.tokens, Load())
        await _report_idle(name, system)
        print(f"\n{HEAD}\n|---:|---|---|---|---|---:|---|", flush=True)
        for num_streams in arguments.streams:
            for arm, fields in arms.items():
                await _row(session, system, num_streams, arm, fields, arguments)


async def _report_idle(name: str, system: System) -> None:
    await asyncio.sleep(5)
    before = _cpu_times(system.processes())
    await asyncio.sleep(IDLE_S)
    after = _cpu_times(system.processes())
    spent = {role: 100 * seconds / IDLE_S for role, seconds in _spent(before, after).items()}
    shown = " · ".join(f"{role} {percent:.1f}" for role, percent in spent.items())
    print(f"\n{name}: without requests **{sum(spent.values()):.1f}%** of a core: {shown}", flush=True)


async def _row(
    session: aiohttp.ClientSession,
    system: System,
    num_streams: int,
    arm: str,
    fields: dict[str, Any],
    arguments: argparse.Namespace,
) -> None:
    load, speeds = Load(), []
    before = _cpu_times(system.processes())
    for _ in range(arguments.rounds):
        tokens, started = load.num_tokens, time.monotonic()
        await asyncio.gather(
            *(
                _stream(session, system, fields, number, num_streams, arguments.tokens, load)
                for number in range(num_streams)
            )
        )
        speeds.append((load.num_tokens - tokens) / (time.monotonic() - started))
    after = _cpu_times(system.processes())
    is_short = arguments.tokens < FEW_TOKENS
    number = load.num_answers if is_short else load.num_tokens
    spent = {role: 1000 * seconds / number for role, seconds in _spent(before, after).items()}
    shown = " · ".join(f"{role} {ms:.3f}" for role, ms in spent.items())
    pieces = f"{load.num_tokens / load.num_pieces:.1f}" if load.num_pieces else "–"
    outside = sum(ms for role, ms in spent.items() if role != "engine")
    print(
        f"| {num_streams} | {arm} | {', '.join(f'{speed:.0f}' for speed in speeds)} | {_percentiles(load.first)} | "
        f"{_percentiles(load.between)} | {pieces} | "
        f"**{outside:.3f}** {'an answer' if is_short else 'a token'} outside the engine: {shown} |",
        flush=True,
    )


def _percentiles(seconds: list[float]) -> str:
    if not seconds:
        return "–"
    ordered = sorted(seconds)
    p50, p99 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.99))
    return f"{1000 * p50:.0f} · {1000 * p99:.0f}"


def _cpu_times(processes: list[int]) -> CpuTimes:
    """Return the role of each process, and the seconds of CPU time that it has used so far."""
    times: CpuTimes = {}
    for pid in processes:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            line = " ".join(process.cmdline())
            role = next((role for role, begins in ROLES if re.match(begins, line)), "other")
            used = process.cpu_times()
            times[pid] = role, used.user + used.system
    return times


def _spent(before: CpuTimes, after: CpuTimes) -> dict[str, float]:
    """Return the seconds between the two, by role; what a process used that has ended since is not known."""
    spent: dict[str, float] = {}
    for pid, (role, seconds) in after.items():
        spent[role] = spent.get(role, 0.0) + seconds - before.get(pid, (role, 0.0))[1]
    return dict(sorted(spent.items()))


async def _stream(
    session: aiohttp.ClientSession,
    system: System,
    fields: dict[str, Any],
    number: int,
    num_streams: int,
    num_tokens: int,
    load: Load,
) -> None:
    for turn in range(min(max(ROUND_TOKENS.get(num_streams, 64) // num_tokens, 1), MAX_ANSWERS)):
        await _answer(session, system.model, fields, 1000 * turn + number, num_tokens, load)


async def _answer(
    session: aiohttp.ClientSession, model: str, fields: dict[str, Any], number: int, num_tokens: int, load: Load
) -> None:
    """Ask once, and add what it took to ``load``."""
    is_stream = fields.get("stream", True)
    body = {
        "model": model,
        "messages": [{"role": "user", "content": f"Tell me story {number}."}],
        "max_tokens": num_tokens, "min_tokens": num_tokens, "temperature": 1.0, "stream": is_stream,
    } | fields  # fmt: skip
    if is_stream:
        body["stream_options"] = {"include_usage": True} | body.get("stream_options", {})
    last = started = time.monotonic()
    async with session.post("/v1/chat/completions", json=body) as answer:
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {await answer.text()}")
        load.num_answers += 1
        if not is_stream:
            load.num_tokens += (await answer.json())["usage"]["completion_tokens"]
            return
        async for line in answer.content:
            if b'"usage":{' in line:
                load.num_tokens += json.loads(line[6:])["usage"]["completion_tokens"]
            elif b'"content":"' in line and b'"content":""' not in line:
                now = time.monotonic()
                (load.first if last == started else load.between).append(now - last)
                load.num_pieces += 1
                last = now


if __name__ == "__main__":
    main()
