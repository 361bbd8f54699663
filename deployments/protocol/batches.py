"""The bodies and parameters that create a batch, an upload's expiry, or a job of the simple route."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from deployments.errors import BadRequestError
from deployments.protocol.reader import ChatRequestReader, ServedModel
from deployments.protocol.validation import Body, unknown_name, validate

ENDPOINT: Final = "/v1/chat/completions"

MAX_FILES_LISTED: Final = 10_000
MAX_BATCHES_LISTED: Final = 100

_WHOLE: Final = ("max_tokens", "num_beams", "top_k", "vocab_n_words")
_NUMBERS: Final = ("length_penalty", "repetition_penalty", "temperature", "top_p")
PARAMETERS: Final = tuple(sorted((*_WHOLE, *_NUMBERS, "vocab_lang")))
"""The parameters of a job: fields of a chat request, for all of its items."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?")

_WINDOW: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Expiry(Body):
    """When a file goes."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=3600, le=30 * 86400)]
    """OpenAI's bounds."""


Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16, fail_fast=True),
]


class BatchRequest(Body):
    """A batch of the lines of a file."""

    input_file_id: Annotated[str, Field(min_length=1, max_length=100)]
    """A file of the purpose ``batch``."""
    endpoint: Literal["/v1/chat/completions"]
    completion_window: Annotated[
        str, Field(min_length=2, max_length=10, json_schema_extra={"pattern": f"^{_WINDOW.pattern}$"})
    ]
    """``24h``, or another whole number followed by s, m, h or d."""
    metadata: Metadata | None = None
    output_expires_after: Expiry | None = None
    """When the files of results go."""

    @property
    def window_s(self) -> int:
        """The seconds of ``completion_window``; 0 where it is malformed."""
        match = _WINDOW.fullmatch(self.completion_window)
        return int(match[1]) * _SECONDS[match[2]] if match else 0


def read_batch(body: Any, *, max_window_s: int) -> BatchRequest:
    """Check the parsed body of a request that creates a batch.

    Raises:
        BadRequestError: The first fault found; ``param`` names the field.
    """
    batch = validate(BatchRequest, body)
    if not 1 <= batch.window_s <= max_window_s:
        raise BadRequestError(
            "'completion_window' must be '24h', or another whole number followed by s, m, h or d, of at most "
            f"{max_window_s} seconds.",
            "completion_window",
        )
    return batch


def read_expiry(value: Any) -> int:
    """Check an ``expires_after``, ``{"anchor": "created_at", "seconds": …}``, and return its seconds.

    Raises:
        BadRequestError: It is anything else; ``param`` names the member of ``expires_after``.
    """
    return validate(Expiry, value, name="expires_after").seconds


def read_parameters(query: Sequence[tuple[str, str]], *, served: ServedModel) -> dict[str, Any]:
    """Check a job's query parameters; return them in the types of the chat fields of their names.

    Raises:
        BadRequestError: One is unknown, given twice, has a bad value, or contradicts another whatever the list says.
    """
    parameters: dict[str, Any] = {}
    for name, text in query:
        if name not in PARAMETERS:
            raise unknown_name(name, PARAMETERS)
        if name in parameters:
            raise BadRequestError(f"'{name}' is given twice. Leave one out.", name)
        # A text that is no number is refused below.
        if name in _WHOLE and _INTEGER.fullmatch(text):
            parameters[name] = int(text)
        elif name in _NUMBERS and _NUMBER.fullmatch(text):
            parameters[name] = float(text)
        else:
            parameters[name] = text
    # With the fields that these parameters need and an item may give.
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "-"}], **parameters}
    if parameters.keys() & {"vocab_lang", "vocab_n_words"}:
        body = {"vocab_lang": "en", "vocab_n_words": 1000, **body}
    if "length_penalty" in parameters:
        body = {"num_beams": 2, **body}
    ChatRequestReader(served).read(body)
    return parameters
