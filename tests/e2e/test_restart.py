"""A service that is started again with its store of artefacts compiles nothing."""

from pathlib import Path

import pytest

from deployments.demo.process import Demo
from tests.e2e.service import running

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

QUESTIONS = (
    {"lang": "nl", "n_words": 400},
    {"words": ["river", "stone", "lamp"], "extra_words": ["Ana"], "numbers": True},
    {"words": ["river", "stone", "lamp"], "exclude_words": ["stone"], "end": "sentence"},
)


def test_a_restarted_service_compiles_nothing(smollm2_path: Path, tmp_path: Path) -> None:
    args = {"artefact_dir": str(tmp_path / "artefacts"), "prebuild_langs": ["nl"]}
    first, second = (_blocks_and_compiles(Demo(str(smollm2_path), tmp_path / run, args)) for run in ("first", "second"))
    assert first[0] == second[0]
    assert first[1] > 0
    assert second[1] == 0


def _blocks_and_compiles(demo: Demo) -> tuple[list[str], int]:
    """Names of the lists used, and how many were compiled."""
    with running(demo) as service:
        answers = [service.ask("Hello", vocab, max_tokens=9) for vocab in QUESTIONS]
        return [(answer.vocab or {})["id"] for answer in answers], service.num_compiles(at_least=1)
