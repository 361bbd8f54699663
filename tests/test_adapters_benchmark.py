"""The benchmark of adapters counts loops and openings, and compares pairs in both orders."""

import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.adapters import Arm, answers_of, num_words, pairs_of, recorded_name, report
from benchmarks.prose.circles import function_words, has_loop, opening_shares, whole_sentences
from benchmarks.prose.free_model import FreeModel, score_batched
from benchmarks.prose.methods import find_method
from benchmarks.prose.pairs import Verdict, judge_pairs, known_odds, pair_key
from benchmarks.prose.prompts import languages
from benchmarks.prose.records import Cell, Record, Records

FREE, DEFAULT = find_method("free-sampled-0.7,default")
ASKED = [("one", 1), ("two", 2), ("one", 11), ("two", 12)]


class Judge(FreeModel):
    """A judge that likes longer answers, and the first a little more; bits are the text's length."""

    def __init__(self) -> None:
        super().__init__("nowhere")
        self.num_questions = 0

    def log_odds(self, prompt: str, beginning: str, choices: tuple[str, str]) -> float:
        self.num_questions += 1
        first, second = prompt.split("[Answer A]\n")[1].split("\n\nWhich")[0].split("\n\n[Answer B]\n")
        return len(first) - len(second) + 3.0

    def bits_of_many(self, prompt: str, answers: Any) -> list[float]:
        self.num_questions += 1
        return [float(len(text)) for text, _ in answers]


@pytest.mark.parametrize(
    ("text", "is_loop"),
    [
        ("heart heart heart heart heart", True),
        ("A Heart, the heart's heart. Heart and heart!", True),
        ("heart heart heart heart", False),
        ("the the the the the the, and the", False),
        ("heart " + "of the " * 30 + "heart heart heart heart", False),
    ],
)
def test_a_loop_is_one_content_word_five_times(text: str, is_loop: bool) -> None:
    assert has_loop(text, "en") is is_loop


@pytest.mark.parametrize("lang", languages())
def test_about_a_hundred_words_are_no_content(lang: str) -> None:
    assert 95 <= len(function_words(lang)) <= 120


def test_content_words_may_be_frequent() -> None:
    assert {"time", "people", "i", "the"} & function_words("en") == {"i", "the"}


def test_texts_that_begin_alike_are_counted_with_their_most_frequent_opening() -> None:
    texts = ["One day, in a town.", "One day in a house.", "One day in a", "He is not here.", "he is not here", "No."]
    assert opening_shares(texts) == (5 / 6, 3 / 6)
    assert opening_shares(["A dog.", "A cat."]) == (0, 0)
    assert opening_shares([]) == (0, 0)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("A dog. The cat", "A dog."),
        ('He said "go!" And then', 'He said "go!"'),
        ("It is 3.5 long", "It is 3.5 long"),
        ("A dog.\nWhat? No", "A dog.\nWhat?"),
        ("A dog.", "A dog."),
    ],
)
def test_an_unfinished_sentence_is_cut_off(text: str, whole: str) -> None:
    assert whole_sentences(text) == whole


def test_a_win_is_one_over_both_orders() -> None:
    verdict = Verdict.of([(2.0, 1.0), (3.0, -1.0), (-2.0, 1.0), (1.0, -1.0)])
    assert (verdict.win_share, verdict.agreeing, verdict.num_pairs) == (2.5 / 4, 1 / 4, 4)
    assert verdict.mean_odds == pytest.approx(0.5)
    assert verdict.standard_error == pytest.approx(math.sqrt(((1.0 + 0.5**2 + 1.0 + 0.5**2) / 3) / 4))


def test_pairs_are_judged_once_and_in_both_orders(tmp_path: Path) -> None:
    judge, records = Judge(), Records(tmp_path / "run.jsonl")
    pair = (_answer("one", 1, "A long answer. And"), _answer("one", 1, "Short."))
    assert judge_pairs(judge, "j", [pair, pair], records) == 1
    assert known_odds(Records(tmp_path / "run.jsonl")) == {pair_key("j", *pair): (11.0, 5.0)}
    assert judge_pairs(judge, "j", [pair], records) == 0
    assert judge.num_questions == 2


def test_texts_are_scored_once_by_each_model(tmp_path: Path) -> None:
    judge, records = Judge(), Records(tmp_path / "run.jsonl")
    answers = [_answer("one", 1, "A."), _answer("one", 11, "A."), _answer("one", 12, "Bee."), _answer("two", 2, "A.")]
    assert [score_batched(judge, name, answers, records) for name in ("j", "j", "k")] == [3, 0, 3]
    assert judge.num_questions == 4


def test_a_model_is_known_by_its_name_and_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"one")
    first = recorded_name(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"two")
    assert first.startswith(f"{tmp_path.name}@")
    assert recorded_name(tmp_path) != first


def test_the_report_has_a_row_for_each_arm_and_the_texts_of_the_first_seed(tmp_path: Path) -> None:
    records, judge = Records(tmp_path / "run.jsonl"), Judge()
    arms = [
        Arm("free", Cell("base", "en", None, 60, FREE)),
        Arm("default", Cell("base", "en", 1000, 60, DEFAULT)),
        Arm("adapted", Cell("adapted", "en", 1000, 60, DEFAULT)),
    ]
    texts = {
        "free": "Dogs bark at the zyzzyva.",
        "default": "A dog is here.",
        "adapted": "The *dog* is here now, again.",
    }
    for arm in arms:
        for prompt, seed in reversed(ASKED):
            records.add(_answer(prompt, seed, f"{texts[arm.name]} {'First' if seed < 10 else 'Last'}.", arm.cell))
    answers = answers_of(records, arms[2].cell, ASKED)
    assert [(answer["prompt"], answer["seed"]) for answer in answers] == ASKED
    assert num_words(answers) == 7
    pairs = pairs_of(records, arms, ("adapted", "default"), ASKED)
    assert [(one["seed"], other["seed"]) for one, other in pairs] == [(1, 1), (2, 2)]
    judge_pairs(judge, "j", pairs, records)
    score_batched(judge, "j", records.of("answer"), records)
    text = report(records, {1000: arms}, ASKED, "base", "j")
    assert "| default | 4 | – | 1.00 | 0.50 | 1.00 |" in text
    assert "| adapted | 4 | – | 1.00 | 0.50 | 1.40 |" in text
    assert "| 1,000 | adapted | default | 2 | 1.00 | +15.00 ± 0.00 | 1.00 | 0.50 |" in text
    assert "- default: A dog is here. First.\n- adapted: The \\*dog\\* is here now, again. First." in text
    assert "Last" not in text


def _answer(prompt: str, seed: int, text: str, cell: Cell | None = None) -> Record:
    cell = cell or Cell("m", "en", 1000, 60, DEFAULT)
    return {
        "kind": "answer", **cell.key, "run": "", "prompt": prompt, "seed": seed, "text": text, "is_ended": True,
        "num_answer_tokens": 9, "num_generated_tokens": 9, "started": 0.0, "ended": 1.0,
        "vocab": {"log_mass_per_word": 0.5, "num_words": 4},
    }  # fmt: skip
