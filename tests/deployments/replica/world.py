"""The whole replica, vLLM's server included, around an engine whose mask lets one step in fifty through.

Made up are the engine's process, which draws real tokens of the demo's tokenizer, at random where no mask holds it, or
says what a test wants, true or not; and the process that tries schemas, which finds no fault in any.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import vllm.entrypoints.openai.api_server  # noqa: F401 - raises the level of all handlers: before pytest's are there
from ray.serve.llm.deployment import LLMServer
from transformers import AutoTokenizer
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.renderers import renderer_from_config
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine.detokenizer import IncrementalDetokenizer
from vllm.v1.engine.input_processor import InputProcessor
from vllm.v1.outputs import LogprobsTensors

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
from deployments.replica.engine.health import PROOF_LIST
from deployments.replica.engine.loaded_adapters import EngineAdapters
from deployments.settings.service import Settings
from tests.deployments.handles import Handle
from tests.deployments.replica.toy_engine import ToyEngine, joined
from vocab.artefacts.artefact import overlay_to_bytes
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.dictionary_trie import build_segmented
from vocab.automaton.overlay import build_overlay
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.compiler.jobs import CheckStructure, Reply
from vocab.lists.wordlists import WordList
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE, EngineCache
from vocab.matching.log_mass import pack
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions

MODEL = "m"
WORDS = (
    "the", "a", "cat", "dog", "house", "sat", "sleeps", "in front of", "don't", "old", "small", "sees", "and", "it",
    "is", "under", "café", "was", "mat", "with",
)  # fmt: skip
BODY = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9}
SAMPLE = Decoding(no_repeat_ngram_size=0)


class Said(NamedTuple):
    """A text that an engine writes in these parts, whatever its mask says; each of its tokens has one of ``tops``."""

    parts: Sequence[str]
    finish_reason: str = "stop"
    stop_reason: str | None = None
    tops: Sequence[Mapping[int, float]] = ()


class LeakyEngine(ToyEngine):
    """One step in fifty may take any token; the matcher goes on as if the token had not been."""

    logger_manager = None

    def __init__(self, tokenizer: Any, lists: EngineCache, config: Any) -> None:
        super().__init__(tokenizer, lists)
        self.vllm_config, self.model_config, self.errored = config, config.model_config, False
        self.renderer, self.input_processor = renderers(config)
        self.num_unmasked = self.num_sequences = self.most_sequences = 0
        self.leaks, self.stalls = False, False
        """Whether masks fail, and whether a text's second part never comes."""
        self.said: Sequence[Said] = ()
        """What it writes in place of what it would draw, one after the other for each choice."""
        self.table: Callable[[list[int]], Any] | None = None
        """In place of its own log-probabilities."""
        self.worth: Callable[[str], float] | None = None
        """Of a whole text, in place of the log-probability of its last token."""
        self.has_rows = True
        self._chance = np.random.default_rng(11)
        logits = self._chance.normal(size=(8, len(tokenizer))) * 3
        self._log_ps = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def check_admission(self, num_sequences: int) -> None: ...

    async def is_tracing_enabled(self) -> bool:
        return False

    async def get_supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)

    async def add_lora(self, request: Any) -> bool:
        return True

    def log_p(self, tokens: list[int]) -> Any:
        return self.table(tokens) if self.table is not None else self._log_ps[(tokens[-1] + len(tokens)) % 8]

    async def generate(
        self, prompt: Any, params: SamplingParams, request_id: str, **options: Any
    ) -> AsyncGenerator[RequestOutput, None]:
        tokens = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt["prompt_token_ids"])
        self.requests.append((tokens, params, request_id, options))
        self.salts.add(None if isinstance(prompt, str) else prompt.get("cache_salt"))
        self.num_running += 1
        self.num_sequences += params.n
        self.most_sequences = max(self.most_sequences, self.num_sequences)
        try:
            if self.failure is not None and params.output_kind != RequestOutputKind.DELTA:
                raise self.failure
            if self.stalls and params.max_tokens == 1:
                await asyncio.sleep(3600)
            if params.max_tokens == 1 and params.structured_outputs is None:
                await asyncio.sleep(0)
                yield self._read(tokens, params, request_id)
                return
            write = self._say if self.said else self._text
            texts = [write(tokens, params, index) for index in range(params.n)]
            if params.output_kind == RequestOutputKind.DELTA:
                parts = [[part] for step in zip_longest(*texts) for part in step if part is not None]
            else:
                parts = [[joined(text) for text in texts]]
            for part in parts:
                await asyncio.sleep(3600 if self.stalls and part is parts[-1] else 0)
                yield RequestOutput(request_id, None, tokens, None, part, part is parts[-1])
                if self.failure is not None:
                    raise self.failure
        finally:
            self.num_running -= 1
            self.num_sequences -= params.n

    def _read(self, tokens: list[int], params: SamplingParams, request_id: str) -> RequestOutput:
        """One token, with the row after the prompt, or the log-probability of each of its tokens."""
        result: Any = [None]
        for place in range(1, len(tokens)) if params.prompt_logprobs is not None else ():
            log_p = -0.1 if self.worth is not None else float(self.log_p(tokens[:place])[tokens[place]])
            result.append({tokens[place]: Logprob(log_p)})
        if self.worth is not None and params.prompt_logprobs is not None:
            result[-1] = {tokens[-1]: Logprob(self.worth(self.tokenizer.decode(tokens)))}
        if params.prompt_logprobs is None and self.has_rows:
            nothing = torch.zeros(1, dtype=torch.int32)
            row = torch.from_numpy(self.log_p(tokens).astype(np.float32))
            result = [LogprobsTensors(nothing, row[None], nothing)]
        logprobs: Any = None if params.logprobs is None else [{0: Logprob(-1.0, 1)}]
        drawn = CompletionOutput(0, "", [0], None, logprobs, finish_reason=self.finish_reason or "length")
        return RequestOutput(request_id, None, tokens, result, [drawn], finished=True)

    def _say(self, tokens: list[int], params: SamplingParams, index: int) -> list[CompletionOutput]:
        said, tops = self.said[index % len(self.said)], iter(self.said[index % len(self.said)].tops)
        made = []
        for part in said.parts:
            # vLLM's server sends nothing for an output without tokens.
            written = self.tokenizer.encode(part, add_special_tokens=False) or [self.tokenizer.eos_token_id]
            entries = [{one: Logprob(-1.0, pack(-0.5, -0.5)), **_entries(next(tops, {}))} for one in written]
            logprobs: Any = None if params.logprobs is None else entries
            made.append(CompletionOutput(index, part, written, None, logprobs))
        made[-1].finish_reason, made[-1].stop_reason = said.finish_reason, said.stop_reason
        return made

    def _text(self, tokens: list[int], params: SamplingParams, index: int) -> list[CompletionOutput]:
        made = self._generate(tokens, params, 100 * len(self.requests) + index)
        request: Any = SimpleNamespace(request_id="", prompt_token_ids=tokens[-16:], sampling_params=params)
        detokenizer = IncrementalDetokenizer.from_new_request(self.tokenizer, request)
        for output in made:
            output.index = index
            if not params.stop:
                # The toy's own texts have halves of characters.
                detokenizer.update(list(output.token_ids), output.finish_reason == "stop")
                output.text = detokenizer.get_next_output_text(output.finished(), delta=True)
        return made

    def _allowed(self, matcher: Matcher | None) -> Any:
        if self.leaks and self._chance.random() < 1 / 50:
            self.num_unmasked += 1
            return super()._allowed(None)
        return super()._allowed(matcher)


def _entries(top: Mapping[int, float]) -> dict[int, Logprob]:
    return {token: Logprob(value, 2) for token, value in top.items()}


_RENDERERS: dict[str, tuple[Any, Any]] = {}


def renderers(config: Any) -> tuple[Any, Any]:
    """What vLLM renders and checks prompts with, once for each model: it takes longer than all else of a start."""
    if config.model_config.model not in _RENDERERS:
        renderer = renderer_from_config(config)
        _RENDERERS[config.model_config.model] = renderer, InputProcessor(config, renderer)
    return _RENDERERS[config.model_config.model]


class Compiler:
    """Takes every schema."""

    async def ask(self, job: CheckStructure, owner: str) -> Reply:
        return Reply()


class Lists:
    """The vocabulary deployment; it knows the lists of ``world``, by language, and counts what it is asked."""

    def __init__(self, world: "ReplicaWorld") -> None:
        self._world = world
        self.asked: list[VocabularySpec] = []
        self.failure: Exception | None = None

    async def resolve_or_refuse(self, spec: VocabularySpec, owner: str) -> ResolvedVocabulary:
        self.asked.append(spec)
        if self.failure is not None:
            raise self.failure
        return self._world.resolve(spec)


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
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self.speller = Speller.from_tokenizer(self.tokenizer)
        self.store = ArtefactStore(folder, 2**30)
        self._lists: dict[str | None, CompiledList] = {}
        self.vocabulary = self.add_list(WORDS)
        self.spec = VocabularySpec(lang="en", n_words=len(WORDS))
        args = {"max_model_len": 2048, "enforce_eager": True, "max_logprobs": 64}
        config = AsyncEngineArgs(model=str(model), served_model_name=[MODEL], **args).create_engine_config()
        config.scheduler_config.max_num_seqs = settings.get("max_sequences", config.scheduler_config.max_num_seqs)
        if "reasoning_parser" in settings.get("engine_kwargs", {}):
            config.reasoning_config = SimpleNamespace(enabled=True)
        self.engine = LeakyEngine(self.tokenizer, EngineCache(folder, self.speller.facts), config)
        if settings.get("mask_engine") == "xgrammar":
            # It follows no grammars but ours.
            self.engine.said = [Said(PROOF_LIST.words[:1])]
        self.lists = Lists(self)
        given = {"secret_token": "k", "model_name": str(model), "model_id": MODEL, "artefact_dir": str(folder)}
        args |= settings.pop("engine_kwargs", {})
        self.settings = Settings.load({**given, "engine_kwargs": args, **settings}, {})
        with ThreadPoolExecutor(1) as thread:
            # A test may run in a loop of its own.
            self.replica: Replica = thread.submit(asyncio.run, self._start(adapters)).result()
        self.engine.leaks = True

    def reset(self) -> None:
        """Have the engine write by its masks again, and forget what it was asked."""
        self.engine.said, self.engine.table, self.engine.worth = (), None, None
        self.engine.failure, self.engine.finish_reason, self.engine.has_rows = None, None, True
        self.engine.leaks = self.engine.stalls = self.engine.errored = False
        self.engine.most_sequences = 0
        self.engine.requests.clear()
        self.engine.salts.clear()
        self.lists.failure = None
        self.lists.asked.clear()

    def add_list(
        self, words: Sequence[str], lang: str = "en", options: ListOptions | None = None
    ) -> ResolvedVocabulary:
        word_list = WordList(lang, tuple(words), "file")
        made = (build_segmented if word_list.is_unspaced else build_words)(word_list, self.speller)
        self.store.save(made)
        self._lists[lang] = made
        return self.resolve(VocabularySpec(lang=lang), options)

    def resolve(self, spec: VocabularySpec, options: ListOptions | None = None) -> ResolvedVocabulary:
        made, changes = self._lists[spec.lang], None
        if spec.changes:
            overlay = build_overlay(made, spec.changes, self.speller)
            self.store.write_bytes(overlay.digest, overlay_to_bytes(overlay))
            changes = overlay.digest
        return ResolvedVocabulary(
            digest=made.digest,
            changes_digest=changes,
            options=options or ListOptions(),
            lang=spec.lang,
            n_words=spec.n_words or made.listed.num_ranks,
            fewest_tokens=2,
        )

    async def _start(self, adapters: EngineAdapters | None) -> Replica:
        with pytest.MonkeyPatch.context() as patch:
            # What a replica sets for its engine's process.
            for variable in (ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE, "WORDBOUND_MASK_STATISTICS"):
                patch.setenv(variable, "")
            patch.setattr(structures, "ProcessInTurns", lambda *_: Compiler())
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
