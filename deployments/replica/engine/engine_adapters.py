"""The adapters that an engine starts with: given to vLLM as arguments, or one of them merged into the model before.

A merged model is a folder in the cache, made once on each node: an engine on a CPU writes a third of the tokens with
vLLM's LoRA, and as many as ever with a merged model.
"""

import hashlib
import logging
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, Self

import torch
import vllm
from huggingface_hub import snapshot_download
from ray.serve.llm import LLMConfig
from transformers import AutoConfig, AutoModelForCausalLM
from vllm.platforms import current_platform

from deployments.adapter_files import Adapter, AdapterError, Shape, module_shapes, smallest_rank
from deployments.adapter_register import Register
from deployments.settings.service import Settings, cache_dir
from vocab.vllm_plugin.patches import CPU_ADAPTERS

logger = logging.getLogger("ray.serve")

_MOST_AT_ONCE: Final = 8
"""Adapters in one step of the engine; each costs memory for the largest rank, whether it is used or not."""

_LEAST_AT_ONCE: Final = 4
"""Where some may be loaded at run time."""

_READ_AT_ONCE: Final = 16
"""Adapters in the memory of an engine's node, where some may be loaded at run time. vLLM reads one that it has dropped
from its folder again."""

_WEIGHT_SUFFIXES: Final = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"})
"""Of files that hold a model's weights; the index of several is JSON beside them."""


@dataclass(frozen=True)
class EngineAdapters:
    """The adapters of one engine.

    Attributes:
        model_id: The name of the base model.
        adapters: Those of the settings, by name.
        merged: The adapter that is part of the model's weights, if any.
        model: The folder of the model with that adapter.
        register: Those that are loaded at run time; None where none are.
        arguments: vLLM's, where there are any that are not merged.
        model_name: The model's Hugging Face id or folder.
        modules: The shape of each module of the model that has a weight.
    """

    model_id: str
    adapters: Mapping[str, Adapter]
    merged: str | None = None
    model: Path | None = None
    register: Register | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    model_name: str = ""
    modules: Mapping[str, Shape] = field(default_factory=dict)

    @classmethod
    def read(cls, settings: Settings) -> Self:
        """Read and check the adapters of the settings on this node, and merge the one that is to be merged.

        Raises:
            AdapterError: One cannot be served, or this vLLM serves none.
        """
        adapters = {name: Adapter.read(name, source) for name, source in settings.lora.items()}
        merged, register = settings.merged_adapter, Register.of(settings)
        if not adapters and register is None:
            return cls(settings.model_id, adapters)
        trust = settings.trust_remote_code
        base = outline(settings.model_name, trust_remote_code=trust)
        modules = module_shapes(base)
        if merged is not None:
            adapters[merged].check_model(modules, settings.model_name)
            cache = cache_dir() / "merged"
            model = merge_model(settings.model_name, adapters[merged], cache, trust_remote_code=trust)
            return cls(settings.model_id, adapters, merged, model)
        _check_platform()
        arguments = lora_arguments(settings, adapters.values(), None if register is None else adaptable_layers(base))
        made = cls(
            settings.model_id,
            adapters,
            register=register,
            arguments=arguments,
            model_name=settings.model_name,
            modules=modules,
        )
        for adapter in adapters.values():
            made.check(adapter)
        return made

    def check(self, adapter: Adapter) -> None:
        """Refuse an adapter that the engine cannot apply beside its model.

        Raises:
            AdapterError: It cannot.
        """
        adapter.check_model(self.modules, self.model_name)
        adapter.check_engine(int(self.arguments["max_lora_rank"]))
        names = self.arguments["lora_target_modules"]
        if others := [module for module in sorted(adapter.shapes) if module.rsplit(".", 1)[-1] not in names]:
            raise AdapterError(
                f"adapter {adapter.name}: the engine applies nothing to {others[0]}: train one of linear layers "
                f"({', '.join(names)})"
            )

    def configure(self, config: LLMConfig) -> None:
        """Set in the engine's configuration the merged model, or vLLM's arguments for adapters."""
        engine = config.get_engine_config()
        if self.model is not None:
            config.model_loading_config.model_source = engine.hf_model_id = str(self.model)
        # Ray made the second copy where the application was built, which may be another machine.
        for kwargs in (config.engine_kwargs, engine.engine_kwargs):
            kwargs.update(self.arguments)


def lora_arguments(settings: Settings, adapters: Collection[Adapter], targets: list[str] | None) -> dict[str, Any]:
    """Return vLLM's arguments for serving these adapters; those that the settings give stay.

    ``targets`` are the layers that adapters loaded at run time may change; None where none are loaded.

    Raises:
        AdapterError: The rank of one is larger than vLLM takes.
    """
    loads = targets is not None
    given = settings.engine_kwargs
    largest = smallest_rank(adapters)
    most = given.get("max_loras") or min(max(len(adapters), _LEAST_AT_ONCE if loads else 1), _MOST_AT_ONCE)
    arguments = {
        "enable_lora": True,
        # vLLM 0.29 would also wrap the language model's head, and then fails on a request for the log-probabilities of
        # its prompt: on a CPU the engine dies of a wrong shape.
        "lora_target_modules": targets
        or sorted({module.rsplit(".", 1)[-1] for adapter in adapters for module in adapter.shapes}),
        "max_loras": most,
        "max_cpu_loras": max(len(adapters), most, _READ_AT_ONCE if loads else 1),
        "max_lora_rank": max(largest, smallest_rank(())) if loads else largest,
    }
    return arguments | {name: given[name] for name in arguments.keys() & given.keys() - {"lora_target_modules"}}


def _check_platform() -> None:
    if current_platform.is_cpu() and not CPU_ADAPTERS.install():
        raise AdapterError(
            f"lora: vLLM {vllm.__version__} cannot keep adapters away from requests that have none on a CPU: install "
            f"{' or '.join(sorted(CPU_ADAPTERS.vllm_versions))}, or serve one adapter with lora_merge: true"
        )


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
