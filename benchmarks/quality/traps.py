"""How often a list turns a word that the model has begun into another: the prefix traps of a running service, by arms.

    python -m benchmarks quality traps [--url URL --key KEY] [--languages en,es,de,fr,it] [--words 500,1000,3000]
        [--tokens 60] [--seeds 1,2] [--arms default,beams,rescue+prompt-words] [--parallel 4] [--show N] [--out FILE]

A trap is a word of two or more tokens where, at a token that is not its first, the list left less than 5% of the
model's probability: of that of the 20 likeliest tokens, which a stream reports. FILE has the answers as JSON lines;
what is there is not asked again.
"""

import argparse
import math
import os
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import openai

from benchmarks.command import numbers
from benchmarks.quality.methods import Method
from benchmarks.quality.records import Cell, Question, Record, Records, ask
from deployments.demo.model import say
from deployments.settings.service import DEMO_TOKEN, cache_dir
from tests.checker import unlisted_words
from vocab.decoding.select import repeated_ngram_share, words_of

ARMS: Final[dict[str, dict[str, Any]]] = {
    "free": {},
    "default": {"vocab": {}},
    "no-rescue": {"vocab": {"rescue": False}},
    "rescue": {"vocab": {"rescue": True}},
    "prompt-words": {"vocab": {"prompt_words": True}},
    "adapter": {"vocab": {"adapter": "simple-en"}},
    "no-adapter": {"vocab": {"adapter": None}},
    "beams": {"vocab": {}, "num_beams": 4},
}
"""What the requests of an arm have besides the list."""

EVERYDAY: Final = Path(__file__).with_name("everyday.txt")
"""A language, a prompt, and the beginnings of its nouns a line: / stands between those of one, = for a word's end."""

LITTLE: Final = 0.05
"""Of the model's probability: where the list leaves less inside a word, the word is a trap."""

MOST: Final = 0.5
"""Of it: a token of letters that the list took and that has more shows that the word before was cut off."""

TIMEOUT_S: Final = 1800
COLUMNS: Final = (
    *("arm", "language", "words", "answers", "traps/100", "fragments/100", "unlisted/100", "bits/char", "nouns kept"),
    *("repeated 4-grams", "drawn/token", "s/token"),
)


class Step(NamedTuple):
    """One token of an answer.

    Attributes:
        spelled: Its bytes in hexadecimal digits.
        p: The model's own, before any mask.
        left: Of the p of the likeliest tokens what the list left, of 1.
        wanted: The likeliest token if the list took it and it has ``MOST`` of p.
    """

    spelled: str
    p: float
    left: float
    wanted: str

    @classmethod
    def of(cls, details: dict[str, Any]) -> "Step":
        """Read what a stream says of a token."""
        taken = [one for one in details["top_k"] if one["is_masked"]]
        wanted = next((bytes(one["bytes"]).decode(errors="replace") for one in taken if one["prob"] > MOST), "")
        left = 1 - sum(one["prob"] for one in taken) / sum(one["prob"] for one in details["top_k"])
        return cls(bytes(details["bytes"]).hex(), details["prob"], left, wanted)


class WordCounts(NamedTuple):
    """The words of a text; those that are prefix traps; others after which the model wanted more letters."""

    num_words: int
    num_traps: int
    num_fragments: int


def count_words(steps: Iterable[Step], lang: str) -> WordCounts:
    """Count the words of an answer, and what became of them."""
    starts, spelled = dict[int, Step](), b""
    for step in steps:
        # A token without bytes ends the text.
        starts[len(spelled)] = step
        spelled += bytes.fromhex(step.spelled)
    text, num_traps, num_fragments = spelled.decode(errors="replace"), 0, 0
    # In other languages what stands before an apostrophe is a word of its own.
    words = list(re.finditer(r"[^\W\d_]+(?:['’][^\W\d_]+)*" if lang == "en" else r"[^\W\d_]+", text))
    for word in words:
        first, end = (len(text[:place].encode()) for place in word.span())
        if any(step.left < LITTLE for start, step in starts.items() if first < start < end):
            num_traps += 1
        elif end in starts and starts[end].wanted[:1].isalpha():
            num_fragments += 1
    return WordCounts(len(words), num_traps, num_fragments)


def load_everyday() -> dict[str, dict[str, list[str]]]:
    """Return the prompts of each language, with their nouns."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in EVERYDAY.read_text(encoding="utf-8").splitlines():
        lang, prompt, nouns = line.split(" | ")
        found.setdefault(lang, {})[prompt] = nouns.split()
    return found


def find_arm(name: str) -> Method:
    """Return the method of an arm, or of several as in ``rescue+prompt-words``; KeyError where there is none."""
    arms = [ARMS[part] for part in name.split("+")]
    fields = {key: value for arm in arms for key, value in arm.items() if key != "vocab"}
    vocab = {key: value for arm in arms for key, value in arm.get("vocab", {}).items()}
    return Method(name, fields, vocab if any("vocab" in arm for arm in arms) else None)


def share_kept(nouns: Sequence[str], text: str) -> float:
    """Return the share of a prompt's nouns that a text has."""
    words = [f"{part}=" for word in words_of(text) for part in re.split("['’]", word)]
    return sum(any(word.startswith(tuple(noun.casefold().split("/"))) for word in words) for noun in nouns) / len(nouns)


def unlisted_of(answer: Record, lang: str, n_words: int) -> list[str]:
    """Return the words of an answer that are neither listed nor of the prompt; numbers and marks are none."""
    added = [written for one in answer["block"].get("prompt_words") or () for written in (one["word"], *one["forms"])]
    found = unlisted_words(answer["text"], lang, n_words, extra_words=added, numbers=True)
    return [word for word in found if any(map(str.isalpha, word))]


def figures(answers: Sequence[Record], lang: str, n_words: int, nouns: dict[str, list[str]]) -> list[str]:
    """Return the cells of a row after its arm, language and number of words."""
    steps = [[Step(*step) for step in answer["steps"]] for answer in answers]
    counts = [count_words(one, lang) for one in steps]
    num_words, num_traps, num_fragments = map(sum, zip(*counts, strict=True))
    num_chars = sum(len(answer["text"]) for answer in answers)
    num_tokens = sum(answer["num_answer_tokens"] for answer in answers)
    bits = -sum(math.log2(max(step.p, sys.float_info.min)) for one in steps for step in one)
    if not num_words:
        bits = sum(answer["block"].get("bits_per_char", math.nan) * len(answer["text"]) for answer in answers)
    num_unlisted = sum(map(len, (unlisted_of(answer, lang, n_words) for answer in answers)))
    return [
        str(len(answers)),
        *(f"{100 * number / num_words:.1f}" if num_words else "–" for number in (num_traps, num_fragments)),
        f"{100 * num_unlisted / sum(len(words_of(answer['text'])) for answer in answers):.1f}",
        f"{bits / num_chars:.2f}",
        f"{fmean(share_kept(nouns[answer['prompt']], answer['text']) for answer in answers):.0%}",
        f"{fmean(repeated_ngram_share(answer['text'], 4) for answer in answers):.3f}",
        f"{sum(answer['num_generated_tokens'] for answer in answers) / num_tokens:.2f}",
        f"{sum(answer['ended'] - answer['started'] for answer in answers) / num_tokens:.3f}",
    ]


def main() -> None:
    arguments = _arguments()
    records, everyday = Records(arguments.out), load_everyday()
    url = arguments.url or os.environ.get("WORDBOUND_URL", "http://127.0.0.1:8000")
    table, texts = [COLUMNS, ("---",) * len(COLUMNS)], list[str]()
    chats = openai.OpenAI(base_url=f"{url}/v1", api_key=arguments.key, max_retries=5, timeout=TIMEOUT_S)
    with chats, ThreadPoolExecutor(arguments.parallel) as pool:
        model = chats.models.list().data[0].id

        def add(cell: Cell, question: Question) -> None:
            answer = ask(chats, model, cell, question, with_steps=True)
            records.add({"kind": "answer", **answer, "steps": [Step.of(one) for one in answer["steps"]]})

        for name, lang, n_words in product(arguments.arms, arguments.languages, arguments.words):
            method = find_arm(name)
            cell = Cell(model, lang, None if method.is_free else n_words, arguments.tokens, method)
            # Beams are not drawn: another seed would find the same text.
            questions = list(product(everyday[lang], arguments.seeds[: 1 if "beams" in name else None]))
            try:
                list(pool.map(partial(add, cell), records.missing("answer", cell, questions)))
            except openai.APIStatusError as error:
                say(f"{name}, {lang}: {error.message}")
                continue
            answers = [one for one in records.of("answer", cell) if (one["prompt"], one["seed"]) in questions]
            table.append((name, lang, str(n_words), *figures(answers, lang, n_words, everyday[lang])))
            say(" · ".join(table[-1]))
            texts += [f"\n{name}, {lang}, {n_words}: {a['prompt']}\n{a['text']}" for a in answers[: arguments.show]]
    print(*texts, f"\n{model}, at most {arguments.tokens} tokens\n", sep="\n")
    print(*(f"| {' | '.join(row)} |" for row in table), sep="\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks quality traps",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", help="of a running service; by default WORDBOUND_URL, else that of the demo")
    parser.add_argument("--key", default=os.environ.get("WORDBOUND_API_KEY", DEMO_TOKEN), help="WORDBOUND_API_KEY")
    languages, arms = list(load_everyday()), list(ARMS)
    parser.add_argument("--languages", type=partial(_names, languages), default=languages)
    parser.add_argument("--words", type=numbers, default=[1000])
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--seeds", type=numbers, default=[1, 2])
    parser.add_argument("--arms", type=partial(_names, arms), default=arms, help=f"{', '.join(arms)}; several with +")
    parser.add_argument("--parallel", type=int, default=4, help="requests at a time")
    parser.add_argument("--show", type=int, default=0, help="so many texts of each row, the first")
    parser.add_argument("--out", type=Path, default=cache_dir() / "traps.jsonl")
    return parser.parse_args()


def _names(known: Collection[str], text: str) -> list[str]:
    if unknown := [part for part in re.split("[,+]", text) if part not in known]:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}: choose of {', '.join(known)}")
    return text.split(",")


if __name__ == "__main__":
    try:
        main()
    except openai.APIConnectionError as error:
        sys.exit(f"benchmarks: there is no service: {error}")
