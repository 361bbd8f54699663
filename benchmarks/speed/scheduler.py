"""What a step costs vLLM's scheduler for each running request: free, and within a list masked on the CPU or the device.

    python -m benchmarks speed scheduler --model PATH [--requests 256 512 1024] [--rounds 5] [--without ARM ...]

The worker stands in: it computes nothing and samples texts that were drawn from the list's own masks before. Each arm
runs in a process of its own, in turn; a figure is the CPU time of the whole process, in microseconds a step and
request, as the median over the rounds. ``unpatched`` is free text in a vLLM that has not loaded the plugin.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from operator import truediv
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from benchmarks.machine import ONE_THREAD

ARMS: Final = ("unpatched", "free", "CPU", "device")
N_WORDS: Final = 1_000
NUM_TEXTS: Final = 64
NUM_WARM, NUM_TIMED = 20, 150
BLOCK_SIZE: Final = 16


class _Requests:
    """Stands for a model runner's table of requests, which the plugin knows a runner by."""


_REQUESTS: Final = _Requests()


def run_arm(model: str, arm: str, num_requests: int, folder: Path) -> dict[str, float]:
    """Return the CPU seconds of each part of the timed steps, added up."""
    os.environ["WORDBOUND_ARTEFACT_DIR"] = str(folder)
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.gc_utils import freeze_gc_heap
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.structured_output import StructuredOutputManager

    if arm != "unpatched":
        from vocab.vllm_plugin import backend

        backend.install()
    if arm == "device":
        from vocab.vllm_plugin.device import seams

        # The tables are the worker's, which computes nothing here.
        tables = SimpleNamespace(of=lambda states: states)
        runner = SimpleNamespace(tables=tables, num_tokens=10**9, num_dead=0)
        seams._runners[_REQUESTS] = runner
        seams._is_installed = True
    config = EngineArgs(
        model=model,
        max_model_len=1024,
        max_num_seqs=num_requests,
        max_num_batched_tokens=8192,
        async_scheduling=True,
        enable_prefix_caching=False,
    ).create_engine_config()
    num_blocks = num_requests * 1024 // BLOCK_SIZE
    config.cache_config.num_gpu_blocks = num_blocks
    import torch

    group = KVCacheGroupSpec(
        ["layer"], FullAttentionSpec(block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32)
    )
    manager = StructuredOutputManager(config)
    scheduler = AsyncScheduler(config, KVCacheConfig(num_blocks, [], [group]), manager, BLOCK_SIZE)
    reference, stop_token, texts = json.loads((folder / "texts.json").read_text())
    # As vLLM's engine process does when it has begun: what an arm imported costs its steps no collection.
    freeze_gc_heap()
    reference = reference if arm in ("CPU", "device") else None
    for number in range(num_requests):
        scheduler.add_request(_request(f"r{number}", reference, stop_token, manager))
    seconds = dict.fromkeys(("schedule", "mask", "update"), 0.0)
    # With their first step all are prefilled.
    for step in range(-1, NUM_WARM + NUM_TIMED):
        started = time.process_time()
        scheduled = scheduler.schedule()
        was_scheduled = time.process_time()
        masks = scheduler.get_grammar_bitmask(scheduled)
        masked = time.process_time()
        names = list(scheduled.num_scheduled_tokens)
        if len(names) != num_requests or (masks is not None) != (arm == "CPU"):
            raise RuntimeError(f"a step of {len(names)} requests, masks made on the CPU: {masks is not None}")
        tokens = [[texts[int(name[1:]) % NUM_TEXTS][step + 1]] for name in names]
        output = ModelRunnerOutput(names, {name: row for row, name in enumerate(names)}, tokens)
        sampled = time.process_time()
        scheduler.update_from_output(scheduled, output)
        if step >= NUM_WARM:
            seconds["schedule"] += was_scheduled - started
            seconds["mask"] += masked - was_scheduled
            seconds["update"] += time.process_time() - sampled
    return seconds


def _request(name: str, reference: str | None, stop_token: int, manager: Any) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams
    from vllm.v1.request import Request

    structured = None if reference is None else StructuredOutputsParams(grammar=reference)
    if structured is not None:
        structured._backend = "xgrammar"
    params = SamplingParams(max_tokens=NUM_WARM + NUM_TIMED + 50, structured_outputs=structured)
    params.update_from_generation_config({}, stop_token)
    request = Request(name, [1], params, None)
    if structured is not None:
        manager.grammar_init(request)
        while not request.structured_output_request._check_grammar_completion():
            time.sleep(0.001)
    return request


def write_texts(model: str, folder: Path) -> None:
    """Compile the list into a folder, and draw texts within it that do not end, with its reference and stop token."""
    from benchmarks.speed.engines import load_model_tokenizer
    from vocab.artefacts.artefact import ArtefactFolder
    from vocab.automaton.trie_builder import build_words
    from vocab.lists.wordlists import load_word_list
    from vocab.matching.list_kinds import states_of
    from vocab.matching.matcher import Matcher
    from vocab.matching.reference import GrammarReference
    from vocab.options import ListOptions

    tokenizer, options = load_model_tokenizer(model), ListOptions(punctuation="standard", end="sentence")
    word_list = load_word_list("en", None).up_to(20_000)
    words = build_words(word_list, tokenizer.speller)
    ArtefactFolder(folder).save(words)
    states = states_of(word_list, options, tokenizer.speller, N_WORDS)
    mask = np.zeros((len(tokenizer.facts) + 31) // 32, dtype=np.int32)
    texts: list[list[int]] = []
    for seed in range(NUM_TEXTS):
        draw, matcher = random.Random(seed), Matcher(states, [tokenizer.stop_token])
        text: list[int] = []
        while len(text) < NUM_WARM + NUM_TIMED + 2:
            matcher.fill_bitmask(mask)
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            # The first tokens are the frequent ones.
            token = int(allowed[int(draw.random() ** 2 * len(allowed))])
            if token != tokenizer.stop_token:
                matcher.accept_token(token)
                text.append(token)
        texts.append(text)
    reference = GrammarReference(words.digest, options, N_WORDS, None).to_ebnf()
    (folder / "texts.json").write_text(json.dumps([reference, tokenizer.stop_token, texts]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a Hugging Face id or a local folder")
    parser.add_argument("--requests", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", nargs="*", choices=ARMS, default=(), metavar="ARM", help="arms that are left out")
    parser.add_argument("--arm", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.arm:
        arm, num_requests, folder = arguments.arm
        print(json.dumps(run_arm(arguments.model, arm, int(num_requests), Path(folder))))
        return
    arms = [arm for arm in ARMS if arm not in arguments.without]
    with tempfile.TemporaryDirectory() as folder:
        write_texts(arguments.model, Path(folder))
        print("| requests | arm | schedule | mask | update | together, µs | to free |")
        print("|---:|---|---:|---:|---:|---:|---:|")
        for num_requests in arguments.requests:
            found: dict[str, list[dict[str, float]]] = {arm: [] for arm in arms}
            for _ in range(arguments.rounds):
                for arm in arms:
                    command = [sys.executable, "-m", "benchmarks.speed.scheduler", "--model", arguments.model, "--arm"]
                    output = subprocess.run(
                        [*command, arm, str(num_requests), folder],
                        env={**os.environ, **ONE_THREAD},
                        stdout=subprocess.PIPE,
                        check=True,
                        text=True,
                    ).stdout
                    found[arm].append(json.loads(output.splitlines()[-1]))
            for arm in arms:
                print(_row(num_requests, arm, found), flush=True)


def _row(num_requests: int, arm: str, found: dict[str, list[dict[str, float]]]) -> str:
    number = 1e6 / NUM_TIMED / num_requests
    parts = [number * statistics.median(run[part] for run in found[arm]) for part in ("schedule", "mask", "update")]
    totals = {name: [sum(run.values()) for run in runs] for name, runs in found.items()}
    together, shown = number * statistics.median(totals[arm]), "–"
    if "free" in totals:
        shown = f"{statistics.median(map(truediv, totals[arm], totals['free'])):.2f}"
    return f"| {num_requests} | {arm} | {' | '.join(f'{part:.2f}' for part in parts)} | {together:.2f} | {shown} |"


if __name__ == "__main__":
    main()
