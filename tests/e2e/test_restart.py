"""A service that is started again with its store of artefacts compiles nothing; one whose engine dies says so."""

import os
import signal
import time
from pathlib import Path

import openai
import pytest

from deployments.demo.process import Demo
from tests.e2e.processes import our_processes_named
from tests.e2e.service import MODEL, Service, running

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

QUESTIONS = (
    {"lang": "nl", "n_words": 400},
    {"words": ["river", "stone", "lamp"], "extra_words": ["Ana"], "numbers": True},
    {"words": ["river", "stone", "lamp"], "exclude_words": ["stone"], "end": "sentence"},
)


def test_a_restarted_service_compiles_nothing(smollm2_path: Path, tmp_path: Path) -> None:
    args = {"artefact_dir": str(tmp_path / "artefacts"), "prebuild_langs": ["nl"]}
    with running(Demo(str(smollm2_path), tmp_path / "first", args)) as service:
        first = _blocks_and_compiles(service)
    with running(Demo(str(smollm2_path), tmp_path / "second", args)) as service:
        second = _blocks_and_compiles(service)
        _check_that_nobody_waits_for_a_dead_engine(service)
    assert first[0] == second[0]
    assert first[1] > 0
    assert second[1] == 0


def _blocks_and_compiles(service: Service) -> tuple[list[str], int]:
    """Names of the lists used, and how many were compiled."""
    answers = [service.ask("Hello", vocab, max_tokens=9) for vocab in QUESTIONS]
    return [(answer.vocab or {})["id"] for answer in answers], service.num_compiles(at_least=1)


def _check_that_nobody_waits_for_a_dead_engine(service: Service) -> None:
    """Another takes a minute to start; each of these is answered before, and told when to come back."""
    os.kill(max(our_processes_named("VLLM::EngineCore")), signal.SIGKILL)
    client = service.client.with_options(max_retries=0, timeout=10)
    for _ in range(5):
        with pytest.raises(openai.InternalServerError) as refused:
            client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}], max_tokens=4)
        assert refused.value.status_code == 503
        assert refused.value.code in ("engine_dead", "overloaded")
        assert int(refused.value.response.headers["retry-after"]) > 0
        time.sleep(0.5)
