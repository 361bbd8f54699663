"""The table: what the answers of a cell are worth and what they cost.

Makes figures of records; asks nobody. Listed words are counted by the tests' checker, which knows no tokens.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from benchmarks.quality.free_model import BitsKey, bits_key, bits_of
from benchmarks.quality.methods import METHODS
from benchmarks.quality.records import Cell, Record, Records
from benchmarks.quality.signs import faults_per_100_words, has_loop, is_stray, same_opening
from tests.checker import SENTENCE_END, unlisted_words
from vocab.decoding.select import distinct_ngram_share, repeated_ngram_share, words_of

NUM_CONCURRENT: Final = 8

LEGEND: Final = """\
bits/char: -log2 p of the texts under the free model, without a hint, by characters, the end included where a text
ended by itself. judge: the same under the judge. log-mass/word: -log of the probability that the masks left, by words.
words: of a text. stray: texts with a mark out of place or a letter that is no word. faults: of grammar in 100 words, by
Harper. distinct-2, repeated 4-grams: different pairs of words by pairs, and runs of 4 words that came before. loops:
texts in which a content word occurs five times. same opening: texts whose first four words are another prompt's.
finished: texts that end a sentence. unlisted: words, by a checker that knows no tokens. tokens: generated for each that
came back. s alone, s of 8: of an answer when nobody else asks; by answers while eight are asked at any time."""

Bits = Mapping[BitsKey, float]


def tables(records: Records, num_tokens: int, judge: str) -> Iterator[str]:
    """Yield the table of each model, language and N in the records as Markdown; free texts stand beside each N."""
    answers = [record for record in records.of("answer") if record["num_tokens"] == num_tokens]
    keys = {(a["model"], a["lang"], a["n_words"]) for a in answers if a["n_words"] is not None}
    adapters = sorted({answer["adapter"] for answer in answers})
    for model, lang, n_words in sorted(keys):
        bits, judged, rows = bits_of(records, model), bits_of(records, judge), []
        for adapter in adapters:
            for method in METHODS:
                cell = Cell(model, lang, None if method.is_free else n_words, num_tokens, method, adapter)
                if found := records.of("answer", cell):
                    alone = records.of("alone", cell)
                    rows.append(make_row(cell._replace(n_words=n_words), found, alone, bits, judged))
        heads = list(rows[0])
        yield f"\n{n_words:,} words, {lang!r}, {model}, at most {num_tokens} tokens\n"
        yield f"| {' | '.join(heads)} |\n|---|{'---:|' * (len(heads) - 1)}"
        yield from (f"| {' | '.join(row.values())} |" for row in rows)


def make_row(
    cell: Cell, answers: Sequence[Record], alone: Sequence[Record], bits: Bits, judged: Bits
) -> dict[str, str]:
    """Return the figures of these answers by the heads of the table; ``alone`` are those that were asked one at a time.

    N is that of the table, also for a free method.
    """
    texts = [answer["text"] for answer in answers]
    by_seed = defaultdict(list)
    for answer in answers:
        by_seed[answer["seed"] // SEED_STEP].append(answer["text"])
    num_tokens = max(sum(a["num_answer_tokens"] for a in answers), 1)
    mean = statistics.fmean
    return {
        "method": f"{cell.method.name}{cell.adapter and ', adapter'}",
        "texts": str(len(texts)),
        "bits/char": _number(bits_per_char(answers, bits), 2),
        "judge": _number(bits_per_char(answers, judged), 2),
        "log-mass/word": _number(None if cell.method.is_free else log_mass_per_word(answers), 2),
        "words": f"{mean(len(words_of(text)) for text in texts):.1f}",
        "stray": f"{mean(is_stray(text, cell.lang) for text in texts):.0%}",
        "faults": _number(faults_per_100_words(texts, cell.lang), 1),
        "distinct-2": f"{mean(distinct_ngram_share(text, 2) for text in texts):.2f}",
        "repeated 4-grams": f"{mean(repeated_ngram_share(text, 4) for text in texts):.3f}",
        "loops": f"{mean(has_loop(text, cell.lang) for text in texts):.0%}",
        "same opening": f"{mean(map(same_opening, by_seed.values())):.0%}",
        "finished": f"{mean(ends_sentence(text) for text in texts):.0%}",
        "unlisted": str(sum(len(unlisted_of(text, cell)) for text in texts)),
        "tokens": f"{sum(a['num_generated_tokens'] for a in answers) / num_tokens:.1f}",
        "s alone": _number(statistics.median(a["ended"] - a["started"] for a in alone) if alone else None, 1),
        "s of 8": _number(seconds_at_8(answers), 2),
    }


SEED_STEP: Final = 1000
"""Between the seeds of a prompt: prompt i has the seeds S + i."""


def unlisted_of(text: str, cell: Cell) -> list[str]:
    return unlisted_words(text, cell.lang, cell.n_words or 0, possessive=True)


def bits_per_char(answers: Sequence[Record], bits: Bits) -> float | None:
    """The bits of all texts by their characters; None while some are not known."""
    if any(bits_key(answer) not in bits for answer in answers):
        return None
    return sum(bits[bits_key(answer)] for answer in answers) / max(sum(len(answer["text"]) for answer in answers), 1)


def log_mass_per_word(answers: Sequence[Record]) -> float | None:
    """What the masks took of all texts by their words; None where not every answer says."""
    blocks = [answer["block"] for answer in answers]
    if any(block.get("log_mass_per_word") is None for block in blocks):
        return None
    log_mass = sum(block["log_mass_per_word"] * block["num_words"] for block in blocks)
    return float(log_mass / max(sum(block["num_words"] for block in blocks), 1))


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


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
