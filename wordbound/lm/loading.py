"""Models by name and backend."""

import importlib
from collections.abc import Mapping
from typing import Any, Final

import torch

from wordbound.lm.base import AsyncLM

BACKENDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "vllm": ("vllm_lm", "AsyncVirtualLM", "wordbound[cpu] or wordbound[gpu]"),
    "transformers": ("transformers_lm", "AsyncTransformer", "wordbound[lm]"),
    "hf": ("transformers_lm", "AsyncTransformer", "wordbound[lm]"),
    "mock": ("mock_lm", "MockAsyncLM", "wordbound[lm]"),
    "http": ("http_lm", "HTTPLM", "wordbound[lm]"),
}
"""By name: the module, the class, and what to install where an import fails."""


def load_model_by_name(name: str, backend: str | None = None, llm_opts: Mapping[str, Any] | None = None) -> AsyncLM:
    """Load a model by its name with one of the backends: vLLM, transformers, a service, or a mock.

    Args:
        name: The model's name at the Hugging Face Hub or its folder; for "http" the server's address.
        backend: "vllm", "transformers" (or "hf"), "mock" or "http". None is "vllm" where torch finds a CUDA device,
            else "transformers".
        llm_opts: Options of the backend's ``from_name``.

    Raises:
        ValueError: There is no such backend.
        ImportError: What the backend needs is not installed; the message says what to install.
    """
    if backend is None:
        backend = "vllm" if torch.cuda.is_available() else "transformers"
    if backend not in BACKENDS:
        raise ValueError(f"there is no backend {backend!r}: choose one of {', '.join(map(repr, BACKENDS))}")
    module, class_name, extra = BACKENDS[backend]
    try:
        kind = getattr(importlib.import_module(f"wordbound.lm.{module}"), class_name)
    except ModuleNotFoundError as error:
        raise ImportError(f"backend {backend!r} needs {error.name}: install {extra}", name=error.name) from error
    model: AsyncLM = kind.from_name(name, **(llm_opts or {}))
    return model


def load_tokenizer(name: str) -> Any:
    """Load the tokenizer that a model of ``wordbound.lm`` has in transformers; ValueError without one."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"transformers can load no tokenizer of {name}: put its files into the model's folder ({error})"
        ) from error
