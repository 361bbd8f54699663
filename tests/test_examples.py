"""The examples, run as the reader runs them, with the demo model."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.checked_lists import built_in_words
from tests.recogniser import recogniser

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parallel
def test_the_poem_is_of_listed_words(smollm2_path: Path) -> None:
    command = [sys.executable, "poem.py", str(smollm2_path), "--max-tokens", "16"]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    poem, _, last = done.stdout.strip().rpartition("\n\n")
    words = recogniser(tuple(built_in_words("en", 500)), 500, "en", layout="lines", punctuation="standard")
    assert words.is_text(poem), poem
    assert float(last.removeprefix("log p(all words are listed) = ")) < 0
