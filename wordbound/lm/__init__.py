"""Language-model programs: next-token distributions, scores and samples from engines of several kinds, and tries.

``import wordbound.lm`` imports torch; what a backend needs beyond it is imported with the backend.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from wordbound.lm.base import AsyncLM
from wordbound.lm.loading import load_model_by_name
from wordbound.lm.mock_lm import MockAsyncLM
from wordbound.lm.tokens import Token, decode_vocab
from wordbound.lm.tries.async_trie import AsyncTokenCharacterTrie
from wordbound.lm.tries.trie import ParallelTokenCharacterTrie, TokenCharacterTrie

if TYPE_CHECKING:
    from wordbound.lm.http_lm import HTTPLM
    from wordbound.lm.transformers_lm import AsyncTransformer
    from wordbound.lm.vllm_lm import AsyncVirtualLM
    from wordbound.lm.word_list import WordList

_LAZY: Final = {
    "HTTPLM": "http_lm",
    "AsyncTransformer": "transformers_lm",
    "AsyncVirtualLM": "vllm_lm",
    "WordList": "word_list",
}
"""By the module that has them."""

__all__ = [
    "HTTPLM",
    "AsyncLM",
    "AsyncTokenCharacterTrie",
    "AsyncTransformer",
    "AsyncVirtualLM",
    "MockAsyncLM",
    "ParallelTokenCharacterTrie",
    "Token",
    "TokenCharacterTrie",
    "WordList",
    "decode_vocab",
    "load_model_by_name",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
