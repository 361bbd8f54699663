"""A search that nobody waits for any more leaves nothing running in a real engine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.speller import load_speller
from vocab.automaton.words import build_words
from vocab.lists.wordlists import load_word_list
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_no_step_outlives_its_search(smollm2_path: Path, tmp_path: Path) -> None:
    words = build_words(load_word_list("en", None), load_speller(str(smollm2_path)))
    ArtefactFolder(tmp_path).save(words)
    grammar = GrammarReference(words.digest, ListOptions(punctuation="full"), 1000, 400).to_ebnf()
    results, log = tmp_path / "results.json", tmp_path / "engine.log"
    variables = {
        ARTEFACT_DIR_VARIABLE: str(tmp_path),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, "-m", "tests.e2e.searching_engine", str(smollm2_path), str(tmp_path), grammar]
    with log.open("w") as output:
        done = subprocess.run(
            [*command, str(results)],
            env=os.environ | variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=400,
            check=False,
        )
    assert done.returncode == 0, log.read_text()[-3000:]
    told = json.loads(results.read_text())
    assert len(told) == 4
    for name, counts in told.items():
        assert counts["most"] > 1, f"{name} did not run"
        assert (counts["unfinished"], counts["at_next"]) == (0, 1), f"{name}: {counts}"
