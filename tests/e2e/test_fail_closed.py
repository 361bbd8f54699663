"""Without the plugin in the engine, the service does not start and says why."""

from pathlib import Path

import pytest

from tests.e2e.own_engine import ENVIRONMENT
from tests.harness import Demo, DemoError

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]


@pytest.mark.fault(48)
def test_an_engine_without_the_plugin_is_not_served(shallow_path: Path, tmp_path: Path) -> None:
    environment = ENVIRONMENT | {"VLLM_PLUGINS": "none", "OMP_NUM_THREADS": "1"}
    demo = Demo(str(shallow_path), tmp_path, {"replica_env": environment, "prebuild_langs": []})
    demo.start()
    try:
        with pytest.raises(DemoError):
            demo.wait_until_ready()
        log = demo.log_path.read_text(errors="replace")
    finally:
        demo.stop()
    assert "has not loaded the vLLM plugin 'wordbound'" in log
    assert not demo.processes()
