"""What commands read of a service's YAML file, before the service reads it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from wordbound.cli.commands import InputError

DEFAULT_PORT: Final = 8000
"""Serve's own."""


@dataclass(frozen=True)
class Configuration:
    """The port, the model (empty where the file names none), and all settings of the application."""

    port: int = DEFAULT_PORT
    model: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file as ``serve run`` takes it.

        Raises:
            InputError: It cannot be read, or is no such file.
        """
        try:
            import yaml
        except ImportError:
            raise InputError(f"{path} cannot be read without the service; in a clone: pip install '.[cpu]'") from None
        try:
            read: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is no YAML file: {' '.join(str(error).split())}") from None
        try:
            [application] = read["applications"]
            port = (read.get("http_options") or {}).get("port", DEFAULT_PORT)
            settings = dict(application.get("args") or {})
            model = settings.get("model_name", "")
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                f"{path} has no `applications` with one application: begin with serve_config.yaml"
            ) from None
        if not isinstance(port, int) or not isinstance(model, str):
            raise InputError(f"{path}: expected a number as http_options.port, and a name as args.model_name")
        return cls(port, model, settings)
