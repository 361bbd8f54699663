"""Exercises as JSON, and the body of a request for a file of them: to print, for a learning platform, or for Anki."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from deployments.protocol.documents import DOCX, CheckedText, FontSize, Line, Tag, check_characters
from deployments.protocol.validation import Body, expected_error, validate
from deployments.protocol.word_tools import EXERCISE_KINDS, MAX_ITEMS

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
