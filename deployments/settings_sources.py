"""Where settings come from: variables of the environment, and secret files that are named like them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

PREFIX: Final = "WORDBOUND_"
"""Before the name of any setting, for a variable or a secret file that gives it: ``WORDBOUND_HINT``,
``WORDBOUND_LIMITS__MAX_STOP``; lists and dictionaries are JSON."""

ENVIRONMENT: Final[dict[str, str]] = {
    "SECRET_TOKEN": "secret_token",
    "SECRETS_DIR": "secrets_dir",
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
"""Short names of variables, and the setting that each gives. The name with the prefix goes before the short one."""

SECRET_NAME: Final = re.compile(
    r"token$|secret|password|api_?key|^keys(\.[^.]+)?$|sha256$|rates_url$|database$", re.IGNORECASE
)
"""Settings, engine arguments and variables whose values are never shown."""


class SettingsError(ValueError):
    """A setting is unknown or has a bad value; the text says which and what was expected."""


class Variables(EnvSettingsSource):
    """Settings from variables: those of the environment, or secret files that are named like them.

    Unlike in the base class, a value that should be JSON and is not is left to validation, which names it.
    """

    def __init__(self, settings: type[BaseSettings], variables: Mapping[str, str]) -> None:
        super().__init__(settings)
        prefixed = (name for name in variables if name.startswith(PREFIX))
        self._names: dict[str, str] = {}
        self.env_vars = {}
        # An empty variable counts as unset.
        for name in [name for name in (*ENVIRONMENT, *prefixed) if variables.get(name, "").strip()]:
            value = variables[name].strip()
            variable = _variable(ENVIRONMENT[name]) if name in ENVIRONMENT else name.lower()
            self._names[variable] = name
            self.env_vars[variable] = _largest(name, value) if name == "ALLOWED_MAX_NEW_TOKENS" else value

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value

    def name_of(self, key: str) -> str:
        """Return the variables that give a setting or a part of it."""
        wanted = f"{_variable(key)}__"
        names = ((f"{variable}__", name) for variable, name in self._names.items())
        return ", ".join(name for variable, name in names if wanted.startswith(variable) or variable.startswith(wanted))


def _variable(key: str) -> str:
    return f"{PREFIX}{key.replace('.', '__')}".lower()


def read_secrets(variables: Variables, folder: object) -> dict[str, str]:
    """Return the contents of the files in the secrets folder that are named like variables of settings.

    The folder is that of ``SECRETS_DIR`` in ``variables``, else ``folder``; None for no secrets.

    Raises:
        SettingsError: It is no folder, or such a file cannot be read.
    """
    name = variables.name_of("secrets_dir") or "secrets_dir"
    folder = variables().get("secrets_dir") or folder
    if folder is None:
        return {}
    try:
        paths = {path.name.upper(): path for path in Path(str(folder)).iterdir()}
        known = [variable for variable in paths if variable in ENVIRONMENT or variable.startswith(PREFIX)]
        return {variable: paths[variable].read_text(encoding="utf-8") for variable in known}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name}={str(folder)!r}: expected a folder of text files: {error}") from None


def name_sources(
    settings: type[BaseModel], given: Mapping[str, Mapping[str, Any]], variables: Mapping[str, Variables]
) -> dict[str, list[str]]:
    """Return by setting where its values come from; the first counts.

    ``given`` are the values by kind of source, in order of precedence.
    """
    sources: dict[str, list[str]] = {}
    for kind, values in given.items():
        for key in _keys(values, settings):
            name = f"{kind} {variables[kind].name_of(key)}" if kind in variables else kind
            sources.setdefault(key, []).append(name)
    return sources


def _keys(values: Mapping[str, Any], model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        inner = model.model_fields[name].annotation if name in model.model_fields else None
        if isinstance(inner, type) and issubclass(inner, BaseModel) and isinstance(value, Mapping):
            yield from _keys(value, inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _largest(name: str, raw: str) -> str:
    try:
        return str(max(int(part) for part in raw.split(",") if part.strip()))
    except ValueError:
        raise SettingsError(
            f"{name}={raw!r}: expected whole numbers with commas between them, such as 256,1024"
        ) from None


def describe(error: ValidationError, sources: Mapping[str, list[str]], settings: type[BaseModel]) -> str:
    """Return what is wrong with which setting, its value and what was expected."""
    lines = []
    for fault in error.errors(include_url=False):
        key = ".".join(str(part) for part in fault["loc"])
        source = sources.get(key, ["YAML"])[0]
        shown_key = key if source == "YAML" else source.rpartition(" ")[2]
        if not key:
            lines.append(fault["msg"].removeprefix("Value error, "))
        elif fault["type"] == "extra_forbidden":
            lines.append(f"{shown_key}: unknown setting; known are {', '.join(sorted(settings.model_fields))}")
        elif fault["type"] == "missing":
            variable = next((name for name, target in ENVIRONMENT.items() if target == key), key)
            lines.append(f"{key}: missing; set {variable} or the key in the YAML file")
        else:
            shown = "**********" if SECRET_NAME.search(key) else repr(fault["input"])
            expected = "keys and values" if fault["type"] in ("model_type", "dict_type") else fault["msg"]
            lines.append(f"{shown_key}={shown}: {expected.removeprefix('Value error, ')}")
    return "; ".join(lines)
