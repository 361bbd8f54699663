"""The backend as vLLM builds it, around the real tokenizer; the engine itself is part of the end-to-end tests."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import torch
import vllm.v1.structured_output as structured_output
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from vllm.v1.structured_output.backend_types import StructuredOutputOptions
from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend, XgrammarGrammar

from tests.vocab.toys import tokens_of, toy_speller, toy_tokenizer, word_list
from vocab.artefacts.artefact import ArtefactFolder, overlay_to_bytes
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.overlay import build_overlay
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.errors import ArtefactError, TokenBudgetError
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.vllm_plugin import backend as plugin
from vocab.vllm_plugin import patches
from vocab.vllm_plugin.backend import WordboundBackend, WordGrammar
from vocab.vllm_plugin.client_grammars import ClientGrammar

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
def speller(tokenizer: PreTrainedTokenizerBase) -> Speller:
    return Speller.from_tokenizer(tokenizer)


@pytest.fixture(scope="module")
def words(speller: Speller) -> CompiledList:
    return build_words(word_list(["the", "dog", "runs"], "en"), speller)


@pytest.fixture
def backend(
    tokenizer: PreTrainedTokenizerBase, words: CompiledList, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WordboundBackend]:
    ArtefactFolder(tmp_path).save(words)
    monkeypatch.setenv(ARTEFACT_DIR_VARIABLE, str(tmp_path))
    yield WordboundBackend(CONFIG, tokenizer=tokenizer, vocab_size=len(tokenizer) + 64)


def token(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    (found,) = tokenizer.encode(text)
    return int(found)


def test_the_plugin_takes_the_place_of_the_xgrammar_backend() -> None:
    before = structured_output.XgrammarBackend
    try:
        plugin.install()
        plugin.install()
        assert structured_output.XgrammarBackend is WordboundBackend
        assert issubclass(WordboundBackend, XgrammarBackend)
    finally:
        structured_output.XgrammarBackend = before


def test_every_patch_fits_the_vllm_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[object] = []
    monkeypatch.setattr(structured_output, "XgrammarBackend", structured_output.XgrammarBackend)
    monkeypatch.setattr(patches.logger, "warning", lambda *said: warnings.append(said))
    plugin.install()
    assert warnings == []


def test_a_backend_with_another_signature_is_left_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Changed(XgrammarBackend):
        def compile_grammar(self, request: object) -> None:
            raise NotImplementedError

    monkeypatch.setattr(structured_output, "XgrammarBackend", Changed)
    plugin.install()
    assert structured_output.XgrammarBackend is Changed


def test_a_reference_gives_masks_of_listed_words_and_padding_stays_masked(
    backend: WordboundBackend, words: CompiledList, tokenizer: PreTrainedTokenizerBase
) -> None:
    grammar = backend.compile_grammar(GRAMMAR, GrammarReference(words.digest, ListOptions(), 2, 8).to_ebnf(), {2})
    bitmask = backend.allocate_token_bitmask(2)
    bitmask.fill_(-1)
    grammar.fill_bitmask(bitmask, 1)
    allowed = tokens_of(bitmask[1].numpy())
    assert {token(tokenizer, " dog"), token(tokenizer, "The")} <= allowed
    assert token(tokenizer, " runs") not in allowed
    assert max(allowed) < len(tokenizer)
    assert torch.equal(bitmask[0], torch.full_like(bitmask[0], -1))


def test_the_bitmask_of_every_step_is_filled_in_place(backend: WordboundBackend, words: CompiledList) -> None:
    grammar = backend.compile_grammar(GRAMMAR, GrammarReference(words.digest, ListOptions(), 2).to_ebnf(), {2})
    first, second = backend.allocate_token_bitmask(1), backend.allocate_token_bitmask(3)
    for bitmask, row in ((first, 0), (second, 2), (first, 0), (second, 1)):
        bitmask.fill_(-1)
        grammar.fill_bitmask(bitmask, row)
        assert tokens_of(bitmask[row].numpy()) == tokens_of(first[0].numpy())
        assert not torch.equal(bitmask[row], torch.full_like(bitmask[row], -1))


@pytest.mark.parametrize(("num_thought", "num_left"), [(0, 8), (5, 3), (6, 2)])
def test_what_a_model_thought_counts_against_the_budget_of_its_answer(
    backend: WordboundBackend, words: CompiledList, tokenizer: PreTrainedTokenizerBase, num_thought: int, num_left: int
) -> None:
    reference = GrammarReference(words.digest, ListOptions(punctuation="basic", end="sentence"), 3, 8)
    grammar = backend.compile_grammar(GRAMMAR, reference.to_ebnf(), {2})
    structured = SimpleNamespace(grammar=grammar, reasoning_end_token_index=10 + num_thought - 1)
    request = SimpleNamespace(structured_output_request=structured, num_prompt_tokens=10)
    bitmask = backend.allocate_token_bitmask(1)
    the, num_written = token(tokenizer, " the"), 0
    while True:
        # Asked at every step.
        assert plugin._should_advance(lambda manager, request, tokens: True, None, request, [])
        grammar.fill_bitmask(bitmask, 0)
        if the not in tokens_of(bitmask[0].numpy()):
            break
        assert grammar.accept_tokens("r", [the])
        num_written += 1
    # The last one of the budget is the sentence's mark.
    assert num_written == num_left - 1
    assert grammar.accept_tokens("r", [token(tokenizer, ".")])


@pytest.mark.parametrize("num_thought", [7, 8])
def test_an_answer_that_has_no_room_behind_the_thoughts_is_not_held_to_a_budget(
    backend: WordboundBackend, words: CompiledList, num_thought: int
) -> None:
    reference = GrammarReference(words.digest, ListOptions(punctuation="basic", end="sentence"), 3, 8)
    grammar = backend.compile_grammar(GRAMMAR, reference.to_ebnf(), {2})
    assert isinstance(grammar, WordGrammar)
    bitmask = backend.allocate_token_bitmask(1)
    grammar.begin_after(num_thought)
    grammar.fill_bitmask(bitmask, 0)
    assert tokens_of(bitmask[0].numpy())


@pytest.mark.parametrize("advances", [True, False])
def test_a_model_that_does_not_think_has_its_whole_budget(backend: WordboundBackend, advances: bool) -> None:
    structured = SimpleNamespace(grammar=None, reasoning_end_token_index=None)
    request = SimpleNamespace(structured_output_request=structured)
    assert plugin._should_advance(lambda manager, request, tokens: advances, None, request) is advances


def test_drafts_are_validated_without_moving_and_rolled_back(
    backend: WordboundBackend, words: CompiledList, tokenizer: PreTrainedTokenizerBase
) -> None:
    grammar = backend.compile_grammar(GRAMMAR, GrammarReference(words.digest, ListOptions(), 3).to_ebnf(), {2})
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


def test_masks_of_drafted_positions_are_those_of_their_texts_and_a_rollback_leaves_no_trace(
    backend: WordboundBackend, words: CompiledList, tokenizer: PreTrainedTokenizerBase
) -> None:
    """As vLLM's scheduler fills masks under speculative decoding: it accepts each draft, and takes all of them back."""
    reference = GrammarReference(words.digest, ListOptions(), 3, 12).to_ebnf()
    drafting, plain = (backend.compile_grammar(GRAMMAR, reference, {2}) for _ in range(2))
    bitmask = backend.allocate_token_bitmask(6)
    random = Random(3)
    for _ in range(40):
        drafting.reset()
        plain.reset()
        while not plain.is_terminated():
            candidates = [token(tokenizer, text) for text in (" the", " dog", " runs", " cat", ".", " Dog")]
            drafts = random.choices(candidates, k=4)
            allowed = drafting.validate_tokens(drafts)
            bitmask.fill_(-1)
            for row, draft in enumerate(allowed):
                drafting.fill_bitmask(bitmask, row)
                assert draft in tokens_of(bitmask[row].numpy())
                assert drafting.accept_tokens("r", [draft])
            drafting.fill_bitmask(bitmask, len(allowed))
            if len(allowed) < len(drafts):
                assert drafts[len(allowed)] not in tokens_of(bitmask[len(allowed)].numpy())
            drafting.rollback(len(allowed))
            # Of the drafts the sampler takes some, and one token of its own.
            kept = allowed[: random.randint(0, len(allowed))]
            own = random.choice(sorted(tokens_of(bitmask[len(kept)].numpy())))
            for grammar in (drafting, plain):
                assert grammar.accept_tokens("r", [*kept, own])
            assert drafting.is_terminated() == plain.is_terminated()
            for row, grammar in enumerate((drafting, plain)):
                grammar.fill_bitmask(bitmask, row)
            assert torch.equal(bitmask[0], bitmask[1])


def test_a_stop_token_that_has_a_text_is_text(
    backend: WordboundBackend, words: CompiledList, tokenizer: PreTrainedTokenizerBase
) -> None:
    dot = token(tokenizer, ".")
    # With room for the mark and nothing more: were it the end of a text, nothing might come.
    grammar = backend.compile_grammar(
        GRAMMAR, GrammarReference(words.digest, ListOptions(end="sentence"), 3, 3).to_ebnf(), {2, dot}
    )
    assert grammar.accept_tokens("r", [token(tokenizer, "The")])
    bitmask = backend.allocate_token_bitmask(1)
    grammar.fill_bitmask(bitmask, 0)
    allowed = tokens_of(bitmask[0].numpy())
    assert dot in allowed
    assert 2 not in allowed
    assert grammar.accept_tokens("r", [dot])
    assert not grammar.is_terminated()
    assert grammar.accept_tokens("r", [2])
    assert grammar.is_terminated()


def test_any_other_grammar_goes_to_xgrammar(backend: WordboundBackend) -> None:
    for kind, text in ((GRAMMAR, 'root ::= "yes" | "no"'), (StructuredOutputOptions.REGEX, "yes|no")):
        grammar = backend.compile_grammar(kind, text, {2})
        assert isinstance(grammar, ClientGrammar)
        assert isinstance(grammar._grammar, XgrammarGrammar)


def test_the_engine_keeps_as_much_as_its_environment_says(
    backend: WordboundBackend,
    words: CompiledList,
    speller: Speller,
    tokenizer: PreTrainedTokenizerBase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = build_words(word_list(["dog"], "en"), speller)
    ArtefactFolder(tmp_path).save(other)
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "1")
    small = WordboundBackend(CONFIG, tokenizer=tokenizer, vocab_size=len(tokenizer))
    for one in (backend, small):
        for digest in (words.digest, other.digest):
            assert isinstance(
                one.compile_grammar(GRAMMAR, GrammarReference(digest, ListOptions(), 1).to_ebnf(), {2}), WordGrammar
            )
    ArtefactFolder(tmp_path).path_of(words.digest).unlink()
    backend.compile_grammar(GRAMMAR, GrammarReference(words.digest, ListOptions(), 1).to_ebnf(), {2})
    with pytest.raises(ArtefactError, match="cannot be used"):
        small.compile_grammar(GRAMMAR, GrammarReference(words.digest, ListOptions(), 1).to_ebnf(), {2})


def test_a_damaged_artefact_fails_its_request_alone(
    backend: WordboundBackend, words: CompiledList, tmp_path: Path
) -> None:
    path = ArtefactFolder(tmp_path).path_of("ab" * 32)
    path.write_bytes(ArtefactFolder(tmp_path).read_bytes(words.digest)[:-9])
    with pytest.raises(ArtefactError, match="cannot be used"):
        backend.compile_grammar(GRAMMAR, GrammarReference("ab" * 32, ListOptions(), 1).to_ebnf(), {2})
    assert backend.compile_grammar(GRAMMAR, GrammarReference(words.digest, ListOptions(), 1).to_ebnf(), {2})


def test_extra_words_are_allowed_beside_the_list(
    backend: WordboundBackend,
    words: CompiledList,
    speller: Speller,
    tokenizer: PreTrainedTokenizerBase,
    tmp_path: Path,
) -> None:
    overlay = build_overlay(words, ListChanges(("Paris",)), speller)
    ArtefactFolder(tmp_path).write_bytes(overlay.digest, overlay_to_bytes(overlay))
    reference = GrammarReference(words.digest, ListOptions(), 2, 8, changes=overlay.digest)
    grammar = backend.compile_grammar(GRAMMAR, reference.to_ebnf(), {2})
    tokens = [token(tokenizer, text) for text in (" the", " Paris", " dog")]
    assert grammar.accept_tokens("r", tokens)
    assert not grammar.accept_tokens("r", [token(tokenizer, " runs")])


def test_a_budget_that_no_text_fits_fails_the_request(backend: WordboundBackend, words: CompiledList) -> None:
    with pytest.raises(TokenBudgetError):
        backend.compile_grammar(GRAMMAR, GrammarReference(words.digest, ListOptions(), 3, 0).to_ebnf(), {2})


def test_an_artefact_of_another_tokenizer_is_refused(backend: WordboundBackend, tmp_path: Path) -> None:
    foreign = build_words(word_list(["dog"], "en"), toy_speller(toy_tokenizer([])))
    ArtefactFolder(tmp_path).save(foreign)
    with pytest.raises(ArtefactError, match="another tokenizer"):
        backend.compile_grammar(GRAMMAR, GrammarReference(foreign.digest, ListOptions(), 1).to_ebnf(), {2})


def test_an_engine_without_a_folder_says_which_variable_to_set(
    tokenizer: PreTrainedTokenizerBase, words: CompiledList, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ARTEFACT_DIR_VARIABLE, raising=False)
    backend = WordboundBackend(CONFIG, tokenizer=tokenizer, vocab_size=len(tokenizer))
    with pytest.raises(ArtefactError, match="set WORDBOUND_ARTEFACT_DIR"):
        backend.compile_grammar(GRAMMAR, GrammarReference(words.digest, ListOptions(), 1).to_ebnf(), {2})


def test_a_state_that_the_list_does_not_have_fails_the_request(backend: WordboundBackend, words: CompiledList) -> None:
    reference = GrammarReference(words.digest, ListOptions(), 3, start=(2**40,))
    with pytest.raises(ValueError, match="no reading"):
        backend.compile_grammar(GRAMMAR, reference.to_ebnf(), {2})
