"""The bodies of the word tools: the check of a text, next words, other words for one, a text in the words of a list,
exercises from one.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, get_args

from pydantic import AfterValidator, Field
from typing_extensions import override

from deployments.contract import VocabularySpec
from deployments.errors import BadRequestError, printable
from deployments.protocol.decoding import AuthorMembers, DecodingMembers
from deployments.protocol.generation import Temperature
from deployments.protocol.reader import ServedModel
from deployments.protocol.structure import JsonSchema
from deployments.protocol.validation import INT32_MAX, INT64_MAX, NamesModel, member_names, validate
from deployments.protocol.vocabulary import ChangedWords, VocabularyFields, clean_entries
from deployments.settings.limits import MAX_CHECK_BYTES, MAX_NEXT_WORDS, MAX_TOOL_CHARS, Limits
from vocab.answers import ExerciseKind
from vocab.errors import StructureError
from vocab.lists.wordlists import unspaced_language
from vocab.marks import APOSTROPHES
from vocab.matching.structure.schema import PreparedSchema, prepare
from vocab.text.formats import Format
from vocab.text.units import word_pattern

WORD_PARAMETERS: Final = ("offset", "limit", "q")
DEFAULT_LIMIT: Final = 100

_OF_ANSWERS: Final = (*member_names(DecodingMembers), *member_names(AuthorMembers))
"""Members of ``vocab`` that no word tool takes."""

MAX_CANDIDATES: Final = 8
"""Sequences of the engine at once."""

EXERCISE_KINDS: Final[tuple[ExerciseKind, ...]] = get_args(ExerciseKind)

MAX_ITEMS: Final = 20
"""Of an exercise; each takes the model some readings of a sentence."""

Text = Annotated[str, Field(max_length=MAX_TOOL_CHARS)]
Top = Annotated[int, Field(ge=1, le=MAX_NEXT_WORDS)]
Offset = Annotated[int, Field(ge=0, le=INT32_MAX)]


def _once_each(kinds: list[ExerciseKind]) -> list[ExerciseKind]:
    return list(dict.fromkeys(kinds))


class ToolFields(VocabularyFields, NamesModel):
    defaults: ClassVar[Mapping[str, Any]]
    """What a request has that does not say so."""

    def check(self, vocabulary: VocabularySpec) -> None:
        """Check the fields together, beside the list that was asked for.

        Raises:
            BadRequestError: They do not go together.
        """


class NextWordsRequest(ToolFields):
    """Asks for the likeliest words of a list after a text."""

    defaults: ClassVar[Mapping[str, Any]] = {"top": 20}

    text: Text
    """What stands before the word; blanks at its end belong to the word. The first word of a line where it is empty."""
    top: Top | None = None
    """How many words, by default 20."""


class SwapRequest(ToolFields):
    """Asks for words of a list that could stand in the place of one."""

    defaults: ClassVar[Mapping[str, Any]] = {"top": 20}

    text: Text
    start: Offset
    """Where the word begins in ``text``, in code points."""
    end: Offset
    """Where it ends."""
    top: Top | None = None
    """How many words, by default 20."""

    @override
    def check(self, vocabulary: VocabularySpec) -> None:
        if self.end > len(self.text):
            length = len(self.text)
            raise BadRequestError(f"'end' must be at most {length}, the length of 'text' in code points.", "end")
        if self.start >= self.end:
            raise BadRequestError("'start' must be less than 'end': together they are one word of 'text'.", "start")
        # Of a text without spaces only the dictionary knows the words: a replica checks them.
        has_spaces = unspaced_language(vocabulary.lang) is None
        if has_spaces and not _is_word(self.text, self.start, self.end):
            nearest = _nearest(self.text, self.start)
            raise BadRequestError(f"'start' and 'end' must be those of one word of 'text'; {nearest}.", "start")


class RewriteRequest(ToolFields):
    """Asks for a text in the words of a list."""

    defaults: ClassVar[Mapping[str, Any]] = {
        "keep_names": True,
        "force": False,
        "candidates": 1,
        "temperature": 0.5,
        "stream": False,
    }

    text: Annotated[str, Field(min_length=1, max_length=MAX_TOOL_CHARS)]
    keep_names: bool | None = None
    """Whether names that are not listed count as listed, as by default: words with a capital inside a sentence."""
    force: bool | None = None
    """Whether sentences are rewritten that are listed already; by default they stay as they are."""
    candidates: Annotated[int, Field(ge=0, le=MAX_CANDIDATES)] | None = None
    """What the model writes for a sentence besides the one with other words for those that are not listed; by default
    1."""
    temperature: Temperature | None = None
    """Of those, by default 0.5."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX)] | None = None
    stream: bool | None = None
    """Whether each part is sent when it is written."""


class ExercisesRequest(ToolFields):
    """Asks for exercises from a text, all of whose words are in a list."""

    defaults: ClassVar[Mapping[str, Any]] = {
        "kinds": list(EXERCISE_KINDS),
        "num_items": 5,
        "keep_names": True,
        "stream": False,
    }

    text: Annotated[str, Field(min_length=1, max_length=MAX_TOOL_CHARS)]
    """Sentences that have other words are not used."""
    kinds: (
        Annotated[list[ExerciseKind], Field(min_length=1, max_length=len(EXERCISE_KINDS)), AfterValidator(_once_each)]
        | None
    ) = None
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


def _is_word(text: str, start: int, end: int) -> bool:
    for match in word_pattern().finditer(text, start):
        first, last = match.span()
        begins = start == 0 or not text[start - 1].isalnum()
        # "homme" of "l'homme" is one too, and so is "l'".
        ends = end == last or text[end - 1] in APOSTROPHES
        return begins and first == start and (ends or (end == last + 1 and text[last] in APOSTROPHES))
    return False


def _nearest(text: str, start: int) -> str:
    words = [(abs(match.start() - start), match) for match in word_pattern().finditer(text)]
    if not words:
        return "there is none in it"
    match = min(words, key=lambda one: one[0])[1]
    return f"the nearest is {printable(match[0])!r}, from {match.start()} to {match.end()}"


def read_tool(model: type[ToolFields], body: Any, *, served: ServedModel) -> ToolRequest:
    """Check the parsed body of a request to a word tool: it needs a vocabulary, without members about answers.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    request = validate(model, body, served.limits)
    vocabulary = request.vocabulary()
    if vocabulary is None:
        raise BadRequestError(
            '\'vocab\' is missing: name a word list, as in {"vocab": {"lang": "en", "n_words": 1000}}.', "vocab"
        )
    if request.vocab is not None:
        for name in sorted((*_OF_ANSWERS, "prompt_words")):
            if getattr(request.vocab, name) is not None:
                raise BadRequestError(
                    f"'vocab.{name}' is about how an answer is written. Leave it out.", f"vocab.{name}"
                )
    given = request.model_dump(exclude_none=True, exclude=set(VocabularyFields.model_fields))
    served.check_body(given)
    served.check_adapter(request.adapter, given.get("model", served.model_id))
    request.check(vocabulary)
    return ToolRequest({**model.defaults, **given, "adapter": request.adapter}, vocabulary, request.list_param)


class CheckRequest(VocabularyFields):
    """Asks which words of a text are in a list."""

    text: Annotated[str, Field(max_length=MAX_CHECK_BYTES)]
    format: Format | None = None
    """Of the answer: ``json`` (the default), ``csv`` with a row for every place, or ``html``, a page."""
    new_words: ChangedWords | None = None
    """Words that the text is meant to have although the list lacks them: they are counted apart."""
    words: bool | None = None
    """Whether the answer has every word of the text with its place, as ``words``; for ``json``."""
    readings: bool | None = None
    """Whether each of the ``words`` has its ``reading``: of Chinese in pinyin, of Japanese in hiragana. With ``html``
    they stand above the words."""
    names: Literal["keep"] | None = None
    """``keep`` has names that are not listed counted apart: words with a capital inside a sentence, or that the list
    has with a capital only. Not of German, nor of languages without capitals."""
    inflected: bool | None = None
    """Whether ``extra_words`` and ``new_words`` count with the endings of their language too."""
    sentences: bool | None = None
    """Whether the answer says of each sentence which words are not in the list, as ``sentences``."""
    schema_: Annotated[JsonSchema | None, Field(alias="schema")] = None
    """The text is JSON of this JSON schema: the strings that it does not fix are checked, and each word that is not
    allowed has the JSON ``pointer`` to its string; for ``json``."""


class AskCheck(NamedTuple):
    """Which words of a text are in a list; with a ``schema``, of the strings of a JSON text that it does not fix.

    ``list_param`` is the field that names the list.
    """

    spec: VocabularySpec
    text: str
    form: Format
    new_words: tuple[str, ...] = ()
    with_words: bool = False
    schema: PreparedSchema | None = None
    with_readings: bool = False
    with_sentences: bool = False
    inflected: bool = False
    keep_names: bool = False
    list_param: str = "vocab_lang"


def read_check(body: Any, *, limits: Limits) -> AskCheck:
    """Check the parsed body of a request to ``/v1/vocabularies/check``. Numbers are allowed unless it forbids them.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    request = validate(CheckRequest, body, limits)
    spec = request.vocabulary()
    if spec is None:
        raise BadRequestError("'vocab' is missing: it must name the list that the text is checked against.", "vocab")
    members = request.vocab
    for name in _OF_ANSWERS:
        if members is not None and getattr(members, name) is not None:
            raise BadRequestError(
                f"'vocab.{name}' says how a text is written, and this one is there: leave it out.", f"vocab.{name}"
            )
    prompt = None if members is None else members.prompt_words or None
    if prompt is True:
        raise BadRequestError(
            "'vocab.prompt_words' must be a text here, the prompt whose words the text may have besides.",
            "vocab.prompt_words",
        )
    spec = spec.model_copy(update={"numbers": members is None or members.numbers is not False, "prompt": prompt})
    new_words = clean_entries(request.new_words or (), "new_words", unspaced_language(spec.lang))
    with_words, form = bool(request.words), request.format or "json"
    if with_words and form != "json":
        raise BadRequestError(f"'words' needs 'format' to be 'json', and it is '{form}'.", "words")
    with_readings = bool(request.readings)
    if with_readings and not with_words and form != "html":
        raise BadRequestError("'readings' needs 'words', or 'format' to be 'html'.", "readings")
    if request.schema_ is not None and form != "json":
        raise BadRequestError(f"'schema' needs 'format' to be 'json', and it is '{form}'.", "schema")
    sentences = bool(request.sentences)
    if sentences and (form != "json" or request.schema_ is not None):
        raise BadRequestError("'sentences' needs 'format' to be 'json', and no 'schema'.", "sentences")
    try:
        schema = None if request.schema_ is None else prepare(request.schema_)
    except StructureError as error:
        raise BadRequestError(f"'schema' cannot stand beside a word list: {error}.", "schema") from None
    return AskCheck(
        spec,
        request.text,
        form,
        new_words,
        with_words,
        schema,
        with_readings,
        sentences,
        bool(request.inflected),
        request.names is not None,
        request.list_param,
    )
