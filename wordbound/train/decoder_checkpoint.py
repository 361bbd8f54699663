"""Save and load the checkpoints of a decoder."""

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import GenerationConfig, PreTrainedTokenizerFast

from wordbound.train.options import END, TrainError
from wordbound.train.writing import write_bytes

CHAT_TEMPLATE: Final = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
"""A question is a line of a document that the answer continues."""
REPORT: Final = "training.json"
CHECKPOINT: Final = "checkpoint.pt"


# The folder.


def save_checkpoint(folder: Path, model: Any, tokenizer: Tokenizer, optimizer: Any, figures: dict[str, Any]) -> None:
    """Write the model, the figures and, last, the checkpoint; each file is replaced whole."""
    context, end = model.config.max_position_embeddings, model.config.eos_token_id
    model.generation_config = GenerationConfig(bos_token_id=end, eos_token_id=end, pad_token_id=end)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=END, model_max_length=context
    )
    fast.chat_template = CHAT_TEMPLATE
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "tokenizer": tokenizer.to_str(),
        "epochs": figures["epochs"],
    }
    written = io.BytesIO()
    torch.save(state, written)
    new = folder / ".new"
    with as_train_errors(folder):
        try:
            model.save_pretrained(new)
            fast.save_pretrained(new)
            for file in new.iterdir():
                file.replace(folder / file.name)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        write_bytes(folder / REPORT, json.dumps(figures, indent=1, ensure_ascii=False).encode())
        write_bytes(folder / CHECKPOINT, written.getbuffer())


def load_checkpoint(checkpoint: Path, device: torch.device) -> Any:
    """Load a checkpoint; None where there is none, TrainError where it is damaged."""
    if not checkpoint.exists():
        return None
    try:
        return torch.load(checkpoint, map_location=device, weights_only=True)
    except Exception as error:
        raise TrainError(f"{checkpoint} is damaged: delete it, and the training begins anew") from error


@contextmanager
def as_train_errors(folder: Path) -> Iterator[None]:
    """Turn a failed write into the folder into a TrainError."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TrainError(
            f"cannot write into {folder}: {reason}; what it has stays usable, and the same command resumes"
        ) from error
