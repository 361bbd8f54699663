"""What a process of the service sets for its libraries."""

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest

from deployments.process_setup import READY_HOOK, run_ready_hook, set_up_process
from deployments.settings.service import Settings


def settings(**args: Any) -> Settings:
    return Settings.load({"secret_token": "k", **args}, {})


@pytest.fixture
def serves_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("ray.serve")
    level = logger.level
    yield logger
    logger.setLevel(level)


def test_the_token_of_hugging_face_reaches_a_process_that_was_started_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "to be removed again")
    monkeypatch.delenv("HF_TOKEN")
    set_up_process(settings())
    assert "HF_TOKEN" not in os.environ
    set_up_process(settings(hf_token="from a secret file"))
    assert os.environ["HF_TOKEN"] == "from a secret file"
    # One that a node has stays.
    set_up_process(settings(hf_token="of the settings"))
    assert os.environ["HF_TOKEN"] == "from a secret file"


def test_the_level_of_logs_is_serves_own_unless_it_is_said(serves_logger: logging.Logger) -> None:
    serves_logger.setLevel("ERROR")
    set_up_process(settings())
    assert serves_logger.level == logging.ERROR
    set_up_process(settings(log_level="debug"))
    assert serves_logger.level == logging.DEBUG


def test_a_process_that_is_ready_calls_the_hook_of_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    run_ready_hook()
    monkeypatch.setenv(READY_HOOK, "os:abort_of_nowhere")
    with pytest.raises(AttributeError, match="abort_of_nowhere"):
        run_ready_hook()
