"""``make constraints`` and ``make check-constraints``: ``python -m tools.pins [--check]``.

The constraint files have the versions of all extras. The locks have those of what is installed, with hashes, for
``pip install --no-deps --require-hashes -r``: for service on CPUs and on GPUs, and for development.

``uv pip compile`` resolves pyproject.toml with its extras for every supported Python at once. It keeps the versions
that the files name already, unless pyproject.toml forbids them: ``--upgrade-package NAME`` (or ``--upgrade``) is passed
on to it. Nothing is installed; of large wheels only the metadata is read.

The CPU stack asks for torch's CPU build, ``2.13.0+cpu``, which is not on PyPI, and whose index uv would have to be told
of. So an empty wheel with the metadata of that build stands in for it, and the CPU files leave torch out: pip installs
it from where it finds a CPU build.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wordbound.cli.service import LEFT_OUT, MISMATCHED

ROOT: Final = Path(__file__).parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13")
"""Those of ``requires-python``."""

TORCH: Final = "2.13.0+cpu"
TORCH_REQUIRES: Final = (
    "filelock",
    "typing-extensions>=4.10.0",
    "setuptools>=77.0.3",
    "sympy>=1.13.3",
    "networkx>=2.5.1",
    "jinja2",
    "fsspec>=0.8.5",
)
"""``Requires-Dist`` of the published CPU build; the build for CUDA has its libraries besides."""


@dataclass(frozen=True)
class Stack:
    """One file, and what it pins: the package with these extras, less ``left_out``, and ``besides``.

    A lock has hashes, and lines of ``constraints``.
    """

    file: str
    extras: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()
    constraints: str = ""


_FOR_BOTH: Final = ("demo", "s3", "gcs", "postgres", "redis", "bench", "dev")
_UNSEEN: Final = "intel-cmplr-lib-ur==2024.2.1 ; platform_machine == 'x86_64' and sys_platform == 'linux'"
"""intel-openmp asks for it in its wheel for Linux, and uv reads the wheel for Windows where it resolves for all."""

CPU: Final = Stack("constraints-cpu.txt", ("cpu", *_FOR_BOTH), left_out=("torch",), besides=(_UNSEEN,))
GPU: Final = Stack("constraints-gpu.txt", ("gpu", *_FOR_BOTH))
LOCKS: Final = (
    Stack("locks/cpu.txt", ("cpu",), ("torch", *LEFT_OUT), CPU.besides, CPU.file),
    Stack("locks/gpu.txt", ("gpu",), constraints=GPU.file),
    Stack("locks/dev.txt", ("cpu", "demo", "dev"), ("torch", *MISMATCHED), CPU.besides, CPU.file),
)


class ResolutionError(RuntimeError):
    """uv finds no versions, or others than the file has; the text says which."""


def compile_file(stack: Stack, output: Path, more: Sequence[str] = ()) -> None:
    """Write the file of a stack for all Pythons, with as few changes to ``output`` as pyproject.toml allows."""
    header = "make constraints"
    _uv(stack, ["--universal", "--output-file", str(output), "--custom-compile-command", header, *more])


def lock(stack: Stack, output: Path) -> None:
    """Write the lines of a constraint file that a stack needs, with the hashes of all files that the index has."""
    needed = {line.partition("==")[0] for resolved in _resolve(stack, ROOT / stack.constraints) for line in resolved}
    pins = (ROOT / stack.constraints).read_text(encoding="utf-8").splitlines()
    options = ["--universal", "--no-deps", "--generate-hashes", "--custom-compile-command", "make constraints"]
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "lines.txt")
        lines.write_text("\n".join(pin for pin in pins if pin.partition("==")[0] in needed), encoding="utf-8")
        output.parent.mkdir(exist_ok=True)
        _run(stack, [*options, "--output-file", str(output), str(lines)])


def check(stack: Stack, folder: Path = ROOT) -> None:
    """Resolve a stack under the constraints of its file for each Python.

    Raises:
        ResolutionError: It cannot be, or takes a package that the file does not name.
    """
    pins = folder / stack.file
    pinned = set(_requirements(pins.read_text(encoding="utf-8")))
    constraints = folder / (stack.constraints or stack.file)
    for python, resolved in zip(PYTHONS, _resolve(stack, constraints), strict=True):
        if loose := [requirement for requirement in resolved if requirement not in pinned]:
            raise ResolutionError(f"{stack.file} does not name {', '.join(loose)}: run `make constraints`")
        print(f"{stack.file}: {len(resolved)} packages for Python {python}", flush=True)


def _resolve(stack: Stack, constraints: Path) -> list[list[str]]:
    """Resolve a stack for each Python, under the constraints of a file."""

    def resolve(python: str) -> list[str]:
        return _requirements(_uv(stack, ["--python-version", python, "--constraints", str(constraints)]))

    # Most of the time is waiting for the index.
    with ThreadPoolExecutor() as threads:
        return list(threads.map(resolve, PYTHONS))


def write_stand_in(folder: Path) -> Path:
    """Write a wheel with no more than the metadata of torch's CPU build, for any machine and Python."""
    info = f"torch-{TORCH}.dist-info"
    requires = "".join(f"Requires-Dist: {requirement}\n" for requirement in TORCH_REQUIRES)
    path = folder / f"torch-{TORCH}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH}\n{requires}")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def _uv(stack: Stack, options: Sequence[str]) -> str:
    asked = [f"--extra={extra}" for extra in stack.extras]
    asked += [f"--no-emit-package={package}" for package in stack.left_out]
    with tempfile.TemporaryDirectory() as folder:
        besides = Path(folder, "besides.txt")
        besides.write_text("\n".join(stack.besides), encoding="utf-8")
        if "torch" in stack.left_out:
            write_stand_in(Path(folder))
            asked += ["--find-links", folder, "--no-emit-find-links"]
        return _run(stack, [*asked, *options, "pyproject.toml", str(besides)])


def _run(stack: Stack, arguments: Sequence[str]) -> str:
    # uv of this environment, or of the machine.
    beside = Path(sys.executable).with_name("uv")
    command = [str(beside) if beside.exists() else "uv", "pip", "compile", "--quiet", "--no-annotate", "--no-sources"]
    try:
        done = subprocess.run(
            [*command, *arguments], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True
        )
    except FileNotFoundError:
        raise ResolutionError("uv is not installed: pip install uv") from None
    except subprocess.CalledProcessError as error:
        raise ResolutionError(f"{stack.file} cannot be resolved:\n{error.stderr.strip()}") from None
    return done.stdout


def _requirements(text: str) -> list[str]:
    """Return the lines ``name==version``, in the order of the text, without markers, hashes and comments."""
    lines = (line.partition(";")[0].partition("#")[0].strip(" \\") for line in text.splitlines())
    return [line for line in lines if "==" in line]


def main(arguments: Sequence[str] | None = None) -> int:
    command = argparse.ArgumentParser(
        prog="python -m tools.pins", description="Makes the constraint files and locks, or checks them."
    )
    command.add_argument("--check", action="store_true", help="resolve under the files, for each Python; write nothing")
    asked, more = command.parse_known_args(arguments)
    try:
        for stack in (CPU, GPU, *LOCKS):
            if asked.check:
                check(stack)
            elif stack.constraints:
                lock(stack, ROOT / stack.file)
            else:
                compile_file(stack, ROOT / stack.file, more)
    except ResolutionError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
