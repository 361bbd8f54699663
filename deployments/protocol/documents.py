"""The body of a request for a text as a file of Word, for printing."""

import re
from typing import Annotated, Any, Final

from langcodes import Language
from langcodes.tag_parser import LanguageTagError
from pydantic import AfterValidator, Field

from deployments.errors import BadRequestError
from deployments.protocol.generation.vocabulary import ChangedWords, Word
from deployments.protocol.validation import Body, at_most, expected_error, validate
from deployments.settings.limits import MAX_CHANGED_WORDS, MAX_DOCUMENT_CHARS
from vocab.errors import InvalidWordListError
from vocab.lists.entries import clean_words

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
    """Refuse a document's text that is blank, has too many paragraphs, or does not fit into XML."""
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
    try:
        new_words = clean_words(request.new_words or (), "new_words")
    except InvalidWordListError as error:
        message = str(error)
        raise BadRequestError(message, message.partition(":")[0]) from None
    return request.model_copy(update={"new_words": list(new_words)})


def paragraphs(text: str) -> list[str]:
    """Return the lines of a text that are not blank, without blanks at their ends."""
    return [stripped for line in LINE_BREAK.split(text) if (stripped := line.strip())]
