"""Steps that go on from one another, against ordinary requests, on a real engine in float32."""

from typing import Any

import pytest

from tests.e2e.forking_engine import NUM_STEPS, WIDTH

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

Results = dict[str, dict[str, Any]]
ALL = ["short", "long", "given up", "stranger", *(f"fork {i}" for i in range(WIDTH))]


@pytest.fixture(scope="module")
def results(searching_engine: dict[str, Any]) -> Results:
    found: Results = searching_engine["forks"]
    return found


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
