"""The real application, started as the demo starts it: Ray Serve, vLLM on the CPU and the demo model."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from deployments.demo.process import Demo
from tests.e2e.service import KEY, LISTS, Service

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="session")
def wordlist_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    for name, words in LISTS.items():
        (folder / f"{name}.txt").write_text("# a list of the tests\n\n" + "\n".join(words) + "\n", encoding="utf-8")
    (folder / "empty.txt").write_text("# nothing\n\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def service(
    request: pytest.FixtureRequest, smollm2_path: Path, wordlist_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One application for all tests of a module; ``SETTINGS`` of the module replaces settings of the demo."""
    args = {"wordlist_dir": str(wordlist_dir), "prebuild_langs": [], **getattr(request.module, "SETTINGS", {})}
    demo = Demo(str(smollm2_path), tmp_path_factory.mktemp("service"), args)
    demo.start()
    try:
        demo.wait_until_ready()
        with openai.OpenAI(base_url=f"{demo.url}/v1", api_key=KEY, max_retries=0, timeout=300) as client:
            yield Service(demo.url, client, demo.log_path)
    finally:
        demo.stop()
    assert not demo.processes(), "a process outlived the service"
