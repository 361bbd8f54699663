"""What several tests of the real stack share besides the running application."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.own_engine import run_program
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.speller import load_speller
from vocab.automaton.words import build_words
from vocab.lists.wordlists import load_word_list
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions


@pytest.fixture(scope="session")
def searching_engine(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program ``searching_engine`` found, run once."""
    folder = tmp_path_factory.mktemp("engine")
    words = build_words(load_word_list("en", None), load_speller(str(smollm2_path)))
    ArtefactFolder(folder).save(words)
    grammar = GrammarReference(words.digest, ListOptions(punctuation="full"), 1000, 400).to_ebnf()
    results = folder / "results.json"
    run_program(
        "tests.e2e.searching_engine", str(smollm2_path), str(folder), grammar, str(results),
        log=folder / "engine.log", artefacts=folder,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(results.read_text())
    return found
