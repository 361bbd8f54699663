"""Where settings come from: variables of the environment, secret files named like them, an ``.env`` file, and YAML.

The names in the ``.env`` file of a server built on transformers are read too. One table, which the settings,
``docs/migration.md`` and the tests read, has what each becomes: settings, a warning that says what vLLM does instead,
or both.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from dotenv import dotenv_values
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, PydanticBaseSettingsSource
from typing_extensions import override

from deployments.settings.compatibility import ServerName
from deployments.settings.types import REPLACED

Given: TypeAlias = Mapping[str, str]
"""Settings, and their values as a variable would give them."""


@dataclass(frozen=True)
class OldName:
    """One variable name of the old server, and what it gives here.

    Attributes:
        settings: All that it may give, with a dot before a member.
        convert: Reads a value; raises ``ValueError``, which says what was expected.
        warning: Logged once at the start where the name is given.
        server: The server that alone has this name, and whose clients are then served (``compatibility``).
    """

    settings: tuple[str, ...]
    convert: Callable[[str], Given]
    warning: str | None = None
    server: ServerName | None = None


def _gives(setting: str, values: Mapping[str, str] | None = None, server: ServerName | None = None) -> OldName:
    """Map an old name to one setting; ``values`` translates old values, by their small letters."""
    return OldName((setting,), lambda value: {setting: (values or {}).get(value.lower(), value)}, server=server)


def _without_effect(warning: str) -> OldName:
    return OldName((), lambda _: {}, warning, _WORDLIST)


_WORDLIST: Final = "wordlist-server"
_SERVING: Final = "llm-serving"

_DTYPES: Final = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
    **{f"torch.{name}": name for name in ("bfloat16", "float16", "float32")},
}

_LEVELS: Final = {"trace": "debug", "warn": "warning", "critical": "error", "fatal": "error"}
"""Levels of uvicorn and of Python's logging that Ray Serve does not have, and the nearest of those that it has."""

YES: Final = ("true", "yes", "on", "1")
_NO: Final = ("false", "no", "off", "0")


def _numbers(value: str) -> list[int]:
    """Parse a set of whole numbers, sorted: with commas between them, as JSON, or as Python writes a set."""
    try:
        numbers = sorted({int(part) for part in value.strip("[]{}()").split(",") if part.strip()})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1:
        raise ValueError("expected whole numbers of at least 1 with commas between them, such as 256,1024")
    return numbers


def _new_tokens(value: str) -> Given:
    """Convert allowed token numbers to limits: the largest, and all where there are several."""
    numbers = _numbers(value)
    # One is a bound, also where another source names several.
    allowed = numbers if len(numbers) > 1 else []
    return {"limits.max_new_tokens": str(numbers[-1]), "limits.allowed_new_tokens": str(allowed)}


def _prebuild(value: str) -> Given:
    """Convert ``PREBUILD_PREFIX``: "false" prebuilds no list, "true" gives nothing, else it is the N."""
    if value.lower() in _NO:
        return {"prebuild_langs": ""}
    return {} if value.lower() in YES else {"prebuild_prefix": value}


def _device(value: str) -> Given:
    """Convert a device to placement: "cpu" takes one CPU, any other gives nothing."""
    return {"placement_bundles": '[{"CPU": 1}]'} if value.lower() == "cpu" else {}


_PADDING: Final = "vLLM pads no prompts: it puts the tokens of all requests side by side into one batch"
_PLACEMENT: Final = (
    "vLLM runs on the kind of device that it was built for, and Ray chooses which: engine_kwargs.tensor_parallel_size "
    "spreads a model over several GPUs, and placement_bundles says what a replica takes"
)

OLD_NAMES: Final[Mapping[str, OldName]] = {
    "SECRET_TOKEN": _gives("secret_token"),
    "LLM_SERVING_API_KEY": _gives("secret_token", server=_SERVING),
    "MODEL_NAME": _gives("model_name"),
    "LLM_SERVING_MODEL_PATH": _gives("model_name", server=_SERVING),
    "TRUST_REMOTE_CODE": _gives("trust_remote_code"),
    "TORCH_DTYPE": _gives("torch_dtype", _DTYPES),
    "LLM_SERVING_DEVICE": OldName(("placement_bundles",), _device, _PLACEMENT, _SERVING),
    "DEVICE_MAP": _without_effect(_PLACEMENT),
    "ATTN_IMPLEMENTATION": _without_effect(
        "vLLM takes the fastest attention kernels that it has for the device; engine_kwargs.attention_backend names "
        "others"
    ),
    "STATIC_KV_CACHE": _without_effect(
        "vLLM's KV cache has a fixed size, in pages that requests share: engine_kwargs.gpu_memory_utilization, or "
        "VLLM_CPU_KVCACHE_SPACE in replica_env on a CPU"
    ),
    "TOKENIZER_PADDING_SIDE": _without_effect(_PADDING),
    "PAD_TO_MULTIPLE_OF": _without_effect(_PADDING),
    "MAX_INPUT_TOKENS": _gives("limits.max_input_tokens"),
    "ALLOWED_MAX_NEW_TOKENS": OldName(
        ("limits.max_new_tokens", "limits.allowed_new_tokens"), _new_tokens, server=_WORDLIST
    ),
    "INPUT_OVERFLOW": _gives("input_overflow"),
    # Before the languages, which a "false" replaces.
    "PREBUILD_PREFIX": OldName(("prebuild_prefix", "prebuild_langs"), _prebuild),
    "PREBUILD_LANGS": _gives("prebuild_langs"),
    "PREBUILD_WORD_COUNTS": OldName(
        ("prebuild_word_counts",), lambda value: {"prebuild_word_counts": str(_numbers(value))}
    ),
    "BATCH_JOB_PIPELINE_SIZE": _gives("batch.lines_in_flight", server=_WORDLIST),
    "BATCH_JOB_TEMP_DIR": _gives("batch.state_dir", server=_WORDLIST),
    "LOG_LEVEL": _gives("log_level", _LEVELS),
    "LLM_SERVING_LOG_LEVEL": _gives("log_level", _LEVELS, _SERVING),
}
"""By name. Where two give one setting, the first goes before."""


PREFIX: Final = "WORDBOUND_"
"""Before the name of any setting, for a variable or a secret file that gives it: ``WORDBOUND_HINT``,
``WORDBOUND_LIMITS__MAX_STOP``; lists and dictionaries are JSON."""

ENVIRONMENT: Final[Mapping[str, str]] = {
    "SECRETS_DIR": "secrets_dir",
    "HF_TOKEN": "hf_token",
    "WORDLIST_DIR": "wordlist_dir",
    "ARTEFACT_STORE": "artefact_store",
    "MASK_ENGINE": "mask_engine",
}
"""Short names of variables beside those of ``OLD_NAMES``, and the setting that each gives. The name with the prefix
goes before a short one."""

_NAMES: Final = {**OLD_NAMES, **{name: _gives(setting) for name, setting in ENVIRONMENT.items()}}

ENV_FILE: Final = ".env"
"""Read in the working directory where no other file is named, and is there."""

SECRET_NAME: Final = re.compile(
    r"token$|secret|password|api_?key|^keys(\.[^.]+)?$|sha256$|rates_url$|database$", re.IGNORECASE
)
"""Settings, engine arguments and variables whose values are never shown."""


ON_A_CLUSTER: Final = (
    "A cluster that runs already sees no variable of `serve run` or `serve deploy`: give {0} in a file of that name in "
    "secrets_dir, in the application's runtime_env.env_vars, or to `ray start` on every node (docs/deploying.md)"
)


READ_PATHS: Final = frozenset({"wordlist_dir", "secrets_dir", "env_file"})
"""Settings that name what is read and was put there by somebody: a relative path of one is taken from the folder of the
file that gives it, so that it means the same in every process."""


class SettingsError(ValueError):
    """A setting is unknown or has a bad value; the text says which and what was expected."""


class Variables(EnvSettingsSource):
    """Settings from variables: of the environment, of an ``.env`` file, or secret files that are named like them.

    Unlike in the base class, a value that should be JSON and is not is left to validation, which names it.

    Args:
        settings: The settings' class.
        kind: What the variables are of, for ``Sources.names``.
        variables: By name. An empty one counts as unset.
        folder: Where their relative paths begin: the folder of their file, or the working directory.
    """

    def __init__(self, settings: type[BaseSettings], kind: str, variables: Mapping[str, str], folder: Path) -> None:
        super().__init__(settings)
        self.kind = kind
        self.given = {name: value.strip() for name, value in variables.items() if value.strip()}
        self._names: dict[str, str] = {}
        values: dict[str, str | None] = {}
        for name, key, value in _settings_of(self.given):
            variable = _variable(key)
            if variable not in values:
                self._names[variable] = name
                values[variable] = _absolute(key, value, folder)
        self.env_vars = values

    @override
    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value

    def name_of(self, key: str) -> str:
        """Return, with commas, the names of the variables that give a setting or a part of it."""
        wanted = f"{_variable(key)}__"
        names = ((f"{variable}__", name) for variable, name in self._names.items())
        return ", ".join(name for variable, name in names if wanted.startswith(variable) or variable.startswith(wanted))


def _variable(key: str) -> str:
    return f"{PREFIX}{key.replace('.', '__')}".lower()


def _settings_of(given: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, setting and value for each setting that variables give; of several for one the first counts."""
    for name, value in given.items():
        if name.startswith(PREFIX):
            yield name, name.removeprefix(PREFIX).lower(), value
    for name, known in _NAMES.items():
        if name in given:
            try:
                settings = known.convert(given[name])
            except ValueError as error:
                raise SettingsError(f"{name}={given[name]!r}: {error}") from None
            yield from ((name, key, value) for key, value in settings.items())


def _absolute(key: str, value: Any, folder: Path | None) -> Any:
    """Return the value of a setting; a path that is read is taken from ``folder``.

    Raises:
        SettingsError: It is relative, and the folder is not known.
    """
    if key not in READ_PATHS or not isinstance(value, str):
        return value
    path = Path(value).expanduser()
    if folder is None and not path.is_absolute():
        raise SettingsError(
            f"{key}={value!r}: expected an absolute path: Serve passes on what a YAML file says, but not where "
            "it lies, and its processes run in other folders"
        )
    return str((folder or Path()) / path)


def _is_known(name: str) -> bool:
    return name in _NAMES or name.startswith(PREFIX)


def _read_variables(name: str, path: Path, *, is_folder: bool) -> dict[str, str]:
    """Return the variables in an ``.env`` file, or those that files in a folder are named like, by names in capitals.

    ``name`` is that of the setting or variable that gives the path.

    Raises:
        SettingsError: It cannot be read.
    """
    try:
        if is_folder:
            files = {file.name.upper(): file for file in path.iterdir()}
            return {name: file.read_text(encoding="utf-8") for name, file in files.items() if _is_known(name)}
        with path.open(encoding="utf-8") as file:
            return {key.upper(): value for key, value in dotenv_values(stream=file).items() if value is not None}
    except (OSError, UnicodeDecodeError) as error:
        expected = "a folder of text files" if is_folder else "a file of NAME=value lines"
        # The text of the other error may show a part of the file.
        why = error if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"{name}={str(path)!r}: expected {expected}: {why}") from None


class Sources:
    """All sources of the settings of one application.

    Attributes:
        readers: In order of precedence: environment, secret files, ``.env`` file, YAML arguments.
        names: By setting where its values come from; the first counts.
        warnings: What to log at the start about the variables that were given; no values.
    """

    def __init__(
        self,
        settings: type[BaseSettings],
        args: Mapping[str, Any],
        environment: Mapping[str, str] | None,
        folder: Path | None = None,
    ) -> None:
        """Read the files that the sources name.

        Where ``environment`` is given, it stands for all of this process's: then no file is read that nothing names.
        ``folder`` is that of the file of ``args``; None where it is not known.

        Raises:
            SettingsError: One cannot be read, a variable has a bad value, or a path of ``args`` is relative to nothing.
        """
        args = {str(key): _absolute(str(key), value, folder) for key, value in args.items()}
        here = Path.cwd()
        variables = Variables(settings, "environment", os.environ if environment is None else environment, here)

        env_file = variables().get("env_file") or args.get("env_file")
        if env_file is None and environment is None and Path(ENV_FILE).is_file():
            env_file = ENV_FILE
        path = here / str(env_file or ENV_FILE)
        in_file = {}
        if env_file is not None:
            in_file = _read_variables(variables.name_of("env_file") or "env_file", path, is_folder=False)
        filed = Variables(settings, str(path), in_file, path.parent)

        secrets_dir = variables().get("secrets_dir") or filed().get("secrets_dir") or args.get("secrets_dir")
        folder = here / str(secrets_dir or "")
        in_folder = {}
        if secrets_dir is not None:
            in_folder = _read_variables(variables.name_of("secrets_dir") or "secrets_dir", folder, is_folder=True)
        secrets = Variables(settings, "secret file", in_folder, folder)

        by_variables = (variables, secrets, filed)
        self.readers: tuple[PydanticBaseSettingsSource, ...] = (*by_variables, InitSettingsSource(settings, args))
        self.names: dict[str, list[str]] = {}
        for source in by_variables:
            for key in _keys(source(), settings):
                self.names.setdefault(key, []).append(f"{source.kind} {source.name_of(key)}")
        for key in _keys(args, settings):
            self.names.setdefault(key, []).append("YAML")

        given = {name for source in by_variables for name in source.given}
        self.warnings = self._choose_compatibility(given, settings)
        self.warnings += [f"{name}: {old.warning}" for name, old in OLD_NAMES.items() if name in given and old.warning]
        if unknown := sorted(name for name in in_file if not _is_known(name)):
            self.warnings.append(f"{path}: these names are no settings and are ignored: {', '.join(unknown)}")

    def _choose_compatibility(self, given: Set[str], settings: type[BaseSettings]) -> list[str]:
        """Serve the clients of the server that alone has one of the names, unless a source says which; warn of it."""
        name, old = next(((name, old) for name, old in OLD_NAMES.items() if name in given and old.server), ("", None))
        if old is None or "compatibility" in self.names:
            return []
        self.readers = (*self.readers, InitSettingsSource(settings, {"compatibility": old.server}))
        self.names["compatibility"] = [f"chosen for {name}"]
        return [
            f"compatibility: {old.server}, for {name} is given: limits and shapes are as the clients of that server "
            "know them (docs/migration.md); compatibility: none for those of this service"
        ]


def _model_of(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    field = model.model_fields.get(name)
    inner = None if field is None else field.annotation
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _keys(values: Mapping[str, Any], model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        inner = _model_of(model, name)
        if inner is not None and isinstance(value, Mapping):
            yield from _keys(value, inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _fields_beside(model: type[BaseModel], loc: tuple[int | str, ...]) -> Set[str]:
    """Return the known fields beside an unknown setting: those of the model that it stands in."""
    for part in loc[:-1]:
        inner = _model_of(model, str(part))
        # What stands in a list or a dictionary is left out: nothing but its names could be said.
        if inner is None:
            break
        model = inner
    return model.model_fields.keys()


def describe(error: ValidationError, sources: Mapping[str, list[str]], settings: type[BaseModel]) -> str:
    """Describe each fault of a settings error: the setting, its value and what was expected."""
    lines = []
    for fault in error.errors(include_url=False):
        key = ".".join(str(part) for part in fault["loc"])
        source = sources.get(key, ["YAML"])[0]
        shown_key = key if source == "YAML" else source.rpartition(" ")[2]
        if not key:
            lines.append(fault["msg"].removeprefix("Value error, "))
        elif fault["type"] == "extra_forbidden":
            known = sorted(_fields_beside(settings, fault["loc"]) - REPLACED.keys())
            lines.append(f"{shown_key}: unknown setting; known are {', '.join(known)}")
        elif fault["type"] == "missing":
            variable = next((name for name, old in OLD_NAMES.items() if key in old.settings), key)
            lines.append(f"{key}: missing; set {variable} or the key in the YAML file. {ON_A_CLUSTER.format(variable)}")
            if key == "secret_token":
                lines.append("for a service without a key, on a loopback address only, set keyless: true")
        else:
            shown = "**********" if SECRET_NAME.search(key) else repr(fault["input"])
            expected = "keys and values" if fault["type"] in ("model_type", "dict_type") else fault["msg"]
            lines.append(f"{shown_key}={shown}: {expected.removeprefix('Value error, ')}")
    return "; ".join(lines)
