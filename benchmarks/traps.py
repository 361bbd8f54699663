"""How often a list turns a word that the model has begun into another: the prefix traps of a running service, by arms.

    python -m benchmarks traps [--url URL --key KEY --tokenizer FOLDER] [--languages en,es,de,fr,it] [--words 1000]
                               [--tokens 60] [--seeds 1,2] [--arms default,beams,rescue+prompt-words] [--parallel 4]
                               [--fragments] [--show N] [--out FILE]

A trap is a word of two or more tokens at one of which, not its first, the list allowed less than 5% of the model's
probability. FILE has answers and their tokens as JSON lines; what is there is not asked again.
"""

import argparse
import math
import os
import re
import sys
import uuid
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import openai

from benchmarks.prose.methods import SCORE, Method
from benchmarks.prose.records import Cell, Record, Records
from benchmarks.prose.rows import log_mass_per_word
from benchmarks.prose.served import RefusedError, measure_served, missing
from benchmarks.prose.word_steps import Step, StepReader, count_words
from deployments.demo.model import say
from deployments.settings.service import DEMO_TOKEN, cache_dir
from vocab.decoding.select import repeated_ngram_share, words_of
from wordbound import Client, ServiceError

ARMS: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "no-rescue": {"vocab": {"rescue": False}},
    "rescue": {"vocab": {"rescue": True}},
    "beams": {"num_beams": 4},
    "prompt-words": {"vocab": {"prompt_words": True}},
}
"""What the requests of an arm have besides the list."""

EVERYDAY: Final = Path(__file__).with_name("prose") / "everyday.txt"
"""A language, a prompt, and the beginnings of its nouns a line: / stands between those of one, = for a word's end."""

TIMEOUT_S: Final = 1800

COLUMNS: Final = (
    *("arm", "language", "answers", "words", "traps/100 words", "fragments/100 words", "bits/char", "log-mass/word"),
    *("nouns kept", "repeated 4-grams", "tokens drawn", "s/token"),
)


def load_everyday() -> dict[str, dict[str, list[str]]]:
    """Return the prompts of each language, with their nouns."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in EVERYDAY.read_text(encoding="utf-8").splitlines():
        lang, prompt, nouns = line.split(" | ")
        found.setdefault(lang, {})[prompt] = nouns.split()
    return found


def find_arm(name: str, seed: int) -> Method:
    """Return the method of an arm, or of several as in ``rescue+prompt-words``; KeyError where there is none."""
    arms = [ARMS[part] for part in name.split("+")]
    vocab = {key: value for arm in arms for key, value in arm.get("vocab", {}).items()}
    fields = {key: value for arm in arms for key, value in arm.items() if key != "vocab"}
    return Method(name, "service", {**fields, "seed": seed}, SCORE | vocab)


def share_kept(nouns: Sequence[str], text: str) -> float:
    """Return the share of a prompt's nouns that a text has."""
    words = [f"{part}=" for word in words_of(text) for part in re.split("['’]", word)]
    return sum(any(word.startswith(tuple(noun.casefold().split("/"))) for word in words) for noun in nouns) / len(nouns)


def figures(
    answers: Sequence[Record], steps: Sequence[Record], nouns: dict[str, list[str]], *, has_fragments: bool
) -> list[str]:
    """Return the cells of a row after its arm and language, of answers and of the steps of all of them."""
    counts = [count_words(Step(*step) for step in record["steps"]) for record in steps]
    num_words, num_traps, num_fragments = map(sum, zip(*counts, strict=True))
    num_chars = sum(len(answer["text"]) for answer in answers)
    num_tokens = sum(answer["num_answer_tokens"] for answer in answers)
    bits = sum((answer["vocab"].get("bits_per_char") or math.nan) * len(answer["text"]) for answer in answers)
    return [
        str(len(answers)),
        str(num_words),
        f"{100 * num_traps / num_words:.2f}",
        f"{100 * num_fragments / num_words:.2f}" if has_fragments else "–",
        f"{bits / num_chars:.2f}",
        f"{log_mass_per_word(answers) or 0:.2f}",
        f"{fmean(share_kept(nouns[answer['prompt']], answer['text']) for answer in answers):.0%}",
        f"{fmean(repeated_ngram_share(answer['text'], 4) for answer in answers):.3f}",
        f"{sum(answer['num_generated_tokens'] for answer in answers) / num_tokens:.2f}",
        f"{sum(answer['ended'] - answer['started'] for answer in answers) / num_tokens:.3f}",
    ]


def main() -> None:
    arguments = _arguments()
    records, everyday = Records(arguments.out), load_everyday()
    kind = "fragments" if arguments.fragments else "traps"
    client = Client(arguments.url, arguments.key, timeout=TIMEOUT_S)
    chats = openai.OpenAI(base_url=f"{client.url}/v1", api_key=arguments.key, max_retries=0, timeout=TIMEOUT_S)
    with client, chats, ThreadPoolExecutor(arguments.parallel) as pool:
        model, run = client.get("/v1/models")["data"][0]["id"], uuid.uuid4().hex[:12]
        reader = StepReader(client, arguments.tokenizer, with_fragments=arguments.fragments)

        def add_steps(cell: Cell, answer: Record) -> None:
            records.add({"kind": kind, **cell.key, "prompt": answer["prompt"], "steps": reader.steps(cell, answer)})

        table, texts = [COLUMNS, ["---"] * len(COLUMNS)], list[str]()
        for name, lang in ((name, lang) for name in arguments.arms for lang in arguments.languages):
            prompts = list(everyday[lang])
            answers, steps = list[Record](), list[Record]()
            # Beams are not drawn: another seed would find the same text.
            for seed in arguments.seeds[: 1 if "num_beams" in find_arm(name, 0).fields else None]:
                cell = Cell(model, lang, arguments.words, arguments.tokens, find_arm(name, seed))
                try:
                    measure_served(chats, records, run, cell, prompts, 0, arguments.parallel)
                except RefusedError as error:
                    say(f"{name}, {lang}: refused: {error}")
                    break
                made = sorted(records.of("answer", cell), key=lambda answer: int(answer["number"]))
                unread = {prompts[index] for index in missing(records, kind, cell, prompts)}
                list(pool.map(partial(add_steps, cell), [one for one in made if one["prompt"] in unread]))
                answers += made
                steps += records.of(kind, cell)
            if answers:
                of_texts = figures(answers, steps, everyday[lang], has_fragments=arguments.fragments)
                table.append([name, lang, *of_texts])
                say(" · ".join(table[-1]))
            texts += [f"\n{name}, {lang}: {one['prompt']}\n{one['text']}" for one in answers[: arguments.show]]
    print(*texts, f"\n{model}, {arguments.words:,} words, at most {arguments.tokens} tokens\n", sep="\n")
    print(*(f"| {' | '.join(row)} |" for row in table), sep="\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks traps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="of a running service; by default WORDBOUND_URL, else that of the demo")
    parser.add_argument("--key", default=os.environ.get("WORDBOUND_API_KEY", DEMO_TOKEN), help="WORDBOUND_API_KEY")
    parser.add_argument("--tokenizer", required=True, help="the folder of the service's model")
    languages, arms = list(load_everyday()), list(ARMS)
    parser.add_argument("--languages", type=partial(_names, languages), default=languages)
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--seeds", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    parser.add_argument("--arms", type=partial(_names, arms), default=arms, help=f"{', '.join(arms)}; several with +")
    parser.add_argument("--parallel", type=int, default=1, help="requests at a time")
    parser.add_argument("--fragments", action="store_true", help="count words that were cut off too: takes longer")
    parser.add_argument("--show", type=int, default=0, help="so many texts of each arm and language, the first")
    parser.add_argument("--out", type=Path, default=cache_dir() / "traps.jsonl")
    return parser.parse_args()


def _names(known: Collection[str], text: str) -> list[str]:
    if unknown := [part for part in re.split("[,+]", text) if part not in known]:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}: choose of {', '.join(known)}")
    return text.split(",")


if __name__ == "__main__":
    try:
        main()
    except (ServiceError, ValueError) as error:
        sys.exit(f"benchmarks.traps: {error}")
