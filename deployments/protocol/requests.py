"""Checks the body of a chat request, field by field, and makes of it what the replica may trust.

The tables of ``chat_fields`` say what each field may hold; here is the order of the checks, and what fields ask of one
another. Whether a list or a token exists, and how long the prompt is in tokens, is not known here.
"""

import difflib
from dataclasses import dataclass
from typing import Any, Protocol, Self

from deployments.contract import ChatBody, Decoding, ResolvedVocabulary, VocabularySpec
from deployments.errors import BadRequestError, CallerError, ModelNotFoundError, printable
from deployments.limits import Limits
from deployments.protocol.chat_fields import COMBINABLE, consumed, is_refused, left_out, passed_on
from deployments.protocol.decoding_defaults import NO_REPEAT_NGRAM_SIZE, sampling_defaults
from deployments.protocol.decoding_fields import decoding_of
from deployments.protocol.fields import Check, FieldError
from deployments.protocol.vocabulary_fields import FIELDS, vocabulary_of


@dataclass(frozen=True)
class ChatRequest:
    """A checked request.

    Attributes:
        body: What the replica gets.
        vocabulary: What the client asks for, or None for free text.
        decoding: How the text is to be chosen.
        list_param: The field that names the list, for errors that only the vocabulary finds.
    """

    body: ChatBody
    vocabulary: VocabularySpec | None
    decoding: Decoding
    list_param: str = "vocab.lang"

    @property
    def is_stream(self) -> bool:
        return bool(self.body.get("stream", False))


class ReaderSettings(Protocol):
    """What the reader needs of the settings."""

    @property
    def model_id(self) -> str: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def hint(self) -> bool: ...
    @property
    def default_no_repeat(self) -> int: ...


class ChatRequestReader:
    """Reads chat requests for one model under one set of limits.

    ``hint`` and ``no_repeat_ngram_size`` are those of a request with a vocabulary that does not say.
    """

    def __init__(
        self,
        model_id: str,
        limits: Limits,
        *,
        hint: bool = True,
        no_repeat_ngram_size: int = NO_REPEAT_NGRAM_SIZE,
    ) -> None:
        self._model_id = model_id
        self._limits = limits
        self._hint = hint
        self._no_repeat_ngram_size = no_repeat_ngram_size
        self._passed_on = passed_on(limits)
        self._checks = {**self._passed_on, **left_out(), **consumed(limits)}

    @classmethod
    def of(cls, settings: ReaderSettings) -> Self:
        """The reader of a service."""
        return cls(
            settings.model_id, settings.limits, hint=settings.hint, no_repeat_ngram_size=settings.default_no_repeat
        )

    def read(self, body: Any) -> ChatRequest:
        """Checks a parsed JSON body.

        Raises:
            CallerError: The first fault found; ``param`` names the field.
        """
        if not isinstance(body, dict):
            raise BadRequestError("The body must be a JSON object.")
        given = {name: value for name, value in body.items() if value is not None}
        for name in body:
            self._check_name(name)
        self._check_model(given)
        if given.keys() & set(FIELDS):
            _check_combination(given)
        for name in filter(is_refused, given):
            raise BadRequestError(f"'{printable(name)}' is not supported here. Leave it out.", printable(name))
        if "messages" not in given:
            raise BadRequestError("You must provide a messages parameter.", "messages")
        checked = {name: checked_field(name, self._checks[name], value) for name, value in given.items()}
        return self._assemble(checked)

    def _check_name(self, name: str) -> None:
        if name in self._checks or is_refused(name):
            return
        shown = printable(name)
        if name.lower().startswith("vocab"):
            known = ", ".join(FIELDS)
            raise BadRequestError(f"Unknown vocabulary field: '{shown}'. The vocabulary fields are {known}.", shown)
        near = difflib.get_close_matches(name[:64], self._checks, n=1, cutoff=0.8)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise BadRequestError(f"Unrecognized request argument supplied: '{shown}'.{hint}", shown)

    def _check_model(self, given: dict[str, Any]) -> None:
        name = given.get("model")
        if name is None:
            raise BadRequestError("You must provide a model parameter.", "model")
        if not isinstance(name, str):
            raise BadRequestError("'model' must be a string.", "model")
        if name != self._model_id:
            raise model_not_found(name)

    def _assemble(self, checked: dict[str, Any]) -> ChatRequest:
        body = {name: value for name, value in checked.items() if name in self._passed_on}
        body["max_tokens"] = self._max_tokens(checked)
        if body.get("min_tokens", 0) > body["max_tokens"]:
            raise BadRequestError("'min_tokens' must not be larger than 'max_tokens'.", "min_tokens")
        if body.get("top_logprobs") and not body.get("logprobs"):
            raise BadRequestError("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
        if "stream_options" in body and not body.get("stream"):
            raise BadRequestError("'stream_options' needs 'stream' to be true.", "stream_options")
        if body.get("tool_choice", "none") != "none" and not body.get("tools"):
            raise BadRequestError("'tool_choice' needs 'tools'.", "tool_choice")
        vocabulary = vocabulary_of(checked)
        decoding = decoding_of(
            checked,
            has_vocabulary=vocabulary is not None,
            hint=self._hint,
            no_repeat_ngram_size=self._no_repeat_ngram_size,
        )
        if vocabulary is not None:
            has_draws = max(decoding.best_of, decoding.search_width) > 1
            body |= sampling_defaults(checked, has_beams=decoding.num_beams > 1, has_draws=has_draws)
        return ChatRequest(body, vocabulary, decoding, list_param=_list_param(checked))

    def _max_tokens(self, checked: dict[str, Any]) -> int:
        given = {checked[name] for name in ("max_tokens", "max_completion_tokens") if name in checked}
        if len(given) > 1:
            raise BadRequestError(
                "'max_tokens' and 'max_completion_tokens' differ. Give one of them.", "max_completion_tokens"
            )
        return given.pop() if given else self._limits.max_new_tokens


def check_budget(chat: ChatRequest, vocabulary: ResolvedVocabulary) -> None:
    """Refuses a request whose answer has no room for the shortest text of its vocabulary.

    Raises:
        BadRequestError: So it is.
    """
    if chat.body["max_tokens"] < vocabulary.fewest_tokens:
        raise BadRequestError(
            f"'max_tokens' must be at least {vocabulary.fewest_tokens}: no text of this vocabulary fits into fewer.",
            "max_tokens",
        )


def model_not_found(name: str) -> CallerError:
    return ModelNotFoundError(f"The model '{printable(name)}' does not exist. GET /v1/models lists what does.", "model")


def _check_combination(given: dict[str, Any]) -> None:
    for name, harmless in COMBINABLE.items():
        if name in given and given[name] not in harmless:
            raise BadRequestError(f"'{name}' cannot be combined with a vocabulary. Leave it out.", name)


def _list_param(checked: dict[str, Any]) -> str:
    if "vocab" not in checked:
        return "vocab_lang"
    return "vocab.words" if "words" in checked["vocab"] else "vocab.lang"


def checked_field(name: str, check: Check, value: Any) -> Any:
    """The checked value of a field.

    Raises:
        BadRequestError: It is not what the check expects; ``param`` names the place.
    """
    try:
        return check(value)
    except FieldError as error:
        place = name + error.place
        raise BadRequestError(f"'{place}' must be {error.expected}.", place) from None
