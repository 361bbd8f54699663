"""The parts of a multipart form: one file and the fields beside it, taken as they arrive.

Knows the form and how long a field may be, not how large a file; what a file or a field means is not known here.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from deployments.errors import BadRequestError, UnsupportedMediaTypeError, printable

FILE: Final = "file"
MAX_FIELD_BYTES: Final = 1024
MAX_FILENAME_CHARS: Final = 255

_MAX_PART_HEADERS: Final = 16
_MAX_PART_HEADER_BYTES: Final = 4096


@dataclass
class Upload:
    """What was uploaded.

    Attributes:
        filename: Printable, at most ``MAX_FILENAME_CHARS`` long.
        fields: The parts that are no file.
    """

    filename: str
    content: bytes
    fields: dict[str, str]


@dataclass
class _Part:
    """One part of the form, while it arrives."""

    disposition: bytes = b""
    name: str = ""
    filename: str = ""
    content: bytearray = field(default_factory=bytearray)


class Form:
    """A form that arrives; the methods whose names begin with ``_on`` are called by the parser.

    Args:
        content_type: The header of the request.
        fields: Names of the fields that may be beside the file.

    Raises:
        UnsupportedMediaTypeError: It says that it is something else.
        BadRequestError: It has no boundary, or none that can be.
    """

    def __init__(self, content_type: str, fields: Collection[str]) -> None:
        self._known = frozenset({FILE, *fields})
        self._parts: dict[str, _Part] = {}
        self._part = _Part()
        self._header = bytearray()
        self._value = bytearray()
        self._is_complete = False
        try:
            self._parser = MultipartParser(
                _boundary(content_type),
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
                max_header_count=_MAX_PART_HEADERS,
                max_header_size=_MAX_PART_HEADER_BYTES,
            )
        except FormParserError:
            raise BadRequestError("The boundary of the form is too long.") from None

    @property
    def num_file_bytes(self) -> int:
        return len(self._parts[FILE].content) if FILE in self._parts else 0

    def add(self, chunk: bytes) -> None:
        """Takes the next piece of the body.

        Raises:
            BadRequestError: The form is not what it should be; nothing more may be added.
        """
        try:
            self._parser.write(chunk)
        except FormParserError:
            raise BadRequestError("The body is no valid multipart form.") from None

    def upload(self) -> Upload:
        """What was uploaded, when all was added.

        Raises:
            BadRequestError: The form is not complete.
        """
        if not self._is_complete:
            raise BadRequestError("The body is no valid multipart form: it ends too early.")
        if FILE not in self._parts:
            raise BadRequestError("You must provide a file, as the part 'file' of the form.", FILE)
        file = self._parts.pop(FILE)
        fields = {name: part.content.decode("utf-8", "replace") for name, part in self._parts.items()}
        return Upload(printable(file.filename, MAX_FILENAME_CHARS - 1) or FILE, bytes(file.content), fields)

    def _on_part_begin(self) -> None:
        self._part = _Part()

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._part.disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._part.disposition)
        part = self._part
        part.name, part.filename = _text(options.get(b"name", b"")), _text(options.get(b"filename", b""))
        shown = printable(part.name)
        if part.name not in self._known:
            raise BadRequestError(
                f"Unknown part of the form: '{shown}'. It has {', '.join(sorted(self._known))}.", shown
            )
        if part.name in self._parts:
            raise BadRequestError(f"The form has '{shown}' twice. Leave one out.", shown)
        self._parts[part.name] = part

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        part.content += memoryview(data)[start:end]
        if part.name != FILE and len(part.content) > MAX_FIELD_BYTES:
            raise BadRequestError(f"'{part.name}' must have at most {MAX_FIELD_BYTES} bytes.", part.name)

    def _on_part_end(self) -> None:
        self._part = _Part()

    def _on_end(self) -> None:
        self._is_complete = True


def _boundary(content_type: str) -> bytes:
    kind, options = parse_options_header(content_type)
    if kind.strip() != b"multipart/form-data":
        raise UnsupportedMediaTypeError("The body must be a form, with 'Content-Type: multipart/form-data'.")
    if not options.get(b"boundary"):
        raise BadRequestError("The 'Content-Type' of the form has no boundary.")
    return options[b"boundary"]


def _text(name: bytes) -> str:
    with suppress(UnicodeDecodeError):
        return name.decode()
    return name.decode("latin-1")
