"""The bodies of the routes about word lists: a text to check."""

from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from deployments.contract import VocabularySpec
from deployments.errors import BadRequestError
from deployments.protocol.generation.authoring import AuthorMembers
from deployments.protocol.generation.decoding import DecodingMembers
from deployments.protocol.generation.structure import JsonSchema
from deployments.protocol.generation.vocabulary import ChangedWords, VocabularyFields
from deployments.protocol.validation import validate
from deployments.settings.limits import MAX_CHECK_BYTES, Limits
from vocab.errors import InvalidWordListError, StructureError
from vocab.lists.entries import clean_words
from vocab.lists.wordlists import unspaced_language
from vocab.matching.structure.schema import PreparedSchema, prepare
from vocab.text.formats import Format


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


WORD_PARAMETERS: Final = ("offset", "limit", "q")
DEFAULT_LIMIT: Final = 100
