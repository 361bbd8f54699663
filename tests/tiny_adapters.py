"""A model of two layers, with the demo's tokenizer or one of bytes, adapters for it, and what may be wrong with one.

Adapters are random, and far from each other.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WEIGHTS = ("model.safetensors", "config.json", "generation_config.json")

NUM_TOKENS: Final = 300
"""Of a model with the tokenizer of bytes; more than that has."""


def write_model(tokenizer_folder: Path | None, folder: Path) -> Path:
    """Write the model with everything of the tokenizer's folder but its weights; None for the tokenizer of bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes: dict[str, Any] = {"vocab_size": NUM_TOKENS}
    if tokenizer_folder is None:
        byte_tokenizer().save_pretrained(folder)
    else:
        for path in tokenizer_folder.iterdir():
            if path.is_file() and path.name not in WEIGHTS:
                shutil.copy(path, folder / path.name)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        sizes = {
            "vocab_size": len(tokenizer),
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        }
    torch.manual_seed(0)
    config = LlamaConfig(
        # The heads are of a size that vLLM has on CPUs.
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=1024,
        # Far from uniform, so that rounding changes no greedy text.
        initializer_range=0.3,
        **sizes,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are the bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def write_adapter(
    model: Path, folder: Path, card: dict[str, Any] | None = None, *, std: float = 0.3, **lora: Any
) -> Path:
    """Write an adapter for a model, by its folder's name, with a card if there is to be one."""
    torch.manual_seed(len(folder.name) + sum(map(ord, folder.name)))
    config = LoraConfig(
        **{"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"], "init_lora_weights": False}
        | lora
    )
    made = get_peft_model(AutoModelForCausalLM.from_pretrained(model), config)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, std)
    made.save_pretrained(folder, save_embedding_layers=False)
    if card is not None:
        (folder / "wordbound.json").write_text(json.dumps({"format": 1, **card}))
    return folder


def merged(model: Path, adapter: Path) -> Any:
    """Return a model with an adapter in its weights, as peft computes them."""
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
    "no folder": (shutil.rmtree, "there is no folder .*: expected one on every node, or a Hugging Face id"),
    "no weights": (lambda folder: (folder / "adapter_model.safetensors").unlink(), "has no adapter_model.safetensors"),
    "cut weights": (
        lambda folder: (folder / "adapter_model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{"),
        "adapter_model.safetensors cannot be read .*: save it again",
    ),
    "weights that end early": (
        lambda folder: (folder / "adapter_model.safetensors").write_bytes(
            (folder / "adapter_model.safetensors").read_bytes()[:-4]
        ),
        "the file is cut.*: save it again",
    ),
    "cut configuration": (
        lambda folder: (folder / "adapter_config.json").write_text("{"),
        "adapter_config.json cannot be read as JSON",
    ),
    "a list": (
        lambda folder: (folder / "adapter_config.json").write_text("[]"),
        "adapter_config.json is no JSON object",
    ),
    "another kind": (with_config(peft_type="IA3"), "has peft_type 'IA3', expected 'LORA'"),
    "whole modules": (with_config(modules_to_save=["lm_head"]), "the engine applies no modules_to_save: train one"),
    "a bias": (with_config(bias="all"), "the engine applies no bias: train one"),
    "no tensors": (with_weights(lambda name, tensor: {}), "adapter_model.safetensors is empty"),
    "numbers that are none": (
        with_weights(lambda name, tensor: {name: tensor * float("nan")}),
        "has numbers that are infinite or none.*: save it again",
    ),
    "other modules": (
        with_weights(lambda name, tensor: {name.replace("q_proj", "c_attn"): tensor}),
        "changes model.layers.0.self_attn.c_attn and 1 more, which the model does not have",
    ),
    "more layers": (
        with_weights(lambda name, tensor: {name.replace("layers.1", "layers.9"): tensor}),
        "changes model.layers.9.* which the model does not have",
    ),
    "flat tensors": (
        with_weights(lambda name, tensor: {name: tensor.flatten()[:4].clone()}),
        "has no matching pair of lora_A and lora_B for model.layers.0.mlp.down_proj",
    ),
    "another size": (
        with_weights(lambda name, tensor: {name: tensor[:, :-2].contiguous() if "lora_A" in name else tensor}),
        "is 64 × 128 in the model and 64 × 126 in the adapter",
    ),
}
"""By name: what is done to a folder, and what the error says."""
