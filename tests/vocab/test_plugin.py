"""The backend as vLLM builds it, around the real tokenizer; the engine itself is part of the end-to-end tests."""

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import vllm.v1.structured_output as structured_output
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from vllm.v1.structured_output.backend_types import StructuredOutputOptions
from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend, XgrammarGrammar

from tests.vocab.toys import tokens_of, toy_tokenizer, word_list
from vocab import plugin
from vocab.artefact import ArtefactFolder
from vocab.automaton import TokenAutomaton, compile_automaton
from vocab.errors import ArtefactError, TokenBudgetError
from vocab.options import ListOptions
from vocab.plugin import ARTEFACT_DIR_VARIABLE, WordboundBackend, WordGrammar
from vocab.reference import GrammarReference
from vocab.tokenizer import TokenizerFacts

GRAMMAR = StructuredOutputOptions.GRAMMAR
CONFIG = SimpleNamespace(
    structured_outputs_config=SimpleNamespace(disable_any_whitespace=False),
    speculative_config=None,
)


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> PreTrainedTokenizerBase:
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(smollm2_path)
    return loaded


@pytest.fixture(scope="module")
def automaton(tokenizer: PreTrainedTokenizerBase) -> TokenAutomaton:
    facts = TokenizerFacts.from_tokenizer(tokenizer)
    return compile_automaton(word_list(["the", "dog", "runs"], "en"), ListOptions(), facts)


@pytest.fixture
def backend(
    tokenizer: PreTrainedTokenizerBase, automaton: TokenAutomaton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WordboundBackend]:
    ArtefactFolder(tmp_path).save(automaton)
    monkeypatch.setenv(ARTEFACT_DIR_VARIABLE, str(tmp_path))
    yield WordboundBackend(CONFIG, tokenizer=tokenizer, vocab_size=len(tokenizer) + 64)


def token(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    (found,) = tokenizer.encode(text)
    return int(found)


def test_vllm_finds_the_plugin_and_it_takes_the_place_of_the_xgrammar_backend() -> None:
    (entry,) = entry_points(group="vllm.general_plugins", name="wordbound")
    assert entry.load() is plugin.register
    before = structured_output.XgrammarBackend
    try:
        plugin.register()
        plugin.register()
        assert structured_output.XgrammarBackend is WordboundBackend
        assert issubclass(WordboundBackend, XgrammarBackend)
    finally:
        structured_output.XgrammarBackend = before


def test_a_reference_gives_masks_of_listed_words_and_padding_stays_masked(
    backend: WordboundBackend, automaton: TokenAutomaton, tokenizer: PreTrainedTokenizerBase
) -> None:
    grammar = backend.compile_grammar(GRAMMAR, GrammarReference(automaton.digest, 2, 8).to_ebnf(), {2})
    bitmask = backend.allocate_token_bitmask(2)
    bitmask.fill_(-1)
    grammar.fill_bitmask(bitmask, 1)
    allowed = tokens_of(bitmask[1].numpy())
    assert {token(tokenizer, " dog"), token(tokenizer, "The")} <= allowed
    assert token(tokenizer, " runs") not in allowed
    assert max(allowed) < len(tokenizer)
    assert torch.equal(bitmask[0], torch.full_like(bitmask[0], -1))


def test_drafts_are_validated_without_moving_and_rolled_back(
    backend: WordboundBackend, automaton: TokenAutomaton, tokenizer: PreTrainedTokenizerBase
) -> None:
    grammar = backend.compile_grammar(GRAMMAR, GrammarReference(automaton.digest, 3).to_ebnf(), {2})
    drafts = [token(tokenizer, text) for text in (" the", " dog", " cat", " runs")]
    assert grammar.validate_tokens(drafts) == drafts[:2]
    assert grammar.validate_tokens([2]) == []
    assert grammar.accept_tokens("r", drafts[:2])
    assert not grammar.accept_tokens("r", [drafts[2]])
    grammar.rollback(1)
    assert grammar.accept_tokens("r", [drafts[3], 2, 99])
    assert grammar.is_terminated()
    grammar.reset()
    assert not grammar.is_terminated()


def test_any_other_grammar_goes_to_xgrammar(backend: WordboundBackend) -> None:
    assert isinstance(backend.compile_grammar(GRAMMAR, 'root ::= "yes" | "no"', {2}), XgrammarGrammar)
    assert isinstance(backend.compile_grammar(StructuredOutputOptions.REGEX, "yes|no", {2}), XgrammarGrammar)


def test_an_artefact_is_loaded_once_and_old_ones_are_let_go(
    backend: WordboundBackend, tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "MAX_AUTOMATA", 2)
    facts = TokenizerFacts.from_tokenizer(tokenizer)
    digests = []
    for word in ("dog", "the", "runs"):
        made = compile_automaton(word_list([word], "en"), ListOptions(), facts)
        ArtefactFolder(tmp_path).save(made)
        digests.append(made.digest)
    for digest in (digests[0], digests[1], digests[0], digests[2]):
        assert isinstance(backend.compile_grammar(GRAMMAR, GrammarReference(digest, 1).to_ebnf(), {2}), WordGrammar)
    # The first two are gone from the folder, but the first is still mapped: it was used after the second.
    for digest in digests[:2]:
        ArtefactFolder(tmp_path).path_of(digest).unlink()
    backend.compile_grammar(GRAMMAR, GrammarReference(digests[0], 1).to_ebnf(), {2})
    with pytest.raises(ArtefactError, match="cannot be used"):
        backend.compile_grammar(GRAMMAR, GrammarReference(digests[1], 1).to_ebnf(), {2})


def test_a_budget_that_no_text_fits_fails_the_request(backend: WordboundBackend, automaton: TokenAutomaton) -> None:
    with pytest.raises(TokenBudgetError):
        backend.compile_grammar(GRAMMAR, GrammarReference(automaton.digest, 3, 0).to_ebnf(), {2})


def test_an_artefact_of_another_tokenizer_is_refused(backend: WordboundBackend, tmp_path: Path) -> None:
    foreign = compile_automaton(word_list(["dog"], "en"), ListOptions(), toy_tokenizer([]))
    ArtefactFolder(tmp_path).save(foreign)
    with pytest.raises(ArtefactError, match="another tokenizer"):
        backend.compile_grammar(GRAMMAR, GrammarReference(foreign.digest, 1).to_ebnf(), {2})


def test_an_engine_without_a_folder_says_which_variable_to_set(
    backend: WordboundBackend, automaton: TokenAutomaton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ARTEFACT_DIR_VARIABLE)
    with pytest.raises(ArtefactError, match="set WORDBOUND_ARTEFACT_DIR"):
        backend.compile_grammar(GRAMMAR, GrammarReference(automaton.digest, 1).to_ebnf(), {2})
