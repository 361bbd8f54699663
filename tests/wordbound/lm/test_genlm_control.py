"""genlm-control, whose packages need a folder of their own, runs on our models.

pip install --target FOLDER genlm-control==0.4.1
GENLM_CONTROL=FOLDER python -m pytest -m slow tests/wordbound/lm/test_genlm_control.py
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.checked_lists import built_in_words
from tests.recogniser import recogniser

FOLDER = os.environ.get("GENLM_CONTROL")
ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parallel,
    pytest.mark.skipif(FOLDER is None, reason="GENLM_CONTROL names no folder with genlm-control"),
]


@pytest.fixture(scope="module")
def result(smollm2_path: Path) -> dict[str, Any]:
    program = Path(__file__).with_name("control_program.py")
    # Its own arsenal before the stand-in for it.
    paths = [str(FOLDER), str(ROOT / "tests/wordbound/lm/genlm_alias"), str(ROOT)]
    done = subprocess.run(
        [sys.executable, str(program), str(smollm2_path), str(FOLDER)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_it_runs_on_our_model(result: dict[str, Any]) -> None:
    assert result["model"] == "wordbound.lm.transformers_lm.AsyncTransformer"


@pytest.mark.parametrize("sampler", ["awrs", "direct"])
def test_ten_particles_write_what_a_regular_language_allows(result: dict[str, Any], sampler: str) -> None:
    assert_texts_match(result[sampler], " (red|green|blue|black|white)")


def test_ten_particles_write_what_a_grammar_allows(result: dict[str, Any]) -> None:
    assert_texts_match(result["grammar"], " the (cat|dog|horse) and the (cat|dog|horse)")


@pytest.mark.parametrize("sampler", ["words_awrs", "words_awrs_uncached", "words_direct"])
def test_ten_particles_write_within_a_word_list(result: dict[str, Any], sampler: str) -> None:
    words = recogniser(tuple(built_in_words("en", 500)), 500, "en", punctuation="standard")
    assert result[sampler]
    assert all(words.is_text(text) for text in result[sampler]), result[sampler]
    assert sum(result[sampler].values()) == pytest.approx(1)


def assert_texts_match(texts: dict[str, float], pattern: str) -> None:
    assert texts
    assert all(re.fullmatch(pattern, text) for text in texts), texts
    assert sum(texts.values()) == pytest.approx(1)
