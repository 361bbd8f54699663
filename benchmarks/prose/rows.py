"""The rows of the table: what the answers of a cell are worth and what they cost.

Makes figures of records; asks nobody. Listed words are counted by the tests' checker, which knows no tokens.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from benchmarks.prose.faults import faults_per_100_words, is_stray
from benchmarks.prose.free_model import bits_key
from benchmarks.prose.methods import METHODS
from benchmarks.prose.records import Cell, Record, Records
from benchmarks.prose.served import NUM_CONCURRENT
from benchmarks.prose.steps import steps_key
from tests.checker import SENTENCE_END, unlisted_words
from vocab.decoding.select import distinct_ngram_share, repeated_ngram_share

MOST_REPEATED: Final = 0.05
"""A text with a larger share of repeated word 4-grams runs in circles: the issue of likelihood as the only measure."""

BitsOf = Mapping[tuple[str, str, str, bool], float]
StepsOf = Mapping[tuple[str, str, int | None, str, str], tuple[int, int]]


class Judged(NamedTuple):
    """What models said of the texts, by ``bits_key`` and ``steps_key``."""

    bits: BitsOf
    judge_bits: BitsOf
    steps: StepsOf

    @classmethod
    def of(cls, records: Records) -> Self:
        bits, judge_bits = (
            {bits_key(record): record["bits"] for record in records.of(kind)} for kind in ("bits", "judge")
        )
        steps = {steps_key(record): (record["num_low"], record["num_steps"]) for record in records.of("steps")}
        return cls(bits, judge_bits, steps)


@dataclass(frozen=True)
class Row:
    """The figures of one method at one N.

    Attributes:
        cell: What it is about; N is that of the table, also for a free method.
        answers: The records behind it.
        bits_per_char: Under the free model without hint: the bits of all texts by their characters.
        judge_bits_per_char: The same under another, larger model.
        low_steps: Share of the tokens at which the mask left less than a tenth of the free model's probability.
        stray: Share of the texts with a mark out of place or a letter that is no word.
        faults: Faults of grammar by 100 words; None where nobody said.
        log_mass_per_word: Nats of mass that the masks took, of all texts by their words; None where nobody said.
        distinct_2: Different pairs of words by pairs of words, mean of the texts.
        repeated_4: Share of the runs of 4 words that came before, mean of the texts.
        finished: Share of the texts that end a sentence.
        num_unlisted: Words that are not listed, in all texts together.
        tokens_per_token: Tokens generated for each token that came back.
        seconds_alone: Median seconds of an answer when nobody else asks.
        seconds_at_8: Seconds by answers when eight are asked at any time.
    """

    cell: Cell
    answers: Sequence[Record]
    bits_per_char: float | None
    judge_bits_per_char: float | None
    low_steps: float | None
    stray: float
    faults: float | None
    log_mass_per_word: float | None
    distinct_2: float
    repeated_4: float
    finished: float
    num_unlisted: int
    tokens_per_token: float
    seconds_alone: float | None
    seconds_at_8: float | None

    @property
    def is_constrained(self) -> bool:
        return self.cell.method.kind != "free"


def tables(records: Records, num_tokens: int) -> dict[tuple[str, str, int], list[Row]]:
    """The rows of each (model, language, N) in the records; free methods beside each N."""
    answers = [record for record in records.of("answer") if record["num_tokens"] == num_tokens]
    judged = Judged.of(records)
    sizes = {(a["model"], a["lang"], a["n_words"]) for a in answers if a["n_words"] is not None}
    sizes |= {(a["model"], a["lang"], 1000) for a in answers} if not sizes else set()
    found = {}
    for model, lang, n_words in sorted(sizes):
        rows = []
        for method in METHODS:
            cell = Cell(model, lang, None if method.kind == "free" else n_words, num_tokens, method)
            if of_cell := records.of("answer", cell):
                rows.append(make_row(cell._replace(n_words=n_words), of_cell, records.of("alone", cell), judged))
        if rows:
            found[model, lang, n_words] = rows
    return found


def make_row(cell: Cell, answers: Sequence[Record], alone: Sequence[Record], judged: Judged) -> Row:
    """The row of these answers; ``alone`` are those that were asked one at a time."""
    texts = [answer["text"] for answer in answers]
    return Row(
        cell=cell,
        answers=answers,
        bits_per_char=bits_per_char(answers, judged.bits),
        judge_bits_per_char=bits_per_char(answers, judged.judge_bits),
        low_steps=low_steps(answers, judged.steps),
        stray=statistics.fmean(is_stray(text, cell.lang) for text in texts),
        faults=faults_per_100_words(texts, cell.lang),
        log_mass_per_word=log_mass_per_word(answers) if cell.method.kind != "free" else None,
        distinct_2=statistics.fmean(distinct_ngram_share(text, 2) for text in texts),
        repeated_4=statistics.fmean(repeated_ngram_share(text, 4) for text in texts),
        finished=statistics.fmean(ends_sentence(text) for text in texts),
        num_unlisted=sum(len(unlisted_words(text, cell.lang, cell.n_words or 0, possessive=True)) for text in texts),
        tokens_per_token=_sum(answers, "num_generated_tokens") / max(_sum(answers, "num_answer_tokens"), 1),
        seconds_alone=statistics.median(a["ended"] - a["started"] for a in alone) if alone else None,
        seconds_at_8=seconds_at_8(answers) if cell.method.kind != "transformers" else None,
    )


def bits_per_char(answers: Sequence[Record], bits: BitsOf) -> float | None:
    """The bits of all texts by their characters; None while some are not known."""
    if any(bits_key(answer) not in bits for answer in answers):
        return None
    return sum(bits[bits_key(answer)] for answer in answers) / max(sum(len(answer["text"]) for answer in answers), 1)


def low_steps(answers: Sequence[Record], steps: StepsOf) -> float | None:
    """The share of all tokens at which the mask left little; None while some are not known."""
    if any(steps_key(answer) not in steps for answer in answers):
        return None
    counts = [steps[steps_key(answer)] for answer in answers]
    return sum(num_low for num_low, _ in counts) / max(sum(num_steps for _, num_steps in counts), 1)


def log_mass_per_word(answers: Sequence[Record]) -> float | None:
    """What the masks took of all texts by their words; None where not every answer says."""
    blocks = [answer["vocab"] or {} for answer in answers]
    if any(block.get("log_mass_per_word") is None for block in blocks):
        return None
    log_mass = sum(block["log_mass_per_word"] * block["num_words"] for block in blocks)
    return float(log_mass / max(_sum(blocks, "num_words"), 1))


def ends_sentence(text: str) -> bool:
    """Whether the last thing in a text is the end of a sentence."""
    return SENTENCE_END.search(text.rstrip()) is not None


def seconds_at_8(answers: Iterable[Record]) -> float | None:
    """From the first question to the last answer of a run, by answers; runs with fewer than eight do not count."""
    runs = defaultdict(list)
    for answer in answers:
        runs[answer["run"]].append(answer)
    full = [run for run in runs.values() if len(run) >= NUM_CONCURRENT]
    seconds = sum(max(a["ended"] for a in run) - min(a["started"] for a in run) for run in full)
    return seconds / sum(map(len, full)) if full else None


def _sum(answers: Iterable[Record], key: str) -> int:
    return sum(answer[key] for answer in answers)
