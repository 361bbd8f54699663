"""Check the body of a chat request and turn it into what the replica trusts.

Whether a list or a token exists, and how many tokens the prompt has, is checked later.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

from deployments.contract import ChatBody, Decoding, ResolvedVocabulary, VocabularySpec
from deployments.errors import BadRequestError, CallerError, ModelNotFoundError, printable
from deployments.limits import Limits
from deployments.protocol.chat import ChatCompletionRequest, EngineFields, is_refused
from deployments.protocol.decoding import COMBINABLE, decoding_of, sampling_defaults
from deployments.protocol.validation import bounded, checked, json_schema, member_names, unknown_name
from deployments.protocol.vocabulary import VocabularyFields
from deployments.settings import Settings

_KNOWN: Final = member_names(ChatCompletionRequest)
_VOCABULARY: Final = member_names(VocabularyFields)
_PASSED_ON: Final = frozenset(EngineFields.model_fields)


@dataclass(frozen=True)
class ChatRequest:
    """A checked request; ``body`` is for the replica, and ``vocabulary`` None for free text.

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
    """Reads chat requests for one model under one set of limits.

    ``hint`` is the default of a request with a vocabulary.
    """

    def __init__(self, model_id: str, limits: Limits, *, hint: bool = True) -> None:
        self._model_id = model_id
        self._limits = limits
        self._hint = hint
        # Fills both caches; the first request and its error would take 0.2 s of the event loop for it.
        json_schema(bounded(ChatCompletionRequest, limits))

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(settings.model_id, settings.limits, hint=settings.hint)

    def read(self, body: Any) -> ChatRequest:
        """Check a parsed JSON body.

        Raises:
            CallerError: The first fault found; ``param`` names the field.
        """
        if not isinstance(body, dict):
            raise BadRequestError("The body must be a JSON object.")
        for name in body:
            _check_name(name)
        given = {name: value for name, value in body.items() if value is not None}
        self._check_model(given)
        if given.keys() & set(_VOCABULARY):
            _check_combination(given)
        for name in filter(is_refused, given):
            raise BadRequestError(f"'{printable(name)}' is not supported here. Leave it out.", printable(name))
        return self._assemble(checked(ChatCompletionRequest, given, self._limits))

    def _check_model(self, given: dict[str, Any]) -> None:
        # There is one model, so a request need not name it.
        name = given.setdefault("model", self._model_id)
        if not isinstance(name, str):
            raise BadRequestError("'model' must be a string, or left out.", "model")
        if name != self._model_id:
            raise model_not_found(name)

    def _assemble(self, chat: ChatCompletionRequest) -> ChatRequest:
        fields = chat.model_dump(exclude_none=True, exclude={"vocab"})
        body = {name: value for name, value in fields.items() if name in _PASSED_ON}
        body["max_tokens"] = self._max_tokens(chat)
        if body.get("min_tokens", 0) > body["max_tokens"]:
            raise BadRequestError("'min_tokens' must not be larger than 'max_tokens'.", "min_tokens")
        if chat.top_logprobs and not chat.logprobs:
            raise BadRequestError("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
        if chat.stream_options is not None and not chat.stream:
            raise BadRequestError("'stream_options' needs 'stream' to be true.", "stream_options")
        if chat.tool_choice not in (None, "none") and not chat.tools:
            raise BadRequestError("'tool_choice' needs 'tools'.", "tool_choice")
        vocabulary = chat.vocabulary()
        decoding = decoding_of(fields, chat.vocab, has_vocabulary=vocabulary is not None, hint=self._hint)
        if vocabulary is not None:
            body |= sampling_defaults(fields, decoding)
        return ChatRequest(body, vocabulary, decoding, list_param=chat.list_param)

    def _max_tokens(self, chat: ChatCompletionRequest) -> int:
        given = [number for number in (chat.max_tokens, chat.max_completion_tokens) if number is not None]
        if len(set(given)) > 1:
            raise BadRequestError(
                "'max_tokens' and 'max_completion_tokens' differ. Give one of them.", "max_completion_tokens"
            )
        allowed = self._limits.allowed_new_tokens
        if not given:
            return max(allowed, default=self._limits.max_new_tokens)
        if allowed and given[0] not in allowed:
            name = "max_completion_tokens" if chat.max_tokens is None else "max_tokens"
            raise BadRequestError(f"'{name}' must be one of {', '.join(map(str, sorted(allowed)))} here.", name)
        return given[0]


def check_budget(chat: ChatRequest, vocabulary: ResolvedVocabulary) -> None:
    """Check that an answer has room for the shortest text of its vocabulary.

    Raises:
        BadRequestError: It has not.
    """
    if chat.body["max_tokens"] < vocabulary.fewest_tokens:
        message = (
            f"'max_tokens' must be at least {vocabulary.fewest_tokens}: no text of this vocabulary fits into fewer."
        )
        if chat.vocabulary is not None and chat.vocabulary.end == "sentence":
            message += ' An answer that need not end with a sentence may be shorter: {"vocab": {"end": "word"}}.'
        raise BadRequestError(message, "max_tokens")


def model_not_found(name: str) -> CallerError:
    return ModelNotFoundError(f"The model '{printable(name)}' does not exist. GET /v1/models lists what does.", "model")


def _check_name(name: str) -> None:
    if name in _KNOWN or is_refused(name):
        return
    if name.lower().startswith("vocab"):
        shown, known = printable(name), ", ".join(_VOCABULARY)
        raise BadRequestError(f"Unknown vocabulary field: '{shown}'. The vocabulary fields are {known}.", shown)
    raise unknown_name(name, _KNOWN)


def _check_combination(given: dict[str, Any]) -> None:
    for name, harmless in COMBINABLE.items():
        if name in given and given[name] not in harmless:
            raise BadRequestError(f"'{name}' cannot be combined with a vocabulary. Leave it out.", name)
