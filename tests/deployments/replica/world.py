"""The whole replica, vLLM's server included, around an engine whose mask lets one step in fifty through.

Only the engine's process is made up: it draws real tokens of the demo's tokenizer, at random where no mask holds it.
"""

import asyncio
from collections.abc import AsyncGenerator
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import vllm.entrypoints.openai.api_server  # noqa: F401 - raises the level of all handlers: before pytest's are there
from ray.serve.llm.deployment import LLMServer
from transformers import AutoTokenizer
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.renderers import renderer_from_config
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine.detokenizer import IncrementalDetokenizer
from vllm.v1.engine.input_processor import InputProcessor
from vllm.v1.outputs import LogprobsTensors

from deployments.contract import BEGUN, ReplicaRequest, ResolvedVocabulary, VocabularySpec
from deployments.offline.engine import make_replica
from deployments.replica.deployment import Replica
from deployments.settings.service import Settings
from tests.deployments.handles import Handle
from tests.deployments.search.toy_engine import ToyEngine, joined
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.lists.wordlists import WordList
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE, EngineCache
from vocab.matching.matcher import Matcher
from vocab.options import ListOptions

MODEL = "m"
WORDS = (
    "the", "a", "cat", "dog", "house", "sat", "sleeps", "in front of", "don't", "old", "small", "sees", "and", "it",
    "is", "under", "café", "was", "mat", "with",
)  # fmt: skip


class LeakyEngine(ToyEngine):
    """One step in fifty may take any token; the matcher goes on as if the token had not been."""

    logger_manager = None

    def __init__(self, tokenizer: Any, lists: EngineCache, config: Any) -> None:
        super().__init__(tokenizer, lists)
        self.vllm_config, self.model_config, self.errored = config, config.model_config, False
        self.renderer: Any = renderer_from_config(config)
        self.input_processor: Any = InputProcessor(config, self.renderer)
        self.num_unmasked = 0
        self.leaks, self.stalls = False, False
        """Whether masks fail, and whether a text's second part never comes."""
        self._chance = np.random.default_rng(11)
        logits = self._chance.normal(size=(8, len(tokenizer))) * 3
        self._log_ps = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def check_admission(self, num_sequences: int) -> None: ...

    async def is_tracing_enabled(self) -> bool:
        return False

    async def get_supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)

    def log_p(self, tokens: list[int]) -> Any:
        return self._log_ps[(tokens[-1] + len(tokens)) % 8]

    async def generate(
        self, prompt: Any, params: SamplingParams, request_id: str, **options: Any
    ) -> AsyncGenerator[RequestOutput, None]:
        tokens = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt["prompt_token_ids"])
        self.requests.append((tokens, params, request_id, options))
        self.num_running += 1
        try:
            if self.stalls and params.max_tokens == 1:
                await asyncio.sleep(3600)
            if params.max_tokens == 1 and params.structured_outputs is None:
                yield self._read(tokens, params, request_id)
                return
            texts = [self._text(tokens, params, index) for index in range(params.n)]
            if params.output_kind == RequestOutputKind.DELTA:
                parts = [[part] for step in zip_longest(*texts) for part in step if part is not None]
            else:
                parts = [[joined(text) for text in texts]]
            for part in parts:
                await asyncio.sleep(3600 if self.stalls and part is parts[-1] else 0)
                yield RequestOutput(request_id, None, tokens, None, part, part is parts[-1])
        finally:
            self.num_running -= 1

    def _read(self, tokens: list[int], params: SamplingParams, request_id: str) -> RequestOutput:
        """One token, with the row after the prompt, or the log-probability of each of its tokens."""
        result: Any = [None]
        for place in range(1, len(tokens)) if params.prompt_logprobs is not None else ():
            result.append({tokens[place]: SimpleNamespace(logprob=float(self.log_p(tokens[:place])[tokens[place]]))})
        if params.prompt_logprobs is None:
            nothing = torch.zeros(1, dtype=torch.int32)
            row = torch.from_numpy(self.log_p(tokens).astype(np.float32))
            result = [LogprobsTensors(nothing, row[None], nothing)]
        drawn = CompletionOutput(0, "", [0], None, None, finish_reason="length")
        return RequestOutput(request_id, None, tokens, result, [drawn], finished=True)

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


class Lists:
    """The vocabulary deployment, which knows one list."""

    def __init__(self, vocabulary: ResolvedVocabulary) -> None:
        self._vocabulary = vocabulary

    async def resolve_or_refuse(self, spec: VocabularySpec, owner: str) -> ResolvedVocabulary:
        return self._vocabulary


class ReplicaWorld:
    """A replica that has started, and its engine; ``settings`` are the service's."""

    def __init__(self, model: Path, folder: Path, **settings: Any) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model)
        speller = Speller.from_tokenizer(self.tokenizer)
        words = build_words(WordList("en", WORDS, "file"), speller)
        ArtefactStore(folder, 2**30).save(words)
        self.vocabulary = ResolvedVocabulary(
            digest=words.digest, options=ListOptions(), lang="en", n_words=len(WORDS), fewest_tokens=2
        )
        self.spec = VocabularySpec(lang="en", n_words=len(WORDS))
        args = {"max_model_len": 2048, "enforce_eager": True, "max_logprobs": 64}
        config = AsyncEngineArgs(model=str(model), served_model_name=[MODEL], **args).create_engine_config()
        self.engine = LeakyEngine(self.tokenizer, EngineCache(folder, speller.facts), config)
        given = {"secret_token": "k", "model_name": str(model), "model_id": MODEL, "artefact_dir": str(folder)}
        self.settings = Settings.load({**given, "engine_kwargs": args, **settings}, {})
        self.replica: Replica = asyncio.run(self._start())
        self.engine.leaks = True

    async def _start(self) -> Replica:
        with pytest.MonkeyPatch.context() as patch:
            # What a replica sets for its engine's process.
            for variable in (ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE, "WORDBOUND_MASK_STATISTICS"):
                patch.setenv(variable, "")
            return await make_replica(self.settings, vocabulary=Handle(Lists(self.vocabulary)), client=self.engine)

    async def items(self, request: ReplicaRequest) -> list[Any]:
        """The items of an answer, after what says that it has begun."""
        items = [item async for item in self.replica.answer(request)]
        return items[1:] if isinstance(items[0], str) and items[0] == BEGUN else items


# Ray's server has one that is a coroutine, which nobody awaits.
LLMServer.__del__ = lambda self: None
