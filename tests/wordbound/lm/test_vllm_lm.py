"""Rows from a real vLLM engine, against transformers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.e2e.own_engine import run_program
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import inline_word_list
from vocab.matching.reference import GrammarReference
from vocab.options import DEFAULT_OPTIONS
from wordbound.lm import WordList

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.parallel]

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "and", "saw", "it"]
NUM_PREFIXES = 150


@pytest.fixture(scope="module")
def texts(shallow_path: Path) -> list[list[int]]:
    """Texts of fifty tokens, whose beginnings are the prefixes."""
    tokenizer = AutoTokenizer.from_pretrained(shallow_path)
    page = " ".join((Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8").split())
    tokens = tokenizer.encode(page)
    return [tokens[start : start + 50] for start in range(0, NUM_PREFIXES, 50)]


@pytest.fixture(scope="module")
def expected(shallow_path: Path, texts: list[list[int]]) -> torch.Tensor:
    """float32 (prefixes, V), by transformers."""
    model = AutoModelForCausalLM.from_pretrained(shallow_path, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.tensor(texts)).logits.log_softmax(-1).flatten(0, 1)


@pytest.fixture(scope="module")
def found(shallow_path: Path, texts: list[list[int]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("rows")
    speller = Speller.from_tokenizer(AutoTokenizer.from_pretrained(shallow_path))
    words = build_words(inline_word_list(WORDS, "en"), speller)
    ArtefactFolder(folder).save(words)
    grammar = GrammarReference(words.digest, DEFAULT_OPTIONS, len(WORDS), 40).to_ebnf()
    prefixes = [text[:end] for text in texts for end in range(1, 51)]
    # Long before short and short before long: some begin what was computed, and some continue it.
    order = [*range(49, NUM_PREFIXES, 2), *range(NUM_PREFIXES - 2, 49, -2), *range(48, -1, -1)]
    (folder / "prefixes").write_text(json.dumps([prefixes[i] for i in order]))
    run_program(
        "tests.wordbound.lm.rows_engine",
        str(shallow_path),
        grammar,
        str(folder / "prefixes"),
        str(folder / "found"),
        log=folder / "log",
        artefacts=folder,
    )
    result: dict[str, Any] = torch.load(folder / "found")
    result["rows"] = result["rows"][torch.tensor(order).argsort()]
    return result


def test_rows_are_the_models_own_beside_constrained_texts(found: dict[str, Any], expected: torch.Tensor) -> None:
    assert found["rows"].dtype == torch.float32
    matters = expected > torch.tensor(1e-6).log()
    assert float((found["rows"] - expected)[matters].abs().max()) < 1e-3


def test_the_texts_beside_them_keep_to_their_list(found: dict[str, Any], shallow_path: Path) -> None:
    words = WordList("en", None, AutoTokenizer.from_pretrained(shallow_path), words=WORDS)
    assert len(found["texts"]) == 16
    for tokens in found["texts"]:
        state = words.start
        for token in tokens:
            state = words.next(state, token)


def test_scores_are_those_of_the_rows_and_a_seed_gives_the_same_sample(
    found: dict[str, Any], expected: torch.Tensor, texts: list[list[int]]
) -> None:
    own = torch.stack([expected[place - 1, texts[0][place]] for place in range(8, 50)])
    assert torch.allclose(found["scores"], own, atol=1e-3)
    assert found["sample"] == found["same sample"]
    assert len(found["sample"]) == 8


def test_who_gives_up_frees_the_engine_and_leaves_the_others_alone(found: dict[str, Any]) -> None:
    assert found["kept"].exp().sum() == pytest.approx(1, abs=1e-4)
    assert found["unfinished"] == 0


def test_a_text_that_grows_costs_a_token_at_each_step_and_what_prefixes_share_is_computed_once(
    found: dict[str, Any],
) -> None:
    assert found["grown"] == 1
    assert found["together"] == [40, 2, 2, 2, 2]


def test_after_the_end_the_error_says_what_to_do(found: dict[str, Any]) -> None:
    assert "load it again" in found["after the end"]
