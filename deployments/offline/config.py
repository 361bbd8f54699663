"""The configuration of an offline run: the service's own settings, and a block ``offline`` beside them.

One YAML file can serve both; settings of the HTTP front and of the Serve graph have no effect here.
"""

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deployments.errors import CallerError
from deployments.protocol.reader import ChatRequestReader
from deployments.settings.service import Settings, SettingsError
from deployments.settings.sources import PREFIX, describe
from deployments.storage import Location, StorageError

_PLAIN_TARGETS: Final = frozenset({"prompt", "system", "custom_id"})
"""What a column may give besides fields of a chat request."""

_ENGINE_KEYS: Final = ("chat_template", "quantization", "reasoning_parser", "revision", "tokenizer")
"""Arguments of the engine that change answers, not only their speed."""


class RefusedError(ValueError):
    """The run cannot begin, and nothing was read or written; the text says why, and what to change."""


class OfflineSettings(BaseModel):
    """How a run reads, and how much of the machines it takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: dict[str, str] = {}
    """For tables that hold no chat requests: what comes from which column. ``prompt`` or ``messages`` is needed;
    ``system``, ``custom_id`` and every field of a chat request may be named too, members of ``vocab`` with a dot:
    ``{prompt: question, vocab_lang: language, vocab_n_words: level, max_tokens: length}``."""
    request: dict[str, Any] = {}
    """Fields that every request has which does not say otherwise, such as ``{max_tokens: 200, vocab_lang: es}``."""
    engines: int = Field(default=1, ge=1)
    """Engines at once, if the cluster has room for them. Each costs what ``placement_bundles`` says."""
    rows_per_task: int = Field(default=16, ge=1)
    """Rows that are given to an engine together, and lost together where it dies."""
    tasks_per_engine: int = Field(default=8, ge=1)
    """Such tasks at an engine at once. Together with ``rows_per_task`` at least ``max_num_seqs`` of the engine, or it
    is not busy; rows beyond that wait in its process, at some KB each."""
    part_rows: int = Field(default=1000, ge=1)
    """A part of the output is written when it has so many rows. Costs their memory in the driver."""
    part_s: float = Field(default=60.0, gt=0)
    """And at the latest after so long: a run that is killed has no more than this to do again."""
    allowed_roots: tuple[str, ...] = ()
    """Folders or URLs within which everything that is read or written must lie; empty for anywhere."""


class OfflineConfig(BaseModel):
    """The configuration of a run."""

    model_config = ConfigDict(frozen=True)

    settings: Settings
    offline: OfflineSettings

    @classmethod
    def load(
        cls, args: Mapping[str, Any], environment: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> Self:
        """Return the configuration of YAML arguments, secret files and the environment.

        ``folder`` is that of the YAML file, for its relative paths; None where it is not known.

        Raises:
            SettingsError: Names each bad key, its value and what was expected.
        """
        args = dict(args)
        block = args.pop("offline", None) or {}
        # There is no HTTP front here, so any key will do, and there are no clients of older servers.
        ours = {f"{PREFIX}SECRET_TOKEN": uuid4().hex, f"{PREFIX}COMPATIBILITY": "none"}
        variables = {**(os.environ if environment is None else environment), **ours}
        settings = Settings.load(args, variables, folder)
        try:
            config = cls(settings=settings, offline=block)
        except ValidationError as error:
            raise SettingsError(describe(error, {}, cls)) from None
        _check_requests(config)
        return config

    @classmethod
    def read(cls, path: Path, environment: Mapping[str, str] | None = None) -> Self:
        """Return the configuration in a YAML file.

        Raises:
            SettingsError: The file cannot be read, or as ``load``.
        """
        try:
            args = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise SettingsError(f"{path}: cannot be read: {error}") from None
        if not isinstance(args, Mapping):
            raise SettingsError(f"{path}: expected keys and values, such as model_name: …")
        return cls.load(args, environment, path.absolute().parent)

    @property
    def digest(self) -> str:
        """Return a digest of all that answers depend on, and of nothing else.

        Of the limits only those that are not the default: a release with a new one resumes the runs of older ones.
        """
        settings = self.settings
        kwargs = settings.engine_kwargs
        content = {
            "model": [settings.model_name, settings.model_id, settings.torch_dtype],
            **({"adapters": [settings.lora, settings.lora_merge]} if settings.lora else {}),
            "engine": {name: kwargs[name] for name in _ENGINE_KEYS if name in kwargs},
            "lists": [str(settings.wordlist_dir), settings.mask_engine],
            "defaults": [
                settings.hint,
                settings.no_repeat_ngram_size,
                settings.limits.model_dump(exclude_defaults=True),
                settings.input_overflow,
            ],
            "rows": [self.offline.columns, self.offline.request],
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _check_requests(config: OfflineConfig) -> None:
    """Check the fields that the configuration gives every row, so that not every row fails of them."""
    offline = config.offline
    if offline.columns and len({"prompt", "messages"} & set(offline.columns)) != 1:
        raise SettingsError("offline.columns: name the column that holds the prompt, or the one that holds messages")
    sample: dict[str, Any] = {"model": config.settings.model_id, "messages": [{"role": "user", "content": "Hello"}]}
    named = [name for name in offline.columns if name not in _PLAIN_TARGETS]
    fields = {name: None for name in named if "." not in name and name != "messages"}
    vocab_only = [name for name in named if "." in name and not name.startswith("vocab.")]
    if vocab_only:
        raise SettingsError(f"offline.columns.{vocab_only[0]}: only members of vocab may be named with a dot")
    reader = ChatRequestReader.of(config.settings)
    names = dict.fromkeys(offline.request)
    for key, given in (("columns", fields), ("request", names), ("request", offline.request)):
        try:
            reader.read({**sample, **given})
        except CallerError as error:
            # Part of a vocabulary may come from the configuration and part from the row.
            if given is not offline.request or not (error.param or "").startswith("vocab"):
                raise SettingsError(f"offline.{key}: {error.message}") from None


def locate(given: str, allowed_roots: Collection[str] = ()) -> Location:
    """Return the location of a path or URL.

    Raises:
        RefusedError: It cannot be read, or is outside the allowed roots, where there are some.
    """
    try:
        location = Location.of(given)
    except StorageError as error:
        raise RefusedError(str(error)) from None
    if allowed_roots and not any(locate(root).holds(location) for root in allowed_roots):
        raise RefusedError(f"{given}: outside the folders that are allowed (offline.allowed_roots)")
    return location
