"""Language-model programs: next-token distributions, scores and samples from engines of several kinds, and tries.

``import wordbound.lm`` imports torch; what a backend needs beyond it is imported with the backend.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from wordbound.lm.base import AsyncLM
from wordbound.lm.loading import load_model_by_name
from wordbound.lm.mock_lm import MockAsyncLM
from wordbound.lm.tokens import Token, decode_vocab

if TYPE_CHECKING:
    from wordbound.lm.transformers_lm import AsyncTransformer

_LAZY: Final = {
    "AsyncTransformer": "transformers_lm",
}
"""Backends, by the module that has them."""

__all__ = [
    "AsyncLM",
    "AsyncTransformer",
    "MockAsyncLM",
    "Token",
    "decode_vocab",
    "load_model_by_name",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
