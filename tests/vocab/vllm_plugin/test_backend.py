"""The backend as vLLM builds it, around the real tokenizer; the engine itself is part of the end-to-end tests."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import vllm.v1.structured_output as structured_output
from transformers import AutoTokenizer
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar, StructuredOutputOptions
from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

from tests.vocab.toys import tokens_of, toy_speller, toy_tokenizer, word_list
from tests.vocab.vllm_plugin.manager import installed_plugin
from vocab.artefacts.artefact import ArtefactFolder, overlay_to_bytes
from vocab.automaton.overlay import build_overlay
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.errors import ArtefactError, TokenBudgetError
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.vllm_plugin import register

GRAMMAR = StructuredOutputOptions.GRAMMAR
EOS = 2
CONFIG = SimpleNamespace(
    structured_outputs_config=SimpleNamespace(disable_any_whitespace=False), speculative_config=None
)


class World:
    """A backend with a list of three words."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self.speller = Speller.from_tokenizer(self.tokenizer)
        self.words = build_words(word_list(["the", "dog", "runs"], "en"), self.speller)
        self.folder = ArtefactFolder(folder)
        self.folder.save(self.words)
        self.backend = self.make_backend()
        self.bitmask = self.backend.allocate_token_bitmask(6)

    def make_backend(self) -> XgrammarBackend:
        return structured_output.XgrammarBackend(CONFIG, tokenizer=self.tokenizer, vocab_size=len(self.tokenizer) + 64)

    def compile(
        self,
        n_words: int,
        max_tokens: int | None = None,
        *,
        digest: str | None = None,
        stop: frozenset[int] = frozenset({EOS}),
        options: ListOptions | None = None,
        backend: XgrammarBackend | None = None,
        **fields: Any,
    ) -> StructuredOutputGrammar:
        digest, options = digest or self.words.digest, options or ListOptions()
        reference = GrammarReference(digest, options, n_words, max_tokens, **fields)
        return (backend or self.backend).compile_grammar(GRAMMAR, reference.to_ebnf(), set(stop))

    def allowed(self, grammar: StructuredOutputGrammar, row: int = 0) -> set[int]:
        grammar.fill_bitmask(self.bitmask, row)
        return tokens_of(self.bitmask[row].numpy())

    def token(self, text: str) -> int:
        [found] = self.tokenizer.encode(text)
        return int(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lists")


@pytest.fixture(scope="module")
def world(smollm2_path: Path, folder: Path) -> Iterator[World]:
    with installed_plugin() as patch:
        patch.setenv(ARTEFACT_DIR_VARIABLE, str(folder))
        yield World(smollm2_path, folder)


def test_the_plugin_takes_the_place_of_the_xgrammar_backend_unless_that_has_another_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Changed(XgrammarBackend):
        def compile_grammar(self, request: object) -> None:
            raise NotImplementedError

    for there, is_replaced in ((XgrammarBackend, True), (Changed, False)):
        with installed_plugin():
            monkeypatch.setattr(structured_output, "XgrammarBackend", there)
            for _ in range(2):
                register()
                backend = structured_output.XgrammarBackend
                assert issubclass(backend, there) and (backend is not there) == is_replaced


def test_a_reference_gives_masks_of_listed_words_in_place_and_padding_stays_masked(world: World) -> None:
    grammar = world.compile(2, 8)
    for bitmask in (world.bitmask, world.backend.allocate_token_bitmask(3), world.bitmask):
        for row in (1, 2):
            bitmask.fill_(-1)
            grammar.fill_bitmask(bitmask, row)
            allowed = tokens_of(bitmask[row].numpy())
            assert {world.token(" dog"), world.token("The")} <= allowed
            assert world.token(" runs") not in allowed
            assert max(allowed) < len(world.tokenizer)
            assert torch.equal(bitmask[0], torch.full_like(bitmask[0], -1))


def test_drafts_are_validated_without_moving_and_rolled_back(world: World) -> None:
    grammar = world.compile(3)
    drafts = [world.token(text) for text in (" the", " dog", " cat", " runs")]
    assert grammar.validate_tokens(drafts) == drafts[:2]
    assert grammar.validate_tokens([EOS]) == []
    assert grammar.accept_tokens("r", drafts[:2])
    assert not grammar.accept_tokens("r", [drafts[2]])
    grammar.rollback(1)
    assert grammar.accept_tokens("r", [drafts[3], EOS, 99])
    assert grammar.is_terminated()
    grammar.reset()
    assert not grammar.is_terminated()


@pytest.mark.fault(34)
def test_masks_of_drafted_positions_are_those_of_their_texts_and_a_rollback_leaves_no_trace(world: World) -> None:
    """As vLLM's scheduler fills masks under speculative decoding: it accepts each draft, and takes all of them back."""
    drafting, plain = world.compile(3, 12), world.compile(3, 12)
    candidates = [world.token(text) for text in (" the", " dog", " runs", " cat", ".", " Dog")]
    random = Random(3)
    for _ in range(40):
        drafting.reset()
        plain.reset()
        while not plain.is_terminated():
            drafts = random.choices(candidates, k=4)
            allowed = drafting.validate_tokens(drafts)
            world.bitmask.fill_(-1)
            for row, draft in enumerate(allowed):
                assert draft in world.allowed(drafting, row)
                assert drafting.accept_tokens("r", [draft])
            masked = world.allowed(drafting, len(allowed))
            if len(allowed) < len(drafts):
                assert drafts[len(allowed)] not in masked
            drafting.rollback(len(allowed))
            # Of the drafts the sampler takes some, and one token of its own.
            kept = allowed[: random.randint(0, len(allowed))]
            own = random.choice(sorted(tokens_of(world.bitmask[len(kept)].numpy())))
            for grammar in (drafting, plain):
                assert grammar.accept_tokens("r", [*kept, own])
            assert drafting.is_terminated() == plain.is_terminated()
            assert world.allowed(drafting) == world.allowed(plain)


def test_a_stop_token_that_has_a_text_is_text(world: World) -> None:
    dot = world.token(".")
    # With room for the mark and nothing more: were it the end of a text, nothing might come.
    grammar = world.compile(3, 3, options=ListOptions(end="sentence"), stop=frozenset({EOS, dot}))
    assert grammar.accept_tokens("r", [world.token("The")])
    allowed = world.allowed(grammar)
    assert dot in allowed
    assert EOS not in allowed
    for token, is_terminated in ((dot, False), (EOS, True)):
        assert grammar.accept_tokens("r", [token])
        assert grammar.is_terminated() == is_terminated


def test_any_other_grammar_goes_to_xgrammar(world: World) -> None:
    for kind, text in ((GRAMMAR, 'root ::= "yes" | "no"'), (StructuredOutputOptions.REGEX, "yes|no")):
        grammar = world.backend.compile_grammar(kind, text, {EOS})
        begun = {world.tokenizer.decode([token]) for token in world.allowed(grammar)}
        assert {"y", "n"} <= begun and all("yes".startswith(text) or "no".startswith(text) for text in begun)


def test_extra_words_are_allowed_beside_the_list(world: World) -> None:
    overlay = build_overlay(world.words, ListChanges(("Paris",)), world.speller)
    world.folder.write_bytes(overlay.digest, overlay_to_bytes(overlay))
    grammar = world.compile(2, 8, changes=overlay.digest)
    assert grammar.accept_tokens("r", [world.token(text) for text in (" the", " Paris", " dog")])
    assert not grammar.accept_tokens("r", [world.token(" runs")])


def test_what_cannot_be_followed_fails_its_request_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged, foreign = "ab" * 32, build_words(word_list(["dog"], "en"), toy_speller(toy_tokenizer([])))
    world.folder.path_of(damaged).write_bytes(world.folder.read_bytes(world.words.digest)[:-9])
    world.folder.save(foreign)
    for fields, error, message in (
        ({"digest": damaged}, ArtefactError, "cannot be used"),
        ({"digest": foreign.digest}, ArtefactError, "another tokenizer"),
        ({"max_tokens": 0}, TokenBudgetError, "fits into 0 tokens"),
        ({"start": (2**40,)}, ValueError, "no reading"),
    ):
        with pytest.raises(error, match=message):
            world.compile(3, **fields)
    assert world.allowed(world.compile(3))
    monkeypatch.delenv(ARTEFACT_DIR_VARIABLE, raising=False)
    with pytest.raises(ArtefactError, match="set WORDBOUND_ARTEFACT_DIR"):
        world.compile(1, backend=world.make_backend())


def test_the_engine_keeps_as_much_as_its_environment_says(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ARTEFACT_DIR_VARIABLE, str(folder))
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "1")
    small, lists = world.make_backend(), [build_words(word_list([word], "en"), world.speller) for word in ("a", "dog")]
    for one in lists:
        world.folder.save(one)
        for backend in (world.backend, small):
            assert world.allowed(world.compile(1, digest=one.digest, backend=backend))
    world.folder.path_of(lists[0].digest).unlink()
    world.compile(1, digest=lists[0].digest)
    with pytest.raises(ArtefactError, match="cannot be used"):
        world.compile(1, digest=lists[0].digest, backend=small)
