"""The examples, run as the reader runs them, with the demo model."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checked_lists import built_in_words
from tests.recogniser import recogniser

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

EXAMPLES = Path(__file__).parents[1] / "examples"


def output_of(smollm2_path: Path, name: str, *options: str) -> str:
    command = [sys.executable, name, str(smollm2_path), *options]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_poem_is_of_listed_words(smollm2_path: Path) -> None:
    poem, _, last = output_of(smollm2_path, "poem.py", "--max-tokens", "16").strip().rpartition("\n\n")
    words = recogniser(tuple(built_in_words("en", 500)), 500, "en", layout="lines", punctuation="standard")
    assert words.is_text(poem), poem
    assert float(last.removeprefix("log p(all words are listed) = ")) < 0


def test_the_form_is_filled_in_and_goes_back(smollm2_path: Path) -> None:
    steps, form, captures = output_of(smollm2_path, "form.py").split("\n\n")
    found = re.fullmatch(r"Name: ([A-Z][a-z]+)\nAge: (\d+)\nAnimal: ([a-z]+)\nWish: (to [a-z ]+)", form)
    assert found is not None, form
    assert int(found[2]) <= 12
    # More lines were read than stand.
    assert len(steps.splitlines()) > len(form.splitlines())
    for name, value in zip(("name", "age", "animal", "wish"), found.groups(), strict=True):
        assert f"{name}: {value!r}, log p = -" in captures


def test_facts_are_checked_and_put_right_within_the_list(smollm2_path: Path) -> None:
    steps, _, text = output_of(smollm2_path, "facts.py").rpartition("\n\n")
    listed = (*built_in_words("en", 1000), "legs", "dog", "bird", "horse", "fish", "cat", "chicken")
    words = recogniser(listed, 1006, "en", punctuation="standard")
    assert words.is_text(text.removesuffix("\n")), text
    corrected = re.findall(r" -> '(.+)'", steps)
    assert corrected
    assert all(sentence in text for sentence in corrected)
    for animal, number in {"dog": "four", "bird": "two", "fish": "no"}.items():
        assert re.search(rf"A {animal} has [^.]*{number} leg", text)
