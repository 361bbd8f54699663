"""Check the body of a chat or a completion, with the model that it names, and turn it into what the replica trusts.

Whether a list or a token exists, and how many tokens the prompt has, is checked later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from typing_extensions import override

from deployments.adapter_register import Register
from deployments.contract import AUTO_ADAPTER, ChatBody, Decoding, ResolvedVocabulary, VocabularySpec, num_prompts
from deployments.errors import BadRequestError, ModelNotFoundError, printable
from deployments.protocol.decoding import decoding_of, sampling_defaults
from deployments.protocol.generation import (
    ChatCompletionRequest,
    CompletionFields,
    CompletionRequest,
    EngineFields,
    GenerationRequest,
)
from deployments.protocol.listed_json import json_field, listed_schema
from deployments.protocol.rules import asked_of, can_search, check_together, goes_with_beams
from deployments.protocol.validation import json_schema, member_names, unknown_name, validate
from deployments.protocol.vocabulary import VocabularyFields, without_bad_words
from deployments.settings.compatibility import NOTHING, Compatibility
from deployments.settings.limits import MAX_PROMPT_CHARS, Limits
from deployments.settings.service import Settings

_VOCABULARY: Final = member_names(VocabularyFields)

_OLD_NAMES: Final = "guided_"
"""How vLLM's older names for structured outputs and their backend begin."""

_USUAL_COMPLETION_TOKENS: Final = 16
"""Of a completion that names no number, as OpenAI and vLLM have it."""

_ADAPTER: Final = "vocab.adapter"


@dataclass(frozen=True)
class ServedModel:
    """The model of a service as bodies are checked against it: its name, its limits and its adapters.

    ``adapters`` are those of the settings; those in the register are read when another name is asked for. ``merged``
    is the one that is part of the weights, if any. ``any_model`` takes other names for the model's; ``compatible`` is
    what an older server's clients find as it was.
    """

    model_id: str
    limits: Limits
    adapters: tuple[str, ...] = ()
    merged: str | None = None
    register: Register | None = None
    any_model: bool = False
    compatible: Compatibility = NOTHING

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            settings.model_id,
            settings.limits,
            tuple(settings.lora),
            settings.merged_adapter,
            Register.of(settings),
            settings.any_model,
            # Beams need the automaton, and the scores of an engine that neither thinks first nor drafts tokens.
            settings.compatible if can_search(settings) else replace(settings.compatible, num_beams=1),
        )

    def has_adapter(self, name: str) -> bool:
        return name in self.adapters or (self.register is not None and name in self.register.read())

    def served_name(self, name: str | None) -> str:
        """Return the model or adapter that a request for ``name`` gets; None is the model.

        Raises:
            ModelNotFoundError: There is none of that name.
        """
        if name is None or name == self.model_id or self.has_adapter(name):
            return name or self.model_id
        if self.any_model:
            return self.model_id
        raise model_not_found(name)

    def check_body(self, given: dict[str, Any]) -> None:
        """Check the ``model`` of a body, and delete it unless it is an adapter.

        Raises:
            ModelNotFoundError: There is no such model.
        """
        if self.served_name(given.get("model")) == self.model_id:
            given.pop("model", None)

    def check_adapter(self, adapter: str | None, model: str) -> None:
        """Check that a request's ``vocab.adapter`` exists and goes with its ``model``.

        Raises:
            ModelNotFoundError: There is no such adapter.
            BadRequestError: The model is another adapter, or has one merged into it.
        """
        if adapter == AUTO_ADAPTER:
            return
        if adapter is not None and not self.has_adapter(adapter):
            raise model_not_found(adapter, "adapter", _ADAPTER)
        if adapter is None and self.merged is not None:
            raise BadRequestError(
                f"'{_ADAPTER}' cannot be null here, for the adapter '{self.merged}' is merged into the model: leave it "
                "out.",
                _ADAPTER,
            )
        if model not in (self.model_id, adapter):
            raise BadRequestError(
                f"'{_ADAPTER}' differs from 'model', which names another adapter: leave one of them out.", _ADAPTER
            )


def model_not_found(name: str, kind: str = "model", param: str = "model") -> ModelNotFoundError:
    return ModelNotFoundError(f"The {kind} '{printable(name)}' does not exist. GET /v1/models lists what does.", param)


@dataclass(frozen=True)
class ChatRequest:
    """A checked chat or completion; ``body`` is for the replica, and ``vocabulary`` None for free text.

    ``list_param`` is the field that names the list, for errors that only the vocabulary deployment finds.
    """

    body: ChatBody
    vocabulary: VocabularySpec | None
    decoding: Decoding
    list_param: str = "vocab.lang"

    @property
    def is_stream(self) -> bool:
        return bool(self.body.get("stream", False))


class ChatRequestReader:
    """Reads chat requests for one model; ``hint`` is the default of a request with a vocabulary."""

    _model: type[GenerationRequest] = ChatCompletionRequest
    _passed_on = frozenset(EngineFields.model_fields)
    _has_messages = True

    def __init__(self, served: ServedModel, *, hint: bool = True) -> None:
        self._served = served
        self.limits = served.limits
        self.compatible = served.compatible
        self._hint = hint
        # The first error would take 0.1 s of the event loop for it.
        json_schema(self._model, self.limits)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(ServedModel.of(settings), hint=settings.hint and cls._has_messages)

    def read(self, body: Any) -> ChatRequest:
        """Check the parsed body of a request and split it into body, vocabulary and decoding.

        Raises:
            CallerError: The first fault found; ``param`` names the field.
        """
        if not isinstance(body, dict):
            raise BadRequestError("The body must be a JSON object.")
        known = member_names(self._model)
        for name in body:
            if name not in known and not self._is_refused(name):
                raise _unknown_field(name, known)
        given = {name: value for name, value in body.items() if value is not None}
        if self._has_messages:
            given = self.compatible.fill_in(given, self.limits)
        self._check_model(given)
        has_vocabulary = bool(given.keys() & set(_VOCABULARY))
        if "structured_outputs" in given:
            # guidance's client sends both, for older servers of vLLM's.
            given = {name: value for name, value in given.items() if not name.startswith(_OLD_NAMES)}
        for name in filter(self._is_refused, given):
            raise BadRequestError(f"'{printable(name)}' is not supported here. Leave it out.", printable(name))
        if has_vocabulary and given.get("continue_final_message"):
            _check_prefill(given)
        return self._assemble(validate(self._model, given, self.limits))

    def _is_refused(self, name: str) -> bool:
        return name in self._model.unsupported or name.startswith(_OLD_NAMES)

    def _check_model(self, given: dict[str, Any]) -> None:
        """Let ``model`` be the served one by default; refuse names that do not exist."""
        # A request need not name the model: there is one, besides its adapters.
        name = given.get("model")
        if name is not None and not isinstance(name, str):
            raise BadRequestError("'model' must be a string, or left out.", "model")
        given["model"] = self._served.served_name(name)

    def _assemble(self, request: GenerationRequest) -> ChatRequest:
        fields = request.model_dump(exclude_none=True, exclude={"vocab"})
        body = {name: value for name, value in fields.items() if name in self._passed_on}
        body["max_tokens"] = self._max_tokens(fields)
        _check_grammar_tokens(fields, body["max_tokens"], self.limits)
        if body.get("min_tokens", 0) > body["max_tokens"]:
            raise BadRequestError("'min_tokens' must not be larger than 'max_tokens'.", "min_tokens")
        self._check_logprobs(body)
        vocabulary = request.vocabulary()
        if vocabulary is not None and request.vocab is not None and request.vocab.prompt_words:
            if request.vocab.prompt_words is not True:
                raise BadRequestError(
                    "'vocab.prompt_words' must be true or false here, where the last user message is the prompt: a "
                    "text is for a check.",
                    "vocab.prompt_words",
                )
            vocabulary = vocabulary.model_copy(update={"prompt": _last_user_text(body)})
        if vocabulary is not None and (bad_words := fields.pop("bad_words", None)):
            del body["bad_words"]
            vocabulary = without_bad_words(vocabulary, bad_words)
        decoding = decoding_of(fields, request.vocab, has_vocabulary=vocabulary is not None, hint=self._hint)
        if vocabulary is not None:
            author = None if request.vocab is None else request.vocab.controls()
            decoding = decoding.model_copy(update={"author": author, "adapter": self._adapter(request)})
        if self._has_messages:
            decoding = self._with_usual_beams(fields, body, decoding, vocabulary)
        chooses = request.vocab is not None and request.vocab.select is not None
        check_together(asked_of(body, decoding, vocabulary) | ({"vocab.select"} if chooses else set()))
        if vocabulary is not None:
            # Raises for a schema that has what cannot stand in a word list.
            listed_schema(body)
            self._served.check_adapter(decoding.adapter, body["model"])
            body = {**sampling_defaults(fields, decoding), **body}
        return ChatRequest(body, vocabulary, decoding, list_param=request.list_param)

    def _adapter(self, request: GenerationRequest) -> str | None:
        """Return the adapter asked for; by default none where an older server's clients name a list as they did."""
        is_bare = self.compatible.bare_lists and request.vocab is None and self._served.merged is None
        return None if is_bare and request.model == self._served.model_id else request.adapter

    def _with_usual_beams(
        self, fields: Mapping[str, Any], body: ChatBody, decoding: Decoding, vocabulary: VocabularySpec | None
    ) -> Decoding:
        """Return the decoding with the beams of an older server, where it may have them and names none."""
        usual = self.compatible.num_beams
        may_search = "num_beams" not in fields and not body.get("stream") and max(1, body.get("n", 1)) < usual
        if may_search and goes_with_beams(asked_of(body, decoding, vocabulary)):
            return decoding.model_copy(update={"num_beams": usual})
        is_harmless = self.compatible.bare_lists and decoding.num_beams == 1
        return decoding.model_copy(update={"length_penalty": 1.0}) if is_harmless else decoding

    def _check_logprobs(self, body: dict[str, Any]) -> None:
        asked = body.get("logprobs")
        if asked is None or asked is False:
            return
        # A chat's field only says whether.
        name = "top_logprobs" if asked is True else "logprobs"
        num_ids = len(body.get("logprob_token_ids", ()))
        if num_ids:
            name = "logprob_token_ids"
        num_each = (num_ids or int(body.get(name, 0))) + 1
        num_texts = num_prompts(body) * body.get("n", 1)
        number = num_texts * body["max_tokens"] * num_each
        if number > self.limits.max_logprobs:
            raise BadRequestError(
                f"An answer has at most {self.limits.max_logprobs} log-probabilities, and these fields ask for "
                f"{number}: {num_texts} texts ('n'), each of 'max_tokens' {body['max_tokens']} tokens, each with "
                f"{num_each} of them ('{name}' and its own). Ask for less of one of these, or send several requests.",
                name,
            )

    def _max_tokens(self, fields: dict[str, Any]) -> int:
        """Return the ``max_tokens`` of a request, by either name, or the default."""
        given = [fields[name] for name in ("max_tokens", "max_completion_tokens") if name in fields]
        if len(set(given)) > 1:
            raise BadRequestError(
                "'max_tokens' and 'max_completion_tokens' differ. Give one of them.", "max_completion_tokens"
            )
        allowed = self.limits.allowed_new_tokens
        if not given:
            return max(allowed, default=self.limits.max_new_tokens)
        if allowed and given[0] not in allowed:
            name = "max_tokens" if "max_tokens" in fields else "max_completion_tokens"
            raise BadRequestError(f"'{name}' must be one of {', '.join(map(str, sorted(allowed)))} here.", name)
        return int(given[0])


class CompletionRequestReader(ChatRequestReader):
    """Reads completions; the line that asks a model for simple words has no place in their prompts."""

    _model = CompletionRequest
    _passed_on = frozenset(CompletionFields.model_fields)
    _has_messages = False

    @override
    def read(self, body: Any) -> ChatRequest:
        request = super().read(body)
        self._check_combinations(request)
        return request

    @override
    def _max_tokens(self, fields: dict[str, Any]) -> int:
        allowed = self.limits.allowed_new_tokens
        # Where only some numbers are allowed, the next above OpenAI's own default, or else the largest.
        largest = max(allowed, default=min(_USUAL_COMPLETION_TOKENS, self.limits.max_new_tokens))
        usual = min((number for number in allowed if number >= _USUAL_COMPLETION_TOKENS), default=largest)
        return super()._max_tokens({"max_tokens": usual, **fields})

    def _check_combinations(self, request: ChatRequest) -> None:
        body, decoding = request.body, request.decoding
        if decoding.hint:
            raise BadRequestError(
                "'vocab.hint' is a line among the messages of a chat, and a completion has none: leave it out, or say "
                "so in the prompt.",
                "vocab.hint",
            )
        if request.vocabulary is not None and request.vocabulary.prompt is not None:
            raise BadRequestError(
                "'vocab.prompt_words' reads the last user message of a chat, and a completion has none: leave it out, "
                "or name the words in 'extra_words'.",
                "vocab.prompt_words",
            )
        if num_prompts(body) > 1 and not decoding.is_plain:
            raise BadRequestError(
                "'prompt' must be one prompt for a search, or where a score is asked for: send several requests.",
                "prompt",
            )
        if num_prompts(body) * body.get("n", 1) > self.limits.max_n:
            raise BadRequestError(
                f"'prompt' must be at most {self.limits.max_n} prompts together, where each counts 'n' times: send "
                "several requests.",
                "prompt",
            )


def _check_grammar_tokens(fields: dict[str, Any], max_tokens: int, limits: Limits) -> None:
    named = [name for name in ("regex", "grammar") if name in (fields.get("structured_outputs") or {})]
    if named and max_tokens > limits.max_grammar_tokens:
        # Also where the request names no number: a shorter answer than usual would come as a surprise.
        raise BadRequestError(
            f"'max_tokens' must be at most {limits.max_grammar_tokens} with 'structured_outputs.{named[0]}' "
            "(limits.max_grammar_tokens).",
            "max_tokens",
        )


def check_max_tokens(chat: ChatRequest, vocabulary: ResolvedVocabulary) -> None:
    """Check that ``max_tokens`` has room for the shortest text of the vocabulary.

    Raises:
        BadRequestError: It has not.
    """
    # Of JSON, the replica knows it.
    if json_field(chat.body) is None and chat.body["max_tokens"] < vocabulary.fewest_tokens:
        message = (
            f"'max_tokens' must be at least {vocabulary.fewest_tokens}: no text of this vocabulary fits into fewer."
        )
        if chat.vocabulary is not None and chat.vocabulary.end == "sentence":
            message += ' An answer that need not end with a sentence may be shorter: {"vocab": {"end": "word"}}.'
        raise BadRequestError(message, "max_tokens")


def _last_user_text(body: ChatBody) -> str:
    """Return the text of the last user message, its parts as lines; none of a long one, and where there is none."""
    messages = [message for message in body.get("messages", ()) if message["role"] == "user"]
    content = messages[-1]["content"] if messages else ""
    text = content if isinstance(content, str) else "\n".join(part["text"] for part in content or ())
    return text if len(text) <= MAX_PROMPT_CHARS else ""


def _unknown_field(name: str, known: list[str]) -> BadRequestError:
    if name.lower().startswith("vocab"):
        shown, fields = printable(name), ", ".join(_VOCABULARY)
        return BadRequestError(f"Unknown vocabulary field: '{shown}'. The vocabulary fields are {fields}.", shown)
    return unknown_name(name, known)


def _check_prefill(given: dict[str, Any]) -> None:
    """Check that a request that continues a message ends with a prefill of the assistant.

    The first words of a list depend on it.
    """
    if given.get("add_generation_prompt", True) is not False:
        raise BadRequestError(
            "'add_generation_prompt' must be false with 'continue_final_message': the last message is the answer's "
            "beginning.",
            "add_generation_prompt",
        )
    messages = given.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    if isinstance(last, dict) and (
        last.get("role") != "assistant" or not last.get("content") or last.get("tool_calls")
    ):
        raise BadRequestError(
            "'continue_final_message' needs a last message of the role 'assistant' with a text: the beginning of the "
            "answer.",
            "messages",
        )
