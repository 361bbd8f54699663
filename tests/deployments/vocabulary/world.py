"""Vocabularies over list files and an artefact folder, whose compiler does its jobs in this process."""

import asyncio
import threading
from pathlib import Path

import xgrammar

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.settings.service import Settings
from deployments.vocabulary.compile_pool import CompileJob, CompilePool
from deployments.vocabulary.deployment import Vocabulary
from tests.vocab.toys import STOP, can_spell, toy_speller, toy_tokenizer
from vocab.artefacts.store import ArtefactStore, SharedStore
from vocab.automaton.tokenizer import Speller
from vocab.compiler.grammars import GrammarCompiler
from vocab.compiler.jobs import Compiled, Job, MeasureTexts, Reply
from vocab.compiler.worker import ListCompiler
from vocab.errors import (
    VocabularyError,
)
from vocab.matching.engine_cache import EngineCache
from vocab.matching.reference import GrammarReference

MAX_BYTES = 10**8
TOKENIZER = toy_tokenizer(["the", "cat"])
SMALL = 4
"""``FIRST_WORDS`` in tests of a long list."""


class CompilerHere(CompilePool):
    """Does jobs in a thread of this process, counts them, and waits where a test wants to look at those who wait."""

    def __init__(self, compiler: ListCompiler, store: ArtefactStore) -> None:
        self._compiler = compiler
        self._store = store
        self.jobs: list[CompileJob] = []
        self.num_measured = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self._turn = threading.Lock()
        self.fault: VocabularyError | None = None

    async def warm_up(self) -> None: ...

    async def close(self) -> None: ...

    async def compile(self, job: CompileJob, owner: str = "") -> Compiled:
        self.jobs.append(job)
        compiled = (await asyncio.to_thread(self._run, job)).compiled
        assert compiled is not None
        return compiled

    async def measure(self, job: MeasureTexts, owner: str = "") -> int | None:
        self.num_measured += 1
        return (await asyncio.to_thread(self._run, job)).fewest_tokens

    def _run(self, job: Job) -> Reply:
        assert self.may_go_on.wait(10)
        if self.fault is not None:
            raise self.fault
        with self._turn:
            reply = self._compiler.run(job)
        if reply.error is not None:
            raise reply.error
        self._store.share()
        return reply


class Lists:
    """List files, an artefact folder, and vocabularies over them."""

    def __init__(self, folder: Path) -> None:
        self.lists = folder / "lists"
        self.lists.mkdir()
        self.artefacts = folder / "artefacts"
        self.shared = f"file://{folder}/shared"
        self.compilers: list[CompilerHere] = []
        self.speller: Speller = toy_speller(TOKENIZER)

    def write(self, name: str, *words: str) -> None:
        """Replaces a list, as an editor does that writes beside it first."""
        beside = self.lists / f"{name}.new"
        beside.write_text("\n".join(words))
        beside.replace(self.lists / f"{name}.txt")

    async def vocabulary(self, **args: object) -> Vocabulary:
        settings = Settings.load(
            {"secret_token": "k", "wordlist_dir": str(self.lists), "artefact_dir": str(self.artefacts), **args}, {}
        )
        shared = SharedStore(settings.artefact_store, MAX_BYTES) if settings.artefact_store else None
        store = ArtefactStore(settings.resolved_artefact_dir(), settings.artefact_bytes, shared)
        compiler = CompilerHere(ListCompiler(self.speller, store, self.lists, _grammars), store)
        self.compilers.append(compiler)
        return await Vocabulary.create(settings, compiler=compiler)

    @property
    def compiler(self) -> CompilerHere:
        """That of the last vocabulary."""
        return self.compilers[-1]

    @property
    def num_jobs(self) -> int:
        return sum(len(compiler.jobs) for compiler in self.compilers)

    def words(self, resolved: ResolvedVocabulary) -> tuple[str, ...]:
        return ArtefactStore(self.artefacts, MAX_BYTES).load(resolved.digest).listed.word_list.words

    def allows(self, resolved: ResolvedVocabulary, text: str, *, artefacts: str = "") -> bool:
        """Whether an engine may write a text in a vocabulary, whose artefacts lie there in the folder."""
        reference = GrammarReference(
            resolved.digest, resolved.options, resolved.n_words, changes=resolved.changes_digest
        )
        return can_spell(EngineCache(self.artefacts / artefacts, TOKENIZER).states(reference), TOKENIZER, text)


def _grammars() -> GrammarCompiler:
    tokens = list(TOKENIZER.token_bytes)
    return GrammarCompiler(xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[STOP]))


def spec(lang: str, n_words: int | None = 3, **fields: object) -> VocabularySpec:
    return VocabularySpec.model_validate({"lang": lang, "n_words": n_words, "end": "word"} | fields)


def own(*words: str, **fields: object) -> VocabularySpec:
    return VocabularySpec.model_validate({"words": words, "end": "word", **fields})


async def numbers(vocabulary: Vocabulary) -> tuple[int, int]:
    stats = await vocabulary.stats()
    return stats["num_compiles"], stats["num_loaded"]
