"""A real engine's beams are those of transformers: a small part of ``benchmarks.speed.beams``, in float32."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.own_engine import run_program

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]


@pytest.fixture(
    scope="module",
    params=[(), pytest.param(("--forgetful",), marks=pytest.mark.stress)],
    ids=["work kept", "work not kept"],
)
def pairs(
    request: pytest.FixtureRequest, shallow_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("beams")
    results, log = folder / "run.json", folder / "run.log"
    arguments = ("--model", str(shallow_path), "--prompts", "4", "--tokens", "10")
    run_program("benchmarks.speed.beams", *arguments, "--json", str(results), *request.param, log=log)
    found: list[dict[str, Any]] = json.loads(results.read_text())["pairs"]
    return found


def test_texts_are_equal_but_for_near_ties(pairs: list[dict[str, Any]]) -> None:
    assert len(pairs) == 7
    assert [pair for pair in pairs if not pair["is_equal"] and not pair["is_near_tie"]] == []
    assert sum(not pair["is_equal"] for pair in pairs) <= 1


def test_scores_are_those_of_transformers(pairs: list[dict[str, Any]]) -> None:
    assert max(pair["score_difference"] for pair in pairs) <= 1e-3
