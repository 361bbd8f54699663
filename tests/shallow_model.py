"""A copy of a Llama model without most of its layers."""

import json
import re
import shutil
from pathlib import Path
from typing import Final

from safetensors import safe_open
from safetensors.torch import save_file

NUM_LAYERS: Final = 4

_LAYER: Final = re.compile(r"model\.layers\.(\d+)\.")


def write_shallow_model(source: Path, target: Path) -> Path:
    """Write the model and its tokenizer with the first ``NUM_LAYERS`` layers, and return ``target``."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.safetensors"))
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, "num_hidden_layers": NUM_LAYERS}))
    with safe_open(source / "model.safetensors", framework="pt") as weights:
        names = [name for name in weights.keys() if _layer_of(name) < NUM_LAYERS]  # noqa: SIM118 - it is no mapping
        save_file({name: weights.get_tensor(name) for name in names}, target / "model.safetensors", {"format": "pt"})
    return target


def _layer_of(name: str) -> int:
    match = _LAYER.match(name)
    return int(match[1]) if match else 0
