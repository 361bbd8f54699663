"""The replica: vLLM behind Ray's ``LLMServer``, answering requests, lines of batches and requests for rows."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Final, TypeVar

from ray.serve.handle import DeploymentHandle
from ray.serve.llm import LLMConfig
from ray.serve.llm.deployment import LLMServer
from typing_extensions import override

from deployments.adapter_register import Registered
from deployments.contract import (
    BEGUN,
    ENGINE_DEAD,
    ENGINE_START_S,
    Answer,
    Caller,
    ChatBody,
    LineAnswer,
    LineRequest,
    ResolvedVocabulary,
    RowsItem,
    TextRequest,
    Tool,
    VocabularySpec,
)
from deployments.errors import ApiError, EngineError
from deployments.fair_semaphore import FairSemaphore, SemaphoreFullError
from deployments.metrics import report_replica
from deployments.process_setup import set_up_process, watch_event_loop
from deployments.protocol.generation.reader import ChatRequestReader
from deployments.replica.answers.batch_line import BatchLineAnswerer
from deployments.replica.answers.chat_answerer import ChatAnswerer
from deployments.replica.answers.rows import ROWS_AT_ONCE, RowAnswerer
from deployments.replica.answers.support import with_mask_engine_for
from deployments.replica.engine import configuration, engine
from deployments.replica.engine.adapters import EngineAdapters, LoadedAdapters
from deployments.replica.engine.autoscaling import METRIC
from deployments.replica.engine.health import (
    EngineWatch,
    UnlistedAnswers,
    bring_prebuilt_lists,
    check_context,
    prepare_proof,
    prove_enforcement,
)
from deployments.replica.engine.node_lists import NodeLists
from deployments.replica.engine.structures import Structures, compiles_tools
from deployments.replica.prompts.chat_template import Prompts
from deployments.replica.prompts.tokenization import install_tokenization
from deployments.replica.word_tools.tool_answerer import WordTools
from deployments.request_router import NUM_SEQUENCES, STALLED
from deployments.settings.keys import NO_OWNER
from deployments.settings.service import Settings
from deployments.vocabulary.client import VocabularyClient
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE, EngineCache
from vocab.vllm_plugin import patches, use_plugin
from vocab.vllm_plugin.mask_statistics import MaskStatistics

logger = logging.getLogger("ray.serve")

Item = TypeVar("Item")

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
        settings = with_mask_engine_for(tokenizer, settings)
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
        await super().__init__(llm_config)
        check_context(settings, engine.context_length(self))
        self._adapters = adapters = LoadedAdapters(self, start)
        await adapters.load()
        reports_cost = await prove_enforcement(self, settings, await proof)
        states = EngineCache(settings.resolved_artefact_dir(), facts, settings.engine_cache_bytes)
        engine.install_search(self, states, facts)
        vocabularies = VocabularyClient(vocabulary, settings.max_cached_vocabularies)
        lists = NodeLists(store, vocabularies.fetch, settings.mask_engine)
        install_tokenization(self)
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
            ends_thinking=engine.can_end_thinking(self),
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
            _LinesEngine(self, self._chats, self._structures, settings, vocabularies),
            ChatRequestReader.of(settings),
            FairSemaphore(self._num_batch_sequences(settings)),
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
        watch_event_loop()
        logger.info("%s is ready; its engine keeps to word lists", settings.model_id)

    @override
    async def _start_engine(self) -> None:
        """Start the engine as ``LLMServer`` does, but do not record the model for Ray's usage statistics.

        Ray records it even where these are off, in a new process that imports vLLM first: the start waited 11 s for
        it, and it kept 380 MB.
        """
        await self.engine.start()

    async def answer(self, request: TextRequest) -> AsyncGenerator[Answer, None]:
        """Answer a chat or completion: yield ``BEGUN`` at its turn, then what ``ChatAnswerer.answer`` yields."""
        # Before its turn: others use the engine meanwhile.
        owner, in_list = request.caller.owner, request.vocabulary is not None
        if (refusal := await self._structures.refusal(request.body, owner, in_list=in_list)) is not None:
            yield refusal
            return
        answer = self._chats.answer(request)
        if in_list:
            answer = self._unlisted.count(answer)
        async with aclosing(self._in_turn(self._semaphore, request.num_sequences, request.caller, answer)) as items:
            async for item in items:
                yield item

    async def convert_tokens(self, body: dict[str, Any], caller: Caller) -> AsyncGenerator[Answer, None]:
        """Tokenize or detokenize: yield ``BEGUN`` at its turn, then as ``ChatAnswerer.convert_tokens``."""
        answer = self._chats.convert_tokens(body, caller.request_id)
        async with aclosing(self._in_turn(self._texts, 1, caller, answer)) as items:
            async for item in items:
                yield item

    async def logprobs(self, body: dict[str, Any], caller: Caller) -> AsyncGenerator[RowsItem, None]:
        """Answer a request for rows: yield ``BEGUN`` at its turn, then what ``RowAnswerer.logprobs`` yields."""
        answer = self._rows.logprobs(body, caller, self._width(caller))
        async with aclosing(self._rows_in_turn(body, caller, answer)) as items:
            async for item in items:
                yield item

    async def token_logprobs(self, body: dict[str, Any], caller: Caller) -> AsyncGenerator[RowsItem, None]:
        """Score given tokens: yield ``BEGUN`` at its turn, then what ``RowAnswerer.token_logprobs`` yields."""
        async with aclosing(self._rows_in_turn(body, caller, self._rows.token_logprobs(body, caller))) as items:
            async for item in items:
                yield item

    async def word_tool(
        self, tool: Tool, body: dict[str, Any], vocabulary: ResolvedVocabulary, spec: VocabularySpec, caller: Caller
    ) -> AsyncGenerator[Answer, None]:
        """Answer a word tool: yield ``BEGUN`` at its turn, then what ``WordTools.answer`` yields."""
        answer = self._tools.answer(tool, body, vocabulary, spec, caller, self._width(caller))
        async with aclosing(self._in_turns(caller, answer, ("words", "top"))) as items:
            async for item in items:
                yield item

    async def tokens(self, caller: Caller) -> AsyncGenerator[Answer, None]:
        """List the model's tokens: yield ``BEGUN`` at its turn, then what ``RowAnswerer.tokens`` yields."""
        async with aclosing(self._in_turn(self._texts, 1, caller, self._rows.tokens())) as items:
            async for item in items:
                yield item

    async def preload_adapter(self, name: str, registered: Registered) -> str | None:
        """Load an adapter that may soon be registered; as ``LoadedAdapters.preload``, for ``AdapterLoader``."""
        return await self._adapters.preload(name, registered)

    async def sync_adapters(self) -> None:
        """Serve the adapters in the register; as ``LoadedAdapters.sync``, for ``AdapterLoader``."""
        await self._adapters.sync()

    async def _rows_in_turn(
        self, body: dict[str, Any], caller: Caller, answer: AsyncGenerator[Item, None]
    ) -> AsyncGenerator[Item | Answer, None]:
        """Yield an answer of rows when its turn has come, or the refusal of its request."""
        try:
            self._rows.check(body)
        except EngineError as refusal:
            yield refusal
            return
        async with aclosing(self._in_turns(caller, answer, ("prompts", "prompt"))) as items:
            async for item in items:
                yield item

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
        """Return how many rows of one request may be in the engine at once."""
        return min(ROWS_AT_ONCE, self._semaphore.most_of(self._settings.key(caller.owner).max_sequences))

    def _in_turns(
        self, caller: Caller, answer: AsyncGenerator[Item, None], fewer: tuple[str, str]
    ) -> AsyncGenerator[Item | Answer, None]:
        """Return an answer that takes a turn for each of its parts, and holds nothing between them."""

        @asynccontextmanager
        async def turn() -> AsyncIterator[None]:
            await self._semaphore.wait_for_turn(caller.owner, self._settings.key(caller.owner).max_sequences)
            yield

        return self._within_turn_and_time(turn(), answer, fewer)

    def _in_turn(
        self, semaphore: FairSemaphore, num_sequences: int, caller: Caller, answer: AsyncGenerator[Item, None]
    ) -> AsyncGenerator[Item | Answer, None]:
        """Return an answer that begins when its turn has come, which lasts as long as the answer."""
        turn = semaphore.take(num_sequences, caller.owner, self._settings.key(caller.owner).max_sequences)
        return self._within_turn_and_time(turn, answer, ("tokens", "max_tokens"))

    async def _within_turn_and_time(
        self, turn: AbstractAsyncContextManager[None], answer: AsyncGenerator[Item, None], fewer: tuple[str, str]
    ) -> AsyncGenerator[Item | Answer, None]:
        """Yield an answer inside ``turn`` and within its time, or the error: overload, timeout, dead engine.

        ``fewer`` is what to ask for less of, and its field.
        """
        if engine.is_dead(self):
            yield _engine_dead()
            return
        try:
            async with turn:
                yield BEGUN
                async for item in with_time_limit(self._settings.max_answer_s, answer):
                    yield _engine_dead() if isinstance(item, ApiError) and engine.is_dead(self) else item
        except TimeoutError:
            yield EngineError(
                504,
                f"The answer took longer than {self._settings.max_answer_s:g} s: ask for fewer {fewer[0]}.",
                param=fewer[1],
                code="answer_timeout",
            )
        except SemaphoreFullError as full:
            yield _refusal("The service has no capacity for this request now.", "overloaded", full.retry_after_s)

    async def answer_line(self, request: LineRequest) -> LineAnswer:
        """Answer one line of a batch; see ``BatchLineAnswerer.answer``."""
        return await self._lines.answer(request)

    def _watch_of_engine(self, settings: Settings) -> EngineWatch:
        """Return what ends this process once its engine has died or stands still."""
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
        """Return how many sequences are under way, those of lines included."""
        return self._semaphore.num_taken + self._lines.num_taken

    def _num_batch_sequences(self, settings: Settings) -> int:
        """Return how many sequences of batches may run at once.

        Fewer than the engine runs: it preempts a running sequence only for want of memory, not for a request that
        waits.
        """
        most = engine.max_sequences(self)
        return max(min(settings.batch.lines_in_flight, most - max(most // 8, 1)), 1)


async def with_time_limit(seconds: float, answer: AsyncGenerator[Item]) -> AsyncGenerator[Item, None]:
    """Yield the items of an answer for at most ``seconds``, and close it.

    Raises:
        TimeoutError: They took longer.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    async with aclosing(answer):
        while True:
            # Around each item: who asks for them may be another task, which must not be cancelled between two.
            async with asyncio.timeout_at(deadline):
                item = await anext(answer, None)
            if item is None:
                return
            yield item


def _engine_dead() -> EngineError:
    """Return the 503 of a replica whose engine has ended."""
    return _refusal("The engine of this replica has ended.", ENGINE_DEAD, ENGINE_START_S)


def _refusal(message: str, code: str, retry_after_s: int) -> EngineError:
    """Return a 503 that asks the client to try again."""
    return EngineError(503, f"{message} Try again in a moment.", code=code, retry_after_s=retry_after_s)


class _LinesEngine:
    """The replica as ``BatchLineAnswerer`` uses it."""

    def __init__(
        self,
        replica: Replica,
        chats: ChatAnswerer,
        structures: Structures,
        settings: Settings,
        vocabularies: VocabularyClient,
    ) -> None:
        self._replica = replica
        self._chats = chats
        self._structures = structures
        self._vocabularies = vocabularies
        self._priority = configuration.priority_after_chats(settings)

    async def resolve(self, spec: VocabularySpec) -> ResolvedVocabulary:
        return await self._vocabularies.resolve(spec)

    async def refusal(self, body: ChatBody, *, in_list: bool) -> EngineError | None:
        """Return the error of a line whose schema cannot be compiled, else None."""
        # Lines are bounded where they are read.
        return await self._structures.refusal(body, NO_OWNER, in_list=in_list)

    def answer(self, request: TextRequest) -> AsyncGenerator[Answer, None]:
        """Answer a line as a chat, at the priority of batches."""
        return self._chats.answer(request.with_body(priority=self._priority))

    def is_dead(self) -> bool:
        return engine.is_dead(self._replica)
