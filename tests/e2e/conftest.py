"""The real application, started as the demo starts it: Ray Serve, vLLM on the CPU and the demo model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.demo.process import Demo
from tests.e2e.own_engine import run_program
from tests.e2e.service import LISTS, PAGE, Service, running
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.speller import load_speller
from vocab.automaton.words import build_words
from vocab.lists.wordlists import load_word_list
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions


@pytest.fixture(scope="session")
def wordlist_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    for name, words in LISTS.items():
        (folder / f"{name}.txt").write_text("# a list of the tests\n\n" + "\n".join(words) + "\n", encoding="utf-8")
    (folder / "empty.txt").write_text("# nothing\n\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def service(smollm2_path: Path, wordlist_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One application for all tests that ask for it: the demo's settings, and blocks that texts of a line fill."""
    engine_kwargs = {"enforce_eager": True, "max_model_len": 2048, "max_num_seqs": 64, "block_size": 32}
    args = {"wordlist_dir": str(wordlist_dir), "engine_kwargs": engine_kwargs, "cors_origins": [PAGE]}
    with running(Demo(str(smollm2_path), tmp_path_factory.mktemp("service"), args)) as service:
        yield service


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
