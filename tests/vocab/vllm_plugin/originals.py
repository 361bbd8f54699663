"""vLLM's functions as they are without the plugin."""

import pkgutil
from typing import Any

import pytest


def restore_afterwards(monkeypatch: pytest.MonkeyPatch, target: str) -> tuple[Any, str, Any]:
    """Owner and name of a function of vLLM, ``module:name``, and the function, which is back now and after the test."""
    module, _, path = target.partition(":")
    parent, _, name = path.rpartition(".")
    owner = pkgutil.resolve_name(f"{module}:{parent}")
    function = getattr(owner, name)
    function = function.__wrapped__ if hasattr(function, "_wordbound_is_patched") else function
    monkeypatch.setattr(owner, name, function)
    return owner, name, function
