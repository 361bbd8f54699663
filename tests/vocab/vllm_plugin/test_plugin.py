"""Who has the plugin: the engines of those who asked for it, and no others of the same environment."""

from importlib.metadata import entry_points

import pytest
from vllm.ray.ray_env import get_env_vars_to_copy
from vllm.v1 import structured_output
from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

from tests.vocab.vllm_plugin.manager import COPIED_BY_RAY
from vocab.vllm_plugin import (
    PLUGIN_VARIABLE,
    STATISTICS_VARIABLE,
    MaskCounts,
    MaskStatistics,
    register,
    use_plugin,
)


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLUGIN_VARIABLE, "")
    monkeypatch.setenv(COPIED_BY_RAY, "")
    # As vLLM has it: another test of this process may have had the plugin installed.
    monkeypatch.setattr(structured_output, "XgrammarBackend", XgrammarBackend)


@pytest.mark.fault(77)
def test_vllm_finds_the_plugin_which_does_nothing_until_it_is_asked_for() -> None:
    (entry,) = entry_points(group="vllm.general_plugins", name="wordbound")
    before = structured_output.XgrammarBackend
    entry.load()()
    assert structured_output.XgrammarBackend is before
    use_plugin()
    entry.load()()
    register()
    assert issubclass(structured_output.XgrammarBackend, before) and structured_output.XgrammarBackend is not before


def test_workers_in_processes_of_ray_are_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PLUGIN_VARIABLE, raising=False)
    monkeypatch.setenv(COPIED_BY_RAY, "MY_VARIABLE")
    assert PLUGIN_VARIABLE not in get_env_vars_to_copy()
    use_plugin()
    use_plugin()
    assert {PLUGIN_VARIABLE, "MY_VARIABLE"} <= get_env_vars_to_copy()


def test_what_an_engine_masks_is_read_where_its_parent_shares_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATISTICS_VARIABLE, "")
    # In a process of its own as a rule.
    parent, engine = MaskStatistics.share(), MaskStatistics.shared()
    assert parent.read() == MaskCounts()
    engine.add(0.5, 3)
    before = parent.read()
    engine.add(0.25)
    for is_on_device in (True, False):
        engine.add_text(is_on_device=is_on_device, num_dead=2)
    assert parent.read() == MaskCounts(4, 0.75, 2, 1, 2)
    assert parent.read().since(before) == MaskCounts(1, 0.25, 2, 1, 2)
