"""A model of two layers with the demo's tokenizer, and adapters for it: random, and each far from the others."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

WEIGHTS = ("model.safetensors", "config.json", "generation_config.json")


def write_model(tokenizer_folder: Path, folder: Path) -> Path:
    """Write the model with everything of the tokenizer's folder but its weights."""
    folder.mkdir(parents=True)
    for path in tokenizer_folder.iterdir():
        if path.is_file() and path.name not in WEIGHTS:
            shutil.copy(path, folder / path.name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=1024,
        # Far from uniform, so that rounding changes no greedy text.
        initializer_range=0.3,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **sizes,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def write_adapter(model: Path, folder: Path, card: dict[str, Any] | None = None, **lora: Any) -> Path:
    """Write an adapter for a model, with a card if there is to be one."""
    torch.manual_seed(len(folder.name) + sum(map(ord, folder.name)))
    config = LoraConfig(
        **{"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"], "init_lora_weights": False}
        | lora
    )
    made = get_peft_model(AutoModelForCausalLM.from_pretrained(model), config)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, 0.3)
    made.save_pretrained(folder, save_embedding_layers=False)
    if card is not None:
        (folder / "wordbound.json").write_text(json.dumps({"format": 1, **card}))
    return folder
