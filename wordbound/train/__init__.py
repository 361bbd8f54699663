"""Adapters that make a model write better within word lists: have texts written, choose them, and train on them."""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wordbound.train.__main__ import main
    from wordbound.train.config import TrainConfig
    from wordbound.train.decoder import train_decoder
    from wordbound.train.options import DecoderConfig, TrainError, TrainingSettings
    from wordbound.train.training import train_adapter

_LAZY: Final = {
    "DecoderConfig": "options",
    "TrainConfig": "config",
    "TrainError": "options",
    "TrainingSettings": "options",
    "main": "__main__",
    "train_adapter": "training",
    "train_decoder": "decoder",
}
"""By the module that has them: torch and transformers are imported where they are needed."""

__all__ = [
    "DecoderConfig",
    "TrainConfig",
    "TrainError",
    "TrainingSettings",
    "main",
    "train_adapter",
    "train_decoder",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
