"""What the engine's scheduler spends on a step, counted inside the engine's process, and which texts the device masks.

vLLM takes the name of another scheduler (``scheduler_cls``): ``timed_scheduler`` makes vLLM's own, times the three
methods that each step calls, and notes when each step began. The figures are numbers in a small file that both
processes map; they are read while the engine has nothing to do.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

VARIABLE: Final = "WORDBOUND_BENCHMARK_STEPS"
"""The file, in the environment of the engine's process."""

SCHEDULER: Final = f"{__name__}.timed_scheduler"
"""vLLM's ``scheduler_cls``."""

ON_CPU: Final = "constrained"
"""The arm whose texts are masked on the CPU also where the device could: the names of its requests begin so."""

METHODS: Final = ("schedule", "get_grammar_bitmask", "update_from_output")
"""Of a scheduler: which tokens are computed next; the masks of all sequences; what to make of what came out."""

_FIELDS: Final = ("steps", "tokens", "added", "on_device", *METHODS)
"""Steps that computed something, and tokens in them, prompts included; requests that came to the scheduler, and those
that it let go for the device to mask; CPU time of the scheduler's thread in each method, in nanoseconds."""

_NUM_NOTED: Final = 1 << 14
"""Steps, the last ones: when each was scheduled, in nanoseconds, its requests and its tokens."""


class StepCounters:
    """The counters and the last steps in their file; the file is made where there is none."""

    def __init__(self, path: Path) -> None:
        size = len(_FIELDS) + 3 * _NUM_NOTED
        if not path.exists():
            path.write_bytes(bytes(8 * size))
        values: npt.NDArray[np.int64] = np.asarray(np.memmap(path, dtype=np.int64, mode="r+", shape=(size,)))
        self._counts, self._noted = values[: len(_FIELDS)], values[len(_FIELDS) :].reshape(_NUM_NOTED, 3)

    def add(self, field: str, value: int) -> None:
        self._counts[_FIELDS.index(field)] += value

    def add_step(self, at_ns: int, num_requests: int, num_tokens: int) -> None:
        self._noted[self._counts[_FIELDS.index("steps")] % _NUM_NOTED] = at_ns, num_requests, num_tokens
        self.add("tokens", num_tokens)
        self.add("steps", 1)

    def read(self) -> Counter[str]:
        """Return what was counted so far; a difference of two is what lies between them."""
        return Counter(dict(zip(_FIELDS, self._counts.tolist(), strict=True)))

    def full_intervals_ms(self, before: Counter[str], num_requests: int) -> list[float]:
        """Return the milliseconds between consecutive steps of one token for each of so many requests.

        They are of the steps since ``before``, which ``read`` returned.
        """
        numbers = np.arange(before["steps"], self.read()["steps"])[-_NUM_NOTED:]
        at_ns, requests, tokens = self._noted[numbers % _NUM_NOTED].T
        is_full = (requests == num_requests) & (tokens == num_requests)
        intervals: list[float] = (np.diff(at_ns)[is_full[1:] & is_full[:-1]] / 1e6).tolist()
        return intervals


def per_step(counts: Counter[str]) -> dict[str, Any]:
    """Return the CPU time of a step in microseconds, for a record."""
    steps = max(counts["steps"], 1)
    methods_us = {method: round(counts[method] / 1000 / steps, 1) for method in METHODS}
    return {"scheduler_cpu_us": round(sum(methods_us.values()), 1), "methods_us": methods_us}


def timed_scheduler(*args: Any, vllm_config: Any, **options: Any) -> Any:
    """Return the scheduler that vLLM would have taken, with its methods timed."""
    if vllm_config.scheduler_config.async_scheduling:
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler as Scheduler
    else:
        from vllm.v1.core.sched.scheduler import Scheduler
    scheduler = Scheduler(*args, vllm_config=vllm_config, **options)
    if path := os.environ.get(VARIABLE):
        counters = StepCounters(Path(path))
        time_methods(scheduler, counters)
        switch_masks(scheduler, counters)
    return scheduler


def time_methods(scheduler: Any, counters: StepCounters) -> None:
    """Count what each of the methods that the scheduler has costs from now on."""
    for method in METHODS:
        if hasattr(scheduler, method):
            setattr(scheduler, method, _timed(getattr(scheduler, method), method, counters))


def switch_masks(scheduler: Any, counters: StepCounters) -> None:
    """Count requests as they come and as the plugin lets them go, and have it keep those of the arm ``ON_CPU``."""
    add, promote = scheduler.add_request, scheduler._try_promote_blocked_waiting_request

    def counted(request: Any) -> None:
        add(request)
        counters.add("added", 1)

    def switched(request: Any) -> bool:
        structured = request.structured_output_request
        if structured is not None and request.request_id.startswith(ON_CPU):
            if structured.grammar is None:
                return False  # it might be there a moment later, when vLLM asks
            structured.grammar.device_text = None
        is_promoted: bool = promote(request)
        if structured is not None and request.structured_output_request is None:
            counters.add("on_device", 1)
        return is_promoted

    scheduler.add_request, scheduler._try_promote_blocked_waiting_request = counted, switched


def _timed(original: Callable[..., Any], method: str, counters: StepCounters) -> Callable[..., Any]:
    def timed(*args: Any, **options: Any) -> Any:
        started = time.thread_time_ns()
        result = original(*args, **options)
        counters.add(method, time.thread_time_ns() - started)
        if method == "schedule" and result.total_num_scheduled_tokens:
            num_requests = len(result.num_scheduled_tokens)
            counters.add_step(time.perf_counter_ns(), num_requests, result.total_num_scheduled_tokens)
        return result

    return timed
