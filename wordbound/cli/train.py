"""``wordbound train``: train an adapter for a word list, or a small decoder from nothing, in a process of its own."""

import os
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from wordbound.cli.children import check_installed, run_to_its_end
from wordbound.cli.commands import InputError

_DECODER_ONLY: Final = ("file_path", "vocab_size", "hidden_size", "num_layers", "num_heads", "context")
_ADAPTER_ONLY: Final = (
    "config", "model", "name", "lang", "words", "num_texts", "rounds", "prompts", "texts", "num_workers",
)  # fmt: skip


def train(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the run; the same command resumes there.")],
    task: Annotated[Literal["adapter", "decoder"], typer.Option(help="What is trained.")] = "adapter",
    config: Annotated[Path | None, typer.Option(metavar="YAML", help="Settings of an adapter.")] = None,
    model: Annotated[
        str | None, typer.Option(envvar="MODEL_NAME", metavar="NAME", help="Base model of an adapter: an id or folder.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The adapter's name.")] = None,
    lang: Annotated[str | None, typer.Option(metavar="TAG", help="The list, and the language of the prompts.")] = None,
    words: Annotated[str | None, typer.Option(metavar="N,N", help="Sizes of list that texts are written for.")] = None,
    num_texts: Annotated[int | None, typer.Option(min=1, help="Texts that are written.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Of texts and training.")] = None,
    prompts: Annotated[Path | None, typer.Option(metavar="FILE", help="Prompts of your own, one a line.")] = None,
    texts: Annotated[Path | None, typer.Option(metavar="FILE", help="Texts of your own to learn from.")] = None,
    num_workers: Annotated[int | None, typer.Option(min=1, help="Processes that train, one GPU each.")] = None,
    file_path: Annotated[Path | None, typer.Option(metavar="FILE", help="The text that a decoder learns.")] = None,
    vocab_size: Annotated[int | None, typer.Option(min=1, help="Tokens of a decoder.")] = None,
    hidden_size: Annotated[int | None, typer.Option(min=1, help="Width of a decoder.")] = None,
    num_layers: Annotated[int | None, typer.Option(min=1, help="Layers of a decoder.")] = None,
    num_heads: Annotated[int | None, typer.Option(min=1, help="Attention heads of a decoder.")] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Longest text of a decoder, tokens.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the texts.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Texts, or windows, of one step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(min=0, help="At its peak.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the order and the first weights.")] = None,
) -> None:
    """Train an adapter for a word list, or a small decoder from nothing.

    An adapter needs --model or --config; its texts are written by the model within the list, or given with --texts.
    The adapter is in OUT/adapter, for the setting lora. A decoder needs --file-path; OUT is its folder, for MODEL_NAME.
    """
    given = {option: value for option, value in locals().items() if option not in ("out", "task") and value is not None}
    check_installed("train", "peft")
    foreign = _ADAPTER_ONLY if task == "decoder" else _DECODER_ONLY
    # MODEL_NAME in the environment names no model for a decoder.
    if wrong := [option for option in foreign if option in given and option != "model"]:
        raise InputError(f"--{wrong[0].replace('_', '-')} is not for --task {task}: leave it out")
    if task == "decoder":
        if file_path is None:
            raise InputError("--task decoder needs --file-path, the text that it learns")
        given.pop("model", None)
        arguments = ["-m", "wordbound.train.decoder", "--output", str(out)]
    else:
        if model is None and config is None:
            raise InputError("name the base model: --model, or --config with a file that does")
        arguments = ["-m", "wordbound.train", str(out)]
    for option, value in given.items():
        arguments += [f"--{option.replace('_', '-')}", str(value)]
    run_to_its_end(arguments, os.environ, explains_errors=True)
