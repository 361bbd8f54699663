"""The table, the texts and what they were made on, as Markdown for ``docs/quality.md``.

What people wrote on that page stays: only what stands between two marks is written anew.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.prose.records import Record
from benchmarks.prose.rows import Row

NUM_PROMPTS: Final = 10
"""Of each picture's table, those whose texts are on the page."""

FIRST_MARK: Final = "<!-- What follows is written by benchmarks/quality.py -->"
LAST_MARK: Final = "<!-- What comes before is written by benchmarks/quality.py -->"

_NEW_PAGE: Final = f"""# Quality against cost

How well a text reads that was held to a word list, and what it costs to make it read well: each way to choose a text,
on the same prompts. `python -m benchmarks quality` makes the answers, and goes on where it was ended;
`python -m benchmarks quality --report` writes what follows.

{FIRST_MARK}
{LAST_MARK}
"""

_HEADS: Final = (
    "method", "texts", "bits/char", "judge", "log-mass/word", "low steps", "stray", "faults", "distinct-2",
    "repeated 4-grams", "finished", "unlisted", "tokens", "s alone", "s of 8",
)  # fmt: skip

_LEGEND: Final = """\
- **bits/char**: how unlikely the free model, in float32 and without a hint, finds the texts as answers to the prompt:
  -log2 p by characters, the end of the answer included where it ended by itself. Lower reads better, unless it repeats.
- **judge**: the same under Qwen2.5-Coder 1.5B, a larger model that wrote none of the texts.
- **log-mass/word**: -log of the probability that the masks left, by words: what the list cost on the way.
- **low steps**: share of the tokens at which the mask left less than a tenth of the free model's probability.
- **stray**: share of the texts with a mark out of place or a letter that is no word.
- **faults**: faults of grammar in 100 words, as the checker Harper counts them (English).
- **distinct-2**, **repeated 4-grams**: different pairs of words by pairs, and the share of runs of 4 words that
  came before in the same text; means of the texts.
- **finished**: share of the texts that end with a sentence.
- **unlisted**: words that are not among the N, in all texts together, by a checker that knows no tokens.
- **tokens**: tokens generated for each token that came back.
- **s alone**, **s of 8**: seconds of an answer when nobody else asks (median); seconds by answers while eight are asked
  at any time."""


def write_page(path: Path, figures: str) -> None:
    """Puts the figures on the page, which is made if it is not there."""
    page = path.read_text(encoding="utf-8") if path.exists() else _NEW_PAGE
    before, _, rest = page.partition(FIRST_MARK)
    after = rest.partition(LAST_MARK)[2] if LAST_MARK in rest else "\n"
    path.write_text(f"{before}{FIRST_MARK}\n\n{figures}\n\n{LAST_MARK}{after}", encoding="utf-8")


def figures(
    tables: Mapping[tuple[str, str, int], Sequence[Row]],
    pictures: Mapping[tuple[str, str, int], str],
    runs: Sequence[Record],
) -> str:
    """All tables, each with its picture if it has one, and the texts of those that have."""
    parts = []
    for key, rows in tables.items():
        model, lang, n_words = key
        num_tokens = rows[0].cell.num_tokens
        parts.append(f"## {n_words:,} words, {lang!r}, {model}, at most {num_tokens} tokens\n\n{markdown(rows)}")
        if key in pictures:
            parts.append(f"![Bits per character against cost]({pictures[key]})")
    parts += ["## What the columns say", _LEGEND, *_made_on(tables, runs)]
    for key in pictures:
        model, lang, n_words = key
        parts.append(f"## Texts: {n_words:,} words, {lang!r}, {model}\n" + "\n".join(_texts(tables[key])))
    return "\n\n".join(parts)


def markdown(rows: Sequence[Row]) -> str:
    """The table of one N."""
    lines = ["| " + " | ".join(_HEADS) + " |", "|---|" + "---:|" * (len(_HEADS) - 1)]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    return "\n".join(lines)


def _cells(row: Row) -> Iterator[str]:
    yield row.cell.method.name
    yield str(len(row.answers))
    yield _number(row.bits_per_char, 2)
    yield _number(row.judge_bits_per_char, 2)
    yield _number(row.log_mass_per_word, 2)
    yield _percent(row.low_steps)
    yield _percent(row.stray)
    yield _number(row.faults, 1)
    yield _number(row.distinct_2, 2)
    yield _number(row.repeated_4, 3)
    yield _percent(row.finished)
    yield str(row.num_unlisted)
    yield _number(row.tokens_per_token, 1)
    yield _number(row.seconds_alone, 1)
    yield _number(row.seconds_at_8, 2)


def _texts(rows: Sequence[Row]) -> Iterator[str]:
    """The texts of each method to the first prompts, below them."""
    prompts = list(dict.fromkeys(answer["prompt"] for row in rows for answer in _in_order(row)))[:NUM_PROMPTS]
    for prompt in prompts:
        yield f"\n**{prompt}**\n"
        for row in rows:
            for answer in _in_order(row):
                if answer["prompt"] == prompt:
                    text = " ".join(answer["text"].split()).replace("\\", "\\\\").replace("*", "\\*")
                    yield f"- `{row.cell.method.name}` {text}"


def _in_order(row: Row) -> list[Record]:
    """Its answers in the order of their prompts' numbers."""
    return sorted(row.answers, key=lambda answer: answer["number"])


def _made_on(tables: Mapping[tuple[str, str, int], Sequence[Row]], runs: Sequence[Record]) -> Iterator[str]:
    used = {answer["run"] for rows in tables.values() for row in rows for answer in row.answers}
    of_use = [run for run in runs if run["run"] in used]
    if not of_use:
        return
    days = sorted({run["date"][:10] for run in of_use})
    hardware, versions = of_use[-1]["hardware"], of_use[-1]["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items() if version[0].isdigit())
    yield textwrap.fill(
        f"Made {' to '.join(dict.fromkeys((days[0], days[-1])))} on {hardware['cpu']}, {hardware['cores']} cores, "
        f"{hardware['memory_gib']} GiB: the service with the settings of `configs/demo.yaml`, transformers in float32, "
        f"one text at a time. {named}.",
        width=120,
        break_on_hyphens=False,
    )


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
