"""The bodies of the routes about word lists: a text to check, and what they answer."""

from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from deployments.contract import VocabularySpec
from deployments.errors import BadRequestError
from deployments.protocol.generation.authoring import AuthorMembers
from deployments.protocol.generation.decoding import DecodingMembers
from deployments.protocol.generation.structure import JsonSchema
from deployments.protocol.generation.vocabulary import ChangedWords, VocabularyFields
from deployments.protocol.validation import AtMost, validate
from deployments.settings.limits import Limits
from vocab.errors import InvalidWordListError, StructureError
from vocab.lists.entries import clean_words
from vocab.lists.wordlists import unspaced_language
from vocab.matching.structure.schema import PreparedSchema, prepare
from vocab.text.formats import Format
from vocab.text.report import Reason


class CheckRequest(VocabularyFields):
    """Asks which words of a text are in a list."""

    text: Annotated[str, AtMost("max_check_bytes")]
    format: Format | None = None
    """Of the answer: ``json`` (the default), ``csv`` with a row for every place, or ``html``, a page."""
    new_words: ChangedWords | None = None
    """Words that the text is meant to have although the list lacks them: they are counted apart."""
    words: bool | None = None
    """Whether the answer has every word of the text with its place, as ``words``; for ``json``."""
    readings: bool | None = None
    """Whether each of the ``words`` has its ``reading``: of Chinese in pinyin, of Japanese in hiragana. With ``html``
    they stand above the words."""
    schema_: Annotated[JsonSchema | None, Field(alias="schema")] = None
    """The text is JSON of this JSON schema: the strings that it does not fix are checked, and each word that is not
    allowed has the JSON ``pointer`` to its string; for ``json``."""


class CheckedText(NamedTuple):
    """A checked request to check a text; ``list_param`` is the field that names the list."""

    spec: VocabularySpec
    text: str
    form: Format
    new_words: tuple[str, ...]
    with_words: bool
    schema: PreparedSchema | None
    with_readings: bool
    list_param: str


def read_check(body: Any, *, limits: Limits) -> CheckedText:
    """Check the parsed body of a request to ``/v1/vocabularies/check``. Numbers are allowed unless it forbids them.

    Raises:
        CallerError: The first fault found; ``param`` names the field.
    """
    request = validate(CheckRequest, body, limits)
    spec = request.vocabulary()
    if spec is None:
        raise BadRequestError("'vocab' is missing: it must name the list that the text is checked against.", "vocab")
    members = request.vocab
    for name in (*DecodingMembers.model_fields, *AuthorMembers.model_fields):
        if members is not None and getattr(members, name) is not None:
            raise BadRequestError(
                f"'vocab.{name}' says how a text is written, and this one is there: leave it out.", f"vocab.{name}"
            )
    spec = spec.model_copy(update={"numbers": members is None or members.numbers is not False})
    try:
        new_words = clean_words(request.new_words or (), "new_words", unspaced_language(spec.lang))
    except InvalidWordListError as error:
        message = str(error)
        raise BadRequestError(message, message.partition(":")[0]) from None
    with_words, form = bool(request.words), request.format or "json"
    if with_words and form != "json":
        raise BadRequestError(f"'words' needs 'format' to be 'json', and it is '{form}'.", "words")
    with_readings = bool(request.readings)
    if with_readings and not with_words and form != "html":
        raise BadRequestError("'readings' needs 'words', or 'format' to be 'html'.", "readings")
    if request.schema_ is not None and form != "json":
        raise BadRequestError(f"'schema' needs 'format' to be 'json', and it is '{form}'.", "schema")
    try:
        schema = None if request.schema_ is None else prepare(request.schema_)
    except StructureError as error:
        raise BadRequestError(f"'schema' cannot stand beside a word list: {error}.", "schema") from None
    return CheckedText(spec, request.text, form, new_words, with_words, schema, with_readings, request.list_param)


class ListVocabulary(BaseModel):
    id: str
    """What ``vocab.lang`` names, or ``vocab.level``."""
    object: Literal["vocabulary"]
    kind: Literal["language", "file", "level"]
    source: str
    """``cleaned``, ``wordfreq`` or ``file``; of a level ``list``, the language's own, or whose it is."""
    languages: list[str]
    """Empty for a level that every language has."""
    readings: bool
    """Whether a check can tell how its words are read."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class VocabularyList(BaseModel):
    object: Literal["list"]
    data: list[ListVocabulary]


class VocabularyWord(BaseModel):
    rank: int
    word: str
    lemma: str | None
    """Null where it is not known."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class VocabularyWords(BaseModel):
    object: Literal["list"]
    id: str
    total: int
    """Of all words that fit."""
    has_more: bool
    data: list[VocabularyWord]

    model_config = ConfigDict(use_attribute_docstrings=True)


class NearestWord(BaseModel):
    word: str
    rank: int | None


class WordNotAllowed(BaseModel):
    pointer: str | None = None
    """Of JSON, to the string; its line is the number of the string."""
    line: int
    column: int
    start: int
    """In code points, from 0."""
    end: int
    word: str
    rank: int | None
    """Null where the list lacks it."""
    lemma: str | None
    """Null where it is not known."""
    reason: Reason
    nearest: list[NearestWord]

    model_config = ConfigDict(use_attribute_docstrings=True)


class AllowedWord(BaseModel):
    word: str
    rank: int | None
    reason: Reason
    count: int


class RankBand(BaseModel):
    max_rank: int | None
    """The largest rank; null for all other words."""
    num_words: int
    num_distinct_words: int

    model_config = ConfigDict(use_attribute_docstrings=True)


class NewWord(BaseModel):
    word: str
    count: int


class RunningWord(BaseModel):
    start: int
    end: int
    rank: int | None
    reason: Reason
    lemma: str | None
    reading: str | None = None
    """Where it was asked for; null for a word without Chinese characters, and where it is not known."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class CheckReport(BaseModel):
    object: Literal["vocabulary.report"]
    file: str | None
    num_words: int
    num_allowed: int
    num_distinct_words: int
    num_distinct_allowed: int
    num_symbols: int
    """Of ``not_allowed``: emoji and other characters that are shown and are no part of a word, number or mark."""
    coverage: float | None
    """The share of words and symbols that are allowed, new words aside; null where there are no words."""
    num_new: int
    coverage_with_new: float | None
    has_exactly_the_new_words: bool
    """Whether the list lacks the ``new_words`` and no others, and each is used."""
    bands: list[RankBand]
    allowed: list[AllowedWord]
    not_allowed: list[WordNotAllowed]
    """The first 100,000 places."""
    num_not_allowed: int
    new: list[WordNotAllowed]
    new_words: list[NewWord]
    words: list[RunningWord] | None = None
    """Where it was asked for: all words, numbers and symbols in their order; the first 100,000."""

    model_config = ConfigDict(use_attribute_docstrings=True)


WORD_PARAMETERS: Final = ("offset", "limit", "q")
DEFAULT_LIMIT: Final = 100
