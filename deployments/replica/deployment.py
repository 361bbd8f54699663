"""The replica: vLLM behind Ray's ``LLMServer``, answering requests, lines of batches and requests for rows."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Final

from ray.serve.handle import DeploymentHandle
from ray.serve.llm import LLMConfig
from ray.serve.llm.deployment import LLMServer
from typing_extensions import override
from vllm.envs import enable_envs_cache

from deployments.adapter_register import Registered
from deployments.contract import (
    BEGUN,
    ENGINE_DEAD,
    ENGINE_START_S,
    Answer,
    Caller,
    LineAnswer,
    LineRequest,
    ReplicaRequest,
    RowsItem,
    RowsRequest,
    TextRequest,
    TokensRequest,
    WordToolRequest,
)
from deployments.errors import ApiError, EngineError
from deployments.fair_semaphore import FairSemaphore, SemaphoreFullError
from deployments.metrics import report_replica
from deployments.process_setup import run_ready_hook, set_up_process
from deployments.replica.answers.batch_line import BatchLineAnswerer
from deployments.replica.answers.chat_answerer import ChatAnswerer
from deployments.replica.answers.rows import ROWS_AT_ONCE, RowAnswerer
from deployments.replica.engine import configuration, engine
from deployments.replica.engine.autoscaling import METRIC
from deployments.replica.engine.engine_adapters import EngineAdapters
from deployments.replica.engine.health import (
    EngineWatch,
    UnlistedAnswers,
    bring_prebuilt_lists,
    check_context,
    fetch_proof,
    prepare_proof,
    prove_enforcement,
)
from deployments.replica.engine.loaded_adapters import LoadedAdapters
from deployments.replica.engine.node_lists import NodeLists
from deployments.replica.engine.one_worker import Engine, gpus_of_replica
from deployments.replica.engine.structures import Structures, compiles_tools
from deployments.replica.prompt import Prompts
from deployments.replica.word_tools.tool_answerer import WordTools
from deployments.request_router import NUM_SEQUENCES, STALLED
from deployments.settings.service import Settings
from deployments.vocabulary.client import VocabularyClient
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE, EngineCache
from vocab.vllm_plugin import MaskStatistics, patches, use_plugin

logger = logging.getLogger("ray.serve")

_TEXTS_AT_ONCE: Final = 1
"""Bodies of ``/tokenize`` and ``/detokenize``: vLLM tokenizes in one thread, in which chats wait behind them. One of
1 MiB takes about a second."""


class Replica(LLMServer):
    """One vLLM engine, with all that constrains and checks its answers.

    The constructor returns once the engine has proved that it keeps to a list.
    """

    async def __init__(  # type: ignore[misc]  # Serve awaits a constructor
        self, llm_config: LLMConfig, *, settings: Settings, vocabulary: DeploymentHandle
    ) -> None:
        set_up_process(settings)
        patches.limit_sanitized_messages()
        store = ArtefactStore(settings.resolved_artefact_dir(), settings.artefact_bytes)
        # Read in the engine's own process by the plugin that fills the masks (``vocab.vllm_plugin.backend``).
        use_plugin()
        os.environ[ARTEFACT_DIR_VARIABLE] = str(settings.resolved_artefact_dir())
        os.environ[CACHE_BYTES_VARIABLE] = str(settings.engine_cache_bytes)
        masks = MaskStatistics.share()
        if (known := settings.engine_kwargs.get("max_model_len")) is not None:
            check_context(settings, int(known))
        tokenizer = await asyncio.to_thread(configuration.read_tokenizer, settings)
        settings = configuration.with_mask_engine_for(tokenizer, settings)
        configuration.settle_dtype(llm_config)
        start = await asyncio.to_thread(EngineAdapters.read, settings)
        start.configure(llm_config)
        if start.merged is not None:
            logger.info(
                "%s has the adapter %s in its weights: requests without a list have it too",
                settings.model_id, start.merged,
            )  # fmt: skip
        facts = await asyncio.to_thread(TokenizerFacts.from_tokenizer, tokenizer)
        prompts = await asyncio.to_thread(Prompts.of, tokenizer, settings)
        # While the engine's processes start, which this one waits for.
        proof = asyncio.get_running_loop().run_in_executor(None, prepare_proof, tokenizer, settings, store)
        await super().__init__(llm_config, engine_cls=Engine)
        check_context(settings, engine.context_length(self))
        self._adapters = adapters = LoadedAdapters(self, start)
        await adapters.load()
        states = EngineCache(settings.resolved_artefact_dir(), facts, settings.engine_cache_bytes)
        vocabularies = VocabularyClient(vocabulary, settings.max_cached_vocabularies)
        lists = NodeLists(store, vocabularies.fetch)
        listed = await proof or await fetch_proof(vocabularies, lists)
        reports_cost = await prove_enforcement(self, settings, listed)
        self._semaphore = FairSemaphore(
            min(settings.max_sequences, engine.max_sequences(self)),
            settings.max_queued_requests,
            settings.max_queue_s,
            share_of_key=settings.share_of_key,
        )
        self._rows = RowAnswerer(self, settings, tokenizer, facts, self._semaphore, adapters)
        await bring_prebuilt_lists(self, settings, vocabularies, lists)
        self._settings = settings
        self._chats = ChatAnswerer(
            self,
            settings,
            lists,
            prompts,
            reports_cost=reports_cost,
            adapters=adapters,
            facts=facts,
            states=states,
        )
        self._tools = WordTools(
            *(settings, lists, states, facts, self._rows),
            self._chat_in_turn,
            vocabularies.resolve,
            adapters,
        )
        self._structures = Structures(tokenizer, engine.vocab_size(self), with_tools=compiles_tools(settings))
        self._texts = FairSemaphore(_TEXTS_AT_ONCE, settings.max_queued_requests, settings.max_queue_s)
        self._lines = BatchLineAnswerer(
            self, settings, self._chats, self._structures, vocabularies, self._num_batch_sequences(settings)
        )
        self._unlisted = UnlistedAnswers()
        self._watch = self._watch_of_engine(settings)
        self._watching = asyncio.create_task(self._watch.run())
        self._metrics = asyncio.create_task(
            report_replica(
                masks.read,
                num_running=lambda: self._semaphore.num_taken,
                num_waiting=lambda: self._semaphore.num_waiting,
                cache_bytes=lambda: states.num_bytes,
            )
        )
        self._follower = asyncio.create_task(adapters.keep_in_sync())
        # vLLM would look for its variables at every token: a tenth of what its side costs this process.
        enable_envs_cache()
        run_ready_hook()
        logger.info("%s is ready; its engine keeps to word lists", settings.model_id)

    @classmethod
    @override
    def get_deployment_options(cls, llm_config: LLMConfig) -> dict[str, Any]:
        options: dict[str, Any] = super().get_deployment_options(llm_config)
        if num_gpus := gpus_of_replica(llm_config):
            # Those of its placement group.
            options["ray_actor_options"]["num_gpus"] = num_gpus
        return options

    @override
    async def _start_engine(self) -> None:
        """Start the engine as ``LLMServer`` does, but do not record the model for Ray's usage statistics.

        Ray records it even where these are off, in a new process that imports vLLM first: the start waited 11 s for
        it, and it kept 380 MB.
        """
        await self.engine.start()

    async def answer(self, request: ReplicaRequest) -> AsyncGenerator[RowsItem, None]:
        """Answer a request: yield ``BEGUN`` at its turn, then the items of its answer, within its time.

        An error, such as a refusal, overload, timeout or dead engine, is the first item, or the last one of what broke
        off.
        """
        if engine.is_dead(self):
            yield _engine_dead()
            return
        try:
            await self._check(request)
            async with self._turn(request):
                yield BEGUN
                deadline, last = asyncio.get_running_loop().time() + self._settings.max_answer_s, None
                async with aclosing(self._begin(request)) as answer:
                    while True:
                        # Around each item: who asks for them may be another task, which is not cancelled between two.
                        async with asyncio.timeout_at(deadline):
                            item = await anext(answer, None)
                        if item is None:
                            break
                        last = item
                        yield _engine_dead() if isinstance(item, ApiError) and engine.is_dead(self) else item
                if isinstance(request, TextRequest) and request.vocabulary is not None:
                    self._unlisted.note_answer(last)
        except ApiError as refusal:
            yield refusal
        except TimeoutError:
            yield EngineError(
                504,
                f"The answer took longer than {self._settings.max_answer_s:g} s: ask for fewer {request.fewer[0]}.",
                param=request.fewer[1],
                code="answer_timeout",
            )
        except SemaphoreFullError as full:
            yield _refusal("The service has no capacity for this request now.", "overloaded", full.retry_after_s)

    async def _check(self, request: ReplicaRequest) -> None:
        """Refuse what cannot be answered before its turn, while others use the engine."""
        if isinstance(request, RowsRequest):
            self._rows.check(request.body)
        elif isinstance(request, TextRequest):
            in_list = request.vocabulary is not None
            await self._structures.check(request.body, request.caller.owner, in_list=in_list)

    def _turn(self, request: ReplicaRequest) -> AbstractAsyncContextManager[None]:
        """Return the turn of a request.

        Texts and tokens hold theirs as long as their answer lasts. Rows and word tools take one for each of their
        parts, and hold nothing between them.
        """
        owner = request.caller.owner
        most = self._settings.key(owner).max_sequences
        match request:
            case TextRequest():
                return self._semaphore.take(request.num_sequences, owner, most)
            case TokensRequest():
                return self._texts.take(1, owner, most)

        @asynccontextmanager
        async def turn() -> AsyncIterator[None]:
            await self._semaphore.wait_for_turn(owner, most)
            yield

        return turn()

    def _begin(self, request: ReplicaRequest) -> AsyncGenerator[Any, None]:
        """Return the answer to a request whose turn has come."""
        match request:
            case TextRequest():
                return self._chats.answer(request)
            case RowsRequest(body, caller) if "token_ids" in body:
                return self._rows.token_logprobs(body, caller)
            case RowsRequest(body, caller):
                return self._rows.logprobs(body, caller, self._width(caller))
            case WordToolRequest():
                return self._tools.answer(request, self._width(request.caller))
            case TokensRequest(body, caller) if body:
                return self._chats.convert_tokens(body, caller.request_id)
            case TokensRequest():
                return self._rows.tokens()

    async def preload_adapter(self, name: str, registered: Registered) -> str | None:
        """Load an adapter that may soon be registered; as ``LoadedAdapters.preload``, for ``AdapterLoader``."""
        return await self._adapters.preload(name, registered)

    async def sync_adapters(self) -> None:
        """Serve the adapters in the register; as ``LoadedAdapters.sync``, for ``AdapterLoader``."""
        await self._adapters.sync()

    async def context_length(self) -> int:
        """Return the engine's context in tokens, prompt and answer together."""
        return engine.context_length(self)

    async def _chat_in_turn(self, request: TextRequest) -> AsyncGenerator[Answer, None]:
        """Answer a chat that a word tool asks for, in a turn of its own: its request has begun."""
        owner = request.caller.owner
        most = self._settings.key(owner).max_sequences
        async with (
            self._semaphore.take(request.num_sequences, owner, most, has_begun=True),
            aclosing(self._chats.answer(request)) as items,
        ):
            async for item in items:
                yield item

    def _width(self, caller: Caller) -> int:
        return min(ROWS_AT_ONCE, self._semaphore.most_of(self._settings.key(caller.owner).max_sequences))

    async def answer_line(self, request: LineRequest) -> LineAnswer:
        """Answer one line of a batch; see ``BatchLineAnswerer.answer``."""
        return await self._lines.answer(request)

    def _watch_of_engine(self, settings: Settings) -> EngineWatch:
        steps = engine.count_steps(self)
        return EngineWatch(
            lambda: engine.is_dead(self) or self._unlisted.are_too_many,
            lambda: 0 if steps is None else steps.num_steps,
            lambda: 0 if steps is None else engine.num_requests(self),
            settings.engine_stall_s,
            self._num_under_way,
        )

    @override
    async def record_routing_stats(self) -> dict[str, Any]:
        """Report to ``ReplicaRouter`` whether the engine makes no steps, and how many sequences there are."""
        return {
            **await super().record_routing_stats(),
            STALLED: self._watch.is_stalled,
            NUM_SEQUENCES: self._num_under_way() + self._semaphore.num_waiting,
        }

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Report to Serve how many interactive sequences run or wait.

        See ``deployments.replica.engine.autoscaling``.
        """
        return {METRIC: float(self._semaphore.num_taken + self._semaphore.num_waiting)}

    def _num_under_way(self) -> int:
        return self._semaphore.num_taken + self._lines.num_taken

    def _num_batch_sequences(self, settings: Settings) -> int:
        """Return how many sequences of batches may run at once.

        Fewer than the engine runs: it preempts a running sequence only for want of memory, not for a request that
        waits.
        """
        most = engine.max_sequences(self)
        return max(min(settings.batch.lines_in_flight, most - max(most // 8, 1)), 1)


def _engine_dead() -> EngineError:
    return _refusal("The engine of this replica has ended.", ENGINE_DEAD, ENGINE_START_S)


def _refusal(message: str, code: str, retry_after_s: int) -> EngineError:
    return EngineError(503, f"{message} Try again in a moment.", code=code, retry_after_s=retry_after_s)
