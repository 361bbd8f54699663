"""Lists as xgrammar's grammars: compiled as by the vocabulary deployment, read by the backend as vLLM builds it."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest
import vllm.v1.structured_output as structured_output
import xgrammar
from transformers import AutoConfig, AutoTokenizer
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar, StructuredOutputOptions
from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

from tests.checker import assert_only_listed_words
from tests.vocab.toys import STOP, tokens_of, toy_tokenizer
from tests.vocab.vllm_plugin.manager import installed_plugin
from vocab.artefacts import grammar as grammar_files
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import Speller
from vocab.compiler import grammars
from vocab.compiler.grammars import GrammarCompiler
from vocab.compiler.jobs import ChangeList, Compiled, CompileGrammar, CompileList, Job, MeasureTexts
from vocab.compiler.worker import ListCompiler
from vocab.errors import ArtefactError, ListTooLargeError
from vocab.lists.wordlists import inline_word_list, load_word_list
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE
from vocab.matching.reference import write_compiled_grammar
from vocab.options import ListOptions
from vocab.text.changes import NO_CHANGES, ListChanges
from vocab.text.grammar import write_ebnf

EOS: Final = 2
OWN: Final = ("the", "dog", "runs", "don't", "l'eau", "difícil", "in front of", 'so"called', "back\\slash", "[x]")
OPTIONS: Final = ListOptions(case="any")


class World:
    """A compiler of lists and grammars, and vLLM's backend over the same folder."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.model = model
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self.speller = Speller.from_tokenizer(self.tokenizer)
        self.folder = ArtefactStore(folder, 2**30)
        self.compiler = self.make_compiler(GrammarCompiler.for_model(str(model), trust_remote_code=False))
        self.backend = self.make_backend()
        self.bitmask = self.backend.allocate_token_bitmask(1)

    def make_compiler(self, compiler: GrammarCompiler) -> ListCompiler:
        return ListCompiler(self.speller, self.folder, make_grammars=lambda: compiler)

    def make_backend(self, num_drafts: int | None = None) -> XgrammarBackend:
        config = SimpleNamespace(
            structured_outputs_config=SimpleNamespace(disable_any_whitespace=False),
            speculative_config=None if num_drafts is None else SimpleNamespace(num_speculative_tokens=num_drafts),
        )
        vocab_size = AutoConfig.from_pretrained(self.model).vocab_size
        return structured_output.XgrammarBackend(config, tokenizer=self.tokenizer, vocab_size=vocab_size)

    def run(self, job: Job, compiler: ListCompiler | None = None) -> Compiled:
        reply = (compiler or self.compiler).run(job)
        if reply.error is not None:
            raise reply.error
        assert reply.compiled is not None
        return reply.compiled

    def texts(self, *words: str, **fields: Any) -> MeasureTexts:
        """Of a client's own list, or of a built-in one that is named."""
        lang = fields.pop("lang", "en")
        digest = self.run(CompileList(lang, words or None, is_whole=False)).digest
        return replace(MeasureTexts(digest, None, OPTIONS, len(words)), **fields)

    def load(self, digest: str, backend: XgrammarBackend | None = None) -> StructuredOutputGrammar:
        reference = write_compiled_grammar(digest)
        # What vLLM does before the engine has it.
        xgrammar.Grammar.from_ebnf(reference)
        return (backend or self.backend).compile_grammar(StructuredOutputOptions.GRAMMAR, reference, {EOS})

    def allowed(self, grammar: StructuredOutputGrammar) -> Any:
        grammar.fill_bitmask(self.bitmask, 0)
        return self.bitmask[0].numpy().copy()

    def tokens(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))


@pytest.fixture(scope="module")
def world(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("grammars")
    with installed_plugin() as patch:
        patch.setenv(ARTEFACT_DIR_VARIABLE, str(folder))
        yield World(smollm2_path, folder)


@pytest.fixture
def no_compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What xgrammar was asked to compile."""
    compiled: list[str] = []
    for name in ("compile_grammar", "compile_regex", "compile_json_schema"):
        monkeypatch.setattr(xgrammar.GrammarCompiler, name, lambda *_, name=name: compiled.append(name))
    return compiled


@pytest.mark.parametrize(
    ("lang", "words", "n_words", "changes"),
    [
        ("en", OWN, len(OWN), NO_CHANGES),
        ("en", OWN, 4, ListChanges(("Zaragoza",), ("dog",))),
        ("es", (), 1000, NO_CHANGES),
    ],
    ids=["own", "own-changed", "es-1000"],
)
def test_masks_are_those_of_the_list_as_ebnf_and_the_engine_compiles_nothing(
    world: World, request: pytest.FixtureRequest, lang: str, words: tuple[str, ...], n_words: int, changes: ListChanges
) -> None:
    word_list = inline_word_list(words, lang) if words else load_word_list(lang, None)
    ebnf = write_ebnf(word_list, OPTIONS, n_words, changes)
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(world.tokenizer), max_threads=1)
    expected, theirs = xgrammar.GrammarMatcher(compiler.compile_grammar(ebnf)), world.backend.allocate_token_bitmask(1)
    texts = world.texts(*words, lang=lang, n_words=n_words)
    if changes:
        changed = world.run(ChangeList(texts.digest, changes.extra_words, changes.exclude_words))
        texts = replace(texts, changes=changed.digest)
    made = world.run(CompileGrammar(texts))
    compiled = request.getfixturevalue("no_compiles")
    grammar, draw = world.load(made.digest), random.Random(5)
    for _ in range(4):
        text: list[int] = []
        for _ in range(25):
            mask = world.allowed(grammar)
            expected.fill_next_token_bitmask(theirs)
            assert np.array_equal(mask, theirs[0].numpy())
            going_on = sorted(tokens_of(mask) - {EOS})
            token = draw.choice(going_on)
            text.append(token)
            assert grammar.accept_tokens("r", [token])
            assert expected.accept_token(token)
        grammar.reset()
        expected.reset()
    if lang == "es" or n_words == len(OWN):
        # Rejected after ``Grammar.from_ebnf``.
        assert grammar.accept_tokens("r", [*world.tokens("Difícil."), EOS])
        assert grammar.is_terminated()
    assert compiled == []


def test_texts_of_a_thousand_words_keep_to_them(world: World) -> None:
    texts = world.texts(lang="es", n_words=1000, options=ListOptions(punctuation="basic"))
    grammar = world.load(world.run(CompileGrammar(texts)).digest)
    draw = random.Random(3)
    for _ in range(5):
        grammar.reset()
        text: list[int] = []
        # It ends where it may, after some words.
        while EOS not in (allowed := tokens_of(world.allowed(grammar))) or len(text) < 30:
            text.append(draw.choice(sorted(allowed - {EOS})))
            assert grammar.accept_tokens("r", text[-1:])
        assert_only_listed_words(world.tokenizer.decode(text), "es", 1000)


def test_drafts_are_validated_and_rolled_back(world: World) -> None:
    digest = world.run(CompileGrammar(world.texts("the", "dog", "runs"))).digest
    grammar = world.load(digest, world.make_backend(num_drafts=4))
    drafts = [token for text in (" the", " dog", " cat", " runs") for token in world.tokens(text)]
    assert grammar.validate_tokens(drafts[:3]) == drafts[:2]
    assert grammar.accept_tokens("r", drafts[:2])
    before = world.allowed(grammar)
    assert grammar.accept_tokens("r", [drafts[3], EOS])
    assert grammar.is_terminated()
    grammar.rollback(2)
    assert not grammar.is_terminated()
    assert np.array_equal(world.allowed(grammar), before)


def test_what_is_made_once_is_found_and_made_again_where_it_is_damaged_or_of_another_xgrammar(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = world.texts("the", "cat")
    made, found = (world.run(CompileGrammar(texts)) for _ in range(2))
    assert (made.was_stored, found.was_stored, found.digest) == (False, True, made.digest)
    others = [replace(texts, n_words=1), replace(texts, options=ListOptions(numbers=True)), world.texts("the", "dog")]
    assert len({world.run(CompileGrammar(one)).digest for one in others} | {made.digest}) == 4
    world.folder.write_bytes(made.digest, world.folder.read_bytes(made.digest)[:-3])
    with pytest.raises(ArtefactError, match="damaged"):
        world.load(made.digest)
    again = world.run(CompileGrammar(texts))
    assert (again.digest, again.was_stored) == (made.digest, False)
    assert tokens_of(world.allowed(world.load(made.digest)))
    for module in (grammars, grammar_files):
        monkeypatch.setattr(module, "grammar_version", lambda: "1 0.0.1")
    newer = world.run(CompileGrammar(texts))
    assert newer.digest != made.digest
    monkeypatch.undo()
    with pytest.raises(ArtefactError, match=r"by xgrammar 0\.0\.1.*same version everywhere"):
        world.load(newer.digest)


def test_the_engine_reads_grammars_of_its_own_folder_and_tokenizer_only(world: World, tmp_path: Path) -> None:
    info = xgrammar.TokenizerInfo(
        list(toy_tokenizer(["the"]).token_bytes), vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[STOP]
    )
    texts = world.texts("the", "dog")
    foreign = world.run(CompileGrammar(texts), world.make_compiler(GrammarCompiler(info))).digest
    (tmp_path / "grammar.safetensors").write_bytes(world.folder.read_bytes(foreign))
    for digest, message in (
        (foreign, "for this engine"),
        ("0" * 64, "cannot be read"),
        (texts.digest, "holds another one"),
    ):
        with pytest.raises(ArtefactError, match=message):
            world.load(digest)
    # A path is no digest: of such a reference nothing is read, and nothing can be written.
    for path in (str(tmp_path / "grammar"), f"../{tmp_path.name}/grammar"):
        assert tokens_of(world.allowed(world.load(path))) == {EOS}


def test_the_engine_keeps_as_many_as_its_environment_says(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ARTEFACT_DIR_VARIABLE, str(world.folder.path_of("0" * 64).parent))
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "1")
    small = world.make_backend()
    digests = [world.run(CompileGrammar(world.texts(word, "cat"))).digest for word in ("a", "dog")]
    for digest in digests:
        for backend in (world.backend, small):
            world.load(digest, backend)
    world.folder.discard(digests[0])
    world.load(digests[0])
    with pytest.raises(ArtefactError, match="cannot be read"):
        world.load(digests[0], small)


@pytest.mark.fault(29)
@pytest.mark.parametrize(("limit", "value"), [("MAX_BYTES", 2**24), ("MAX_CPU_S", 1)])
def test_a_list_that_takes_too_much_is_refused_and_says_what_to_change(
    world: World, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(grammars, limit, value)
    with pytest.raises(ListTooLargeError, match=r"fewer words \('n_words'\).*automaton"):
        world.run(CompileGrammar(world.texts(lang="en", n_words=5000)))
    monkeypatch.undo()
    assert world.run(CompileGrammar(world.texts("a", "small", "one"))).digest
