"""What each part of the benchmark needs of vLLM and of this installation, asked before anything is started.

vLLM's internals move from version to version. A need that is not met is said in one line, and costs its part only.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

PLUGIN_GROUP: Final = "vllm.general_plugins"


class Missing(Exception):  # noqa: N818 - not an error of the program
    """A part cannot be measured here; the text says why."""


def check_sequences() -> None:
    """Raise ``Missing`` where no engine can be run, or its steps not be counted."""
    _attributes("vllm", "SamplingParams")
    _attributes("vllm.engine.arg_utils", "AsyncEngineArgs")
    _attributes("vllm.v1.engine.async_llm", "AsyncLLM.generate", "AsyncLLM.from_engine_args")
    _attributes("vllm.sampling_params", "StructuredOutputsParams", "RequestOutputKind")
    _attributes("vllm.v1.core.sched.async_scheduler", "AsyncScheduler")
    _attributes("vllm.v1.core.sched.scheduler", "Scheduler.schedule", "Scheduler.get_grammar_bitmask")


def check_constraint() -> None:
    """Raise ``Missing`` where the engine would not know our grammars."""
    if "wordbound" not in (point.name for point in entry_points(group=PLUGIN_GROUP)):
        raise Missing(
            "vLLM does not find the plugin, for wordbound is not installed: "
            "pip install --no-deps --no-build-isolation -e ."
        )
    _attributes("vllm.v1.structured_output", "XgrammarBackend")
    backend: Any = _module("vocab.vllm_plugin.backend")
    backend.install()
    if import_module("vllm.v1.structured_output").XgrammarBackend is not backend.WordboundBackend:
        raise Missing("this vLLM's XgrammarBackend is not the one that the plugin extends: see the warning above")


def check_beams() -> None:
    """Raise ``Missing`` where no search can be run."""
    check_constraint()
    _module("benchmarks.beam_search.ours")


def check_forks() -> None:
    """Raise ``Missing`` where an engine cannot keep the work of a step."""
    check_beams()
    _module("vocab.vllm_plugin.kv_fork")


def unmet(check: Callable[[], None]) -> str | None:
    """Return why a check fails; None where it does not."""
    try:
        check()
    except Missing as missing:
        return str(missing)
    return None


def _module(name: str) -> object:
    try:
        return import_module(name)
    except ImportError as error:
        raise Missing(f"{name} cannot be imported: {error}") from None


def _attributes(module: str, *paths: str) -> None:
    found = _module(module)
    for path in paths:
        if not all(_walk(found, path)):
            raise Missing(f"this vLLM has no {module}.{path}: another version than the one this was written for")


def _walk(owner: object, path: str) -> Iterator[bool]:
    for name in path.split("."):
        yield hasattr(owner, name)
        owner = getattr(owner, name, None)
