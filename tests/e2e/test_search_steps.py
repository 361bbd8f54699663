"""Steps of searches on a real engine in float32: those that go on from one another, against ordinary requests, and
those that nobody waits for any more; and the same engine as the watch of a replica sees it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.forking_engine import NUM_STEPS, WIDTH
from tests.e2e.own_engine import run_program, save_short_list
from vocab.automaton.tokenizer import load_speller
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

Results = dict[str, dict[str, Any]]
ALL = ["short", "long", "given up", "stranger", *(f"fork {i}" for i in range(WIDTH))]


@pytest.fixture(scope="module")
def found(shallow_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program ``searching_engine`` found."""
    folder = tmp_path_factory.mktemp("engine")
    words = save_short_list(folder, load_speller(str(shallow_path)))
    grammar = GrammarReference(words.digest, ListOptions(punctuation="full"), 1000, 400).to_ebnf()
    results = folder / "results.json"
    run_program(
        "tests.e2e.searching_engine", str(shallow_path), str(folder), grammar, str(results),
        log=folder / "engine.log", artefacts=folder,
    )  # fmt: skip
    result: dict[str, Any] = json.loads(results.read_text())
    return result


@pytest.fixture(scope="module")
def results(found: dict[str, Any]) -> Results:
    forks: Results = found["forks"]
    return forks


@pytest.mark.parametrize("name", ALL)
def test_steps_give_what_an_ordinary_request_gives(results: Results, name: str) -> None:
    steps, ordinary = results[name]["steps"], results[name]["ordinary"]
    assert steps["tokens"] == ordinary["tokens"]
    for mine, other in zip(steps["logprobs"], ordinary["logprobs"], strict=True):
        assert mine == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("name", ["short", "long", "given up", *(f"fork {i}" for i in range(WIDTH))])
def test_a_step_computes_one_token(results: Results, name: str) -> None:
    steps = results[name]["steps"]
    first = 1 if name in ("short", "long") else 0
    computed = [prompt - reused for prompt, reused in zip(steps["num_prompt"], steps["num_reused"], strict=True)]
    # One that was given up while a step ran may lack that step's token.
    assert computed[first:] == pytest.approx([1] * len(computed[first:]), abs=1 if name == "given up" else 0)
    assert len(computed) == NUM_STEPS or name not in ("short", "long")


def test_nothing_of_another_text_is_reused(results: Results) -> None:
    assert results["stranger"]["steps"]["num_reused"][0] == 0
    assert results["long"]["ordinary"]["num_reused"] == 0


def test_no_step_outlives_its_search(found: dict[str, Any]) -> None:
    result = found["searches"]
    assert len(result) == 4
    for name, counts in result.items():
        assert counts["most"] > 1, f"{name} did not run"
        assert (counts["unfinished"], counts["at_next"]) == (0, 1), f"{name}: {counts}"


def test_requests_that_wait_for_their_turn_do_not_hide_the_engines_steps(found: dict[str, Any]) -> None:
    result = found["watch"]
    assert 0 < result["longest_gap_s"] < result["longest_wait_s"] / 2


@pytest.mark.fault(43)
def test_an_engine_that_stands_still_is_ended_though_requests_come_and_go(found: dict[str, Any]) -> None:
    result = found["watch"]
    assert result["num_given_up"] > 1
    assert result["ended_at_rest"]
