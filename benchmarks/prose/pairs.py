"""A blind test of pairs: which of two answers to the same prompt a judge likes better.

It sees each pair in both orders, so that a judge who likes the first answer better gains neither side anything.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Self

from benchmarks.prose.circles import whole_sentences
from benchmarks.prose.free_model import FreeModel
from benchmarks.prose.records import Record, Records

QUESTION: Final = """\
You compare two answers to one question. The better answer makes sense, answers the question, and reads naturally.

[Question]
{prompt}

[Answer A]
{a}

[Answer B]
{b}

Which answer is better and more natural, A or B?"""

BEGINNING: Final = "Answer"
"""Of the judge's reply, which goes on with one of the letters."""

LETTERS: Final = (" A", " B")

PairKey = tuple[str, str, str, str]
OddsOf = dict[PairKey, tuple[float, float]]


class Verdict(NamedTuple):
    """What a judge says of the pairs of two arms.

    Attributes:
        win_share: Of the first arm; a tie is half a win.
        mean_odds: Log odds for the first arm, mean of both orders and all pairs.
        standard_error: Of that mean; 0 of one pair.
        agreeing: Share of the pairs whose winner is the same in both orders: a judge who only looks at the place of an
            answer has 0.
        num_pairs: How many there are.
    """

    win_share: float
    mean_odds: float
    standard_error: float
    agreeing: float
    num_pairs: int

    @classmethod
    def of(cls, odds: Sequence[tuple[float, float]]) -> Self:
        """That of log odds for the first text, in both orders, of at least one pair."""
        means = [statistics.fmean(pair) for pair in odds]
        error = statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else 0.0
        wins = [0.5 if mean == 0 else float(mean > 0) for mean in means]
        agreeing = statistics.fmean(one * other > 0 for one, other in odds)
        return cls(statistics.fmean(wins), statistics.fmean(means), error, agreeing, len(odds))


def log_odds(judge: FreeModel, prompt: str, one: str, other: str) -> tuple[float, float]:
    """log p of the letter of ``one`` less that of ``other``, where it is A and where it is B."""
    one_first = judge.log_odds(QUESTION.format(prompt=prompt, a=one, b=other), BEGINNING, LETTERS)
    one_last = judge.log_odds(QUESTION.format(prompt=prompt, a=other, b=one), BEGINNING, LETTERS)
    return one_first, -one_last


def pair_key(scorer: str, one: Record, other: Record) -> PairKey:
    """What the log odds of two answers depend on. Both lose a sentence that is not finished: the service finishes those
    under a list, free text just stops."""
    return scorer, one["prompt"], whole_sentences(one["text"]), whole_sentences(other["text"])


def judge_pairs(judge: FreeModel, scorer: str, pairs: Iterable[tuple[Record, Record]], records: Records) -> int:
    """Adds the log odds of the pairs that have none yet; how many. ``scorer`` is the judge's name in the records."""
    known = known_odds(records)
    num_judged = 0
    for key in dict.fromkeys(pair_key(scorer, *pair) for pair in pairs):
        if key not in known:
            _, prompt, one, other = key
            odds = log_odds(judge, prompt, one, other)
            records.add({"kind": "pair", "key": list(key), "log_odds": list(odds)})
            num_judged += 1
    return num_judged


def known_odds(records: Records) -> OddsOf:
    """The log odds in the records."""
    return {tuple(record["key"]): tuple(record["log_odds"]) for record in records.of("pair")}
