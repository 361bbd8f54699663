"""The mask benchmark measures what it says: the same texts for every engine, and limits that hold."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.arm import percentiles
from benchmarks.limited import Outcome, run_limited
from benchmarks.regexes import regex_of
from benchmarks.report import compare_masks, goals, markdown, tables
from benchmarks.texts import NUM_TEXTS, OPTIONS, text_sets, unlisted_texts
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions
from vocab.text.grammar import write_ebnf
from vocab.text.reader import TextReader

WORDS = WordList("es", ("de", "la", "el", "es", "este", "más", "s/n", "bien-estar", "a.m", "él"), "inline")
CAPITALS = WordList("fr", ("l'", "homme", "Paris", "aujourd'hui", "de", "il"), "inline")
COMPARED = [
    OPTIONS,
    ListOptions(case="sentence", layout="lines", punctuation="full"),
    ListOptions(punctuation="basic", end="sentence"),
    ListOptions(punctuation="none", case="listed"),
    ListOptions(numbers=True, punctuation="basic"),
]


@pytest.mark.parametrize("options", COMPARED, ids=str)
@pytest.mark.parametrize("word_list", [WORDS, CAPITALS], ids=lambda word_list: word_list.lang)
@given(data=st.data())
def test_the_regular_expression_allows_what_the_reader_allows(
    word_list: WordList, options: ListOptions, data: st.DataObject
) -> None:
    pattern = _pattern(word_list, options)
    parts = [*word_list.words, *(word.capitalize() for word in word_list.words), *" \n.,:!?…—-¿(«»\"’'%", "12", "3.5"]
    text = "".join(data.draw(st.lists(st.sampled_from(parts), max_size=9)))
    assert (pattern.fullmatch(text) is not None) == TextReader(word_list, options, 99).is_text(text)


def test_longer_words_stand_before_their_beginnings() -> None:
    ebnf = write_ebnf(WordList("es", ("es", "este"), "inline"), ListOptions(case="listed", punctuation="full"), 2)
    assert regex_of(ebnf).index("ste") < regex_of(ebnf).index("s)")


@pytest.mark.parametrize("n_words", [3, 10])
def test_texts_to_follow_are_texts_of_the_list_and_the_others_are_none(n_words: int) -> None:
    reader = TextReader(WORDS, OPTIONS, n_words)
    for texts in text_sets(WORDS, n_words):
        assert len(texts.warm_up) == len(texts.timed) == NUM_TEXTS
        assert [text for text in (*texts.warm_up, *texts.timed) if not reader.is_text(text)] == []
    assert unlisted_texts(WORDS, OPTIONS, n_words)
    assert [text for text in unlisted_texts(WORDS, OPTIONS, n_words) if reader.is_text(text)] == []


def test_texts_are_the_same_in_every_process() -> None:
    assert text_sets(WORDS, 5) == text_sets(WordList("es", WORDS.words, "cleaned"), 5)


def test_percentiles_are_in_microseconds() -> None:
    assert percentiles([1000] * 99 + [9000]) == {"p50": 1.0, "p99": 1.08, "max": 9.0}


@pytest.mark.parametrize(
    ("program", "limits", "ending"),
    [
        ("print('done')", (60, 4), "ended"),
        ("raise SystemExit('it broke')", (60, 4), "crashed"),
        ("import time; time.sleep(60)", (0.3, 4), "over time"),
        ("import time; block = bytes(200_000_000); time.sleep(60)", (60, 0.1), "over memory"),
        ("import subprocess, sys; subprocess.run([sys.executable, '-c', "
         "'import time; block = bytearray(200_000_000); time.sleep(60)'])", (60, 0.1), "over memory"),
    ],
)  # fmt: skip
def test_a_child_ends_by_itself_or_at_its_limit(
    program: str, limits: tuple[float, float], ending: str, tmp_path: Path
) -> None:
    outcome = _run(program.replace("bytes(", "bytearray("), limits, tmp_path)
    assert outcome.ending == ending
    assert outcome.seconds < 30
    assert ("it broke" in outcome.errors) == (ending == "crashed")


def test_a_run_tells_how_many_masks_are_equal_and_which_goals_are_met() -> None:
    run = _record({"wordbound": [2.0, 3.0], "llguidance": [100.0, 900.0], "xgrammar-ebnf": [300.0, 3000.0]})
    compare_masks(run)
    assert [result["sets"]["whole"]["masks_equal"] for result in run["results"]] == [1.0, 1.0, 0.5, 0.5, 0.5, 0.5]
    run["goals"] = goals(run)
    met = {goal["goal"]: goal["met"] for goal in run["goals"]}
    assert met["mask p50, µs, all N"] is True
    assert met["mask p50 at 50,000 words / at 50"] is True
    assert met["mask p50 at 50,000 / copy of a row"] is False
    assert met["llguidance p50 / ours, 50,000 words"] is True
    assert met["xgrammar p50 / ours, 50,000 words"] is False
    assert "MISSED" in tables(run)
    json.dumps(run)


def test_an_engine_over_a_limit_is_reported_and_not_compared() -> None:
    run = _record({"wordbound": [2.0, 2.0], "xgrammar-ebnf": [300.0, 3000.0]})
    run["results"][-1] = {
        "engine": "xgrammar-ebnf",
        "n_words": 50_000,
        "status": "over time",
        "message": "over 600 s while compiling",
    }
    compare_masks(run)
    run["goals"] = goals(run)
    assert "over time: over 600 s while compiling" in tables(run)
    assert markdown(run).splitlines()[-1] == "| 50,000 | 2.0 (4.0); 0.1 s | over 600 s while compiling | 1.0 |"
    assert [goal["met"] for goal in run["goals"] if goal["goal"].startswith("xgrammar")] == [None]


def _pattern(word_list: WordList, options: ListOptions) -> re.Pattern[str]:
    return re.compile(regex_of(write_ebnf(word_list, options, 99)))


def _run(program: str, limits: tuple[float, float], folder: Path) -> Outcome:
    limit_s, limit_gib = limits
    return run_limited(
        [sys.executable, "-c", program],
        cwd=folder,
        environment={},
        limit_s=limit_s,
        limit_gib=limit_gib,
        log=folder / "log",
    )


def _record(p50_of: dict[str, list[float]]) -> dict[str, Any]:
    """A run at 50 and 50,000 words with these medians."""
    results = [
        {
            "engine": engine,
            "n_words": n_words,
            "status": "measured",
            "note": "as it is",
            "compile_s": 0.1,
            "copy_us": {"p50": 1.0, "p99": 1.0, "max": 1.0},
            "sets": {
                "whole": {
                    "num_masks": 2,
                    "mask_signatures": [7, 8 if engine == "wordbound" else 9],
                    "mask_us": {"p50": p50, "p99": 2 * p50, "max": 3 * p50},
                    "accept_us": {"p50": 1.0, "p99": 2.0, "max": 3.0},
                }
            },
        }
        for engine, medians in p50_of.items()
        for n_words, p50 in zip((50, 50_000), medians, strict=True)
    ]
    return {
        "lang": "es",
        "date": "2026-01-01",
        "list": {"source": "cleaned", "num_words": 60_000},
        "tokenizer": {"name": "some", "num_tokens": 262_144},
        "hardware": {"cpu": "some", "cores": 2, "memory_gib": 8, "system": "Linux", "load_before": [0.1]},
        "versions": {"python": "3.11"},
        "results": results,
    }
