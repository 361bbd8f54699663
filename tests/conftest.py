"""What all tests share: how much hypothesis tries, the demo's model and a large tokenizer, fetched once, and the real
application, started once: Ray Serve, vLLM on the CPU and the demo's model."""

from __future__ import annotations

import fcntl
import functools
import signal
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

# Helpers assert too: rewritten, their asserts say what they compared, and are executed under ``python -O``.
pytest.register_assert_rewrite("tests")

if TYPE_CHECKING:
    from tests.e2e.service import Service

# A shell that runs the tests behind it has them ignore Ctrl-C, and they pass that on to the programs they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that want more or less than the usual number of examples name a part of ``settings().max_examples``.
settings.register_profile("dev", deadline=None, max_examples=40)
# The same examples in each run: more of them would find what they found the first time. `fresh` has new ones.
_REPEATED = {"derandomize": True, "database": None, "print_blob": True}
settings.register_profile("ci", settings.get_profile("dev"), max_examples=16, **_REPEATED)
settings.register_profile("stress", settings.get_profile("dev"), max_examples=400)
settings.register_profile("fresh", settings.get_profile("ci"), derandomize=False, max_examples=12)
settings.load_profile("dev")

FRESH_S = 60.0
"""The profile ``fresh`` has other examples in each run, in as many tests as fit into this time."""


LONG_TEST_S = 2400.0
"""A test may take so long that starts a service or an engine, or has very many examples, before it counts as hung."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    has_many_examples = settings.get_current_profile_name() == "stress"
    for item in items:
        is_long = has_many_examples or any(map(item.get_closest_marker, ("e2e", "slow", "stress")))
        if is_long and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG_TEST_S))


@functools.cache
def _first_test_at() -> float:
    return time.monotonic()


def pytest_runtest_setup() -> None:
    if settings.get_current_profile_name() == "fresh" and time.monotonic() - _first_test_at() > FRESH_S:
        pytest.skip("the time for fresh examples is over")


def _fetch_one_at_a_time(name: str, folder: Path) -> Path:
    """Have one of several test processes fetch what a function of the harness does, and the others find it."""
    if find_spec("ray") is None:
        pytest.skip("the light package alone is tested here")
    from tests import harness

    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path: Path = getattr(harness, name)()
        return path


@pytest.fixture(scope="session")
def smollm2_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of SmolLM2-135M-Instruct: 49,152 tokens, chat template."""
    return _fetch_one_at_a_time("smollm2_path", tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="session")
def shallow_path(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of that model without most of its layers: three times as fast on a CPU, and its texts mean nothing."""
    from tests.shallow_model import write_shallow_model

    return write_shallow_model(smollm2_path, tmp_path_factory.mktemp("model") / smollm2_path.name)


@pytest.fixture(scope="session")
def gemma_tokenizer_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of Gemma 3's tokenizer: 262,144 tokens."""
    return _fetch_one_at_a_time("gemma_tokenizer_path", tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="session")
def wordlist_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of lists that the running application has."""
    from tests.e2e.service import LISTS

    folder = tmp_path_factory.mktemp("lists")
    for name, words in LISTS.items():
        (folder / f"{name}.txt").write_text("# a list of the tests\n\n" + "\n".join(words) + "\n", encoding="utf-8")
    (folder / "empty.txt").write_text("# nothing\n\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def service(shallow_path: Path, wordlist_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One application for all tests that ask for it: the demo's settings, blocks that texts of a line fill, a second
    key, and less patience with slow readers."""
    # Here, for most tests need none of what it imports.
    from deployments.settings.keys import digest_of
    from tests.e2e.service import KEYS, PAGE, running
    from tests.harness import Demo

    keys = {name: {"sha256": digest_of(key.encode())} for name, key in KEYS.items()}
    engine_kwargs = {"enforce_eager": True, "max_model_len": 2048, "max_num_seqs": 64, "block_size": 32}
    args = {
        "wordlist_dir": str(wordlist_dir),
        "engine_kwargs": engine_kwargs,
        "cors_origins": [PAGE],
        "keys": keys,
        # Those of the demo; files and clients that take too long take less of these tests.
        "limits": {
            "max_input_tokens": 1024,
            "max_new_tokens": 1024,
            "max_file_s": 10,
            "max_file_s_per_minute": 5,
            "max_unread_s": 10,
        },
    }
    with running(Demo(str(shallow_path), tmp_path_factory.mktemp("service"), args)) as service:
        yield service
