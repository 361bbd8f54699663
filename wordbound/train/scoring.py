"""How likely texts are to the base model, which did not write them."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wordbound.train.filters import Text
from wordbound.train.losses import encode_examples, loss_sums
from wordbound.train.writing import write_text

SCORES: Final = "bits.json"


def score_texts(model: str, tokenizer: Any, texts: Sequence[Text], folder: Path) -> list[Text]:
    """Return the texts with their bits a character under a model, given their prompts alone.

    The scores stay in ``folder/bits.json``, and are read from there by the next run.
    """
    path = folder / SCORES
    if not path.exists():
        import ray
        import torch

        # In a process of its own, whose end frees the GPU.
        task = ray.remote(num_gpus=float(torch.cuda.is_available()))(_bits_per_char)
        write_text(path, json.dumps(ray.get(task.remote(model, tokenizer, list(texts)))))
    bits = json.loads(path.read_text(encoding="utf-8"))
    return [replace(text, bits_per_char=one) for text, one in zip(texts, bits, strict=True)]


def _bits_per_char(model: str, tokenizer: Any, texts: Sequence[Text]) -> list[float]:
    import torch
    from transformers import AutoModelForCausalLM

    device = "cuda" if torch.cuda.is_available() else "cpu"
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16).to(device).eval()
    asked = [
        {"messages": [{"role": "user", "content": text.prompt}], "text": text.text, "has_end": text.has_end}
        for text in texts
    ]
    bits = []
    with torch.inference_mode():
        for text, example in zip(texts, encode_examples(tokenizer, asked), strict=True):
            losses = loss_sums(loaded, [example], padding=0)
            bits.append(float(losses.cross_entropy) / math.log(2) / max(len(text.text), 1))
    return bits
