"""What a batch costs: its tokens per second against vLLM alone, and what interactive requests feel of it.

    python benchmarks/batch.py --model PATH [--lines 500] [--max-tokens 64] [--probes 60] [--json FILE]

Throughput: the same lines through ``LLM.chat`` of vLLM, in a process of its own, and through ``/v1/batches`` of the
service, from the creation of the batch to its last file. Latency: short streamed requests, one after another, while the
service is kept busy by as many interactive requests as a batch has lines under way, and while it answers a batch.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

from benchmarks.batch_offline import Line, lines_of
from tests.harness import Demo

ENGINE = {"enforce_eager": True, "max_model_len": 1024, "max_num_seqs": 64}
LINES_IN_FLIGHT = 64
"""As many sequences of the batch run at once as ``LLM.chat`` has."""

SERVICE_ENGINE = {**ENGINE, "max_num_seqs": 74}
"""The rest is what the service keeps for interactive requests."""

PROBE = {"messages": [{"role": "user", "content": "Tell me about your day."}], "max_tokens": 16}
PROBES_AT_ONCE = 4

POLL_S = 2.0
"""Clients of batches ask less often; it lengthens a batch by a second on average."""


def main() -> None:
    arguments = _arguments()
    figures: dict[str, Any] = {"lines": arguments.lines, "max_tokens": arguments.max_tokens}
    lines = lines_of(arguments.lines, arguments.max_tokens)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for round_number in range(arguments.rounds):
            figures.setdefault("offline", []).append(_offline(arguments, folder))
            with _service(arguments.model, folder / f"service-{round_number}") as client:
                figures.setdefault("batch", []).append(_batch(client, lines))
                if round_number == arguments.rounds - 1 and arguments.probes:
                    figures["latency"] = _latency(client, lines, arguments.probes)
    _print(figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a Hugging Face id or a local folder")
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--probes", type=int, default=60, help="0 for the throughput alone")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _offline(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """vLLM alone, started as the service starts it."""
    out = folder / "offline.json"
    command = [
        sys.executable, "-m", "benchmarks.batch_offline", arguments.model, str(arguments.lines),
        str(arguments.max_tokens), json.dumps(ENGINE), str(out),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=3600)
    figures: dict[str, float] = json.loads(out.read_text())
    return figures


@contextmanager
def _service(model: str, folder: Path) -> Iterator[openai.OpenAI]:
    batch = {"lines_in_flight": LINES_IN_FLIGHT}
    demo = Demo(model, folder, {"engine_kwargs": SERVICE_ENGINE, "batch": batch, "limits": {"max_input_tokens": 512,
                "max_new_tokens": 512}, "max_sequences": 128})  # fmt: skip
    demo.start()
    try:
        demo.wait_until_ready()
        with openai.OpenAI(base_url=f"{demo.url}/v1", api_key="changeme", max_retries=0, timeout=900) as client:
            yield client
    finally:
        demo.stop()


def _start(client: openai.OpenAI, lines: list[Line]) -> str:
    model = client.models.list().data[0].id
    content = b"\n".join(
        json.dumps(
            {
                "custom_id": str(number),
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {"model": model, **line.body()},
            }
        ).encode()
        for number, line in enumerate(lines)
    )
    file = client.files.create(file=("lines.jsonl", content), purpose="batch")
    made = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    return str(made.id)


def _batch(client: openai.OpenAI, lines: list[Line]) -> dict[str, float]:
    started = time.perf_counter()
    batch_id = _start(client, lines)
    while (batch := client.batches.retrieve(batch_id)).status != "completed":
        time.sleep(POLL_S)
    seconds = time.perf_counter() - started
    answers = client.files.content(batch.output_file_id or "").text.splitlines()
    tokens = sum(json.loads(line)["response"]["body"]["usage"]["completion_tokens"] for line in answers)
    return {"seconds": seconds, "tokens": tokens, "tokens_per_s": tokens / seconds, "answers": len(answers)}


def _latency(client: openai.OpenAI, lines: list[Line], num_probes: int) -> dict[str, Any]:
    """The probes' seconds alone, among interactive requests, and among the lines of a batch."""
    model = client.models.list().data[0].id
    alone = _probe(client, model, num_probes // 3, lambda: False)
    with _busy(client, model, lines):
        interactive = _probe(client, model, num_probes, lambda: False)
    batch_id = _start(client, lines)
    while not _num_answered(client, batch_id):
        time.sleep(0.5)
    batch = _probe(client, model, num_probes, lambda: client.batches.retrieve(batch_id).status != "in_progress")
    left = len(lines) - _num_answered(client, batch_id)
    client.batches.cancel(batch_id)
    print(f"{left} lines of the batch were left when the last probe ended", flush=True)
    return {"alone": alone, "interactive": interactive, "batch": batch, "lines_left": left}


def _num_answered(client: openai.OpenAI, batch_id: str) -> int:
    counts = client.batches.retrieve(batch_id).request_counts
    return counts.completed if counts else 0


@contextmanager
def _busy(client: openai.OpenAI, model: str, lines: list[Line]) -> Iterator[None]:
    """As many interactive requests at any time as a batch has lines under way, and the same ones."""
    ended = threading.Event()

    def ask_on(start: int) -> None:
        for number in range(start, 10**6, LINES_IN_FLIGHT):
            if ended.is_set():
                return
            body: dict[str, Any] = lines[number % len(lines)].body()
            extra = body.pop("vocab")
            create: Any = client.chat.completions.create
            create(model=model, **body, extra_body={"vocab": extra})

    others = [threading.Thread(target=ask_on, args=(start,), daemon=True) for start in range(LINES_IN_FLIGHT)]
    for thread in others:
        thread.start()
    try:
        # Until they are no longer all at the same place, as those that started together are.
        time.sleep(20)
        yield
    finally:
        ended.set()
        for thread in others:
            thread.join()


def _probe(client: openai.OpenAI, model: str, num_probes: int, is_over: Callable[[], bool]) -> dict[str, list[float]]:
    """Seconds to the first piece of text and to the last, of probes of which some run at once."""
    first, last = [], []

    def ask(number: int) -> None:
        started = time.perf_counter()
        create: Any = client.chat.completions.create
        chunks = create(
            model=model, stream=True, seed=number, extra_body={"vocab": {"lang": "en", "n_words": 1000}}, **PROBE
        )
        seen = None
        for chunk in chunks:
            if seen is None and chunk.choices and chunk.choices[0].delta.content:
                seen = time.perf_counter() - started
        if not is_over():
            first.append(seen or 0.0)
            last.append(time.perf_counter() - started)

    with ThreadPoolExecutor(PROBES_AT_ONCE) as pool:
        list(pool.map(ask, range(num_probes)))
    return {"first": first, "last": last}


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[18]


def _print(figures: dict[str, Any]) -> None:
    offline = statistics.median(run["tokens_per_s"] for run in figures["offline"])
    batch = statistics.median(run["tokens_per_s"] for run in figures["batch"])
    print(f"\n{figures['lines']} lines of at most {figures['max_tokens']} tokens, 1,000 English words")
    for name, runs in (("LLM.chat", figures["offline"]), ("batch", figures["batch"])):
        shown = ", ".join(f"{run['tokens']:.0f} tokens in {run['seconds']:.1f} s" for run in runs)
        print(f"{name:<12}{statistics.median(run['tokens_per_s'] for run in runs):>8.1f} tokens/s   ({shown})")
    print(f"batch / LLM.chat: {batch / offline:.1%}")
    if "latency" in figures:
        _print_latency(figures["latency"])


def _print_latency(latency: dict[str, Any]) -> None:
    print(f"\n{'probes among':<14}{'n':>4}{'first p50':>11}{'first p95':>11}{'all p50':>9}{'all p95':>9}")
    for name in ("alone", "interactive", "batch"):
        probes = latency[name]
        shown = "".join(
            f"{statistics.median(probes[part]):>{width}.2f}{_p95(probes[part]):>{width}.2f}"
            for part, width in (("first", 11), ("last", 9))
        )
        print(f"{name:<14}{len(probes['last']):>4}{shown}")
    for part in ("first", "last"):
        ratio = _p95(latency["batch"][part]) / _p95(latency["interactive"][part])
        print(f"p95 of the {part} piece, batch / interactive: {ratio:.2f}")


if __name__ == "__main__":
    main()
