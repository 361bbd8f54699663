"""What the engine's scheduler spends on a step, counted inside the engine's process.

vLLM takes the name of another scheduler (``scheduler_cls``): ``timed_scheduler`` makes vLLM's own and times the three
methods that each step calls. The figures are numbers in a small file that both processes map; they are read while the
engine has nothing to do.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

VARIABLE: Final = "WORDBOUND_BENCHMARK_STEPS"
"""The file, in the environment of the engine's process."""

SCHEDULER: Final = f"{__name__}.timed_scheduler"
"""vLLM's ``scheduler_cls``."""

METHODS: Final = ("schedule", "get_grammar_bitmask", "update_from_output")
"""Of a scheduler: which tokens are computed next; the masks of all sequences; what to make of what came out."""

_FIELDS: Final = ("pid", "steps", "tokens", *(f"{method}_{clock}" for method in METHODS for clock in ("cpu", "wall")))
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Steps(NamedTuple):
    """What steps have cost; a difference of two is what lies between them.

    Attributes:
        steps: Those that computed something.
        tokens: That were computed in them, prompts included.
        scheduler_us: CPU and wall time in microseconds, by method.
        engine_cpu_us: CPU time of the whole process, of all its threads.
    """

    steps: int
    tokens: int
    scheduler_us: dict[str, tuple[float, float]]
    engine_cpu_us: float

    def since(self, before: "Steps") -> "Steps":
        costs = {
            method: (cpu - before.scheduler_us[method][0], wall - before.scheduler_us[method][1])
            for method, (cpu, wall) in self.scheduler_us.items()
        }
        return Steps(
            self.steps - before.steps, self.tokens - before.tokens, costs, self.engine_cpu_us - before.engine_cpu_us
        )

    def per_step(self) -> dict[str, Any]:
        """The costs of one step in microseconds, for a record."""
        steps = max(self.steps, 1)
        costs = {
            method: {"cpu": round(cpu / steps, 1), "wall": round(wall / steps, 1)}
            for method, (cpu, wall) in self.scheduler_us.items()
        }
        cpu = sum(cpu for cpu, _ in self.scheduler_us.values())
        return {
            "scheduler_cpu_us": round(cpu / steps, 1),
            "methods_us": costs,
            "engine_cpu_us": round(self.engine_cpu_us / steps, 1),
        }


class StepCounters:
    """The counters in their file; the file is made where there is none."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(8 * len(_FIELDS)))
        self._values: npt.NDArray[np.int64] = np.memmap(path, dtype=np.int64, mode="r+", shape=(len(_FIELDS),))

    def add(self, field: str, value: int) -> None:
        self._values[_FIELDS.index(field)] += value

    def begin(self) -> None:
        """Note the process that counts."""
        self._values[_FIELDS.index("pid")] = os.getpid()

    def read(self) -> Steps:
        """Return what was counted so far."""
        values = dict(zip(_FIELDS, self._values.tolist(), strict=True))
        costs = {method: (values[f"{method}_cpu"] / 1000, values[f"{method}_wall"] / 1000) for method in METHODS}
        return Steps(values["steps"], values["tokens"], costs, _cpu_us(values["pid"]))


def timed_scheduler(*args: Any, vllm_config: Any, **options: Any) -> Any:
    """Return the scheduler that vLLM would have taken, with its methods timed."""
    if vllm_config.scheduler_config.async_scheduling:
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler as Scheduler
    else:
        from vllm.v1.core.sched.scheduler import Scheduler
    scheduler = Scheduler(*args, vllm_config=vllm_config, **options)
    if path := os.environ.get(VARIABLE):
        time_methods(scheduler, StepCounters(Path(path)))
    return scheduler


def time_methods(scheduler: Any, counters: StepCounters) -> None:
    """Count what each of the methods that the scheduler has costs from now on."""
    counters.begin()
    for method in METHODS:
        if hasattr(scheduler, method):
            setattr(scheduler, method, _timed(getattr(scheduler, method), method, counters))


def _timed(original: Callable[..., Any], method: str, counters: StepCounters) -> Callable[..., Any]:
    def timed(*args: Any, **options: Any) -> Any:
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        result = original(*args, **options)
        counters.add(f"{method}_cpu", time.thread_time_ns() - cpu)
        counters.add(f"{method}_wall", time.perf_counter_ns() - wall)
        if method == "schedule" and result.total_num_scheduled_tokens:
            counters.add("steps", 1)
            counters.add("tokens", result.total_num_scheduled_tokens)
        return result

    return timed


def _cpu_us(pid: int) -> float:
    """User and system time of a process by Linux's /proc, whose clock ticks every 10 ms; 0 where there is none."""
    try:
        # The second field is a name in brackets, which may hold blanks.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S * 1e6
