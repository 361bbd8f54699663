"""LoRA adapters as files, in the format of peft; read and checked before an engine gets them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
_PREFIX: Final = "base_model.model."
_OTHER: Final = "give an adapter that was trained on this model"


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """An adapter: its folder, its rank, and by name its tensors."""

    folder: Path
    rank: int
    weights: Mapping[str, torch.Tensor]

    def check_modules(self, model: Any) -> None:
        """Check that a model of transformers, which may be on the device "meta", has the modules that this changes.

        Raises:
            ValueError: One is missing, or of another shape.
        """
        modules = dict(model.named_modules())
        for name, tensor in self.weights.items():
            path, _, side = name.removeprefix(_PREFIX).partition(".lora_")
            if ".experts" in path:
                # Engines and versions name these differently, and convert them.
                continue
            module = modules.get(path)
            if module is None:
                raise ValueError(f"adapter {self.folder} changes {path}, which the model does not have: {_OTHER}")
            wanted = {"A": getattr(module, "in_features", None), "B": getattr(module, "out_features", None)}
            # Embeddings and GPT-2's layers have other names for their sizes.
            size = wanted.get(side[:1])
            own = tensor.shape[1:2] if side[:1] == "A" else tensor.shape[:1]
            if size is not None and tuple(own) != (size,):
                raise ValueError(f"adapter {self.folder} does not fit {path}, which has {size} features: {_OTHER}")


def read_adapter(path: str) -> Adapter:
    """Read an adapter.

    Args:
        path: Its folder, or its name at the Hugging Face Hub.

    Raises:
        ValueError: There is none, it is damaged, or of a kind that no engine here has.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = _folder(path)
    try:
        config = json.loads((folder / CONFIG).read_bytes())
        kind, rank = config.get("peft_type"), config["r"]
        weights = load_file(folder / WEIGHTS)
    except FileNotFoundError as error:
        raise ValueError(f"{folder} is no adapter: it needs {CONFIG} and {WEIGHTS}, as peft saves them") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise ValueError(f"adapter {folder} cannot be read: save it again ({error!r})") from error
    if kind != "LORA" or config.get("modules_to_save") or config.get("bias", "none") != "none":
        raise ValueError(
            f"adapter {folder} is more than LoRA or something else: train one without modules_to_save and bias"
        )
    ranks = {tensor.shape[0] for name, tensor in weights.items() if ".lora_A." in name and tensor.dim()}
    if not ranks or not isinstance(rank, int):
        raise ValueError(f"adapter {folder} has no LoRA weights: save it again")
    return Adapter(folder, max(ranks | {rank}), weights)


def _folder(path: str) -> Path:
    folder = Path(path)
    if folder.is_dir() or folder.is_absolute() or path.startswith("."):
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(path, allow_patterns=[CONFIG, WEIGHTS]))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no folder, and no adapter at the Hugging Face Hub: check the name") from error
