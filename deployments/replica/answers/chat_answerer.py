"""The life of one chat request, or completion, around the engine.

Special tokens in the client's text are made plain, the list is fetched to this node and named to the engine, and
what the engine writes is read once more before it leaves (``constrained_answer``).
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any, Final

from ray.serve.llm.deployment import LLMServer

from deployments.contract import Answer, ChatBody, Part, ResolvedVocabulary, TextRequest
from deployments.errors import EngineError
from deployments.metrics import ANSWERS
from deployments.protocol.listed_json import json_field, listed_schema, named_tool
from deployments.protocol.rules import AUTHOR_FIELDS, DETAILS, asked_of
from deployments.replica import prompt
from deployments.replica.answers.authoring import AuthoredText
from deployments.replica.answers.constrained_answer import AnswerRules, StreamFilter, finish_answer, to_engine_error
from deployments.replica.answers.forms import ToolCallForm, answer_form, with_model, with_timing
from deployments.replica.engine import configuration, engine
from deployments.replica.engine.loaded_adapters import LoadedAdapters, name_of
from deployments.replica.engine.node_lists import NodeList, NodeLists
from deployments.replica.plain_text import reader_after_prompts, reader_after_text
from deployments.replica.prompt import Prompts, convert_tokens, hint_line, text_of, with_line
from deployments.search.request import AnswerCost, SearchRequest
from deployments.search.token_details import DetailRecorder, requested_top_k
from deployments.settings.service import Settings
from vocab.automaton.tokenizer import TokenizerFacts, has_own_spelling
from vocab.matching.engine_cache import EngineCache
from vocab.matching.structure.answers import AnswerReader
from vocab.text.reader import TextReader

logger = logging.getLogger("ray.serve")

_ANSWER_SHARE: Final = 4
"""One token in four is reserved for the answer of a model that thinks first."""

_MARKER_TOKENS: Final = 4
"""Of the mark that ends its thinking; models have one of 1 to 3 tokens."""

_NEEDS_AUTOMATON: Final = frozenset(
    {
        *("num_beams", "vocab.search", "vocab.rescue", "no_repeat_ngram_size"),
        *("continue_final_message", "min_tokens", "response_format", "tools"),
        *AUTHOR_FIELDS,
    }
)
"""Where xgrammar makes the masks, a text cannot be continued from its middle, and neither repeats nor how long it is
are looked for."""

_NOT_WITH_THOUGHTS: Final = frozenset({"continue_final_message", "logprobs", "response_format", "tools"})
"""Whether thinking is over where a client's own text ends is not known, and vLLM's log probabilities are those of the
thoughts too."""

_LISTED: Final = "with a vocabulary, for this service"

_NEEDS_SCORES: Final = frozenset({"num_beams", "best_of", "vocab.search", "vocab.rescue", "vocab.score", DETAILS})
"""These use the probability of every token of the answer."""


class ChatAnswerer:
    """Answer chat requests and completions with the engine of ``server``, which has these adapters.

    ``reports_cost`` is whether the engine was found to report what a word list costs, ``ends_thinking`` whether it can
    end a model's thinking, ``facts`` those of the model's tokenizer, ``states`` this process's states of lists.
    """

    def __init__(
        self,
        server: LLMServer,
        settings: Settings,
        lists: NodeLists,
        prompts: Prompts,
        *,
        reports_cost: bool,
        ends_thinking: bool = False,
        adapters: LoadedAdapters,
        facts: TokenizerFacts,
        states: EngineCache,
    ) -> None:
        self._server = server
        self._settings = settings
        self._lists = lists
        self._prompts = prompts
        self._reports_cost = reports_cost
        self._ends_thinking = ends_thinking
        self._adapters = adapters
        self._facts = facts
        self._states = states

    async def answer(self, request: TextRequest) -> AsyncGenerator[Answer, None]:
        """Answer a chat request or completion: yield events of a stream, or one dict.

        An error is one item: the first, or the last of a stream that broke off.
        """
        name, caller, started = request.body["model"], request.caller, time.perf_counter()
        try:
            adapter = await self._adapters.choose(name, request.decoding.adapter, request.vocabulary)
            engine_name = self._adapters.engine_name(adapter)
            request = request.with_decoding(adapter=adapter)
            request = request.with_body(cache_salt=self._settings.cache_salt(caller.owner), model=engine_name)
            async for item in self._answer_with_overflow(request):
                item = with_timing(item, started)
                yield item if engine_name == name else with_model(item, name)
        except Exception as error:
            yield to_engine_error(error, caller.request_id)

    async def _answer_with_overflow(self, request: TextRequest) -> AsyncIterator[Part]:
        """Answer a request; drop the oldest turns of too long a conversation where the settings allow it."""
        try:
            async for item in self._answer(request):
                yield item
            return
        except EngineError as error:
            messages = request.body.get("messages", [])
            is_too_long = error.code == engine.CONTEXT_LENGTH_EXCEEDED
            # A completion has no turns.
            if not is_too_long or not messages or self._settings.input_overflow == "error":
                raise

            async def fits(fewer: prompt.Messages) -> bool:
                asked = self._with_hint(request.with_body(messages=fewer))
                return await engine.has_room(self._server, await self._engine_request(asked))

            if (fewer := await prompt.drop_oldest_turns(messages, fits)) is None:
                raise
        num_dropped: int | None = len(messages) - len(fewer)
        async for item in self._answer(request.with_body(messages=fewer)):
            yield item if num_dropped is None else prompt.annotate(item, num_dropped)
            num_dropped = None

    def _answer(self, request: TextRequest) -> AsyncIterator[Part]:
        """Check a request against this engine, add the hint, and answer it free or constrained."""
        body, vocabulary, decoding = request.body, request.vocabulary, request.decoding
        if "prompt" not in body:
            self._check_template()
            self._prompts.check_switches(body)
        elif vocabulary is not None:
            self._check_completion()
        check_supported(request, self._settings, reports_cost=self._reports_cost)
        if decoding.no_repeat_ngram_size is None:
            has_default = vocabulary is not None and self._settings.mask_engine == "automaton"
            default = self._settings.no_repeat_ngram_size if has_default else 0
            request = request.with_decoding(no_repeat_ngram_size=default)
        request = self._with_hint(request)
        search = None if request.decoding.is_plain else SearchRequest(request.decoding)
        ANSWERS.inc(tags={"constrained": str(vocabulary is not None).lower()})
        if vocabulary is None:
            return self._answer_free(request, search)
        return self._answer_constrained(request, vocabulary, search)

    async def convert_tokens(self, body: dict[str, Any], request_id: str) -> AsyncGenerator[Answer, None]:
        """Yield the tokens of a text or of messages, or the text of tokens, as one dict; or an error as ``answer``."""
        try:
            if "messages" in body:
                self._check_template()
                body = await asyncio.to_thread(self._prompts.neutralize_special_tokens, body)
            yield await convert_tokens(self._server, body)
        except Exception as error:
            yield to_engine_error(error, request_id)

    def _check_template(self) -> None:
        if not self._prompts.has_chat_template:
            raise EngineError(
                400,
                f"The model {self._settings.model_id} has no chat template, so it cannot chat: send a completion.",
                param="model",
                code="no_chat_template",
            )

    def _check_completion(self) -> None:
        """Refuse a completion with a vocabulary where the model thinks first or xgrammar makes the masks."""
        if configuration.has_reasoning_parser(self._settings):
            # Its thoughts are free, and a completion has no place of its own for them.
            raise EngineError(
                400,
                "'vocab' is not available for completions of a model that thinks before it answers: send a chat.",
                param="vocab",
            )
        if self._settings.mask_engine == "xgrammar":
            raise EngineError(
                400,
                "'vocab' is not available for completions, for this service's mask engine is xgrammar: send a chat.",
                param="vocab",
            )

    def _with_hint(self, request: TextRequest) -> TextRequest:
        vocabulary, decoding = request.vocabulary, request.decoding
        if vocabulary is None or not decoding.hint:
            return request
        words = () if decoding.author is None else decoding.author.must_use
        n_words = vocabulary.n_words if self._adapters.is_trained_for(decoding.adapter, vocabulary) else None
        line = hint_line(vocabulary.lang, [one.word for one in words], n_words=n_words)
        takes_system = self._prompts.takes_system
        return request.with_body(messages=with_line(request.body["messages"], line, takes_system=takes_system))

    async def _answer_free(self, request: TextRequest, search: SearchRequest | None) -> AsyncIterator[Part]:
        details = self._recorder(request.body)
        form = answer_form(request.body, details)
        async for item in engine.answer(self._server, await self._engine_request(request, search, details=details)):
            if isinstance(item, AnswerCost):
                continue
            event = engine.parse_event(item) if details is not None and isinstance(item, str) else None
            yield item if event is None else engine.write_event(form.from_chat(form.to_chat(event)))

    def _recorder(self, body: ChatBody) -> DetailRecorder | None:
        if (top_k := requested_top_k(body)) is None:
            return None
        # The default may be more than the service allows.
        return DetailRecorder(self._facts.token_bytes, min(top_k, self._settings.limits.max_top_logprobs))

    async def _answer_constrained(
        self, request: TextRequest, vocabulary: ResolvedVocabulary, search: SearchRequest | None
    ) -> AsyncIterator[Part]:
        """Answer a request with a vocabulary: have its list enforced, then check and trim the text."""
        body, decoding = request.body, request.decoding
        listed = await self._lists.get(vocabulary)
        max_tokens, min_tokens = int(body["max_tokens"]), int(body.get("min_tokens", 0))
        authored = None
        if decoding.author is not None:
            authored = await asyncio.to_thread(AuthoredText.of, decoding.author, listed, max_tokens)
            if authored.must_use and not decoding.rescue and decoding.num_beams == 1:
                # What goes back and what searches by p would be misled.
                bias = authored.logit_bias(self._prompts.tokenizer)
                request = request.with_body(logit_bias=bias | body.get("logit_bias", {}))
        if (structure := listed_schema(body)) is not None:
            made = asyncio.to_thread(listed.json_constraint, *structure, self._states, max_tokens, min_tokens)
            answers, grammar = await made
            rules = self._rules(body, listed, answers, search)
        else:
            reader = listed.reader if authored is None else authored.reader
            if body.get("continue_final_message"):
                begun = text_of(body["messages"][-1]["content"])
                self._prompts.plain.check_end(begun, "messages")
                reader = await asyncio.to_thread(reader_after_text, reader, begun, "messages")
            elif "prompt" in body:
                reader = await asyncio.to_thread(reader_after_prompts, reader, body, self._prompts.plain)
            if authored is not None:
                authored = replace(authored, reader=reader.of_broken_off() if body.get("stop") else reader)
            rules = replace(self._rules(body, listed, reader, search), authored=authored)
            grammar = listed.grammar(
                max_tokens,
                decoding.no_repeat_ngram_size or None,
                min_tokens=min_tokens,
                place=reader.place,
                controls=None if authored is None else authored.controls,
            )
        rules = replace(rules, block={**listed.block, "adapter": name_of(decoding.adapter)})
        # The matcher keeps it; vLLM's own rule may leave a mask with nothing.
        request = request.with_body(min_tokens=0)
        if configuration.has_reasoning_parser(self._settings):
            request = request.with_body(**self._thinking_fields(body, vocabulary))
        details, cost = self._recorder(body), None
        stream, form = StreamFilter(rules), answer_form(body, details)
        if json_field(body) == "tools":
            form = ToolCallForm(form, named_tool(body), is_stream=bool(body.get("stream")))
        asked = await self._engine_request(request, search, grammar, details)
        async for item in engine.answer(self._server, asked):
            if isinstance(item, AnswerCost):
                cost = item
            elif isinstance(item, dict):
                # Reading a long answer takes a while, and other streams wait for this loop.
                yield form.from_chat(await asyncio.to_thread(finish_answer, form.to_chat(item), rules, cost))
            elif (event := engine.parse_event(item)) is None:
                for passed in await asyncio.to_thread(stream.finish, cost):
                    yield engine.write_event(form.from_chat(passed))
                yield item
            else:
                chunk = form.to_chat(event)
                is_long_read = any(choice.get("finish_reason") for choice in chunk["choices"])
                passed_on = await asyncio.to_thread(stream.pass_on, chunk) if is_long_read else stream.pass_on(chunk)
                for passed in passed_on:
                    yield engine.write_event(form.from_chat(passed))

    def _thinking_fields(self, body: ChatBody, vocabulary: ResolvedVocabulary) -> dict[str, Any]:
        """Return the fields that limit a model's thinking, so that tokens are left for its answer.

        vLLM would take ``include_reasoning: false`` for leave not to think, and call what was written thoughts.
        """
        if not self._ends_thinking:
            return {"include_reasoning": True}
        max_tokens = int(body["max_tokens"])
        reserved = max(max_tokens // _ANSWER_SHARE, vocabulary.fewest_tokens + _MARKER_TOKENS)
        asked, most = int(body.get("thinking_token_budget", -1)), max(max_tokens - reserved, 0)
        return {"include_reasoning": True, "thinking_token_budget": min(asked, most) if asked >= 0 else most}

    def _rules(
        self, body: ChatBody, listed: NodeList, reader: TextReader | AnswerReader, search: SearchRequest | None
    ) -> AnswerRules:
        """Build the rules by which an answer is checked and trimmed; refuse ``return_token_ids`` with trimming."""
        settings = self._settings
        thinks = configuration.has_reasoning_parser(settings)
        may_be_cut, has_stop = settings.mask_engine == "xgrammar" or thinks, bool(body.get("stop"))
        if (may_be_cut or has_stop) and body.get("return_token_ids"):
            raise EngineError(
                400,
                "'return_token_ids' cannot be combined with a vocabulary where the text may be trimmed: with 'stop', "
                "or a model that thinks before it answers. Leave it out.",
                param="return_token_ids",
            )
        return AnswerRules(
            reader=reader,
            block=listed.block,
            may_be_cut=may_be_cut,
            has_stop=has_stop,
            stop_in_text=bool(body.get("include_stop_str_in_output")),
            has_whole_parts=search is not None and search.decoding.rescue > 0,
            shows_thoughts=body.get("include_reasoning") is not False,
        )

    async def _engine_request(
        self,
        request: TextRequest,
        search: SearchRequest | None = None,
        grammar: str | None = None,
        details: DetailRecorder | None = None,
    ) -> Any:
        """Build vLLM's request; in a chat, special tokens become ordinary text."""
        body = request.body
        args: dict[str, Any] = {
            "request_id": request.caller.request_id,
            "max_input_tokens": self._settings.limits.max_input_tokens,
            "grammar": grammar,
            "search": search,
            "details": details,
        }
        if request.vocabulary is not None:
            # The grammar is of all that is written, and it is read here: the engine only tells the model of its tools.
            body = {**body, "response_format": None, **({"tool_choice": "none"} if body.get("tools") else {})}
        # Of a prompt the client writes all, special tokens too, and no template around it could be left.
        if "prompt" not in body:
            body = await asyncio.to_thread(self._prompts.neutralize_special_tokens, body)
        return engine.engine_request(body, **args)


def with_mask_engine_for(tokenizer: Any, settings: Settings) -> Settings:
    """Return the settings, with the mask engine xgrammar where a tokenizer's spelling is not known.

    Decided where the tokenizer is read, for it may be out of reach where the application is built. The compile process
    sees the same (``load_speller``), and nothing else of the service depends on it.
    """
    if settings.mask_engine == "xgrammar" or has_own_spelling(tokenizer):
        return settings
    logger.warning(
        "the tokenizer of %s (%s) has no fast implementation, so its spelling of words is not known: the mask engine "
        "is xgrammar, which is slower, and with a vocabulary there is none of %s",
        settings.model_id, type(tokenizer).__name__, ", ".join(sorted(_NEEDS_AUTOMATON)),
    )  # fmt: skip
    return settings.model_copy(update={"mask_engine": "xgrammar"})


def check_supported(request: TextRequest, settings: Settings, *, reports_cost: bool = True) -> None:
    """Refuse what a request asks for and this engine cannot do.

    ``reports_cost`` is whether it reports what a word list costs.

    Raises:
        EngineError: With status 400; it names the field and the setting.
    """
    asked = asked_of(request.body, request.decoding)
    if json_field(request.body) != "tools":
        asked.discard("tools")
    is_listed, thinks = request.vocabulary is not None, configuration.has_reasoning_parser(settings)
    thinking = "for the model of this service thinks before it answers"
    for applies, refused, why in (
        (is_listed and settings.mask_engine == "xgrammar", _NEEDS_AUTOMATON, f"{_LISTED}'s mask engine is xgrammar"),
        (is_listed and not reports_cost, _NEEDS_SCORES, f"{_LISTED}'s engine does not say what a list costs"),
        (is_listed and thinks, _NOT_WITH_THOUGHTS, f"with a vocabulary, {thinking}"),
        (thinks, _NEEDS_SCORES, thinking),
        ("speculative_config" in settings.engine_kwargs, _NEEDS_SCORES, "for the engine of this service drafts tokens"),
    ):
        if applies and (named := sorted(refused & asked)):
            raise EngineError(400, f"'{named[0]}' is not available here {why}. Leave it out.", param=named[0])
