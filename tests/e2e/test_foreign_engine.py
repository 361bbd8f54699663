"""Installed beside a vLLM of others, the plugin changes nothing of theirs; an engine that asks for it has it whole."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from tests.checker import assert_only_listed_words
from tests.e2e.own_engine import run_program, save_short_list
from vocab.automaton.tokenizer import Speller
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

PARTS = ["plugin", "backend", "sampler", "batch"]


def run_engine(model: Path, folder: Path, *, uses_plugin: bool) -> dict[str, Any]:
    words = save_short_list(folder / "lists", Speller.from_tokenizer(AutoTokenizer.from_pretrained(model)))
    reference = GrammarReference(words.digest, ListOptions(), 500, 8).to_ebnf()
    artefacts = folder / "lists" if uses_plugin else None
    arguments = (str(model), reference, str(folder / "found.json"))
    run_program("tests.e2e.foreign_engine", *arguments, log=folder / "log", artefacts=artefacts)
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


@pytest.mark.fault(77)
def test_an_engine_of_others_is_left_as_it_is_and_a_reference_generates_nothing_there(
    shallow_path: Path, tmp_path: Path
) -> None:
    assert run_engine(shallow_path, tmp_path, uses_plugin=False) == {"text": "", "worker": [], "program": []}


def test_an_engine_that_asks_for_the_plugin_has_it_in_its_own_process_and_its_workers(
    shallow_path: Path, tmp_path: Path
) -> None:
    found = run_engine(shallow_path, tmp_path, uses_plugin=True)
    assert (found["worker"], found["program"]) == (PARTS, PARTS)
    assert_only_listed_words(found["text"], "en", 500)
