"""The settings and options of ``wordbound train``, also for the command line, which has no torch."""

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, NoReturn, cast, get_args

from typing_extensions import override

Task = Literal["adapter", "decoder"]

END: Final = "<|endoftext|>"
"""Ends each document of a decoder's text, and begins each prompt."""

_HEAD_SIZES: Final = (32, 64, 96, 128, 160, 192, 224, 256)
"""The multiples of 32 that vLLM's attention has on CPUs and GPUs."""


class TrainError(Exception):
    """Training cannot begin or go on; the text says what to change. What was written stays."""


def _option(default: float, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class TrainingSettings:
    """How an adapter is trained.

    Attributes:
        dtype: Of the base model; the adapter's own weights are trained in float32. ``auto`` is bfloat16 on a GPU and
            float32 on a CPU; bfloat16 took 4.2 s a step and float32 5.2 s on two cores that compute in it.
        use_gpu: Whether each process has a GPU.

    Raises:
        ValueError: A setting is out of its range.
    """

    rank: int = _option(8, "LoRA's r; the adapter has r * (in + out) weights for each linear layer")
    alpha: int = _option(16, "LoRA's scale times its rank")
    epochs: int = _option(3, "passes over the texts, at most")
    batch_size: int = _option(8, "texts of one step, all processes together")
    accumulation: int = _option(1, "parts that each process computes its share of a step in, to save memory")
    learning_rate: float = _option(1e-3, "AdamW's, at its peak")
    warmup_steps: int = _option(10, "steps until that peak; then it falls linearly to 0")
    mass_weight: float = _option(1.0, "weight of the masks' part of the loss")
    evaluations: int = _option(4, "evaluations on the held-out texts in each epoch; each writes a checkpoint")
    patience: int = _option(4, "evaluations without a lower held-out loss after which training stops")
    held_out: float = _option(0.05, "share of the texts that is held out")
    seed: int = _option(0, "of the order of the texts and the first weights")
    dtype: str = "auto"
    num_workers: int = _option(1, "processes that train, which share the processors or have one GPU each")
    use_gpu: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "num_workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.learning_rate < 0:
            raise ValueError(f"learning_rate must be at least 0, not {self.learning_rate}")
        if self.batch_size < self.num_workers * self.accumulation:
            raise ValueError(
                f"batch_size={self.batch_size}: expected at least a text for each part of {self.accumulation} of each "
                f"of the {self.num_workers} workers"
            )


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """The settings of a decoder's training.

    Raises:
        TrainError: A setting is out of its range.
    """

    file_path: Path = field(metadata={"help": "a text file in UTF-8; blank lines separate its documents"})
    output: Path
    vocab_size: int = _option(4096, "tokens of the vocabulary, 257 to 65536")
    hidden_size: int = _option(128, "width of the model, 32 to 256 times num-heads")
    num_layers: int = _option(4, "layers")
    num_heads: int = _option(4, "attention heads of each layer")
    context: int = _option(128, "tokens that the model sees at once")
    epochs: int = _option(3, "passes over the text")
    batch_size: int = _option(32, "windows of context tokens in a step")
    learning_rate: float = _option(3e-3, "the highest, after the warm-up")
    seed: int = _option(0, "of the first weights, the order of the text and the samples")
    held_out: float = _option(0.05, "share of the text that is not trained on, above 0 to 0.5")
    max_bytes: int = _option(256 << 20, "bytes of the file that are used, from its beginning")
    sample_tokens: int = _option(60, "tokens of the text that is sampled after each epoch")

    def __post_init__(self) -> None:
        for name in ("num_layers", "num_heads", "context", "epochs", "batch_size", "max_bytes", "sample_tokens"):
            if getattr(self, name) < 1:
                raise TrainError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 257 <= self.vocab_size <= 1 << 16:
            raise TrainError(f"vocab_size must be from 257 (all bytes and {END}) to 65536, not {self.vocab_size}")
        if self.hidden_size not in [size * self.num_heads for size in _HEAD_SIZES]:
            sizes = ", ".join(str(size * self.num_heads) for size in _HEAD_SIZES[:4])
            raise TrainError(f"hidden_size must be {sizes} … for {self.num_heads} heads, not {self.hidden_size}")
        if not (0 < self.held_out <= 0.5 and 0 < self.learning_rate < math.inf and self.seed >= 0):
            raise TrainError("held_out must be above 0 to 0.5, learning_rate above 0 and seed at least 0")


class Parsed(NamedTuple):
    """What a command line of ``wordbound train`` asks for.

    Attributes:
        out: The folder of the run.
        serve: The YAML file of a service that is to serve the result; None without one.
        options: Those that are given, by the names of the task's settings.
    """

    out: Path
    task: Task
    serve: Path | None
    options: dict[str, Any]


def parse(arguments: Sequence[str]) -> Parsed:
    """Parse a command line; ``--help`` is printed, and ends the program.

    Raises:
        TrainError: An option is unknown, bad or missing, or belongs to the other task.
    """
    parser, tasks_of = _build_parser()
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    out, task, serve = given.pop("out"), given.pop("task"), given.pop("serve", None)
    if wrong := [name for name in given if task not in tasks_of[name]]:
        option = "words" if wrong[0] == "word_counts" else wrong[0].replace("_", "-")
        raise TrainError(f"--{option} is not for --task {task}: leave it out")
    if task == "decoder" and "file_path" not in given:
        raise TrainError("--task decoder needs --file-path, the text that it learns")
    # In the environment it names no model for a decoder.
    if task == "adapter" and (model := os.environ.get("MODEL_NAME")):
        given.setdefault("model", model)
    if task == "adapter" and not given.keys() & {"model", "config"}:
        raise TrainError("name the base model: --model, or --config with a file that does")
    return Parsed(out, task, serve, given)


def _build_parser() -> tuple[argparse.ArgumentParser, dict[str, set[Task]]]:
    """Return the parser, and by the name of each setting the tasks that have it."""
    parser = _Parser(
        "wordbound train",
        usage="%(prog)s OUT [--task {adapter,decoder}] [options]",
        description="Train an adapter for a word list, or a small decoder from nothing. An adapter needs --model or "
        "--config; its texts are written by the model within the list, or given with --texts. The adapter is in "
        "OUT/adapter, for the setting lora. A decoder needs --file-path; OUT is its folder, for MODEL_NAME.",
        allow_abbrev=False,
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="folder of the run; the same command resumes there")
    parser.add_argument("--task", choices=get_args(Task), default="adapter", help="what is trained (default: adapter)")
    parser.add_argument("--serve", metavar="YAML", type=Path, help="then serve it, with this file of a service")
    groups = {
        "adapter": parser.add_argument_group("an adapter"),
        "decoder": parser.add_argument_group("a decoder"),
        "both": parser.add_argument_group("both"),
    }
    tasks_of: dict[str, set[Task]] = {}
    for option, metavar, kind, text in (
        ("--config", "YAML", Path, "a file of its settings"),
        ("--model", "NAME", str, "base model: an id or a folder (default: MODEL_NAME of the environment)"),
        ("--name", "NAME", str, "the adapter's name"),
        ("--lang", "TAG", str, "the list, and the language of the prompts"),
        ("--words", "N,N", numbers, "sizes of list that texts are written for"),
        ("--num-texts", "N", int, "texts that are written"),
        ("--rounds", "N", int, "of texts and training"),
        ("--prompts", "FILE", Path, "prompts of your own, one a line"),
        ("--texts", "FILE", Path, "texts of your own to learn from"),
    ):
        name = "word_counts" if option == "--words" else option.strip("-").replace("-", "_")
        tasks_of[name] = {"adapter"}
        groups["adapter"].add_argument(option, metavar=metavar, dest=name, type=kind, help=text)
    settings: dict[str, dict[Task, Any]] = {}
    for task, config in (("adapter", TrainingSettings), ("decoder", DecoderConfig)):
        for one in fields(config):
            if one.metadata:
                settings.setdefault(one.name, {})[cast("Task", task)] = one
    for name, by_task in settings.items():
        tasks_of[name] = set(by_task)
        group = groups["both" if len(by_task) > 1 else next(iter(by_task))]
        kind = next(iter(by_task.values())).type
        text = " / ".join(map(_help, by_task.values()))
        group.add_argument(f"--{name.replace('_', '-')}", metavar=_METAVARS[kind], type=kind, help=text)
    return parser, tasks_of


_METAVARS: Final[dict[Any, str]] = {int: "N", float: "X", Path: "FILE"}


class _Parser(argparse.ArgumentParser):
    @override
    def error(self, message: str) -> NoReturn:
        raise TrainError(f"{message} (see wordbound train --help)")


def numbers(text: str) -> list[int]:
    """Parse integers with commas between them, such as ``500,1000``."""
    return [int(part) for part in text.split(",")]


def _help(one: Field[Any]) -> str:
    text: str = one.metadata["help"]
    return text if one.default is MISSING else f"{text} (default: {one.default})"
