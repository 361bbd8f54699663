"""Every knob of the service, on one screen.

A value comes from the arguments in the YAML file, else from the environment, else from the default here. An unknown
key is an error, and so is a bad value: the message names the key, the value and what was expected. Limits of a single
request are in ``deployments.limits``. Nothing here imports Ray or the engine.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from fsspec import get_filesystem_class
from fsspec.utils import get_protocol
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from deployments.batch.settings import BatchSettings
from deployments.limits import MAX_NGRAM_SIZE, NO_REPEAT_NGRAM_SIZE, Limits

DEMO_TOKEN: Final = "changeme"  # noqa: S105 - the well-known key of the demo, refused everywhere else

DEFAULT_OWNER: Final = "default"
"""The name of ``secret_token``."""

ENVIRONMENT: Final[dict[str, str]] = {
    "SECRET_TOKEN": "secret_token",
    "MODEL_NAME": "model_name",
    "TRUST_REMOTE_CODE": "trust_remote_code",
    "TORCH_DTYPE": "torch_dtype",
    "MAX_INPUT_TOKENS": "limits.max_input_tokens",
    "ALLOWED_MAX_NEW_TOKENS": "limits.max_new_tokens",
    "PREBUILD_PREFIX": "prebuild_prefix",
    "PREBUILD_LANGS": "prebuild_langs",
    "WORDLIST_DIR": "wordlist_dir",
    "ARTEFACT_STORE": "artefact_store",
    "LOG_LEVEL": "log_level",
    "MASK_ENGINE": "mask_engine",
}
"""The environment names, and the setting that each gives."""


_KEY_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}")

_SECRET_NAME: Final = re.compile(r"token$|secret|password|api_?key", re.IGNORECASE)


class SettingsError(ValueError):
    """A setting is unknown or has a bad value; the text says which and what was expected."""


class Autoscaling(BaseModel):
    """How many replicas of the engine there are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_replicas: int = Field(default=1, ge=0)
    max_replicas: int = Field(default=1, ge=1)
    target_ongoing_requests: float = Field(default=32, gt=0)
    """Requests per replica that the autoscaler aims at."""


class Settings(BaseModel):
    """The settings of one application."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), validate_default=True)

    # The model
    model_name: str = Field(default="google/gemma-3-27b-it", min_length=1)
    """A Hugging Face id, or a local folder that every node has at this path."""
    model_id: str = ""
    """The name that clients use; by default the id, or the folder's last part."""
    trust_remote_code: bool = False
    torch_dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    engine_kwargs: dict[str, Any] = {}
    """Arguments of vLLM's engine, such as ``tensor_parallel_size``."""

    # The front
    secret_token: SecretStr = Field(min_length=1)
    more_tokens: dict[str, SecretStr] = {}
    """Further keys, each with a name: small letters, digits, ``_`` and ``-``, up to 64. Files and batches belong to the
    name, so that a key can be replaced without losing them; ``secret_token``'s name is ``default``."""
    allow_query_token: bool = True
    """Accept the key as ``?token=`` too, for clients that can set no header."""
    limits: Limits = Limits()
    demo: bool = False
    """Allows the key ``changeme``, on a loopback address only."""

    # Batches
    batch: BatchSettings = BatchSettings()

    # The vocabulary
    mask_engine: Literal["automaton", "xgrammar"] = "automaton"
    """``xgrammar`` sends the list as a grammar: the same promise, slower, for an engine the plugin does not know."""
    wordlist_dir: Path | None = None
    """Folder of ``<lang>.txt`` files, one word a line in rank order; found before the built-in lists."""
    prebuild_langs: tuple[str, ...] = ()
    """Lists compiled before the service reports ready."""
    prebuild_prefix: int = Field(default=1000, ge=1)
    """The N for which replicas warm up with these lists. One artefact serves every N, so nothing else depends on it."""
    artefact_dir: Path | None = None
    """Where artefacts lie on each node; by default ``artefacts`` in the cache folder of the node's user."""
    artefact_bytes: int = Field(default=4 * 2**30, ge=2**20)
    """Bytes of them on each node; those used longest ago go. Costs disk, and page cache for those in use: 25 MB for
    50,000 words and 262,144 tokens, 0.3 MB and up for a client's own list."""
    artefact_store: str | None = None
    """An fsspec URL (``s3://bucket/lists``, ``gs://…``, ``file:///mnt/…``) where artefacts outlive the nodes and which
    clusters may share. Costs an upload per new list; without it a node with an empty disk compiles again."""
    artefact_store_bytes: int = Field(default=64 * 2**30, ge=2**20)
    """Bytes of them behind that URL; those written longest ago go."""
    max_cached_vocabularies: int = Field(default=4096, ge=1)
    """Lists whose artefact is known without asking the compiler. Costs about 2 KB each; set by clients that send a list
    of their own with every request."""
    compile_deadline_s: float = Field(default=120.0, gt=0)
    """A list that takes longer is given up, and its compile process killed. All 337,000 Spanish words of wordfreq take
    10 to 30 s for 262,144 tokens on one core; ten times as many or a compiler that hangs must not block the rest."""
    compile_memory_bytes: int = Field(default=4 * 2**30, ge=2**28)
    """Memory of a compile process, of which there are two at most; one that exceeds it is killed. All Spanish words
    take 2 GB. A process that still holds a quarter of it after a list is ended, so that the memory goes back."""
    compile_idle_s: float = Field(default=60.0, gt=0)
    """The process that compiles named lists ends after so long without one. Its start costs 1 to 2 s, its memory
    150 to 700 MB; the one for clients' lists stays."""
    engine_cache_bytes: int = Field(default=2**30, ge=2**20)
    """Memory for lists in each engine process: mask rows, and mapped artefacts, whose pages the processes of a node
    share. 20 MB for 50,000 words and 262,144 tokens."""

    hint: bool = True
    """Tells the model, in one line of the answer's language, to use simple, common words. Costs 20 to 40 tokens of the
    prompt; a request may say otherwise (``vocab.hint``)."""
    no_repeat_ngram_size: int = Field(default=NO_REPEAT_NGRAM_SIZE, ge=0, le=MAX_NGRAM_SIZE)
    """So many tokens in a row never come twice in a text of a vocabulary; a request may say otherwise. 0 for no such
    rule, which leaves refrains and loops; with MASK_ENGINE=xgrammar there is none."""

    # The graph
    accelerator_type: str | None = None
    """A GPU type that Ray knows, such as ``H100``."""
    placement_bundles: list[dict[str, float]] | None = None
    """Resources of a replica, one bundle a worker; by default one GPU for each of the engine's workers."""
    autoscaling: Autoscaling = Autoscaling()
    ingress_replicas: int = Field(default=1, ge=1)
    vocabulary_resources: dict[str, float] = {}
    """Custom resources that pin the vocabulary deployment to a node."""
    max_ongoing_requests: int = Field(default=128, ge=1)
    """Requests that a replica works on at once; the engine batches them."""
    max_queued_requests: int = Field(default=256, ge=0)
    """Requests that wait in each ingress for a replica; one more is refused with 503."""
    replica_env: dict[str, str] = {}
    """Environment variables of the replica and its engine."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    @model_validator(mode="before")
    @classmethod
    def _fill_in_model_id(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and not values.get("model_id"):
            name = str(values.get("model_name") or cls.model_fields["model_name"].default)
            return {**values, "model_id": name.rstrip("/").rsplit("/", 1)[-1] if _is_folder(name) else name}
        return values

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        keys = [key.get_secret_value() for key in self.named_keys.values()]
        if DEMO_TOKEN in keys and not self.demo:
            raise ValueError(f"secret_token: {DEMO_TOKEN!r} is the demo's key, which everyone knows: set SECRET_TOKEN")
        if len(set(keys)) < len(keys):
            raise ValueError("more_tokens: expected keys that differ from each other and from secret_token")
        if self.autoscaling.max_replicas < max(self.autoscaling.min_replicas, 1):
            raise ValueError("autoscaling.max_replicas: expected at least autoscaling.min_replicas")
        return self

    @field_validator("more_tokens")
    @classmethod
    def _check_names(cls, keys: dict[str, SecretStr]) -> dict[str, SecretStr]:
        # Not by the names' type: its error would show what may be a key in the place of a name.
        if not all(_KEY_NAME.fullmatch(name) and key.get_secret_value() for name, key in keys.items()):
            raise ValueError("expected names of 1 to 64 small letters, digits, _ and -, each with a key")
        if DEFAULT_OWNER in keys:
            raise ValueError(f"{DEFAULT_OWNER!r} is the name of secret_token: expected another")
        return keys

    @field_validator("artefact_store")
    @classmethod
    def _check_store(cls, url: str | None) -> str | None:
        if url is not None:
            try:
                get_filesystem_class(get_protocol(url))
            except (ImportError, ValueError) as error:
                raise ValueError(f"expected a URL that fsspec can open: {error}") from None
        return url

    @classmethod
    def load(cls, args: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Self:
        """Settings from YAML arguments, which override the environment.

        Raises:
            SettingsError: Names each bad key, its value and what was expected.
        """
        args = dict(args)
        environment = os.environ if environment is None else environment
        values, names = _from_environment(environment)
        limits = args.pop("limits", {})
        if not isinstance(limits, Mapping):
            raise SettingsError(f"limits={limits!r}: expected keys and values")
        values.update(args)
        values["limits"] = {**values.get("limits", {}), **limits}
        for key in [*args, *(f"limits.{key}" for key in limits)]:
            names.pop(key, None)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise SettingsError(_describe(error, names)) from None

    def resolved_artefact_dir(self) -> Path:
        """The artefact folder on the node of the calling process."""
        return self.artefact_dir or cache_dir() / "artefacts"

    @property
    def named_keys(self) -> dict[str, SecretStr]:
        """All keys of the service, by name."""
        return {DEFAULT_OWNER: self.secret_token, **self.more_tokens}

    @property
    def default_no_repeat(self) -> int:
        """``no_repeat_ngram_size``, or 0 where the masks are not ours and nobody looks for repeats."""
        return 0 if self.mask_engine == "xgrammar" else self.no_repeat_ngram_size

    @property
    def max_batch_lines(self) -> int:
        """Lines of batches that may be with all replicas together."""
        batch = self.batch
        return batch.jobs_at_once * batch.lines_sent * self.autoscaling.max_replicas if batch.enabled else 0

    def as_text(self) -> str:
        """The settings as indented JSON, secrets hidden."""
        return json.dumps(_without_secrets(self.model_dump(mode="json")), indent=2, ensure_ascii=False)


def cache_dir() -> Path:
    """The folder for what can be made again: ``WORDBOUND_CACHE``, else ``wordbound`` in the user's cache."""
    if named := os.environ.get("WORDBOUND_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "wordbound"


def _without_secrets(values: dict[str, Any]) -> dict[str, Any]:
    """Engine arguments and environment variables may carry keys too (``HF_TOKEN``)."""
    for group in ("engine_kwargs", "replica_env"):
        values[group] = {
            key: "**********" if _SECRET_NAME.search(key) else value for key, value in values[group].items()
        }
    return values


def _is_folder(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~"))


def _from_environment(environment: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values that the environment gives, and the variable that gave each key. An empty variable gives none."""
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, key in ENVIRONMENT.items():
        raw = environment.get(name, "").strip()
        if not raw:
            continue
        value: Any = raw
        if name == "PREBUILD_LANGS":
            value = [part.strip() for part in raw.split(",") if part.strip()]
        elif name == "ALLOWED_MAX_NEW_TOKENS":
            value = _largest(name, raw)
        elif name == "LOG_LEVEL":
            value = raw.upper()
        names[key] = name
        if key.startswith("limits."):
            values.setdefault("limits", {})[key.removeprefix("limits.")] = value
        else:
            values[key] = value
    return values, names


def _largest(name: str, raw: str) -> int:
    try:
        return max(int(part) for part in raw.split(",") if part.strip())
    except ValueError:
        raise SettingsError(
            f"{name}={raw!r}: expected whole numbers with commas between them, such as 256,1024"
        ) from None


def _describe(error: ValidationError, names: Mapping[str, str]) -> str:
    lines = []
    for fault in error.errors(include_url=False):
        key = ".".join(str(part) for part in fault["loc"])
        expected = fault["msg"].removeprefix("Value error, ")
        if not key:
            lines.append(expected)
        elif fault["type"] == "extra_forbidden":
            lines.append(f"{key}: unknown setting; known are {', '.join(sorted(Settings.model_fields))}")
        elif fault["type"] == "missing":
            lines.append(f"{key}: missing; set {_variable_of(key)} or the key in the YAML file")
        else:
            shown = "**********" if "secret" in key or key.startswith("more_tokens") else repr(fault["input"])
            lines.append(f"{names.get(key, key)}={shown}: {expected}")
    return "; ".join(lines)


def _variable_of(key: str) -> str:
    return next((name for name, target in ENVIRONMENT.items() if target == key), key)
