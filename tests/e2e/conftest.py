"""The real application, started as the demo starts it: Ray Serve, vLLM on the CPU and the demo model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.demo.process import Demo
from tests.e2e.service import LISTS, Service, running


@pytest.fixture(scope="session")
def wordlist_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    for name, words in LISTS.items():
        (folder / f"{name}.txt").write_text("# a list of the tests\n\n" + "\n".join(words) + "\n", encoding="utf-8")
    (folder / "empty.txt").write_text("# nothing\n\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def service(smollm2_path: Path, wordlist_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One application for all tests that ask for it: the demo's settings, and blocks that texts of a line fill."""
    engine_kwargs = {"enforce_eager": True, "max_model_len": 2048, "max_num_seqs": 64, "block_size": 32}
    args = {"wordlist_dir": str(wordlist_dir), "engine_kwargs": engine_kwargs}
    with running(Demo(str(smollm2_path), tmp_path_factory.mktemp("service"), args)) as service:
        yield service


@pytest.fixture(scope="module")
def own_service(
    request: pytest.FixtureRequest, smollm2_path: Path, wordlist_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """An application for one module, whose ``SETTINGS`` replace settings of the demo."""
    args = {"wordlist_dir": str(wordlist_dir), "prebuild_langs": [], **request.module.SETTINGS}
    with running(Demo(str(smollm2_path), tmp_path_factory.mktemp("service"), args)) as service:
        yield service
