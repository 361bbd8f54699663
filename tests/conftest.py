"""What all tests share: how much hypothesis tries, and the demo's model and a large tokenizer, fetched once."""

import fcntl
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Helpers assert too: rewritten, their asserts say what they compared, and are executed under ``python -O``.
pytest.register_assert_rewrite("tests")

from deployments.demo import model as demo_model  # noqa: E402 - helpers are imported from here on

# A shell that runs the tests behind it has them ignore Ctrl-C, and they pass that on to the programs they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that want more or less than the usual number of examples name a part of ``settings().max_examples``.
settings.register_profile("dev", deadline=None, max_examples=40)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, database=None, print_blob=True)
settings.register_profile("stress", settings.get_profile("dev"), max_examples=400)
settings.load_profile("dev")


def _one_at_a_time(fetch: Callable[[], Path], folder: Path) -> Path:
    """Lets one of several test processes fetch, and the others find what it fetched."""
    with (folder / f"{fetch.__name__}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return fetch()


@pytest.fixture(scope="session")
def smollm2_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of SmolLM2-135M-Instruct: 49,152 tokens, chat template."""
    return _one_at_a_time(demo_model.smollm2_path, tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="session")
def gemma_tokenizer_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of Gemma 3's tokenizer: 262,144 tokens."""
    return _one_at_a_time(demo_model.gemma_tokenizer_path, tmp_path_factory.getbasetemp().parent)
