"""The model that an adapter is merged into: a folder in the cache, made once on each node.

An engine on a CPU writes a third of the tokens with vLLM's LoRA, and as many as ever with a merged model.
"""

import hashlib
import logging
import shutil
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import torch
from huggingface_hub import snapshot_download
from transformers import AutoConfig, AutoModelForCausalLM

from vocab.adapters import Adapter, AdapterError

logger = logging.getLogger("ray.serve")

_WEIGHT_SUFFIXES: Final = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"})
"""Of files that hold a model's weights; the index of several is JSON beside them."""


def base_folder(model: str) -> Path:
    """Return the folder of a model, fetched from Hugging Face where ``model`` is an id."""
    return Path(model).expanduser() if Path(model).expanduser().is_dir() else Path(snapshot_download(model))


def outline(model: str, *, trust_remote_code: bool = False) -> Any:
    """Return a model of transformers without its weights; reads its configuration only."""
    config = AutoConfig.from_pretrained(model, trust_remote_code=trust_remote_code)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)


def adaptable_layers(model: Any) -> list[str]:
    """Return the names of the layers that adapters may change: linear ones, without the head and embeddings."""
    head = model.get_output_embeddings()
    return sorted(
        {
            name.rsplit(".", 1)[-1]
            for name, module in model.named_modules()
            # GPT-2's have sizes of other names.
            if module is not head and (isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D")
        }
    )


def merge_model(model: str, adapter: Adapter, cache: Path, *, trust_remote_code: bool = False) -> Path:
    """Return the folder of a model with an adapter merged into its weights, made where it is not in the cache yet.

    Takes the memory of the model while it is made.

    Raises:
        AdapterError: peft cannot merge it.
        OSError: The model cannot be read, or the folder not be written.
    """
    base = base_folder(model)
    target = cache / f"{adapter.name.replace('/', '-')}-{_digest(base, adapter)}"
    if target.is_dir():
        return target
    begun = time.monotonic()
    cache.mkdir(parents=True, exist_ok=True)
    made = Path(mkdtemp(prefix=".merging-", dir=cache))
    try:
        _merge(base, adapter, made, trust_remote_code=trust_remote_code)
        _copy_rest(base, made)
        made.chmod(0o755)
        try:
            made.rename(target)
        except OSError:
            # Another replica of this node was faster.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    logger.info("merged the adapter %s into %s in %.0f s: %s", adapter.name, base, time.monotonic() - begun, target)
    return target


def _merge(base: Path, adapter: Adapter, target: Path, *, trust_remote_code: bool) -> None:
    from peft import PeftModel

    model = AutoModelForCausalLM.from_pretrained(base, dtype="auto", trust_remote_code=trust_remote_code)
    try:
        merged = PeftModel.from_pretrained(model, str(adapter.folder)).merge_and_unload(safe_merge=True)
    except (ValueError, RuntimeError, KeyError) as error:
        raise AdapterError(f"adapter {adapter.name}: peft cannot merge it into {base} ({error})") from error
    merged.save_pretrained(target)


def _copy_rest(base: Path, target: Path) -> None:
    """Copy what a model's folder has besides weights and its configuration: the tokenizer, templates, code."""
    for path in base.iterdir():
        is_weights = path.suffix in _WEIGHT_SUFFIXES or path.name.endswith(".index.json")
        if path.is_file() and not is_weights and not (target / path.name).exists():
            shutil.copy(path, target / path.name)


def _digest(base: Path, adapter: Adapter) -> str:
    digest = hashlib.sha256(f"{base.resolve()} {adapter.digest}".encode())
    for path in sorted(base.iterdir()):
        if path.is_file():
            digest.update(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()[:24]
