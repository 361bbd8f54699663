"""Our beams against those of transformers: the same texts, the same scores, and how long they take.

    python -m benchmarks beams [--prompts 60] [--threads 1] [--dtype float32] [--json FILE]

Both run on the demo model with the same prompts, list and number of threads, in turn in one run: transformers'
``generate(do_sample=False, prefix_allowed_tokens_fn=our automaton)`` in this process, ours over vLLM with the
service's settings. Texts that are equal by different tokens are not merged, as transformers does not merge them.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.beam_search.found import Found, Pair, Task, comparison, parting
from benchmarks.beam_search.ours import EngineBeams
from benchmarks.beam_search.theirs import TransformersBeams
from benchmarks.machine import facts_of_run
from benchmarks.prose.generated import list_and_frame
from benchmarks.prose.prompts import load_prompts
from benchmarks.throughput import SUBJECTS
from deployments.search.tokens import Constraint
from vocab.artefacts.artefact import ArtefactFolder
from vocab.decoding.beams import BeamRules
from vocab.matching.reference import GrammarReference
from vocab.matching.states import ListStates
from vocab.options import DEFAULT_OPTIONS

GROUPS: Final = ((4, 1.0, 1), (10, 1.0, 6), (4, 0.8, 6), (4, 1.2, 6))
"""Beams, length penalty, and which part of the prompts: 60 prompts at 4 beams, ten at each of the others."""

NUM_CONCURRENT: Final = 8


def main() -> None:
    arguments = _arguments()
    # The first for the engine's processes, which are to bind no thread to a core; the second for this one.
    os.environ |= {"OMP_NUM_THREADS": str(arguments.threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    os.environ |= {"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    torch.set_num_threads(arguments.threads)
    words, frame = list_and_frame(arguments.model, "en", arguments.words)
    states = ListStates(words, frame, arguments.words)
    with tempfile.TemporaryDirectory() as folder:
        ArtefactFolder(Path(folder)).save(words)
        theirs = TransformersBeams(arguments.model, arguments.dtype, states)
        reference = GrammarReference(words.digest, DEFAULT_OPTIONS, arguments.words)
        constraint = Constraint(reference, states)
        ours = EngineBeams(
            arguments.model, arguments.dtype, Path(folder), constraint, keeps_work=not arguments.forgetful
        )
        run = asyncio.run(_run(arguments, ours, theirs))
    print("\n".join(["", *_lines(run)]))
    if arguments.json:
        arguments.json.write_text(json.dumps(run | {"pairs": [pair.as_dict() for pair in run["pairs"]]}, indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a local folder")
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=24, help="of each text")
    parser.add_argument("--prompts", type=int, default=60, help="at 4 beams; a sixth of them in each other group")
    parser.add_argument("--rounds", type=int, default=3, help="of timing; 0 for none")
    parser.add_argument("--threads", type=int, default=1, help="of each of the two systems")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--forgetful", action="store_true", help="the engine keeps no work from step to step")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def prompts(number: int) -> list[str]:
    """The first of sixty: those of the quality benchmark, and then others."""
    more = [f"{verb} {subject}." for verb in ("Tell me about", "Write a letter to", "Explain") for subject in SUBJECTS]
    return [*load_prompts("en", 40), *more][:number]


async def _run(arguments: argparse.Namespace, ours: EngineBeams, theirs: TransformersBeams) -> dict[str, Any]:
    facts = facts_of_run()
    async with ours:
        pairs = [pair async for pair in _compare(arguments, ours, theirs)]
        times = await _time(arguments, ours, theirs) if arguments.rounds else {}
    return {
        **facts,
        **{name: getattr(arguments, name) for name in ("words", "tokens", "threads", "dtype", "rounds")},
        "keeps_work": not arguments.forgetful,
        "pairs": pairs,
        "times": times,
    }


async def _compare(arguments: argparse.Namespace, ours: EngineBeams, theirs: TransformersBeams) -> Any:
    for num_beams, length_penalty, part in GROUPS:
        rules = BeamRules(num_beams, length_penalty, merge_equal_texts=False)
        for prompt in prompts(-(-arguments.prompts // part)):
            task = Task(theirs.prompt_tokens(prompt), rules, arguments.tokens)
            [our_find] = await ours.search([task])
            [their_find] = theirs.search([task])
            group = f"{num_beams} beams, length penalty {length_penalty}"
            yield _pair(group, prompt, task, our_find, their_find, theirs)


def _pair(group: str, prompt: str, task: Task, ours: Found, theirs: Found, judge: TransformersBeams) -> Pair:
    texts = judge.text(ours), judge.text(theirs)
    if texts[0] == texts[1]:
        return Pair(group, prompt, ours, theirs, texts)
    beams = [judge.log_p(task, beam) / len(beam) for beam in parting(ours, theirs)]
    gap = max(beams) - min(beams) if beams else None
    return Pair(group, prompt, ours, theirs, texts, judge.log_p(task, ours.tokens), gap)


async def _time(arguments: argparse.Namespace, ours: EngineBeams, theirs: TransformersBeams) -> dict[str, list[float]]:
    """Seconds of each round: one request alone, eight at once, and what transformers can make of eight."""
    rules = BeamRules(4, merge_equal_texts=False)
    tasks = [Task(theirs.prompt_tokens(prompt), rules, arguments.tokens) for prompt in prompts(NUM_CONCURRENT)]

    async def one_by_one(search: Callable[[list[Task]], Awaitable[Any]]) -> None:
        for task in tasks:
            await search([task])

    async def of_theirs(some: list[Task]) -> list[Found]:
        return theirs.search(some)

    arms: dict[str, Callable[[], Awaitable[Any]]] = {
        "ours, alone": lambda: one_by_one(ours.search),
        "transformers, alone": lambda: one_by_one(of_theirs),
        "ours, 8 at once": lambda: ours.search(tasks),
        "transformers, padded batch of 8": lambda: of_theirs(tasks),
    }
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for round_number in range(arguments.rounds + 1):
        for name, arm in arms.items():
            started = time.perf_counter()
            await arm()
            if round_number:  # the first round fills caches
                seconds[name].append(time.perf_counter() - started)
    return seconds


def _lines(run: dict[str, Any]) -> Iterator[str]:
    hardware = run["hardware"]
    yield (
        f"{run['date']}; {hardware['cpu']}, {hardware['cores']} cores, load before {hardware['load_before'][0]}; "
        f"{run['threads']} thread(s) each, {run['dtype']}; {run['words']} English words, {run['tokens']} tokens"
    )
    yield ""
    yield from comparison(run["pairs"])
    if run["times"]:
        yield ""
        yield from _time_lines(run["times"])


def _time_lines(times: dict[str, list[float]]) -> Iterator[str]:
    medians = {name: statistics.median(values) for name, values in times.items()}
    yield f"seconds for {NUM_CONCURRENT} texts at 4 beams (median of {len(times['ours, alone'])} rounds)"
    for name, median in medians.items():
        yield f"  {name:<34}{median:>8.2f}   ({', '.join(f'{value:.2f}' for value in times[name])})"
    alone = medians["ours, alone"] / medians["transformers, alone"]
    together = medians["ours, 8 at once"] / medians["transformers, alone"]
    batch = medians["ours, 8 at once"] / medians["transformers, padded batch of 8"]
    yield f"one request: {alone:.2f} times as long as transformers (goal: at most 2.5)"
    yield f"eight concurrent: {together:.2f} times as long as transformers one after another (goal: at most 1)"
    yield f"eight concurrent: {batch:.2f} times as long as transformers as one padded batch"


if __name__ == "__main__":
    main()
