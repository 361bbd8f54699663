"""The life of one chat request, or completion, around the engine.

Special tokens in the client's text are made plain, the list is fetched to this node and named to the engine. The
engine gives pieces (``pieces``), the gate lets listed ones pass (``gate``), the writer makes JSON (``writer``).
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from ray.serve.llm.deployment import LLMServer

from deployments.contract import Answer, ChatBody, Part, ResolvedVocabulary, TextRequest
from deployments.errors import EngineError
from deployments.metrics import ANSWERS
from deployments.protocol.listed_json import json_field, listed_schema, named_tool
from deployments.protocol.rules import DETAILS, asked_of, check_supported, has_reasoning_parser
from deployments.ray_private import engine_client
from deployments.replica import prompt
from deployments.replica.answers.authoring import AuthoredText
from deployments.replica.answers.gate import AnswerRules, Gate, to_engine_error
from deployments.replica.answers.pieces import Draft, Piece, begin
from deployments.replica.answers.writer import AnswerWriter, ChatWriter, CompletionWriter, with_model, with_timing
from deployments.replica.engine import engine
from deployments.replica.engine.loaded_adapters import LoadedAdapters, name_of
from deployments.replica.engine.node_lists import NodeList, NodeLists
from deployments.replica.plain_text import reader_after_prompts, reader_after_text
from deployments.replica.prompt import Prompts, hint_line, text_of, with_line
from deployments.search.text_engine import TextEngine
from deployments.search.token_details import DetailWriter, requested_top_k
from deployments.settings.service import Settings
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.matching.engine_cache import EngineCache
from vocab.matching.structure.answers import AnswerReader
from vocab.text.reader import TextReader

logger = logging.getLogger("ray.serve")

_ANSWER_SHARE: Final = 4
"""One token in four is reserved for the answer of a model that thinks first."""

_MARKER_TOKENS: Final = 4
"""Of the mark that ends its thinking; models have one of 1 to 3 tokens."""

_NOT_PLAIN: Final = frozenset({"logprobs", "response_format", "structured_outputs", "tools", DETAILS})
"""What vLLM's own server would refuse or be slow with, and client's grammars, which the engine may give up."""


class ChatAnswerer:
    """Answer chat requests and completions with the engine of ``server``, which has these adapters.

    ``reports_cost`` is whether the engine was found to report what a word list costs, ``facts`` those of the model's
    tokenizer, ``states`` this process's states of lists.
    """

    def __init__(
        self,
        server: LLMServer,
        settings: Settings,
        lists: NodeLists,
        prompts: Prompts,
        *,
        reports_cost: bool,
        adapters: LoadedAdapters,
        facts: TokenizerFacts,
        states: EngineCache,
    ) -> None:
        self._server = server
        self._engine = TextEngine(engine_client(server), states, facts)
        self._settings = settings
        self._thinks = has_reasoning_parser(settings)
        self._lists = lists
        self._prompts = prompts
        self._tokenization = prompt.tokenization_of(server)
        self._reports_cost = reports_cost
        self._adapters = adapters
        self._facts = facts
        self._states = states

    async def answer(self, request: TextRequest) -> AsyncGenerator[Answer, None]:
        """Answer a chat request or completion: yield events of a stream, or one dict.

        An error is one item: the first, or the last of a stream that broke off.
        """
        caller, started = request.caller, time.perf_counter()
        try:
            asked = request.decoding.adapter
            adapter = await self._adapters.choose(request.body["model"], asked, request.vocabulary)
            request = request.with_decoding(adapter=adapter)
            request = request.with_body(cache_salt=self._settings.cache_salt(caller.owner))
            answer, dropped = await self._begin_with_overflow(request, started)
            async with aclosing(answer) as items:
                async for item in items:
                    yield prompt.annotate(item, dropped) if dropped else item
                    dropped = {}
        except Exception as error:
            yield to_engine_error(error, caller.request_id)

    async def _begin_with_overflow(
        self, request: TextRequest, started: float
    ) -> tuple[AsyncGenerator[Part, None], dict[str, int]]:
        """Begin an answer; shorten too long a conversation where the settings allow it.

        Return what was left out of it, too; nothing of one that is not too long.
        """
        try:
            return await self._begin(request, started), {}
        except EngineError as error:
            messages = request.body.get("messages", [])
            is_too_long = error.code == engine.CONTEXT_LENGTH_EXCEEDED
            # A completion has no turns.
            if not is_too_long or not messages or self._settings.input_overflow == "error":
                raise

            async def fits(fewer: prompt.Messages) -> bool:
                asked = self._with_hint(request.with_body(messages=fewer))
                return await engine.has_room(self._server, await self._engine_request(asked))

            fewer, num_cut = await prompt.drop_oldest_turns(messages, fits), 0
            if fewer is None and self._settings.input_overflow == "truncate_text":
                fewer, num_cut = await prompt.truncate_text(messages, fits)
            if fewer is None:
                raise
        dropped = {"dropped_messages": len(messages) - len(fewer), **({"cut_characters": num_cut} if num_cut else {})}
        return await self._begin(request.with_body(messages=fewer), started), dropped

    async def _begin(self, request: TextRequest, started: float) -> AsyncGenerator[Part, None]:
        """Check a request against this engine, add the hint, and begin its answer, free or constrained."""
        body, vocabulary, decoding = request.body, request.vocabulary, request.decoding
        if "prompt" not in body:
            self._check_template()
            self._prompts.check_switches(body)
        elif vocabulary is not None:
            self._check_completion()
        check_supported(request, self._settings, thinks=self._thinks, reports_cost=self._reports_cost)
        if decoding.no_repeat_ngram_size is None:
            has_default = vocabulary is not None and self._settings.mask_engine == "automaton"
            default = self._settings.no_repeat_ngram_size if has_default else 0
            request = request.with_decoding(no_repeat_ngram_size=default)
        request = self._with_hint(request)
        ANSWERS.inc(tags={"constrained": str(vocabulary is not None).lower()})
        if vocabulary is not None:
            return await self._begin_constrained(request, vocabulary, started)
        has_more = int(body.get("n") or 1) > 1 or asked_of(body, decoding) & _NOT_PLAIN
        if request.decoding.is_plain and not has_more:
            return await self._begin_plain(request, started)
        return self._write(await self._draft(request), request, started)

    async def convert_tokens(self, body: dict[str, Any], request_id: str) -> AsyncGenerator[Answer, None]:
        """Yield the tokens of a text or of messages, or the text of tokens, as one dict; or an error as ``answer``."""
        try:
            if "messages" in body:
                self._check_template()
                body = await asyncio.to_thread(self._prompts.neutralize_special_tokens, body)
            yield await prompt.convert_tokens(self._tokenization, body)
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
        if self._thinks:
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

    async def _begin_plain(self, request: TextRequest, started: float) -> AsyncGenerator[Part, None]:
        """Begin the answer of vLLM's own server to a free request."""
        asked, name = await self._engine_request(request), request.body["model"]
        made = await engine.create(self._server, asked)

        async def answer() -> AsyncGenerator[Part, None]:
            if isinstance(made, dict):
                yield with_model(with_timing(made, started), name)
                return
            # The first has the role, and no text.
            async with aclosing(self._engine.pacer.pace(made, _has_finish, num_at_once=2)) as events:
                async for event in events:
                    engine.check_event(event, asked)
                    item = with_timing(event, started)
                    yield item if asked.model == name else with_model(item, name)

        return answer()

    def _engine_name(self, request: TextRequest) -> str:
        return self._adapters.engine_name(request.decoding.adapter)

    async def _draft(self, request: TextRequest, grammar: str | None = None) -> Draft:
        """Begin the answer to a request in the engine."""
        asked = await self._engine_request(request, grammar)
        lora_request = self._adapters.lora_request(request.decoding.adapter)
        return await begin(
            self._server,
            self._engine,
            asked,
            int(request.body["max_tokens"]),
            request.decoding,
            details=self._details(request.body),
            lora_request=lora_request,
        )

    def _details(self, body: ChatBody) -> DetailWriter | None:
        if (top_k := requested_top_k(body)) is None:
            return None
        # The default may be more than the service allows.
        return DetailWriter(self._facts.token_bytes, min(top_k, self._settings.limits.max_top_logprobs))

    def _writer(self, draft: Draft, request: TextRequest, started: float) -> AnswerWriter:
        name = request.body["model"]
        if not draft.is_chat:
            return CompletionWriter(draft, name, started)
        if request.vocabulary is None or json_field(request.body) != "tools":
            return ChatWriter(draft, name, started)
        return ChatWriter(draft, name, started, is_text=False, tool=named_tool(request.body))

    async def _write(
        self, draft: Draft, request: TextRequest, started: float, gate: Gate | None = None
    ) -> AsyncGenerator[Part, None]:
        """Yield the answer of a draft, as far as the gate lets its pieces pass: events of a stream, or one dict."""
        writer = self._writer(draft, request, started)
        is_stream, num_open, passed = bool(draft.request.stream), len(draft.num_written), list[Piece]()
        has_begun, last = False, dict[str, Any]()
        async with aclosing(draft.pieces()) as pieces:
            async for piece in pieces:
                if is_stream and not has_begun:
                    has_begun = True
                    for event in writer.begin():
                        yield event
                is_end = piece.finish is not None
                ready: Piece | None = piece
                if gate is not None:
                    ready = await gate.end(piece) if is_end else gate.pass_on(piece)
                num_open -= is_end
                if gate is not None and not num_open:
                    last = {"vocab": await gate.vocab_block(draft)}
                if ready is None:
                    continue
                if is_stream:
                    yield writer.event(ready, None if num_open else last)
                else:
                    passed.append(ready)
        if is_stream:
            for event in writer.end(last):
                yield event
        else:
            yield writer.whole(passed, last)

    async def _begin_constrained(
        self, request: TextRequest, vocabulary: ResolvedVocabulary, started: float
    ) -> AsyncGenerator[Part, None]:
        """Begin the answer to a request with a vocabulary: have its list enforced, and its text checked and trimmed."""
        body, decoding = request.body, request.decoding
        listed = await self._lists.get(vocabulary)
        reader, grammar, authored = await self._constrain(request, listed)
        rules = self._rules(request, listed, reader, authored)
        if authored is not None and authored.must_use and decoding.num_beams == 1:
            # What searches by p would be misled.
            bias = authored.logit_bias(self._prompts.tokenizer)
            request = request.with_body(logit_bias=bias | body.get("logit_bias", {}))
        # The matcher keeps it; vLLM's own rule may leave a mask with nothing.
        request = request.with_body(min_tokens=0)
        if self._thinks:
            request = request.with_body(**self._thinking_fields(body, vocabulary))
        return self._write(await self._draft(request, grammar), request, started, Gate(rules))

    async def _constrain(
        self, request: TextRequest, listed: NodeList
    ) -> tuple[TextReader | AnswerReader, str, AuthoredText | None]:
        """Return the reader of a request's texts, their grammar for the engine, and what their author asks."""
        body, decoding = request.body, request.decoding
        max_tokens, min_tokens = int(body["max_tokens"]), int(body.get("min_tokens", 0))
        if (structure := listed_schema(body)) is not None:
            made = asyncio.to_thread(listed.json_constraint, *structure, self._states, max_tokens, min_tokens)
            return *(await made), None
        reader, authored = listed.reader, None
        if decoding.author is not None:
            authored = await asyncio.to_thread(AuthoredText.of, decoding.author, listed, max_tokens)
            reader = authored.reader
        if body.get("continue_final_message"):
            begun = text_of(body["messages"][-1]["content"])
            self._prompts.plain.check_end(begun, "messages")
            reader = await asyncio.to_thread(reader_after_text, reader, begun, "messages")
        elif "prompt" in body:
            reader = await asyncio.to_thread(reader_after_prompts, reader, body, self._prompts.plain)
        grammar = listed.grammar(
            max_tokens,
            decoding.no_repeat_ngram_size or None,
            min_tokens=min_tokens,
            place=reader.place,
            controls=None if authored is None else authored.controls,
        )
        if authored is not None:
            authored = replace(authored, reader=reader.of_broken_off() if body.get("stop") else reader)
        return reader, grammar, authored

    def _thinking_fields(self, body: ChatBody, vocabulary: ResolvedVocabulary) -> dict[str, Any]:
        """Return the fields that limit a model's thinking, so that tokens are left for its answer.

        vLLM would take ``include_reasoning: false`` for leave not to think, and call what was written thoughts.
        """
        if not engine.can_end_thinking(self._server):
            return {"include_reasoning": True}
        max_tokens = int(body["max_tokens"])
        reserved = max(max_tokens // _ANSWER_SHARE, vocabulary.fewest_tokens + _MARKER_TOKENS)
        asked, most = int(body.get("thinking_token_budget", -1)), max(max_tokens - reserved, 0)
        return {"include_reasoning": True, "thinking_token_budget": min(asked, most) if asked >= 0 else most}

    def _rules(
        self,
        request: TextRequest,
        listed: NodeList,
        reader: TextReader | AnswerReader,
        authored: AuthoredText | None,
    ) -> AnswerRules:
        """Build the rules by which an answer is checked and trimmed; refuse ``return_token_ids`` with trimming."""
        body, decoding = request.body, request.decoding
        may_be_cut, has_stop = self._settings.mask_engine == "xgrammar" or self._thinks, bool(body.get("stop"))
        if (may_be_cut or has_stop) and body.get("return_token_ids"):
            raise EngineError(
                400,
                "'return_token_ids' cannot be combined with a vocabulary where the text may be trimmed: with 'stop', "
                "or a model that thinks before it answers. Leave it out.",
                param="return_token_ids",
            )
        found = None if request.vocabulary is None else request.vocabulary.prompt_words
        prompt_words = {} if found is None else {"prompt_words": [word.as_json() for word in found]}
        return AnswerRules(
            reader=reader,
            block={**listed.block, "adapter": name_of(decoding.adapter), **prompt_words},
            may_be_cut=may_be_cut,
            has_stop=has_stop,
            stop_in_text=bool(body.get("include_stop_str_in_output")),
            shows_thoughts=body.get("include_reasoning") is not False,
            authored=authored,
        )

    async def _engine_request(self, request: TextRequest, grammar: str | None = None) -> engine.Request:
        """Build vLLM's request; in a chat, special tokens become ordinary text."""
        body = {**request.body, "model": self._engine_name(request)}
        if request.vocabulary is not None:
            # The grammar is of all that is written, and it is read here: the engine only tells the model of its tools.
            body = {**body, "response_format": None, **({"tool_choice": "none"} if body.get("tools") else {})}
        # Of a prompt the client writes all, special tokens too, and no template around it could be left.
        if "prompt" not in body:
            body = await asyncio.to_thread(self._prompts.neutralize_special_tokens, body)
        return engine.engine_request(
            body,
            request_id=request.caller.request_id,
            max_input_tokens=self._settings.limits.max_input_tokens,
            grammar=grammar,
        )


def _has_finish(item: Part) -> bool:
    # A quote inside a text would be escaped.
    return isinstance(item, str) and '"finish_reason":null' not in item
