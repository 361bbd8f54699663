"""What an adapter is worth: the default's texts of a model and of the same model with the adapter, and free text
beside them, as tables and texts.

    python benchmarks/adapters.py [FILE] --model PATH --adapted PATH [--judge PATH] [--lang en] [--words 1000,3000,500]
                                  [--prompts 40] [--seeds 1000,2000,3000] [--tokens 60]
    python benchmarks/adapters.py [FILE] --model PATH --adapted PATH … --report --out PAGE
    python benchmarks/adapters.py --model PATH --adapted PATH --speed

Answers are streamed from the real service, started here with each model, through the ``openai`` package; prompt i has
the seeds S + i. They are scored afterwards: by the model itself in float32, by the judge in bfloat16. All of it goes
into FILE as JSON lines, so a run that was ended goes on where it was; a folder whose weights changed is measured anew.

``--speed`` prints tokens per second of a batch of 32 without adapters, with two beside the model, and with one merged,
and whether the free greedy texts of the model are the same beside the adapters.
"""

import argparse
import hashlib
import signal
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import openai

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.prose.circles import has_loop, opening_shares  # noqa: E402
from benchmarks.prose.free_model import FreeModel, bits_key, score_batched  # noqa: E402
from benchmarks.prose.methods import Method, find_method  # noqa: E402
from benchmarks.prose.models import judge_path  # noqa: E402
from benchmarks.prose.pairs import Verdict, judge_pairs, known_odds, pair_key  # noqa: E402
from benchmarks.prose.prompts import languages, load_prompts  # noqa: E402
from benchmarks.prose.records import Cell, Record, Records  # noqa: E402
from benchmarks.prose.rows import BitsOf, Judged, Row, bits_per_char, make_row  # noqa: E402
from benchmarks.prose.served import NUM_CONCURRENT  # noqa: E402
from benchmarks.quality import running_service, warm_up  # noqa: E402
from deployments.demo.model import say  # noqa: E402
from deployments.settings.service import cache_dir  # noqa: E402
from vocab.decoding.select import words_of  # noqa: E402

FREE, DEFAULT = find_method("free-sampled-0.7,default")

NUM_TEXTS: Final = 10
"""Prompts whose texts are shown, at the first N."""

PAIRED: Final = (("adapted", "default"), ("adapted", "free"), ("default", "free"))
"""Arms that are compared. The last says what the judge makes of the list itself."""

HEADS: Final = (
    "arm", "texts", "bits/char", "judge", "log-mass/word", "length", "stray", "faults", "distinct-2",
    "repeated 4-grams", "loops", "same opening", "most frequent", "finished", "unlisted",
)  # fmt: skip

LEGEND: Final = """\
- **free**, **default**, **adapted**: free text of the base model at temperature 0.7; the default under the list, of the
  base model and of the adapted one.
- **bits/char**: -log2 p of the texts under the base model, in float32 and without a hint, by characters.
- **judge**: the same under a model that wrote none of the texts, in bfloat16.
- **log-mass/word**: -log of the probability that the masks left, of the model that wrote, by words.
- **length**: words of a text by those of a default text.
- **stray**, **faults**, **distinct-2**, **repeated 4-grams**, **finished**, **unlisted**: as in
  [Quality against cost](quality.md).
- **loops**: share of the texts in which one content word occurs five times or more within 60 words.
- **same opening**, **most frequent**: share of the texts whose first four words are those of another prompt's text
  with the same seed, and the share of the most frequent such opening; means of the seeds.
- **Pairs**: answers of two arms at the first N to the same prompt, each with the first seed. **first is better** is
  the share that the judge, asked for the better, more natural of the two, prefers, and **log odds** those of its
  preference with their standard error; both over the two orders. An unfinished last sentence is cut off before.
  **same in both orders** says how far to trust it: near 0, it only sees which answer stands first. **fewer bits** is
  the share to which the judge, not asked, gives fewer bits per character. With 40 pairs, a share of 0.35 to 0.65 is
  no difference (95%). default against free is the control: a judge that finds little there cannot tell what an
  adapter brings."""


class Arm(NamedTuple):
    """One row of a table: its name and what its answers share."""

    name: str
    cell: Cell


def main() -> int:
    # Ended from outside, it ends the service that is running too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    arguments = _arguments()
    if arguments.speed:
        compare_speed(arguments.model, arguments.adapted, arguments.lang, arguments.tokens)
        return 0
    records = Records(arguments.file)
    prompts = load_prompts(arguments.lang, arguments.prompts)
    base, adapted = recorded_name(arguments.model), recorded_name(arguments.adapted)
    arguments.judge = arguments.judge or judge_path()
    judge = f"{arguments.judge.resolve().name} in {arguments.judge_dtype}"
    tables = {n_words: list(_arms(arguments, base, adapted, n_words)) for n_words in arguments.words}
    asked = [(prompt, seed + index) for seed in arguments.seeds for index, prompt in enumerate(prompts)]
    if not arguments.report:
        _measure(arguments, records, tables, asked, judge)
    text = report(records, tables, asked, base, judge)
    print(text)
    if arguments.report:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=cache_dir() / "adapters.jsonl")
    parser.add_argument("--model", type=Path, required=True, help="the folder of the base model")
    parser.add_argument("--adapted", type=Path, required=True, help="the folder of the adapter")
    parser.add_argument("--judge", type=Path, help="the folder of a larger instruct model; else one is downloaded")
    parser.add_argument("--speed", action="store_true", help="compare speeds; judge nothing")
    parser.add_argument("--judge-dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--lang", default="en", choices=languages())
    parser.add_argument("--words", type=_numbers, default=[1000, 3000, 500], help="each N, with commas between them")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--seeds", type=_numbers, default=[1000, 2000, 3000], help="the first is that of the pairs")
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--report", action="store_true", help="write the page; measure nothing")
    parser.add_argument("--out", type=Path, help="the page")
    arguments = parser.parse_args()
    if arguments.report and not arguments.out:
        parser.error("--report needs --out")
    return arguments


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def recorded_name(folder: Path) -> str:
    """The folder's name with a hash of its weights, by which the records know the model."""
    sha = hashlib.sha256()
    for weights in sorted(folder.glob("*.safetensors")):
        with weights.open("rb") as file:
            while block := file.read(1 << 20):
                sha.update(block)
    return f"{folder.resolve().name}@{sha.hexdigest()[:8]}"


def _arms(arguments: argparse.Namespace, base: str, adapted: str, n_words: int) -> Iterator[Arm]:
    def cell(model: str, n_words: int | None, method: Method) -> Cell:
        return Cell(model, arguments.lang, n_words, arguments.tokens, method)

    yield Arm("free", cell(base, None, FREE))
    yield Arm("default", cell(base, n_words, DEFAULT))
    yield Arm("adapted", cell(adapted, n_words, DEFAULT))


def _measure(
    arguments: argparse.Namespace,
    records: Records,
    tables: dict[int, list[Arm]],
    asked: Sequence[tuple[str, int]],
    judge_name: str,
) -> None:
    """Asks and scores; what is known already is left out."""
    cells: list[Cell] = []
    for arm in (arm for arms in tables.values() for arm in arms):
        # The free arm is the same at each N.
        cells += [arm.cell] if arm.cell not in cells else []
    base = cells[0].model
    with_adapter = {"lora": {"adapted": str(arguments.adapted.resolve())}, "lora_merge": True}
    for name in dict.fromkeys(cell.model for cell in cells):
        settings = {} if name == base else with_adapter
        _ask(arguments.model, settings, [cell for cell in cells if cell.model == name], asked, records)
    answers = [answer for cell in cells for answer in answers_of(records, cell, asked)]
    judge = FreeModel(str(arguments.judge), arguments.judge_dtype)
    adapted = FreeModel(str(arguments.model), adapter=str(arguments.adapted))
    free = answers_of(records, cells[0], asked)
    for name, model, to_score in (
        (base, FreeModel(str(arguments.model)), answers),
        (cells[-1].model, adapted, free),
        (judge_name, judge, answers),
    ):
        started = time.monotonic()
        num_scored = score_batched(model, name, to_score, records)
        say(f"{name}: scored {num_scored} texts in {time.monotonic() - started:.0f} s")
    started = time.monotonic()
    arms = next(iter(tables.values()))
    pairs = [pair for two in PAIRED for pair in pairs_of(records, arms, two, asked)]
    num_judged = judge_pairs(judge, judge_name, pairs, records)
    say(f"{judge_name}: compared {num_judged} pairs in {time.monotonic() - started:.0f} s")


def _ask(
    folder: Path, settings: dict[str, Any], cells: Sequence[Cell], asked: Sequence[tuple[str, int]], records: Records
) -> None:
    """Asks the service with a model and these settings for all answers that are not known yet."""
    wanted = []
    for cell in cells:
        known = {(record["prompt"], record["seed"]) for record in records.of("answer", cell)}
        if unknown := [question for question in asked if question not in known]:
            wanted.append((cell, unknown))
    if not wanted:
        return
    with running_service(str(folder.resolve()), cells[0].lang, settings) as client:
        model_id = client.models.list().data[0].id
        for cell, questions in wanted:
            warm_up(client, cell._replace(model=model_id))
            started = time.monotonic()
            with ThreadPoolExecutor(NUM_CONCURRENT) as pool:
                for (prompt, seed), answer in pool.map(partial(_stream, client, model_id, cell), questions):
                    records.add({"kind": "answer", **cell.key, "prompt": prompt, "seed": seed, **answer})
            seconds = time.monotonic() - started
            say(f"{cell.model}, {cell.method.name}, N = {cell.n_words}: {len(questions)} answers in {seconds:.0f} s")


def _stream(
    client: openai.OpenAI, model_id: str, cell: Cell, question: tuple[str, int]
) -> tuple[tuple[str, int], Record]:
    """The answer to a prompt and seed, read from a stream, with what ``make_row`` needs of it."""
    prompt, seed = question
    extra = dict(cell.method.fields)
    if cell.n_words is not None:
        extra["vocab"] = {"lang": cell.lang, "n_words": cell.n_words, **cell.method.vocab}
    create: Any = client.chat.completions.create
    text, reason, vocab, num_tokens = "", None, None, 0
    started = time.monotonic()
    for chunk in create(
        model=model_id,
        messages=[{"role": "user", "content": prompt}],
        max_tokens=cell.num_tokens,
        seed=seed,
        stream=True,
        stream_options={"include_usage": True},
        extra_body=extra,
    ):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
        num_tokens = chunk.usage.completion_tokens if chunk.usage else num_tokens
        vocab = (chunk.model_extra or {}).get("vocab") or vocab
    if reason is None:
        raise RuntimeError(f"the stream of {prompt!r} with seed {seed} ended early")
    return question, {
        "run": "", "text": text, "is_ended": reason == "stop", "num_answer_tokens": num_tokens,
        "num_generated_tokens": num_tokens, "vocab": vocab, "started": started, "ended": time.monotonic(),
    }  # fmt: skip


def answers_of(records: Records, cell: Cell, asked: Sequence[tuple[str, int]]) -> list[Record]:
    """The answers to these prompts and seeds that are known, in their order."""
    known = {(record["prompt"], record["seed"]): record for record in records.of("answer", cell)}
    return [known[question] for question in asked if question in known]


def pairs_of(
    records: Records, arms: Sequence[Arm], names: tuple[str, str], asked: Sequence[tuple[str, int]]
) -> list[tuple[Record, Record]]:
    """The answers of two arms to each prompt, with its first seed."""
    cells = {arm.name: arm.cell for arm in arms}
    first = list({prompt: (prompt, seed) for prompt, seed in reversed(asked)}.values())[::-1]
    one, other = ({a["prompt"]: a for a in answers_of(records, cells[name], first)} for name in names)
    return [(one[prompt], other[prompt]) for prompt, _ in first if prompt in one and prompt in other]


def report(
    records: Records, tables: dict[int, list[Arm]], asked: Sequence[tuple[str, int]], base: str, judge: str
) -> str:
    """The tables and texts, as Markdown."""
    adapted = next(iter(tables.values()))[-1].cell.model
    bits, judge_bits, adapted_bits = (
        {bits_key(record): record["bits"] for record in records.of("bits") if record["scorer"] == scorer}
        for scorer in (base, judge, adapted)
    )
    judged, odds = Judged(bits, judge_bits, {}), known_odds(records)
    parts, preferred = [], []
    for n_words, arms in tables.items():
        found = {arm.name: answers for arm in arms if (answers := answers_of(records, arm.cell, asked))}
        parts += [f"## {n_words:,} words, {arms[0].cell.lang!r}", _table(arms, found, n_words, judged)]
        for names in PAIRED:
            pairs = pairs_of(records, arms, names, asked)
            if known := [odds[key] for pair in pairs if (key := pair_key(judge, *pair)) in odds]:
                verdict, fewer = Verdict.of(known), _fewer_bits(pairs, judge_bits)
                shown = (f"{n_words:,}", *names, str(verdict.num_pairs), _number(verdict.win_share),
                         f"{verdict.mean_odds:+.2f} ± {verdict.standard_error:.2f}", _number(verdict.agreeing),
                         _number(fewer))  # fmt: skip
                preferred.append(f"| {' | '.join(shown)} |")
    heads = "| words | first | second | pairs | first is better | log odds | same in both orders | fewer bits |"
    parts += [
        "## Pairs",
        "\n".join([heads, "|---:|---|---|" + "---:|" * 5, *preferred]),
        "## What the columns say",
        LEGEND,
    ]
    n_words, arms = next(iter(tables.items()))
    parts += [f"## Texts: {n_words:,} words", *_texts(pairs_of(records, arms, ("default", "adapted"), asked))]
    free = answers_of(records, arms[0].cell, asked)
    itself, changed = (_number(bits_per_char(free, scorer)) for scorer in (bits, adapted_bits))
    head = (
        f"Base {base}, adapted {adapted}, judge {judge}. Bits per character of the free texts, which the base wrote: "
        f"{itself} under the base, {changed} under the adapted model."
    )
    return "\n\n".join([head, *parts])


def _fewer_bits(pairs: Sequence[tuple[Record, Record]], bits: BitsOf) -> float | None:
    """The share of the pairs whose first text has fewer bits per character; None while some are not known."""
    per_char = [[bits_per_char([answer], bits) for answer in pair] for pair in pairs]
    known = [(one, other) for one, other in per_char if one is not None and other is not None]
    if len(known) < len(pairs):
        return None
    return statistics.fmean(0.5 if one == other else float(one < other) for one, other in known)


def _table(arms: Sequence[Arm], found: dict[str, list[Record]], n_words: int, judged: Judged) -> str:
    lines = ["| " + " | ".join(HEADS) + " |", "|---|" + "---:|" * (len(HEADS) - 1)]
    length = num_words(found["default"]) if "default" in found else None
    for arm in arms:
        if answers := found.get(arm.name):
            row = make_row(arm.cell._replace(n_words=n_words), answers, [], judged)
            lines.append("| " + " | ".join(_cells(arm.name, row, length)) + " |")
    return "\n".join(lines)


def _cells(name: str, row: Row, length: float | None) -> Iterator[str]:
    texts = [answer["text"] for answer in row.answers]
    by_round: dict[int, list[str]] = defaultdict(list)
    asked: Counter[str] = Counter()
    for answer in row.answers:
        by_round[asked[answer["prompt"]]].append(answer["text"])
        asked[answer["prompt"]] += 1
    same, most = map(statistics.fmean, zip(*map(opening_shares, by_round.values()), strict=True))
    loops = statistics.fmean(has_loop(text, row.cell.lang) for text in texts)
    yield from (name, str(len(texts)))
    yield from (_number(row.bits_per_char), _number(row.judge_bits_per_char), _number(row.log_mass_per_word))
    yield _number(num_words(row.answers) / length if length else None)
    yield from (f"{row.stray:.0%}", _number(row.faults, 1), _number(row.distinct_2), _number(row.repeated_4, 3))
    yield from (f"{loops:.0%}", f"{same:.0%}", f"{most:.0%}", f"{row.finished:.0%}", str(row.num_unlisted))


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def num_words(answers: Sequence[Record]) -> float:
    """Mean words of a text."""
    return statistics.fmean(len(words_of(answer["text"])) for answer in answers)


def _texts(pairs: Sequence[tuple[Record, Record]]) -> Iterator[str]:
    """The two texts to each of the first prompts."""
    for default, adapted in pairs[:NUM_TEXTS]:
        lines = (
            " ".join(answer["text"].split()).replace("\\", "\\\\").replace("*", "\\*") for answer in (default, adapted)
        )
        yield "**{}**\n\n- default: {}\n- adapted: {}".format(default["prompt"], *lines)


BATCH: Final = 32
"""Requests at once, of which the last round counts."""


def compare_speed(model: Path, adapted: Path, lang: str, num_tokens: int) -> None:
    """Print the speed of a batch by what is loaded, and by which adapters its requests name."""
    lists = ({"lang": lang, "n_words": 1000}, {"lang": lang, "n_words": 500})
    beside = {"lora": {name: str(adapted.resolve()) for name in ("one", "other")}}
    merged = {"lora_merge": True, "lora": {"one": str(adapted.resolve())}}
    free: list[list[str]] = []
    for label, settings, names in (
        ("no adapter loaded", {}, ("",)),
        ("two loaded, none used", beside, ("",)),
        ("two loaded, two lists and the model free", beside, ("one", "other", "")),
        ("one merged", merged, ("one",)),
    ):
        with running_service(str(model.resolve()), lang, settings) as client:
            model_id = client.models.list().data[0].id

            def ask(number: int, client: Any = client, names: Any = names, model_id: str = model_id) -> tuple[str, int]:
                name = names[number % len(names)]
                extra: dict[str, Any] = {"min_tokens": num_tokens}
                if name:
                    extra["vocab"] = lists[names.index(name)]
                answer = client.chat.completions.create(
                    model=name or model_id, temperature=0, max_tokens=num_tokens, extra_body=extra,
                    messages=[{"role": "user", "content": load_prompts(lang, BATCH)[number]}],
                )  # fmt: skip
                return answer.choices[0].message.content, answer.usage.completion_tokens

            with ThreadPoolExecutor(BATCH) as pool:
                for _ in range(2):
                    started = time.monotonic()
                    answers = list(pool.map(ask, range(BATCH)))
                    seconds = time.monotonic() - started
        print(f"{label}: {sum(tokens for _, tokens in answers) / seconds:.0f} tokens/s", flush=True)
        if names == ("",):
            free.append([text for text, _ in answers])
    print(f"free greedy texts the same beside adapters: {sum(map(str.__eq__, *free))} of {BATCH}")


if __name__ == "__main__":
    sys.exit(main())
