"""The masks of one step in vLLM's own manager of structured outputs: those of lists are filled without threads."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from vllm.v1.structured_output import StructuredOutputManager

from tests.vocab.toys import tokens_of, word_list
from tests.vocab.vllm_plugin.manager import EOS, Manager, installed_plugin
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions

NUM_REQUESTS = 140
"""vLLM fills more than 128 in threads."""


class Crowd(Manager):
    """The manager of an engine for many requests, and a list of three words."""

    def __init__(self, model: Path, artefacts: Path) -> None:
        super().__init__(model, max_model_len=64, max_num_seqs=NUM_REQUESTS)
        words = build_words(word_list(["the", "dog", "runs"], "en"), Speller.from_tokenizer(self.tokenizer))
        ArtefactFolder(artefacts).save(words)
        self.digest = words.digest
        self.num_threaded = 0
        submit = self._manager._async_submit_fill_bitmask

        def count(batch: Any) -> Any:
            self.num_threaded += 1
            return submit(batch)

        self._manager._async_submit_fill_bitmask = count

    def begin(self, number: int) -> None:
        reference = GrammarReference(
            self.digest, ListOptions(punctuation="basic"), 1 + number % 3, 4 + number % 20, no_repeat=2 + number % 3
        )
        self.ask(f"r{number}", {"grammar": reference.to_ebnf()}, 32)


@pytest.fixture(scope="module")
def crowd(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    folder = tmp_path_factory.mktemp("crowd")
    with installed_plugin() as patch:
        patch.setenv(ARTEFACT_DIR_VARIABLE, str(folder))
        yield Crowd(smollm2_path, folder)


@pytest.fixture(autouse=True)
def nobody(crowd: Crowd) -> None:
    crowd.requests.clear()
    crowd.num_threaded = 0


def test_masks_of_lists_are_filled_in_one_thread_and_are_those_that_vllm_fills(crowd: Crowd) -> None:
    random = Random(5)
    for number in range(NUM_REQUESTS):
        crowd.begin(number)
    crowd.masks()
    crowd.num_threaded = 0
    plain = StructuredOutputManager.grammar_bitmask.__wrapped__
    for _ in range(8):
        masks = crowd.masks()
        assert crowd.num_threaded == 0
        theirs = plain(crowd._manager, crowd.requests, list(crowd.requests), {})
        assert all((mask == row).all() for mask, row in zip(masks.values(), theirs, strict=True))
        assert len(masks) <= 128 or crowd.num_threaded > 0
        crowd.num_threaded = 0
        for name, mask in masks.items():
            assert crowd.write(name, random.choice(sorted(tokens_of(mask))))
    assert 0 < len(crowd.requests) < NUM_REQUESTS


def test_after_its_end_a_text_allows_everything(crowd: Crowd) -> None:
    crowd.begin(0)
    crowd.masks()
    [request] = crowd.requests.values()
    structured = request.structured_output_request
    assert structured is not None
    grammar: Any = structured.grammar
    while not grammar.is_terminated():
        tokens = tokens_of(crowd.masks()["r0"])
        assert grammar.accept_tokens("r0", [EOS if EOS in tokens else min(tokens)])
    assert (crowd.masks()["r0"] == -1).all()


def test_beside_a_grammar_of_a_client_and_with_drafts_vllm_fills_them(crowd: Crowd) -> None:
    for number in range(NUM_REQUESTS - 1):
        crowd.begin(number)
    alone = crowd.masks()
    crowd.num_threaded = 0
    crowd.ask("client", {"regex": "[a-z]+"}, 32)
    mixed = crowd.masks()
    assert crowd.num_threaded > 0
    assert all(np.array_equal(alone[name], mixed[name]) for name in alone)
    crowd.requests = {"r0": crowd.requests["r0"]}
    [draft] = sorted(tokens_of(alone["r0"]))[:1]
    rows = crowd._manager.grammar_bitmask(crowd.requests, ["r0"], {"r0": [draft]})
    assert rows is not None and len(rows) == 2
