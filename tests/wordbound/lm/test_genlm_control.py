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
    done = subprocess.run(
        [sys.executable, str(program), str(smollm2_path), str(FOLDER)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), str(ROOT)]), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_ten_particles_write_on_our_model_what_a_language_or_a_word_list_allows(result: dict[str, Any]) -> None:
    assert result.pop("model") == "wordbound.lm.transformers_lm.AsyncTransformer"
    colours, animals = " (red|green|blue|black|white)", " the (cat|dog|horse) and the (cat|dog|horse)"
    patterns = {"awrs": colours, "direct": colours, "grammar": animals}
    words = recogniser(tuple(built_in_words("en", 500)), 500, "en", punctuation="standard")
    assert result.keys() == {*patterns, "words_awrs", "words_awrs_uncached", "words_direct"}
    for sampler, texts in result.items():
        assert texts
        pattern = patterns.get(sampler)
        assert all(re.fullmatch(pattern, text) if pattern else words.is_text(text) for text in texts), texts
        assert sum(texts.values()) == pytest.approx(1)
