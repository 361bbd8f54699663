"""The bodies of the word tools: next words, other words for one, a text in the words of a list, exercises from one."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple, get_args

from pydantic import Field

from deployments.contract import VocabularySpec
from deployments.errors import BadRequestError, printable
from deployments.protocol.adapters import NO_ADAPTERS, AdapterNames
from deployments.protocol.generation.authoring import AuthorMembers
from deployments.protocol.generation.decoding import DecodingMembers
from deployments.protocol.generation.vocabulary import VocabularyFields
from deployments.protocol.validation import INT32_MAX, INT64_MAX, ModelName, member_names, validate
from deployments.settings.limits import MAX_NEXT_WORDS, MAX_TOOL_CHARS, Limits
from vocab.answers import ExerciseKind
from vocab.lists.wordlists import unspaced_language
from vocab.marks import APOSTROPHES
from vocab.text.units import word_pattern

TOP: Final = 20
"""Words of an answer, where a request names no number."""

_OF_ANSWERS: Final = frozenset((*member_names(DecodingMembers), *member_names(AuthorMembers)))

MAX_CANDIDATES: Final = 8
"""Sequences of the engine at once."""

_REWRITE: Final[Mapping[str, Any]] = {
    "keep_names": True,
    "force": False,
    "candidates": 1,
    "temperature": 0.5,
    "stream": False,
}
"""What a request to rewrite a text has by default."""

EXERCISE_KINDS: Final[tuple[ExerciseKind, ...]] = get_args(ExerciseKind)

MAX_ITEMS: Final = 20
"""Of an exercise; each takes the model some readings of a sentence."""

_EXERCISES: Final[Mapping[str, Any]] = {
    "kinds": list(EXERCISE_KINDS),
    "num_items": 5,
    "keep_names": True,
    "stream": False,
}
"""What a request for exercises has by default."""

Text = Annotated[str, Field(max_length=MAX_TOOL_CHARS)]
Top = Annotated[int, Field(ge=1, le=MAX_NEXT_WORDS)]
Offset = Annotated[int, Field(ge=0, le=INT32_MAX)]


class NextWordsRequest(VocabularyFields):
    """Asks for the likeliest words of a list after a text."""

    model: ModelName | None = None
    """The model that is served, or one of its adapters; by default the model."""
    text: Text
    """What stands before the word; blanks at its end belong to the word. The first word of a line where it is empty."""
    top: Top | None = None
    """How many words, by default 20."""


class SwapRequest(VocabularyFields):
    """Asks for words of a list that could stand in the place of one."""

    model: ModelName | None = None
    """The model that is served, or one of its adapters; by default the model."""
    text: Text
    start: Offset
    """Where the word begins in ``text``, in code points."""
    end: Offset
    """Where it ends."""
    top: Top | None = None
    """How many words, by default 20."""


class RewriteRequest(VocabularyFields):
    """Asks for a text in the words of a list."""

    model: ModelName | None = None
    """The model that is served, or one of its adapters; by default the model."""
    text: Annotated[str, Field(min_length=1, max_length=MAX_TOOL_CHARS)]
    keep_names: bool | None = None
    """Whether names that are not listed count as listed, as by default: words with a capital inside a sentence."""
    force: bool | None = None
    """Whether sentences are rewritten that are listed already; by default they stay as they are."""
    candidates: Annotated[int, Field(ge=0, le=MAX_CANDIDATES)] | None = None
    """What the model writes for a sentence besides the one with other words for those that are not listed; by default
    1."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Of those, by default 0.5."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX)] | None = None
    stream: bool | None = None
    """Whether each part is sent when it is written."""


class ExercisesRequest(VocabularyFields):
    """Asks for exercises from a text, all of whose words are in a list."""

    model: ModelName | None = None
    """The model that is served, or one of its adapters; by default the model."""
    text: Annotated[str, Field(min_length=1, max_length=MAX_TOOL_CHARS)]
    """Sentences that have other words are not used."""
    kinds: Annotated[list[ExerciseKind], Field(min_length=1, max_length=len(EXERCISE_KINDS))] | None = None
    """Which, in this order; by default all."""
    num_items: Annotated[int, Field(ge=1, le=MAX_ITEMS)] | None = None
    """Of each exercise, by default 5."""
    keep_names: bool | None = None
    """Whether names that are not listed count as listed, as by default: words with a capital inside a sentence."""
    seed: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX)] | None = None
    stream: bool | None = None
    """Whether each exercise is sent when it is written."""


class ToolRequest(NamedTuple):
    """A checked request to a word tool.

    ``body`` is without what is null and without the vocabulary, with the defaults and the ``adapter`` that is asked
    for.

    ``list_param`` is the field that names the list, for errors that only the vocabulary deployment finds.
    """

    body: dict[str, Any]
    vocabulary: VocabularySpec
    list_param: str


def read_next(body: Any, *, limits: Limits, model_id: str, adapters: AdapterNames = NO_ADAPTERS) -> ToolRequest:
    """Check the parsed body of a request to ``/v1/vocabularies/next``.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    return _read(NextWordsRequest, body, limits, model_id, adapters, {"top": TOP})


def read_swap(body: Any, *, limits: Limits, model_id: str, adapters: AdapterNames = NO_ADAPTERS) -> ToolRequest:
    """Check the parsed body of a request to ``/v1/vocabularies/swap``.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    request = _read(SwapRequest, body, limits, model_id, adapters, {"top": TOP})
    text, start, end = (request.body[name] for name in ("text", "start", "end"))
    if end > len(text):
        raise BadRequestError(f"'end' must be at most {len(text)}, the length of 'text' in code points.", "end")
    if start >= end:
        raise BadRequestError("'start' must be less than 'end': together they are one word of 'text'.", "start")
    # Of a text without spaces only the dictionary knows the words: a replica checks them.
    has_spaces = unspaced_language(request.vocabulary.lang) is None
    if has_spaces and not _is_word(text, start, end):
        raise BadRequestError(
            f"'start' and 'end' must be those of one word of 'text'; {_nearest(text, start)}.", "start"
        )
    return request


def read_rewrite(body: Any, *, limits: Limits, model_id: str, adapters: AdapterNames = NO_ADAPTERS) -> ToolRequest:
    """Check the parsed body of a request to ``/v1/vocabularies/rewrite``.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    return _read(RewriteRequest, body, limits, model_id, adapters, _REWRITE)


def read_exercises(body: Any, *, limits: Limits, model_id: str, adapters: AdapterNames = NO_ADAPTERS) -> ToolRequest:
    """Check the parsed body of a request to ``/v1/vocabularies/exercises``; each kind counts once.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    request = _read(ExercisesRequest, body, limits, model_id, adapters, _EXERCISES)
    request.body["kinds"] = list(dict.fromkeys(request.body["kinds"]))
    return request


def _is_word(text: str, start: int, end: int) -> bool:
    """Return whether a span of a text is one word; either part of an elision is one too."""
    for match in word_pattern().finditer(text, start):
        first, last = match.span()
        begins = start == 0 or not text[start - 1].isalnum()
        # "homme" of "l'homme" is one too, and so is "l'".
        ends = end == last or text[end - 1] in APOSTROPHES
        return begins and first == start and (ends or (end == last + 1 and text[last] in APOSTROPHES))
    return False


def _nearest(text: str, start: int) -> str:
    """Return a phrase for an error that names the word nearest to ``start``."""
    words = [(abs(match.start() - start), match) for match in word_pattern().finditer(text)]
    if not words:
        return "there is none in it"
    match = min(words, key=lambda one: one[0])[1]
    return f"the nearest is {printable(match[0])!r}, from {match.start()} to {match.end()}"


def _read(
    model: type[VocabularyFields],
    body: Any,
    limits: Limits,
    model_id: str,
    adapters: AdapterNames,
    defaults: Mapping[str, Any],
) -> ToolRequest:
    """Check the body of a word tool: it needs a vocabulary, without members about answers."""
    request = validate(model, body, limits)
    vocabulary = request.vocabulary()
    if vocabulary is None:
        raise BadRequestError(
            '\'vocab\' is missing: name a word list, as in {"vocab": {"lang": "en", "n_words": 1000}}.', "vocab"
        )
    if request.vocab is not None:
        for name in sorted(_OF_ANSWERS & request.vocab.model_fields_set):
            if getattr(request.vocab, name) is not None:
                raise BadRequestError(
                    f"'vocab.{name}' is about how an answer is written. Leave it out.", f"vocab.{name}"
                )
    given = request.model_dump(exclude_none=True, exclude=set(VocabularyFields.model_fields))
    adapters.check_body(given, model_id)
    adapters.check_asked(request.adapter, given.get("model", model_id), model_id)
    return ToolRequest({**defaults, **given, "adapter": request.adapter}, vocabulary, request.list_param)
