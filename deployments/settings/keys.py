"""What the keys of a service may do: each has a name, and limits of its own.

The settings hold a digest of a key, never the key. ``None`` stands for no limit besides those that hold for everybody.
"""

import hashlib
import re
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

DEFAULT_OWNER: Final = "default"
"""The name of ``secret_token``."""

NO_OWNER: Final = ""
"""No key has this name: of the service itself, and in compiling of the lines of batches."""

_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}")


Part: TypeAlias = Literal["chat", "batches"]
"""A part of the service that a key may be for."""


class Key(BaseModel):
    """One key and its limits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str | None = None
    """The key's SHA-256 in hexadecimal: ``printf %s "$KEY" | sha256sum``. Take a random key, such as that of
    ``openssl rand -hex 32``: the digest of one that can be guessed tells it. Left out for ``default`` alone, whose key
    is ``secret_token``."""
    use: Literal["all"] | Part = "all"
    """``chat`` for interactive requests alone, ``batches`` for files, batches and jobs alone. Models and word lists may
    be listed, and texts checked, in any case."""
    operator: bool = False
    """Whether the key may load and unload adapters (``lora_dir``)."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Requests of any kind."""
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Tokens of chats, counted when a request comes: a quarter of the characters of its messages, and ``max_tokens``
    for each sequence of it. Lines of batches do not count."""
    max_sequences: int | None = Field(default=None, ge=1)
    """Sequences at once in each replica; further requests wait for the key's own."""
    lists_per_hour: int | None = Field(default=None, ge=1)
    """Lists, and changes of lists, that are new and have to be compiled."""
    max_uploads: int = Field(default=32, ge=1)
    """Uploads at once in each ingress, against a client that begins a thousand and sends nothing; one more is a 429."""
    max_open_batches: int | None = Field(default=None, ge=1)
    """Batches and jobs that have not ended, instead of ``batch.limits.max_open_per_key``."""
    max_file_bytes: int | None = Field(default=None, ge=1024)
    """Files together, instead of ``batch.limits.max_bytes_per_key``."""

    @field_validator("sha256")
    @classmethod
    def _check_digest(cls, digest: str | None) -> str | None:
        if digest is not None and not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise ValueError("expected 64 hexadecimal digits in small letters, the SHA-256 of the key")
        return digest

    @property
    def has_rates(self) -> bool:
        return self.requests_per_minute is not None or self.tokens_per_minute is not None


def digest_of(key: bytes) -> str:
    """Return the SHA-256 of a key in hexadecimal."""
    return hashlib.sha256(key).hexdigest()


def is_key_name(name: str) -> bool:
    """Return whether a key may have that name: small letters, digits, ``_`` and ``-``, up to 64."""
    return _NAME.fullmatch(name) is not None
