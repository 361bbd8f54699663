"""Language-model programs: next-token distributions, scores and samples from engines of several kinds.

``import wordbound.lm`` imports torch; what a backend needs beyond it is imported with the backend.
"""

import importlib
from typing import Any, Final

from wordbound.lm.base import AsyncLM
from wordbound.lm.loading import load_model_by_name
from wordbound.lm.mock_lm import MockAsyncLM

_LAZY: Final = {
    "AsyncTransformer": "transformers_lm",
    "AsyncVirtualLM": "vllm_lm",
    "HTTPLM": "http_lm",
    "ServeLM": "serve_lm",
}
"""Backends, by the module that has them."""

__all__ = [
    "HTTPLM",
    "AsyncLM",
    "AsyncTransformer",
    "AsyncVirtualLM",
    "MockAsyncLM",
    "ServeLM",
    "load_model_by_name",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
