"""What the backends of a running service share: its errors, and its table of tokens."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from wordbound.lm.tokens import Token


class ServerError(RuntimeError):
    """The service did not answer, or failed.

    Attributes:
        status: Of the answer, None where there was none.
        code: The service's name for the error.
        param: The field of the request at fault.
        request_id: By which the service's log names the request.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        param: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.request_id = request_id


class RefusedError(ServerError, ValueError):
    """The service refuses the request as it is; the message says what to change."""


@dataclass(frozen=True)
class ServedTokens:
    """The answer of ``GET /v1/tokens``. ``strings`` have U+FFFD in place of what is not UTF-8."""

    tokens: list[Token]
    strings: list[str]
    special_ids: tuple[int, ...]
    eos_token_ids: tuple[int, ...]

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Decode the JSON of ``GET /v1/tokens``, which has the tokens in base64."""
        tokens = [Token(token_id, base64.b64decode(spelled)) for token_id, spelled in enumerate(table["tokens"])]
        strings = [bytes(token).decode(errors="replace") for token in tokens]
        return cls(tokens, strings, tuple(table["special_ids"]), tuple(table["eos_token_ids"]))

    def __len__(self) -> int:
        return len(self.tokens)
