"""guidance, in a folder of its own, writes with our models what it writes with plain transformers, and in a list."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.checked_lists import built_in_words
from tests.recogniser import recogniser

ROOT = Path(__file__).parents[3]
GUIDANCE = "guidance==0.3.1"

pytestmark = [pytest.mark.slow, pytest.mark.parallel]


@pytest.fixture(scope="module")
def result(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("guidance")
    # Without what it asks for, which is here, llguidance in another version.
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), GUIDANCE]
    subprocess.run(install, check=True, timeout=300)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("guidance_program.py")), str(smollm2_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_a_program_writes_what_it_writes_with_transformers(result: dict[str, Any]) -> None:
    assert result["ours"] == result["theirs"]
    assert result["ours"]["colour"] in ("red", "blue", "green")
    assert result["ours"]["year"][:2] in ("19", "20")


def test_gen_words_writes_within_the_list(result: dict[str, Any]) -> None:
    words = recogniser(tuple(built_in_words("en", 200)), 200, "en", end="sentence", punctuation="standard")
    assert words.is_prefix(result["story"]), result["story"]
    assert len(result["story"].split()) > 3
