"""The replica: vLLM behind Ray's ``LLMServer``, with the vocabulary around each request.

The life of a request ends here: the client's text is made plain, the list brought to this node and named to the
engine, and what comes back is read once more before it leaves. How the engine is configured and called is
``deployments.replica.engine``; what is done with an answer's text is ``deployments.replica.constrained_answer``.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from ray.serve.handle import DeploymentHandle
from ray.serve.llm import LLMConfig
from ray.serve.llm.deployment import LLMServer
from transformers import AutoTokenizer

from deployments.contract import Answer, ChatBody, Decoding, ResolvedVocabulary, VocabularySpec
from deployments.protocol.reader import ChatRequestReader
from deployments.replica import engine
from deployments.replica.answer_line import PRIORITY, LineAnswer, LineAnswerer, LineRequest, Share
from deployments.replica.constrained_answer import AnswerRules, StreamFilter, UnlistedTextError, finish_answer
from deployments.replica.decoding_support import check_supported
from deployments.replica.engine import EngineError
from deployments.replica.hint import hint_line, takes_system_messages, with_line
from deployments.replica.node_lists import NodeList, NodeLists
from deployments.replica.plain_text import PlainText
from deployments.replica.startup_check import prove_enforcement
from deployments.search.order import AnswerCost, SearchOrder
from deployments.settings import Settings
from deployments.vocabulary.deployment import resolve
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.compiler.warm_up import warm_up
from vocab.errors import VocabularyError
from vocab.matching.engine_cache import ARTEFACT_DIR_VARIABLE, CACHE_BYTES_VARIABLE, EngineCache

logger = logging.getLogger("ray.serve")


class Replica(LLMServer):
    """One engine. The constructor returns once the engine has proved that it keeps to a list."""

    async def __init__(  # type: ignore[misc]  # Serve awaits a constructor
        self, llm_config: LLMConfig, *, settings: Settings, vocabulary: DeploymentHandle
    ) -> None:
        self._settings = settings
        store = ArtefactStore(settings.resolved_artefact_dir(), settings.artefact_bytes)
        # Inherited by the engine's own process, where the plugin reads them.
        os.environ[ARTEFACT_DIR_VARIABLE] = str(settings.resolved_artefact_dir())
        os.environ[CACHE_BYTES_VARIABLE] = str(settings.engine_cache_bytes)
        if (known := settings.engine_kwargs.get("max_model_len")) is not None:
            check_context(settings, int(known))
        tokenizer = await asyncio.to_thread(
            AutoTokenizer.from_pretrained, settings.model_name, trust_remote_code=settings.trust_remote_code
        )
        self._plain = await asyncio.to_thread(PlainText, tokenizer)
        self._has_chat_template = bool(tokenizer.chat_template or settings.engine_kwargs.get("chat_template"))
        template = await asyncio.to_thread(engine.chat_template, settings)
        self._takes_system = await asyncio.to_thread(takes_system_messages, tokenizer, template)
        self._lists = NodeLists(store, lambda digest: vocabulary.fetch.remote(digest), settings.mask_engine)
        await super().__init__(llm_config)
        check_context(settings, engine.context_length(self))
        self._tells_cost = await prove_enforcement(self, settings, store)
        facts = await asyncio.to_thread(TokenizerFacts.from_tokenizer, tokenizer)
        # A search follows its texts here, too.
        await asyncio.to_thread(warm_up)
        lists = EngineCache(settings.resolved_artefact_dir(), facts.digest, settings.engine_cache_bytes)
        engine.install_search(self, lists, facts)
        await self._warm_up(vocabulary)
        share = Share(self._num_batch_places())
        self._batch_lines = LineAnswerer(_LinesEngine(self, vocabulary), ChatRequestReader.of(settings), share)
        logger.info("%s is ready; its engine keeps to word lists", settings.model_id)

    def _num_batch_places(self) -> int:
        """Sequences of batches that may run at once: as the settings say, and less than the engine runs, which takes
        a running sequence's place away for want of memory only."""
        most = engine.max_sequences(self)
        return max(min(self._settings.batch.lines_in_flight, most - max(most // 8, 1)), 1)

    async def _warm_up(self, vocabulary: DeploymentHandle) -> None:
        """Brings the prebuilt lists to this node and into the engine, so that the first request finds them there."""
        settings = self._settings
        for lang in settings.prebuild_langs:
            resolved = await resolve(vocabulary, VocabularySpec(lang=lang, n_words=settings.prebuild_prefix))
            listed = await self._lists.get(resolved)
            await engine.complete(self, "Hello", grammar=listed.grammar(None), max_tokens=1)

    async def answer_line(self, request: LineRequest) -> AsyncGenerator[LineAnswer, None]:
        """Answers one line of a batch, with one item: what Ray Data's Serve processor asks for."""
        yield await self._batch_lines.answer(request)

    async def answer(
        self, body: ChatBody, vocabulary: ResolvedVocabulary | None, decoding: Decoding, request_id: str
    ) -> AsyncGenerator[Answer, None]:
        """Answers one request: events of a stream, or one dict.

        An error is one item, ``{"error": {…, "status"}}``: the first, or the last of a stream that broke off.
        """
        try:
            async for item in self._answer(body, vocabulary, decoding, request_id):
                yield item
        except Exception as error:
            yield _as_refusal(error, request_id).body

    def _answer(
        self, body: ChatBody, vocabulary: ResolvedVocabulary | None, decoding: Decoding, request_id: str
    ) -> AsyncIterator[Answer]:
        if not self._has_chat_template:
            raise EngineError(
                400,
                f"The model {self._settings.model_id} has no chat template, so it cannot chat: "
                "serve an instruction-tuned model, or set engine_kwargs.chat_template.",
                param="model",
                code="no_chat_template",
            )
        check_supported(decoding, self._settings, is_constrained=vocabulary is not None, tells_cost=self._tells_cost)
        if vocabulary is not None and decoding.hint:
            told = with_line(body["messages"], hint_line(vocabulary.lang), takes_system=self._takes_system)
            body = {**body, "messages": told}
        order = None if decoding.is_plain else SearchOrder(decoding)
        if vocabulary is None:
            return self._free(body, order, request_id)
        return self._constrained(body, vocabulary, decoding.no_repeat_ngram_size or None, order, request_id)

    async def _free(self, body: ChatBody, order: SearchOrder | None, request_id: str) -> AsyncIterator[Answer]:
        request = await self._request(body, request_id, order)
        async for item in engine.chat(self, request):
            if not isinstance(item, AnswerCost):
                yield item

    async def _constrained(
        self,
        body: ChatBody,
        vocabulary: ResolvedVocabulary,
        no_repeat: int | None,
        order: SearchOrder | None,
        request_id: str,
    ) -> AsyncIterator[Answer]:
        listed = await self._lists.get(vocabulary)
        rules = self._rules(body, listed)
        # A reasoning model uses up tokens that the matcher does not see.
        budget = None if engine.has_reasoning_parser(self._settings) else int(body["max_tokens"])
        request = await self._request(body, request_id, order, listed.grammar(budget, no_repeat))
        stream = StreamFilter(rules)
        cost: AnswerCost | None = None
        async for item in engine.chat(self, request):
            if isinstance(item, AnswerCost):
                cost = item
            elif isinstance(item, dict):
                # Reading a long answer takes a while, and other streams wait for this loop.
                yield await asyncio.to_thread(finish_answer, item, rules, cost)
            elif (chunk := engine.parse_event(item)) is None:
                for passed in await asyncio.to_thread(stream.finish, cost):
                    yield engine.write_event(passed)
                yield item
            else:
                is_long_read = any(choice.get("finish_reason") for choice in chunk["choices"])
                passed_on = await asyncio.to_thread(stream.pass_on, chunk) if is_long_read else stream.pass_on(chunk)
                for passed in passed_on:
                    yield engine.write_event(passed)

    def _rules(self, body: ChatBody, listed: NodeList) -> AnswerRules:
        settings = self._settings
        may_be_cut = (
            bool(body.get("stop")) or settings.mask_engine == "xgrammar" or engine.has_reasoning_parser(settings)
        )
        if may_be_cut and body.get("return_token_ids"):
            raise EngineError(
                400,
                "'return_token_ids' cannot be combined with a vocabulary and 'stop': leave one out.",
                param="return_token_ids",
            )
        return AnswerRules(
            reader=listed.reader,
            block=listed.block,
            may_be_cut=may_be_cut,
            stop_in_text=bool(body.get("include_stop_str_in_output")),
        )

    async def _request(
        self, body: ChatBody, request_id: str, order: SearchOrder | None, grammar: str | None = None
    ) -> Any:
        limits = self._settings.limits
        plain = await asyncio.to_thread(self._made_plain, body)
        return engine.chat_request(
            plain, request_id=request_id, max_input_tokens=limits.max_input_tokens, grammar=grammar, order=order
        )

    def _made_plain(self, body: ChatBody) -> ChatBody:
        return {
            key: self._plain.of_json(value) if key in ("messages", "tools") else value for key, value in body.items()
        }


class _LinesEngine:
    """The replica, as the lines of batches see it."""

    def __init__(self, replica: Replica, vocabulary: DeploymentHandle) -> None:
        self._replica = replica
        self._vocabulary = vocabulary
        self._priority = PRIORITY if engine.knows_priorities(replica._settings) else 0

    async def resolve(self, spec: VocabularySpec) -> ResolvedVocabulary:
        return await resolve(self._vocabulary, spec)

    def answer(
        self, body: ChatBody, vocabulary: ResolvedVocabulary | None, decoding: Decoding, request_id: str
    ) -> AsyncGenerator[Answer, None]:
        return self._replica.answer({**body, "priority": self._priority}, vocabulary, decoding, request_id)

    def is_dead(self) -> bool:
        return engine.is_dead(self._replica)


def check_context(settings: Settings, context_length: int) -> None:
    """Refuses a service whose longest prompt and longest answer do not fit the context together.

    vLLM would shorten such an answer where the matcher, which knows its budget, does not see it.
    """
    limits = settings.limits
    if limits.max_input_tokens + limits.max_new_tokens > context_length:
        raise ValueError(
            f"MAX_INPUT_TOKENS ({limits.max_input_tokens}) and the largest of ALLOWED_MAX_NEW_TOKENS "
            f"({limits.max_new_tokens}) exceed the context of {settings.model_id}, {context_length} tokens, "
            "together: lower one of them, or raise engine_kwargs.max_model_len"
        )


def _as_refusal(error: Exception, request_id: str) -> EngineError:
    if isinstance(error, EngineError):
        return error
    if isinstance(error, UnlistedTextError):
        logger.error("request %s: the engine did not keep to the list (%s)", request_id, error)
        return EngineError(
            500, "The engine did not keep to the word list, so there is no answer.", code="unlisted_text"
        )
    if isinstance(error, VocabularyError):
        logger.error("request %s: %s", request_id, error)
    else:
        logger.exception("request %s failed", request_id, exc_info=error)
    return EngineError(500, "The engine failed on this request; it can be sent again.", code="engine_error")
