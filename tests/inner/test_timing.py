"""How long an answer of vLLM's own server took, in its usage."""

from typing import Any

from deployments.replica.answers.writer import with_timing


def test_the_times_that_vllm_knows_are_rounded_and_others_left_out() -> None:
    metrics = {"queue_time_ms": 1.23456, "mean_itl_ms": None, "speculative_decoding": None}
    timed: Any = with_timing({"usage": {}, "metrics": metrics}, 0.0)
    assert timed["usage"]["timing"].keys() == {"queue_time_ms", "total_time_ms"}
    assert timed["usage"]["timing"]["queue_time_ms"] == 1.235
