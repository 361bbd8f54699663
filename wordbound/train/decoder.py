"""Train a small decoder and its tokenizer from nothing but a text file: ``wordbound train OUT --task decoder``.

The output is a folder of Hugging Face's format. It is written after each epoch, so that it can be served, and the
training resumed, whenever it was interrupted.
"""

import codecs
import dataclasses
import hashlib
import io
import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

from wordbound.train.options import END, DecoderConfig, TrainError
from wordbound.train.writing import write_bytes

CHAT_TEMPLATE: Final = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
"""A question is a line of a document that the answer continues."""
REPORT: Final = "training.json"
CHECKPOINT: Final = "checkpoint.pt"

_WARM_UP: Final = 0.05
"""Of all steps; then the learning rate falls by a cosine to a tenth."""
_REPORT_S: Final = 30
_BLANK_LINES: Final = re.compile(r"\n[ \t\r]*\n\s*")
_CHUNK_BYTES: Final = 1 << 20

Windows = npt.NDArray[np.uint16]
"""(n, context + 1): consecutive tokens; a window begins with the last token of the one before it."""


class Source:
    """The text file of a training, read as a stream and checked to its end.

    Raises:
        TrainError: It cannot be read, or is no text in UTF-8; of ``documents`` too, where the file is changed.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        if not path.is_file():
            raise TrainError(f"there is no file {path}: give the path of a text file")
        self.path = path
        self.size = path.stat().st_size
        self.num_bytes = min(self.size, max_bytes)
        digest = hashlib.sha256()
        num_documents = sum(is_end for _, is_end in self.documents(digest.update))
        if not num_documents:
            raise TrainError(f"{path} has no text: give a file with some")
        self.digest = digest.hexdigest()

    def documents(self, look: Callable[[bytes], object] = len) -> Iterator[tuple[str, bool]]:
        """Yield the file's documents, long ones in pieces of about a chunk, and whether each ends its document.

        ``look`` is called with all bytes, by chunks.
        """
        decoder = codecs.getincrementaldecoder("utf-8")()
        left = ""
        for start, chunk in self._chunks():
            look(chunk)
            if (found := chunk.find(0)) >= 0:
                raise self._binary(start + found, "a NUL")
            num_pending = len(decoder.getstate()[0])
            try:
                left += decoder.decode(chunk, start + len(chunk) == self.size)
            except UnicodeDecodeError as error:
                raise self._binary(start - num_pending + error.start, "no UTF-8") from error
            *paragraphs, left = _BLANK_LINES.split(left.removeprefix("\ufeff"))
            yield from ((text.strip(), True) for text in paragraphs if text.strip())
            if len(left) >= _CHUNK_BYTES:
                yield left, False
                left = ""
        if left.strip():
            yield left.strip(), True

    def _chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the chunks of the file that are used, each with its offset in bytes."""
        try:
            with self.path.open("rb") as file:
                for start in range(0, self.num_bytes, _CHUNK_BYTES):
                    yield start, file.read(min(_CHUNK_BYTES, self.num_bytes - start))
        except OSError as error:
            raise TrainError(f"cannot read {self.path}: {error.strerror}") from error

    def _binary(self, offset: int, what: str) -> TrainError:
        return TrainError(f"{self.path} is no text in UTF-8: byte {offset} is {what}; convert it to UTF-8 first")


def train_decoder(config: DecoderConfig, report: Callable[[str], None] = print) -> Path:
    """Train a decoder, or resume a training that was interrupted; return its folder.

    ``report`` is called with a line for each thing that happens.

    Raises:
        TrainError: The file, the settings, the folder or the disk do not allow it.
    """
    logging.disable_progress_bar()
    source = Source(config.file_path, config.max_bytes)
    settings = dataclasses.asdict(config) | {"file_path": config.file_path.name, "sha256": source.digest}
    del settings["output"]
    report(f"{source.num_bytes:,} of the {source.size:,} bytes of {config.file_path} are used")
    figures = _open_report(config.output, settings)
    if len(figures["epochs"]) < config.epochs:
        # The checkpoint is written last, and alone says how far the training came.
        _train(config, source, figures | {"epochs": []}, report)
    else:
        for epoch in figures["epochs"]:
            report(_line(epoch, config))
    with _as_train_errors(config.output):
        (config.output / CHECKPOINT).unlink(missing_ok=True)
    return config.output


def _open_report(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Read the folder's ``training.json``, or begin it where nothing was trained; TrainError for another run's."""
    path = folder / REPORT
    new = {"settings": settings, "epochs": []}
    with _as_train_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            if any(folder.iterdir()):
                raise TrainError(f"{folder} has other files: choose an output folder that is empty or new")
            write_bytes(path, json.dumps(new).encode())
    try:
        figures: dict[str, Any] = json.loads(path.read_bytes())
        old, epochs = figures["settings"], figures["epochs"]
    except (ValueError, KeyError, TypeError) as error:
        raise TrainError(f"{path} is damaged: choose another output folder, or delete this one") from error
    if not epochs:
        return new
    if changed := [name for name in settings if settings[name] != old.get(name)]:
        pairs = ", ".join(f"{name} {old.get(name)!r} (now {settings[name]!r})" for name in changed)
        raise TrainError(f"{folder} was trained with {pairs}: choose another output folder, or the same settings")
    return figures


def _train(config: DecoderConfig, source: Source, figures: dict[str, Any], report: Callable[[str], None]) -> None:
    """Train the epochs that are left, from the checkpoint on, and save the model after each."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    state = _load_checkpoint(config.output / CHECKPOINT, device)
    tokenizer = _train_tokenizer(config, source) if state is None else Tokenizer.from_str(state["tokenizer"])
    trained, held_out = _windows(config, source, tokenizer)
    torch.manual_seed(config.seed)
    model = _new_model(config, tokenizer).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
    figures |= {
        "num_bytes": source.num_bytes,
        "num_tokens": int(trained[:, 1:].size + held_out[:, 1:].size),
        "vocab_size": tokenizer.get_vocab_size(),
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    report(
        f"{figures['num_tokens']:,} tokens of a vocabulary of {figures['vocab_size']:,}, "
        f"{figures['num_parameters']:,} parameters, on {device.type}"
    )
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        figures["epochs"] = state["epochs"]
        for epoch in figures["epochs"]:
            report(_line(epoch, config))
    for number in range(len(figures["epochs"]), config.epochs):
        started = time.monotonic()
        figure: dict[str, Any] = {
            "epoch": number + 1,
            "train_loss": _epoch(config, model, optimizer, trained, number, report),
        }
        figure["held_out_loss"] = _loss_of(config, model, held_out)
        figure["sample"] = _sample(config, model, tokenizer, number)
        figure["seconds"] = round(time.monotonic() - started, 1)
        figures["epochs"].append(figure)
        _save_checkpoint(config.output, model, tokenizer, optimizer, figures)
        report(_line(figure, config))


def _line(figure: dict[str, Any], config: DecoderConfig) -> str:
    return (
        f"epoch {figure['epoch']} of {config.epochs}: loss {figure['train_loss']:.3f}, "
        f"held out {figure['held_out_loss']:.3f}, {figure['seconds']} s: {figure['sample']!r}"
    )


# The text.


def _train_tokenizer(config: DecoderConfig, source: Source) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((text for text, _ in source.documents()), trainer)
    return tokenizer


def _windows(config: DecoderConfig, source: Source, tokenizer: Tokenizer) -> tuple[Windows, Windows]:
    """Tokenize the text into windows; return those to train on and those held out, which are spread over it."""
    end = tokenizer.token_to_id(END)
    parts = [np.asarray([end], dtype=np.uint16)]
    for text, is_end in source.documents():
        # What the text itself calls END is text.
        ids = tokenizer.encode(text.replace(END, ""), add_special_tokens=False).ids
        parts.append(np.asarray([*ids, end] if is_end else ids, dtype=np.uint16))
    tokens = np.concatenate(parts)
    every = max(2, round(1 / config.held_out))
    num_windows = (len(tokens) - 1) // config.context
    is_held_out = np.arange(num_windows) % every == every - 1
    needed = max(every, config.batch_size * 2) * config.context
    if num_windows - is_held_out.sum() < config.batch_size or not is_held_out.any():
        raise TrainError(
            f"{config.file_path} has {len(tokens) - 1:,} tokens, and these settings need about {needed:,}: "
            "give a longer text, or lower batch_size or context"
        )
    windows = np.lib.stride_tricks.sliding_window_view(tokens, config.context + 1)[:: config.context][:num_windows]
    return windows[~is_held_out], windows[is_held_out]


# The model.


def _new_model(config: DecoderConfig, tokenizer: Tokenizer) -> Any:
    end = tokenizer.token_to_id(END)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=config.hidden_size,
            # As wide as Llama has it, in whole multiples of 32.
            intermediate_size=-(-config.hidden_size * 8 // 3 // 32) * 32,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_heads,
            max_position_embeddings=config.context,
            tie_word_embeddings=True,
            bos_token_id=end,
            # No pad_token_id: what embeds it would not be trained.
            eos_token_id=end,
        )
    )
    model.generation_config = GenerationConfig(bos_token_id=end, eos_token_id=end, pad_token_id=end)
    return model


def _epoch(
    config: DecoderConfig, model: Any, optimizer: Any, windows: Windows, number: int, report: Callable[[str], None]
) -> float:
    """Train on every window once; return the mean loss of a token, in nats."""
    num_steps = len(windows) // config.batch_size
    order = np.random.default_rng([config.seed, number]).permutation(len(windows))
    losses: list[float] = []
    reported = time.monotonic()
    model.train()
    for step in range(num_steps):
        for group in optimizer.param_groups:
            group["lr"] = _learning_rate(config, number * num_steps + step, config.epochs * num_steps)
        batch = windows[order[step * config.batch_size : (step + 1) * config.batch_size]]
        loss = _loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise TrainError(
                f"the loss is no number any more at step {step} of epoch {number + 1}: lower learning_rate"
            )
        if time.monotonic() > reported + _REPORT_S:
            reported = time.monotonic()
            report(f"epoch {number + 1} of {config.epochs}: step {step + 1:,} of {num_steps:,}, loss {losses[-1]:.3f}")
    return sum(losses) / num_steps


def _learning_rate(config: DecoderConfig, step: int, num_steps: int) -> float:
    """Return the learning rate of a step: a warm-up, then a cosine down to a tenth."""
    warm_up = max(1, int(num_steps * _WARM_UP))
    if step < warm_up:
        return config.learning_rate * (step + 1) / warm_up
    done = (step - warm_up) / max(1, num_steps - warm_up)
    return config.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def _loss(model: Any, windows: Windows) -> torch.Tensor:
    """Compute the mean loss of a token over windows, in nats."""
    ids = torch.from_numpy(windows.astype(np.int64)).to(model.device)
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


@torch.no_grad()
def _loss_of(config: DecoderConfig, model: Any, windows: Windows) -> float:
    """Evaluate the mean loss of a token over held-out windows, in batches, in nats."""
    model.eval()
    batches = [windows[start : start + config.batch_size] for start in range(0, len(windows), config.batch_size)]
    return sum(float(_loss(model, batch)) * len(batch) for batch in batches) / len(windows)


@torch.no_grad()
def _sample(config: DecoderConfig, model: Any, tokenizer: Tokenizer, number: int) -> str:
    """Sample a text from the model, with a seed of its own for each epoch."""
    end = torch.tensor([[model.config.eos_token_id]], device=model.device)
    torch.manual_seed(config.seed + number)
    most = max(min(config.sample_tokens, config.context - 1), 1)
    [ids] = model.generate(
        end, attention_mask=torch.ones_like(end), do_sample=True, temperature=0.8, top_k=0, max_new_tokens=most
    )
    return str(tokenizer.decode(ids.tolist(), skip_special_tokens=True))


# The folder.


def _save_checkpoint(folder: Path, model: Any, tokenizer: Tokenizer, optimizer: Any, figures: dict[str, Any]) -> None:
    """Write the model, the figures and, last, the checkpoint; each file is replaced whole."""
    context = model.config.max_position_embeddings
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
    with _as_train_errors(folder):
        try:
            model.save_pretrained(new)
            fast.save_pretrained(new)
            for file in new.iterdir():
                file.replace(folder / file.name)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        write_bytes(folder / REPORT, json.dumps(figures, indent=1, ensure_ascii=False).encode())
        write_bytes(folder / CHECKPOINT, written.getbuffer())


def _load_checkpoint(checkpoint: Path, device: torch.device) -> Any:
    """Load a checkpoint; None where there is none, TrainError where it is damaged."""
    if not checkpoint.exists():
        return None
    try:
        return torch.load(checkpoint, map_location=device, weights_only=True)
    except Exception as error:
        raise TrainError(f"{checkpoint} is damaged: delete it, and the training begins anew") from error


@contextmanager
def _as_train_errors(folder: Path) -> Iterator[None]:
    """Turn a failed write into the folder into a TrainError."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TrainError(
            f"cannot write into {folder}: {reason}; what it has stays usable, and the same command resumes"
        ) from error
