"""A model's thoughts and its answer in vLLM's own manager of structured outputs, with the demo's tokenizer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import vllm.v1.structured_output as structured_output
from transformers import AutoTokenizer
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from tests.thinking_model import END, THINKING, write_thinking_model
from tests.vocab.toys import tokens_of, word_list
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions
from vocab.vllm_plugin import backend as plugin

EOS = 2


class World:
    """The manager of an engine whose model thinks first, and a list of three words."""

    def __init__(self, model: Path, artefacts: Path) -> None:
        self.config = EngineArgs(
            model=str(model), max_model_len=64, enforce_eager=True, reasoning_parser=THINKING
        ).create_engine_config()
        self.manager = StructuredOutputManager(self.config)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model)
        words = build_words(word_list(["the", "dog", "runs"], "en"), Speller.from_tokenizer(self.tokenizer))
        ArtefactFolder(artefacts).save(words)
        self.digest = words.digest

    def ask(self, prompt: str, max_tokens: int) -> "Asked":
        options = ListOptions(punctuation="basic", end="sentence")
        grammar = StructuredOutputsParams(grammar=GrammarReference(self.digest, options, 3, max_tokens).to_ebnf())
        grammar._backend = "xgrammar"
        params = SamplingParams(max_tokens=max_tokens, structured_outputs=grammar)
        params.update_from_generation_config({}, EOS)
        request = Request("r", self.tokenizer.encode(prompt), params, None)
        self.manager.grammar_init(request)
        structured = request.structured_output_request
        assert structured is not None
        while not structured._check_grammar_completion():
            pass
        return Asked(self.manager, request)


class Asked:
    """One request, step by step as the scheduler takes it."""

    def __init__(self, manager: StructuredOutputManager, request: Request) -> None:
        self._manager, self._request = manager, request

    def allowed(self) -> set[int] | None:
        """What may come next; None for anything."""
        rows = self._manager.grammar_bitmask({"r": self._request}, ["r"], {})
        assert rows is not None
        return None if (rows[0] == -1).all() else tokens_of(rows[0].copy())

    def write(self, token: int) -> bool:
        self._request.append_output_token_ids([token])
        if not self._manager.should_advance(self._request, new_token_ids=[token]):
            return True
        structured = self._request.structured_output_request
        assert structured is not None
        advance = self._manager.trim_reasoning_for_advance(self._request, [token])
        return not advance or bool(structured.grammar.accept_tokens("r", advance))


@pytest.fixture(scope="module")
def world(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("thinker")
    before = structured_output.XgrammarBackend
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ARTEFACT_DIR_VARIABLE, str(folder))
        plugin.install()
        yield World(write_thinking_model(smollm2_path, folder / "model"), folder)
    structured_output.XgrammarBackend = before


@pytest.mark.parametrize("num_thoughts", [0, 1, 4, 7])
def test_thoughts_are_free_and_the_answer_ends_within_what_they_left(world: World, num_thoughts: int) -> None:
    asked = world.ask("<think>\n", max_tokens=12)
    for token in world.tokenizer.encode(" Zebras, elephants and zoos!")[:num_thoughts]:
        assert asked.allowed() is None
        assert asked.write(token)
    assert asked.allowed() is None
    assert asked.write(END)
    [the] = world.tokenizer.encode(" the")
    [mark] = world.tokenizer.encode(".")
    for left in range(12 - num_thoughts - 1, 1, -1):
        allowed = asked.allowed()
        assert allowed is not None and END not in allowed
        assert the in allowed, left
        assert asked.write(the)
    allowed = asked.allowed()
    assert allowed is not None and mark in allowed and the not in allowed
    assert asked.write(mark)


def test_an_answer_without_thoughts_has_the_whole_budget(world: World) -> None:
    asked = world.ask("<think>\n\n</think>\n\n", max_tokens=3)
    allowed = asked.allowed()
    assert allowed is not None
    [the] = world.tokenizer.encode(" the")
    assert asked.write(the)
    assert asked.write(the)
    allowed = asked.allowed()
    assert allowed is not None and the not in allowed


def test_the_engine_knows_the_mark_that_ends_thinking(world: World) -> None:
    assert world.config.reasoning_config.enabled
    assert world.config.reasoning_config.reasoning_end_token_ids == [END]
