"""A model of transformers that is small, and LoRA adapters for it, as folders."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

NUM_TOKENS: Final = 300


def save_model(folder: Path, vocab_size: int = NUM_TOKENS) -> Path:
    """Write a Llama of two layers; its heads are of a size that vLLM has on CPUs."""
    torch.manual_seed(2)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        initializer_range=0.1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are the bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def save_adapter(model: Path, folder: Path, *, seed: int = 0, rank: int = 4, **options: Any) -> Path:
    """Write an adapter whose rows are not the model's."""
    wanted = {"target_modules": ["q_proj", "v_proj", "down_proj"], "lora_alpha": 8, **options}
    tuned = get_peft_model(AutoModelForCausalLM.from_pretrained(model), LoraConfig(r=rank, **wanted))
    torch.manual_seed(seed)
    for name, parameter in tuned.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    tuned.save_pretrained(str(folder))
    return folder


def merged(model: Path, adapter: Path) -> Any:
    """Return a model with an adapter in its weights, as peft computes them."""
    from peft import PeftModel

    return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), adapter).merge_and_unload().eval()


def row_of(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        row: torch.Tensor = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
    return row


def damaged(adapter: Path, folder: Path, damage: Callable[[Path], object]) -> Path:
    shutil.copytree(adapter, folder)
    damage(folder)
    return folder


def with_weights(change: Callable[[str, torch.Tensor], Mapping[str, torch.Tensor]]) -> Callable[[Path], None]:
    """A damage: each tensor of a folder becomes what ``change`` says."""

    def damage(folder: Path) -> None:
        file = folder / "adapter_model.safetensors"
        changed: dict[str, torch.Tensor] = {}
        for name, tensor in load_file(file).items():
            changed |= change(name, tensor)
        save_file(changed, file)

    return damage


def with_config(**changed: Any) -> Callable[[Path], object]:
    """A damage: other entries in the configuration."""

    def damage(folder: Path) -> None:
        file = folder / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changed))

    return damage


DAMAGES: Final[Mapping[str, tuple[Callable[[Path], object], str]]] = {
    "no folder": (shutil.rmtree, "is no adapter: it needs adapter_config.json and adapter_model.safetensors"),
    "no weights": (lambda folder: (folder / "adapter_model.safetensors").unlink(), "is no adapter: it needs"),
    "cut weights": (
        lambda folder: (folder / "adapter_model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{"),
        "cannot be read: save it again",
    ),
    "cut configuration": (lambda folder: (folder / "adapter_config.json").write_text("{"), "cannot be read"),
    "a list": (lambda folder: (folder / "adapter_config.json").write_text("[]"), "cannot be read"),
    "another kind": (with_config(peft_type="IA3"), "is more than LoRA or something else"),
    "whole modules": (with_config(modules_to_save=["lm_head"]), "without modules_to_save"),
    "no tensors": (with_weights(lambda name, tensor: {}), "has no LoRA weights"),
    "other modules": (
        with_weights(lambda name, tensor: {name.replace("q_proj", "c_attn"): tensor}),
        "changes model.layers.0.self_attn.c_attn, which the model does not have",
    ),
    "more layers": (
        with_weights(lambda name, tensor: {name.replace("layers.1", "layers.9"): tensor}),
        "changes model.layers.9.* which the model does not have",
    ),
    "flat tensors": (
        with_weights(lambda name, tensor: {name: tensor.flatten()[:4].clone()}),
        "does not fit model.layers.0.mlp.down_proj, which has",
    ),
    "another size": (
        with_weights(lambda name, tensor: {name: tensor[:, :-2].contiguous() if "lora_A" in name else tensor}),
        "does not fit model.layers.0.mlp.down_proj, which has 128 features",
    ),
}
"""By name: what is done to a folder, and what the error says."""
