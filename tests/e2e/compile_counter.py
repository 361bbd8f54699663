"""Count what xgrammar compiles in all processes of a service, its engine's among them."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

COUNTED = "WORDBOUND_TEST_COMPILES"
"""The file that gets a line for each compile: the command line of the process."""


@contextmanager
def counted_compiles(folder: Path) -> Iterator[Callable[[], list[str]]]:
    """Has processes that start meanwhile count; yields what reads the lines so far."""
    counted = folder / "compiles"
    counted.touch()
    # Which Python imports in every process, before anything else.
    (folder / "sitecustomize.py").write_text("from tests.e2e.compile_counter import install\n\ninstall()\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(COUNTED, str(counted))
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield lambda: counted.read_text().splitlines()


def install() -> None:
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Replaces xgrammar's compiler when it is imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "xgrammar.compiler":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        loader: Any = spec.loader
        load = loader.exec_module

        def load_counting(module: Any) -> None:
            load(module)
            for kind in ("grammar", "json_schema", "regex", "structural_tag", "builtin_json_grammar"):
                _count(module.GrammarCompiler, f"compile_{kind}")

        loader.exec_module = load_counting
        return spec


def _count(compiler: Any, name: str) -> None:
    original = getattr(compiler, name)

    def counting(*args: Any, **kwargs: Any) -> Any:
        command = Path("/proc/self/cmdline").read_bytes().replace(b"\0", b" ").decode()
        with Path(os.environ[COUNTED]).open("a") as counted:
            counted.write(f"{name} in {command}\n")
        return original(*args, **kwargs)

    setattr(compiler, name, counting)
