"""The bodies of requests for files: of a text for printing, and of exercises for printing, for a platform or Anki."""

import re
from typing import Annotated, Any, Final, Literal, Self

from langcodes import Language
from langcodes.tag_parser import LanguageTagError
from pydantic import AfterValidator, Field, model_validator

from deployments.protocol.validation import Body, at_most, expected_error, validate
from deployments.protocol.vocabulary import ChangedWords, Word, clean_entries
from deployments.protocol.word_tools import EXERCISE_KINDS, MAX_ITEMS
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_DOCUMENT_CHARS

DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

MAX_PARAGRAPHS: Final = 10_000
"""Of a document. Costs 0.1 ms each; a novel has 5,000."""

LINE_BREAK: Final = re.compile(r"\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
"""The last are those of a text that was copied from elsewhere; XML has no place for some of them."""

_LANGUAGE: Final = "the tag of a language, such as en, pt-BR or ar"

_NOT_IN_XML: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that an XML document cannot hold, and a DOCX is made of those: section 2.2 of XML 1.0."""


def _check_language(tag: str) -> str:
    try:
        Language.get(tag)
    except LanguageTagError:
        raise expected_error(_LANGUAGE) from None
    return tag


def check_characters(text: str) -> str:
    """Refuse characters that an XML document cannot hold."""
    if found := _NOT_IN_XML.search(text):
        code = f"U+{ord(found[0]):04X}"
        raise expected_error(f"without {code} (at {found.start()}), which a document cannot hold: leave it out")
    return text


def _check_text(text: str) -> str:
    # A page break or a vertical tab ends a line here.
    check_characters(text.replace("\x0b", "\n").replace("\x0c", "\n"))
    if text.isspace():
        raise expected_error("a text, and it is blank")
    if text.count("\n") + text.count("\r") > MAX_PARAGRAPHS and len(paragraphs(text)) > MAX_PARAGRAPHS:
        raise expected_error(f"of at most {MAX_PARAGRAPHS} paragraphs: send the document in parts")
    return text


Line = Annotated[str, Field(max_length=500), AfterValidator(check_characters)]
CheckedText = Annotated[str, Field(min_length=1, max_length=MAX_DOCUMENT_CHARS), AfterValidator(_check_text)]
FontSize = Annotated[int, Field(ge=8, le=48)]
Tag = Annotated[
    str,
    Field(min_length=2, max_length=35, json_schema_extra={"x-expected": _LANGUAGE}),
    AfterValidator(_check_language),
]


class GlossaryEntry(Body):
    word: Annotated[Word, AfterValidator(check_characters)]
    note: Line | None = None
    """What it means."""


class DocumentRequest(Body):
    """Asks for a text as a DOCX."""

    title: Line | None = None
    """Above the text, and the name of the file."""
    text: CheckedText
    """Each line is a paragraph; blank lines are left out."""
    glossary: Annotated[list[GlossaryEntry], at_most(MAX_CHANGED_WORDS)] | None = None
    """Under the text, in this order."""
    glossary_title: Line | None = None
    """Above the glossary, by default ``Glossary``."""
    lang: Tag | None = None
    """What the text is written in, by default ``en``: for spelling checkers, and which side a line starts on."""
    font_size: FontSize | None = None
    """Of the text, in points; by default 12."""
    new_words: ChangedWords | None = None
    """Each is bold where it comes first, in any capitals."""


def read_document(body: Any) -> DocumentRequest:
    """Check the parsed body of a request to ``/v1/documents``.

    Raises:
        BadRequestError: The first fault found; ``param`` names the field.
    """
    request = validate(DocumentRequest, body)
    new_words = clean_entries(request.new_words or (), "new_words")
    return request.model_copy(update={"new_words": list(new_words)})


def paragraphs(text: str) -> list[str]:
    """Return the lines of a text that are not blank, without blanks at their ends."""
    return [stripped for line in LINE_BREAK.split(text) if (stripped := line.strip())]


MAX_EXERCISES: Final = 2 * len(EXERCISE_KINDS)
"""Of a worksheet."""

_MAX_OPTIONS: Final = 10

Sentence = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(check_characters)]
Options = Annotated[list[Line], Field(min_length=2, max_length=_MAX_OPTIONS)]


class Span(Body):
    """Where in the text the key comes from, in code points."""

    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]


class Item(Body):
    source: Span | None = None


class Choice(Item):
    options: Options
    answer: Annotated[int, Field(ge=0)]
    """Which of the options is right."""

    @model_validator(mode="after")
    def _check_answer(self) -> Self:
        if self.answer >= len(self.options):
            raise expected_error(f"an item whose 'answer' is the index of one of its {len(self.options)} options")
        return self


class Question(Choice):
    question: Sentence


class Gap(Choice):
    """A sentence without one of its words."""

    before: Annotated[str, Field(max_length=2_000), AfterValidator(check_characters)]
    after: Annotated[str, Field(max_length=2_000), AfterValidator(check_characters)]


class Statement(Item):
    statement: Sentence
    answer: bool


class Pair(Item):
    word: Line
    gloss: Line


class OrderedSentence(Item):
    sentence: Sentence


class DictatedSentence(OrderedSentence):
    num_words: int | None = None


_COUNT: Final = Field(min_length=1, max_length=MAX_ITEMS)


class _Exercise(Body):
    instruction: Line | None = None
    """In words of the list; null where it has none for it."""


class Questions(_Exercise):
    kind: Literal["questions"]
    items: Annotated[list[Question], _COUNT]


class TrueFalse(_Exercise):
    kind: Literal["true_false"]
    items: Annotated[list[Statement], _COUNT]


class GapFill(_Exercise):
    kind: Literal["gap_fill"]
    items: Annotated[list[Gap], _COUNT]


class Matching(_Exercise):
    kind: Literal["matching"]
    items: Annotated[list[Pair], _COUNT]
    shown: list[int]
    """The order in which the glosses are printed, as indexes of items."""

    @model_validator(mode="after")
    def _check_shown(self) -> Self:
        _check_order(self.shown, len(self.items))
        return self


class Order(_Exercise):
    """Its items are in the right order."""

    kind: Literal["order"]
    items: Annotated[list[OrderedSentence], _COUNT]
    shown: list[int]
    """The order in which the sentences are printed, as indexes of items."""

    @model_validator(mode="after")
    def _check_shown(self) -> Self:
        _check_order(self.shown, len(self.items))
        return self


class Dictation(_Exercise):
    kind: Literal["dictation"]
    items: Annotated[list[DictatedSentence], _COUNT]


def _check_order(shown: list[int], num_items: int) -> None:
    if sorted(shown) != list(range(num_items)):
        raise expected_error("an exercise whose 'shown' has the index of each of its items once")


Exercise = Annotated[
    Questions | TrueFalse | GapFill | Matching | Order | Dictation,
    Field(discriminator="kind"),
]

FileFormat = Literal["txt", "docx", "gift", "qti", "tsv"]

MEDIA_TYPES: Final[dict[FileFormat, str]] = {
    "txt": "text/plain; charset=utf-8",
    "docx": DOCX,
    "gift": "text/plain; charset=utf-8",
    "qti": "application/zip",
    "tsv": "text/tab-separated-values; charset=utf-8",
}


class WorksheetRequest(Body):
    """Asks for exercises, as ``/v1/vocabularies/exercises`` writes them, as a file."""

    format: FileFormat
    """Plain text; for Word; Moodle's GIFT; a package of IMS QTI 2.1; cards for Anki, of what is matched and of gaps."""
    exercises: Annotated[list[Exercise], Field(min_length=1, max_length=MAX_EXERCISES)]
    title: Line | None = None
    """Above the exercises, and the name of the file."""
    text: CheckedText | None = None
    """Above the exercises of a DOCX or plain text; each line is a paragraph."""
    lang: Tag | None = None
    """What it is written in, by default ``en``."""
    font_size: FontSize | None = None
    """Of a DOCX, in points; by default 12."""
    key_title: Line | None = None
    """Above the key of a DOCX or plain text, by default ``Key``."""


def read_worksheet(body: Any) -> WorksheetRequest:
    """Check the parsed body of a request to ``/v1/documents/worksheet``.

    Raises:
        BadRequestError: The first fault found; ``param`` names the field.
    """
    return validate(WorksheetRequest, body)
