"""The fields of a request that creates a batch, checked one by one.

Knows what each may hold; whether the file exists, and what a batch is, is not known here.
"""

import difflib
import re
from dataclasses import dataclass
from typing import Any, Final

from deployments.batch.api.job_list import ENDPOINT
from deployments.errors import BadRequestError, printable
from deployments.protocol.fields import Check, FieldError, at, integer, json_object, one_of, string
from deployments.protocol.requests import checked_field

MIN_EXPIRY_S: Final = 3600
MAX_EXPIRY_S: Final = 30 * 86400
"""OpenAI's bounds of ``expires_after`` and ``output_expires_after``."""

_MAX_PAIRS: Final = 16
_MAX_KEY_CHARS: Final = 64
_MAX_VALUE_CHARS: Final = 512

_WINDOW: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class BatchFields:
    """A checked request.

    Attributes:
        window_s: The seconds of ``completion_window``.
        output_expires_after_s: None where the request does not say.
    """

    input_file_id: str
    endpoint: str
    completion_window: str
    window_s: int
    metadata: dict[str, str] | None
    output_expires_after_s: int | None


def read_batch_fields(fields: Any, *, max_window_s: int) -> BatchFields:
    """Checks the parsed body of a request.

    Raises:
        BadRequestError: The first fault found; ``param`` names the field.
    """
    if not isinstance(fields, dict):
        raise BadRequestError("The body must be a JSON object.")
    checks: dict[str, Check] = {
        "input_file_id": string(1, 100),
        "endpoint": one_of(ENDPOINT),
        "completion_window": string(2, 10),
        "metadata": _metadata,
        "output_expires_after": expiry,
    }
    for name in fields:
        if name not in checks:
            near = difflib.get_close_matches(name[:64], checks, n=1, cutoff=0.6)
            hint = f"Did you mean '{near[0]}'?" if near else f"A batch has {', '.join(checks)}."
            raise BadRequestError(f"Unknown parameter: '{printable(name)}'. {hint}", printable(name))
    for name in ("input_file_id", "endpoint", "completion_window"):
        if fields.get(name) is None:
            raise BadRequestError(f"You must provide '{name}'.", name)
    checked = {name: checked_field(name, checks[name], value) for name, value in fields.items() if value is not None}
    window_s = _window_s(checked["completion_window"], max_window_s)
    return BatchFields(
        input_file_id=checked["input_file_id"],
        endpoint=checked["endpoint"],
        completion_window=checked["completion_window"],
        window_s=window_s,
        metadata=checked.get("metadata"),
        output_expires_after_s=checked.get("output_expires_after"),
    )


def expiry(value: Any) -> int:
    """The seconds of ``{"anchor": "created_at", "seconds": …}``; a check of ``fields``."""
    given = json_object(value)
    if given.keys() != {"anchor", "seconds"}:
        raise FieldError("an object of 'anchor' and 'seconds'")
    at(".anchor", one_of("created_at"), given["anchor"])
    seconds: int = at(".seconds", integer(MIN_EXPIRY_S, MAX_EXPIRY_S), given["seconds"])
    return seconds


def _metadata(value: Any) -> dict[str, str]:
    given = json_object(value)
    if len(given) > _MAX_PAIRS or any(
        len(key) > _MAX_KEY_CHARS or not isinstance(text, str) or len(text) > _MAX_VALUE_CHARS
        for key, text in given.items()
    ):
        raise FieldError(
            f"an object of at most {_MAX_PAIRS} pairs of strings, of at most {_MAX_KEY_CHARS} characters before and "
            f"{_MAX_VALUE_CHARS} after the colon"
        )
    return given


def _window_s(window: str, max_window_s: int) -> int:
    match = _WINDOW.fullmatch(window)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 1 <= seconds <= max_window_s:
        raise BadRequestError(
            "'completion_window' must be '24h', or another whole number followed by s, m, h or d, of at most "
            f"{max_window_s} seconds.",
            "completion_window",
        )
    return seconds
