"""The whole replica, vLLM's server included, around an engine whose mask lets one step in fifty through.

Made up are the engine's process, which draws real tokens of the demo's tokenizer, at random where no mask holds it, or
says what a test wants, true or not; and the process that tries schemas, which finds the faults that a test names.
"""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import vllm.entrypoints.openai.api_server  # noqa: F401 - raises the level of all handlers: before pytest's are there
from ray.serve.llm.deployment import LLMServer
from transformers import AutoTokenizer
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import SamplingParams

from deployments.contract import (
    BEGUN,
    Caller,
    Decoding,
    LineAnswer,
    LineRequest,
    ReplicaRequest,
    ResolvedVocabulary,
    TextRequest,
    Tool,
    VocabularySpec,
    WordToolRequest,
)
from deployments.errors import ApiError
from deployments.offline.engine import make_replica
from deployments.replica.deployment import Replica
from deployments.replica.engine import structures
from deployments.replica.engine.engine_adapters import EngineAdapters
from deployments.replica.engine.health import PROOF_LIST
from deployments.settings.service import Settings
from tests.deployments.handles import Handle
from tests.deployments.replica.toy_engine import LeakyEngine, Said
from vocab.artefacts.artefact import overlay_to_bytes, write_tensors
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.dictionary_trie import build_segmented
from vocab.automaton.overlay import build_overlay
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.compiler.jobs import CheckStructure, Reply
from vocab.errors import ArtefactError
from vocab.lists.wordlists import WordList
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE, EngineCache
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions

MODEL = "m"
WORDS = (
    "the", "a", "cat", "dog", "house", "sat", "sleeps", "in front of", "don't", "old", "small", "sees", "and", "it",
    "is", "under", "café", "was", "mat", "with",
)  # fmt: skip
BODY = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9}
SAMPLE = Decoding(no_repeat_ngram_size=0)


class Compiler:
    """The process that tries schemas; it has no fault to find but what ``reply`` says."""

    def __init__(self) -> None:
        self.reply: Reply | Exception = Reply()
        self.asked: list[CheckStructure] = []

    async def ask(self, job: CheckStructure, owner: str) -> Reply:
        self.asked.append(job)
        await asyncio.sleep(0)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


class Lists:
    """The vocabulary deployment; it knows the lists of ``world``, by language, and counts what it is asked."""

    def __init__(self, world: "ReplicaWorld") -> None:
        self._world = world
        self.asked: list[VocabularySpec] = []
        self.fetched: list[str] = []
        """The artefacts that the replica did not find on its node."""
        self.failure: Exception | None = None

    async def resolve_or_refuse(self, spec: VocabularySpec, owner: str) -> ResolvedVocabulary:
        self.asked.append(spec)
        if self.failure is not None:
            raise self.failure
        return self._world.resolve(spec)

    async def fetch(self, digest: str) -> bytes:
        self.fetched.append(digest)
        await asyncio.sleep(0.05)
        if self.failure is not None:
            raise self.failure
        if digest not in self._world.artefacts:
            raise ArtefactError("it is not there")
        return self._world.artefacts[digest]


@cache
def tokenizer_of(model: Path) -> tuple[Any, Speller]:
    tokenizer = AutoTokenizer.from_pretrained(model)
    return tokenizer, Speller.from_tokenizer(tokenizer)


class ReplicaWorld:
    """A replica that has started, and its engine; ``settings`` are the service's.

    It has a list of ``WORDS``, and more with ``add_list``; ``adapters`` take the place of those of the settings.
    """

    def __init__(
        self,
        model: Path,
        folder: Path,
        *,
        adapters: EngineAdapters | None = None,
        **settings: Any,
    ) -> None:
        self.tokenizer, self.speller = tokenizer_of(model)
        self.store = ArtefactStore(folder, 2**30)
        """Of the replica's node."""
        self.artefacts: dict[str, bytes] = {}
        """All that were made, by digest."""
        self._lists: dict[str | None, CompiledList] = {}
        args = {"max_model_len": 2048, "enforce_eager": True, "max_logprobs": 64}
        config = AsyncEngineArgs(model=str(model), served_model_name=[MODEL], **args).create_engine_config()
        config.scheduler_config.max_num_seqs = settings.get("max_sequences", config.scheduler_config.max_num_seqs)
        if "reasoning_parser" in settings.get("engine_kwargs", {}):
            config.reasoning_config = SimpleNamespace(enabled=True)
        self.engine = LeakyEngine(self.tokenizer, EngineCache(folder, self.speller.facts), config)
        self.lists, self.compiler = Lists(self), Compiler()
        if settings.get("mask_engine") == "xgrammar":
            # It follows no grammars but ours.
            self.engine.said = [Said(PROOF_LIST.words[:1])]
        given = {"secret_token": "k", "model_name": str(model), "model_id": MODEL, "artefact_dir": str(folder)}
        args |= settings.pop("engine_kwargs", {})
        self.settings = Settings.load({**given, "engine_kwargs": args, **settings}, {})
        self.vocabulary = self.add_list(WORDS)
        self.spec = VocabularySpec(lang="en", n_words=len(WORDS))
        with ThreadPoolExecutor(1) as thread:
            # A test may run in a loop of its own.
            self.replica: Replica = thread.submit(asyncio.run, self._start(adapters)).result()
        self.engine.leaks = True
        self.start_requests = [params for _, params, *_ in self.engine.requests]
        """What the engine was asked before the replica was ready."""

    def reset(self) -> None:
        """Have the engine write by its masks again, and forget what it was asked."""
        self.engine.reset()
        self.lists.failure = None
        self.lists.asked.clear()
        self.lists.fetched.clear()
        self.compiler.reply = Reply()
        self.compiler.asked.clear()

    def add_list(
        self, words: Sequence[str], lang: str = "en", options: ListOptions | None = None, *, has_capitals: bool = False
    ) -> ResolvedVocabulary:
        word_list = WordList(lang, tuple(words), "file")
        if word_list.is_unspaced:
            made = build_segmented(word_list, self.speller)
        else:
            made = build_words(word_list, self.speller, has_capitals=has_capitals)
        self.store.save(made)
        self.store.table_of(made.listed.word_list)
        for path in self.store.path_of(made.digest).parent.glob("*.safetensors"):
            self.artefacts.setdefault(path.stem, path.read_bytes())
        self._lists[lang] = made
        return self.resolve(VocabularySpec(lang=lang), options)

    def resolve(self, spec: VocabularySpec, options: ListOptions | None = None) -> ResolvedVocabulary:
        if spec.words is not None:
            # That of the start-up proof.
            return self.add_list(spec.words, "own", spec.options)
        made, changes = self._lists[spec.lang], None
        if spec.changes:
            overlay = build_overlay(made, spec.changes, self.speller)
            changes = overlay.digest
            self.artefacts[changes] = overlay_to_bytes(overlay)
            self.store.write_bytes(changes, self.artefacts[changes])
        return ResolvedVocabulary(
            digest=made.digest,
            changes_digest=changes,
            grammar_digest=self._grammar(made, spec) if self.settings.mask_engine == "xgrammar" else None,
            options=options or ListOptions(possessive=spec.possessive),
            lang=spec.lang,
            n_words=spec.n_words or made.listed.num_ranks,
            fewest_tokens=2,
        )

    def _grammar(self, made: CompiledList, spec: VocabularySpec) -> str:
        """The artefact of a grammar, which this engine does not read."""
        digest = hashlib.sha256(f"{made.digest} {spec}".encode()).hexdigest()
        self.artefacts[digest] = write_tensors({}, {"digest": digest})
        return digest

    async def _start(self, adapters: EngineAdapters | None) -> Replica:
        with pytest.MonkeyPatch.context() as patch:
            # What a replica sets for its engine's process.
            for variable in (ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE, "WORDBOUND_MASK_STATISTICS"):
                patch.setenv(variable, "")
            patch.setattr(structures, "ProcessInTurns", lambda *_: self.compiler)
            if adapters is not None:
                patch.setattr(EngineAdapters, "read", lambda _: adapters)
            return await make_replica(self.settings, vocabulary=Handle(self.lists), client=self.engine)

    async def items(self, request: ReplicaRequest) -> list[Any]:
        """The items of an answer, after what says that it has begun."""
        items = [item async for item in self.replica.answer(request)]
        return items[1:] if isinstance(items[0], str) and items[0] == BEGUN else items

    async def ask(
        self, vocabulary: ResolvedVocabulary | None = None, how: Decoding = SAMPLE, owner: str = "alice", **fields: Any
    ) -> list[Any]:
        """The items of the answer to a chat, or to a completion where ``fields`` have its prompt."""
        body = {**BODY, **fields}
        if "prompt" in body:
            del body["messages"]
        return await self.items(TextRequest(body, vocabulary, how, Caller(owner, "req-1")))

    async def line(self, **fields: Any) -> LineAnswer:
        return await self.replica.answer_line(LineRequest({**BODY, **fields}, "alice", "line"))

    async def tool(self, tool: Tool, spec: VocabularySpec | None = None, **body: Any) -> list[Any]:
        """The items of the answer of a word tool."""
        spec = spec or self.spec
        return await self.items(WordToolRequest(tool, body, self.resolve(spec), spec, Caller("alice", "req-1")))

    @property
    def params(self) -> SamplingParams:
        """Of the last request to the engine."""
        return self.engine.requests[-1][1]

    @property
    def prompt(self) -> str:
        """Of the last request to the engine, as text."""
        return str(self.tokenizer.decode(self.engine.requests[-1][0]))

    @property
    def reference(self) -> GrammarReference:
        """What the last request to the engine names its list by."""
        reference = GrammarReference.parse(self.params.structured_outputs.grammar)
        assert reference is not None
        return reference


def read(items: Sequence[Any]) -> tuple[list[dict[str, Any]], ApiError | None]:
    """The dicts that were sent, and the error if one was."""
    sent = [
        json.loads(item.removeprefix("data: ")) if isinstance(item, str) else item
        for item in items
        if item != "data: [DONE]\n\n" and not isinstance(item, ApiError)
    ]
    assert not any("error" in one for one in sent)
    return sent, next((item for item in items if isinstance(item, ApiError)), None)


def refusal(items: Sequence[Any]) -> ApiError:
    """The error that is all of an answer."""
    [error] = items
    assert isinstance(error, ApiError), error
    return error


def parts(items: Sequence[Any], index: int = 0) -> list[str]:
    """The texts of one choice that an answer was sent in."""
    choices = [choice for one in read(items)[0] for choice in one["choices"] if choice["index"] == index]
    texts = [(one.get("delta") or one.get("message") or {"content": one.get("text")}).get("content") for one in choices]
    return [text for text in texts if text]


def block(items: Sequence[Any]) -> dict[str, Any]:
    """The ``vocab`` block of an answer, which only its last part has."""
    *others, last = read(items)[0]
    assert not any("vocab" in one for one in others)
    found: dict[str, Any] = last["vocab"]
    return found


# Ray's server has one that is a coroutine, which nobody awaits.
LLMServer.__del__ = lambda self: None
