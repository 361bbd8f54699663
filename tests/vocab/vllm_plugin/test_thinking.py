"""A model's thoughts and its answer in vLLM's own manager of structured outputs, with the demo's tokenizer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.thinking_model import END, THINKING, write_thinking_model
from tests.vocab.toys import tokens_of, word_list
from tests.vocab.vllm_plugin.manager import Manager, installed_plugin
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions


class Thinker(Manager):
    """The manager of an engine whose model thinks first, and a list of three words."""

    def __init__(self, model: Path, artefacts: Path) -> None:
        super().__init__(model, max_model_len=64, reasoning_parser=THINKING)
        words = build_words(word_list(["the", "dog", "runs"], "en"), Speller.from_tokenizer(self.tokenizer))
        ArtefactFolder(artefacts).save(words)
        self._digest = words.digest

    def begin(self, max_tokens: int, prompt: str = "<think>\n") -> None:
        reference = GrammarReference(self._digest, ListOptions(punctuation="basic", end="sentence"), 3, max_tokens)
        self.ask("r", {"grammar": reference.to_ebnf()}, max_tokens, prompt)

    def allowed(self) -> set[int] | None:
        """What may come next; None for anything."""
        row = self.masks()["r"]
        return None if (row == -1).all() else tokens_of(row)

    def think(self, num_thoughts: int, max_tokens: int) -> None:
        """Begin a request and write so many thoughts, which are free, and the mark that ends them."""
        self.begin(max_tokens)
        for token in [*self.tokenizer.encode(" Zebras, elephants and zoos! And more of them")[:num_thoughts], END]:
            assert self.allowed() is None
            assert self.write("r", token)


@pytest.fixture(scope="module")
def world(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Thinker]:
    folder = tmp_path_factory.mktemp("thinker")
    with installed_plugin() as patch:
        patch.setenv(ARTEFACT_DIR_VARIABLE, str(folder))
        yield Thinker(write_thinking_model(smollm2_path, folder / "model"), folder)


@pytest.mark.parametrize("num_thoughts", [None, 0, 1, 4, 7])
def test_thoughts_are_free_and_the_answer_ends_within_what_they_left(world: Thinker, num_thoughts: int | None) -> None:
    if num_thoughts is None:
        world.begin(12, "<think>\n\n</think>\n\n")
    else:
        world.think(num_thoughts, 12)
    [the], [mark] = world.tokenizer.encode(" the"), world.tokenizer.encode(".")
    for left in range(12 if num_thoughts is None else 11 - num_thoughts, 1, -1):
        allowed = world.allowed()
        assert allowed is not None and END not in allowed
        assert the in allowed, left
        assert world.write("r", the)
    allowed = world.allowed()
    assert allowed is not None and mark in allowed and the not in allowed
    assert world.write("r", mark)


@pytest.mark.parametrize("num_thoughts", [7, 8])
def test_an_answer_that_has_no_room_after_the_thoughts_is_not_held_to_a_budget(
    world: Thinker, num_thoughts: int
) -> None:
    world.think(num_thoughts, 8)
    assert world.allowed()


def test_the_engine_knows_the_mark_that_ends_thinking(world: Thinker) -> None:
    assert world.config.reasoning_config.enabled
    assert world.config.reasoning_config.reasoning_end_token_ids == [END]
