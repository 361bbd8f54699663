"""A process where Triton interprets kernels, which it does where ``TRITON_INTERPRET`` is set before it is imported."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

import pytest

Interpreter = Callable[..., Any]


@contextmanager
def interpreting() -> Iterator[Interpreter]:
    """Call functions of modules in such a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        with ProcessPoolExecutor(1, get_context("spawn"), initializer=_patch_language_once) as pool:
            yield lambda function, *args: pool.submit(function, *args).result()


def _patch_language_once() -> None:
    """Triton puts its interpreter into its language and takes it out again at each call of each helper.

    That and its search for overflows are most of the time, and here nothing else uses the language.
    """
    from triton.runtime import interpreter

    patch_language, patched = interpreter._patch_lang, set[str]()

    def patch_once(function: Any) -> Any:
        # What is patched is in the globals of the function's module.
        if function.__module__ not in patched:
            patched.add(function.__module__)
            patch_language(function)
        return SimpleNamespace(restore=lambda: None)

    interpreter._patch_lang = patch_once
    interpreter.interpreter_builder.options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
