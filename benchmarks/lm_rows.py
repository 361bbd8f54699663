"""How many next-token rows a second each backend of language-model programs gives, and what scores cost.

    python -m benchmarks.lm_rows --model PATH [--arms transformers vllm genlm logprobs] [--genlm FOLDER] [--json FILE]

``transformers`` and ``vllm`` are ours; ``genlm`` is genlm-backend's for transformers, from the folder of ``pip
install --target``; ``logprobs`` is vLLM's own ``logprobs=-1``, made into tensors. Each is a process of its own; they
live through the whole run, and take turns on the same prefixes, in float32. Prefixes share 48 of 64 tokens and are
new in each round, and caches are cleared before it. A figure is the median over the rounds, after one that does not
count.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import facts_of_run

ROOT = Path(__file__).parent.parent
ARMS = ("transformers", "vllm", "genlm", "logprobs")
BATCHES = (1, 8, 32)
NUM_SHARED = 48
NUM_OWN = 16
NUM_SCORED = 64
MAX_MODEL_LEN = 1024
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR",
               "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}  # fmt: skip

Prefixes = Sequence[Sequence[int]]


class Arm(NamedTuple):
    """What is timed.

    Attributes:
        rows: Rows of prefixes, as a tensor (n, V).
        clear: Forgets what was computed.
        score: The scores of tokens after a prompt, where the backend has that.
    """

    rows: Callable[[Prefixes], Awaitable[Any]]
    clear: Callable[[], None]
    score: Callable[[Sequence[int], Sequence[int]], Awaitable[Any]] | None = None


def main() -> None:
    arguments = _arguments()
    if arguments.arm:
        asyncio.run(_serve(_arm(arguments.arm, arguments.model, arguments.genlm)))
        return
    figures = {"run": facts_of_run(), "model": arguments.model} | _measure(arguments)
    _print(figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a Hugging Face id or a local folder")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=["transformers", "vllm", "logprobs"])
    parser.add_argument("--genlm", help="the folder with genlm-backend and what it needs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    processes = {name: _start(name, arguments) for name in arguments.arms}
    try:
        vocab_sizes = {name: _ask(process, None)["vocab_size"] for name, process in processes.items()}
        chosen = random.Random(0)
        rows: dict[str, dict[int, list[float]]] = {name: {n: [] for n in BATCHES} for name in processes}
        scores: dict[str, dict[str, list[float]]] = {}
        differences: dict[str, float] = {}
        for number in range(arguments.rounds + 1):
            for n in BATCHES:
                prefixes = _prefixes(chosen, n, min(vocab_sizes.values()))
                result = {name: _ask(process, {"prefixes": prefixes}) for name, process in processes.items()}
                first = next(iter(result.values()))["row"]
                for name, answer in result.items():
                    differences[name] = max(differences.get(name, 0), _difference(first, answer["row"]))
                    if number:
                        rows[name][n].append(n / answer["seconds"])
            text = [chosen.randrange(min(vocab_sizes.values())) for _ in range(NUM_SHARED + NUM_SCORED)]
            for name, process in processes.items():
                answer = _ask(process, {"prompt": text[:NUM_SHARED], "scored": text[NUM_SHARED:]})
                if number and answer:
                    for way, seconds in answer.items():
                        scores.setdefault(name, {}).setdefault(way, []).append(seconds)
    finally:
        for process in processes.values():
            process.stdin.close()
            process.wait(60)
    medians = {name: {n: statistics.median(found) for n, found in of.items()} for name, of in rows.items()}
    scored = {name: {way: statistics.median(found) for way, found in of.items()} for name, of in scores.items()}
    return {"rows_per_second": medians, "seconds_of_scores": scored, "largest_difference": differences, "rounds": rows}


def _prefixes(chosen: random.Random, n: int, vocab_size: int) -> list[list[int]]:
    shared = [chosen.randrange(vocab_size) for _ in range(NUM_SHARED)]
    return [shared + [chosen.randrange(vocab_size) for _ in range(NUM_OWN)] for _ in range(n)]


def _difference(first: Sequence[float], other: Sequence[float]) -> float:
    """The largest between two rows, over the tokens that are likelier than 1e-6."""
    return max((abs(a - b) for a, b in zip(first, other, strict=False) if a > -13.8), default=0.0)


def _start(name: str, arguments: argparse.Namespace) -> Any:
    command = [sys.executable, "-m", "benchmarks.lm_rows", "--model", arguments.model, "--arm", name]
    if arguments.genlm:
        command += ["--genlm", arguments.genlm]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **ENVIRONMENT}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _ask(process: Any, question: Any) -> Any:
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        # Engines print too.
        if line.startswith("answer "):
            return json.loads(line.removeprefix("answer "))
    raise SystemExit(f"an arm ended with {process.wait()}")


async def _serve(arm: Arm) -> None:
    """Answer the questions that come by standard input."""
    vocab_size = (await arm.rows([[1]])).shape[1]
    while line := await asyncio.to_thread(sys.stdin.readline):
        question = json.loads(line)
        answer: Any = {"vocab_size": vocab_size}
        if question and "prefixes" in question:
            arm.clear()
            start = time.perf_counter()
            rows = await arm.rows(question["prefixes"])
            answer = {"seconds": time.perf_counter() - start, "row": rows[-1].tolist()}
        elif question:
            answer = await _score(arm, question["prompt"], question["scored"])
        print("answer", json.dumps(answer), flush=True)


async def _score(arm: Arm, prompt: list[int], scored: list[int]) -> dict[str, float]:
    if arm.score is None:
        return {}
    arm.clear()
    start = time.perf_counter()
    await arm.score(prompt, scored)
    at_once = time.perf_counter() - start
    arm.clear()
    start = time.perf_counter()
    # As a program does that has rows only: each after the one before.
    for i in range(len(scored)):
        await arm.rows([prompt + scored[:i]])
    return {"token_logprobs": at_once, "rows": time.perf_counter() - start}


def _arm(name: str, model: str, genlm: str | None) -> Arm:
    if name == "logprobs":
        return _vllm_logprobs(model)
    if name == "genlm":
        import torch

        if genlm is None:
            raise SystemExit("--genlm names no folder")
        sys.path.insert(0, genlm)
        from genlm.backend.llm.hf import AsyncTransformer

        theirs = AsyncTransformer.from_name(model, hf_opts={"device_map": "cpu", "torch_dtype": torch.float32})
        return Arm(theirs.batch_next_token_logprobs, theirs.clear_cache)
    from wordbound.lm import load_model_by_name

    options = {} if name == "transformers" else {"engine_opts": {"dtype": "float32", "max_model_len": MAX_MODEL_LEN}}
    ours = load_model_by_name(model, backend=name, llm_opts=options)
    return Arm(ours.batch_next_token_logprobs, ours.clear_cache, ours.token_logprobs)


def _vllm_logprobs(model: str) -> Arm:
    import torch
    from vllm import LLM, SamplingParams

    engine = LLM(model=model, dtype="float32", max_model_len=MAX_MODEL_LEN, max_logprobs=-1, disable_log_stats=True)
    params = SamplingParams(max_tokens=1, logprobs=-1, detokenize=False)

    async def rows(prefixes: Prefixes) -> Any:
        outputs = engine.generate([{"prompt_token_ids": ids} for ids in prefixes], params, use_tqdm=False)
        found = []
        for output in outputs:
            by_token = output.outputs[0].logprobs[0]
            row = torch.full((len(by_token),), -torch.inf)
            row[list(by_token)] = torch.tensor([one.logprob for one in by_token.values()])
            found.append(row)
        return torch.stack(found)

    return Arm(rows, lambda: engine.reset_prefix_cache() or None)


def _print(figures: dict[str, Any]) -> None:
    print(f"{'rows per second':24}" + "".join(f"{f'{n} prefixes':>14}" for n in BATCHES) + f"{'difference':>14}")
    for name, found in figures["rows_per_second"].items():
        difference = figures["largest_difference"][name]
        print(f"{name:24}" + "".join(f"{found[n]:>14.1f}" for n in BATCHES) + f"{difference:>14.1e}")
    for name, found in figures["seconds_of_scores"].items():
        at_once, rows = found["token_logprobs"], found["rows"]
        print(f"{NUM_SCORED} scores, {name}: {at_once:.3f} s; as rows, one after the other: {rows:.3f} s")


if __name__ == "__main__":
    main()
