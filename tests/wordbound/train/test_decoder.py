"""Small decoders from texts of the tests' own: what is written, resumed and refused."""

import json
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from wordbound.train import DecoderConfig, TrainError, main, train_decoder

TINY: dict[str, Any] = {"vocab_size": 300, "hidden_size": 32, "num_layers": 1, "num_heads": 1, "context": 16}
TINY |= {"epochs": 2, "batch_size": 8, "sample_tokens": 8}
WORDS = [
    "the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "old", "dog", "that", "ran", "to", "its", "house", "in",
    "the", "rain",
]  # fmt: skip


class StoppedError(Exception):
    """Ends a training, as the end of its process would."""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Sentences of a few words, two in a document."""
    chosen = random.Random(1)
    sentences = [" ".join(chosen.choices(WORDS, k=6)) + "." for _ in range(240)]
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join("\n".join(sentences[i : i + 2]) for i in range(0, 240, 2)), encoding="utf-8")
    return file


def config_of(file: Path, **changed: Any) -> DecoderConfig:
    return DecoderConfig(file, file.with_name("model"), **{**TINY, **changed})


def train(config: DecoderConfig, stop_at: str = "never") -> list[str]:
    """Return the lines that were reported; stops at the first that begins with ``stop_at``."""
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        if line.startswith(stop_at):
            raise StoppedError

    train_decoder(config, report)
    return lines


def figures(config: DecoderConfig) -> dict[str, Any]:
    """Return ``training.json`` without what a clock measured."""
    found: dict[str, Any] = json.loads((config.output / "training.json").read_text())
    for epoch in found["epochs"]:
        del epoch["seconds"]
    return found


def weights(config: DecoderConfig) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = AutoModelForCausalLM.from_pretrained(config.output).state_dict()
    return state


def test_it_learns_and_writes_a_folder_that_transformers_loads(text: Path) -> None:
    config = config_of(text, epochs=4, learning_rate=1e-2)
    lines = train(config)
    epochs = figures(config)["epochs"]
    assert [epoch["epoch"] for epoch in epochs] == [1, 2, 3, 4]
    assert epochs[-1]["held_out_loss"] < epochs[0]["held_out_loss"] < 6
    assert len([line for line in lines if line.startswith("epoch")]) == 4
    tokenizer = AutoTokenizer.from_pretrained(config.output)
    model = AutoModelForCausalLM.from_pretrained(config.output)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == 0
    assert model.config.vocab_size == len(tokenizer)
    assert model.config.max_position_embeddings == tokenizer.model_max_length == 16
    assert not (config.output / "checkpoint.pt").exists()
    # The vocabulary has all bytes, and a question is a line before its answer.
    for odd in ("żółć 🙂 日本", "".join(map(chr, range(1, 300)))):
        assert tokenizer.decode(tokenizer.encode(odd)) == odd
    question = [{"role": "user", "content": "the cat"}]
    prompt = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
    assert prompt == "<|endoftext|>the cat\n"
    # One that is done is not trained again.
    before = (config.output / "model.safetensors").stat().st_mtime_ns
    again = train(config)
    assert [line for line in again if line.startswith("epoch")] == [line for line in lines if line.startswith("epoch")]
    assert (config.output / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("stop_at", ["epoch 1", "epoch 2"])
def test_a_stopped_training_ends_as_one_that_was_not(text: Path, stop_at: str) -> None:
    whole = replace(config_of(text, epochs=3), output=text.with_name("whole"))
    train(whole)
    config = config_of(text, epochs=3)
    with pytest.raises(StoppedError):
        train(config, stop_at)
    # What stands there can be used.
    weights(config)
    lines = train(config)
    assert len([line for line in lines if line.startswith("epoch")]) == 3
    assert figures(config) == figures(whole)
    expected = weights(whole)
    for name, tensor in weights(config).items():
        assert torch.equal(tensor, expected[name])


def test_what_is_held_out_is_not_trained_on(tmp_path: Path) -> None:
    """Words by chance are learned by heart, or not at all."""
    chosen, file = random.Random(1), tmp_path / "text.txt"
    file.write_text("\n\n".join(" ".join(chosen.choices(WORDS, k=6)) for _ in range(60)))
    config = config_of(file, epochs=40, held_out=0.5, learning_rate=0.01, hidden_size=64, batch_size=4)
    train(config)
    last = figures(config)["epochs"][-1]
    assert last["held_out_loss"] > last["train_loss"] + 1


def test_other_settings_or_another_text_are_refused(text: Path) -> None:
    config = config_of(text, epochs=1)
    train(config)
    with pytest.raises(TrainError, match=r"seed 0 \(now 3\): choose another output"):
        train(replace(config, seed=3))
    text.write_text(text.read_text() + "More.")
    with pytest.raises(TrainError, match="was trained with sha256"):
        train(config)


def test_settings_may_change_until_something_was_trained(text: Path) -> None:
    with pytest.raises(TrainError, match="give a longer text, or lower batch_size"):
        train(config_of(text, batch_size=4096))
    assert len(train(config_of(text, epochs=1))) == 3


def test_a_folder_of_something_else_is_not_written_into(text: Path) -> None:
    config = config_of(text)
    config.output.mkdir()
    (config.output / "model.safetensors").write_text("mine")
    with pytest.raises(TrainError, match="choose an output folder that is empty or new"):
        train(config)


def test_damaged_files_are_named(text: Path) -> None:
    config = config_of(text)
    with pytest.raises(StoppedError):
        train(config, "epoch 1")
    for name in ("checkpoint.pt", "training.json"):
        (config.output / name).write_bytes(b"{")
        with pytest.raises(TrainError, match=f"{name} is damaged"):
            train(config)


NO_TEXTS: list[tuple[bytes, str]] = [
    (b"", "has no text"),
    (b" \n\n \n", "has no text"),
    (b"too short", "has .* tokens, and these settings need about"),
    (b"text\n" * 3 + b"\0", "byte 15 is a NUL"),
    ("zwölf ".encode() + b"\xff", "byte 7 is no UTF-8"),
    ("zwölf".encode("latin-1"), "byte 2 is no UTF-8"),
    # Cut inside a character, at its end and at the end of a chunk.
    ("zwö".encode()[:-1], "byte 2 is no UTF-8"),
    (b"a" * ((1 << 20) - 1) + b"\xc3\x28", "byte 1048575 is no UTF-8"),
]


def test_what_is_no_text_or_setting_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    with pytest.raises(TrainError, match="there is no file"):
        train(config_of(file))
    for data, message in NO_TEXTS:
        file.write_bytes(data)
        with pytest.raises(TrainError, match=message):
            train(config_of(file))
    out_of_range: dict[str, list[float]] = {"epochs": [0], "vocab_size": [256, 65537], "hidden_size": [48]}
    for name, values in (out_of_range | {"held_out": [0.0], "learning_rate": [float("nan")]}).items():
        for value in values:
            with pytest.raises(TrainError, match=name):
                config_of(file, **{name: value})


def test_of_a_huge_file_only_the_beginning_is_read(text: Path) -> None:
    # 10 GB, of which the disk holds a few pages; the limit falls into a character.
    beginning = "z " + "ö" * 2 + text.read_text()
    text.write_text(beginning, encoding="utf-8")
    with text.open("r+b") as file:
        file.truncate(10_000_000_000)
    size = len(beginning.encode()) - 1
    [first, *_] = train(config_of(text, epochs=1, max_bytes=size))
    assert first.startswith(f"{size:,} of the 10,000,000,000 bytes")
    assert train(replace(config_of(text, epochs=1, max_bytes=3 + size // 2), output=text.with_name("half")))


def test_a_loss_that_is_no_number_is_an_error(text: Path) -> None:
    with pytest.raises(TrainError, match="lower learning_rate"):
        train(config_of(text, learning_rate=1e30))


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """Let larger files fail as those on a full disk do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.fault(66)
def test_a_full_disk_leaves_what_was_written_and_the_same_settings_resume(text: Path) -> None:
    config = config_of(text)
    with pytest.raises(StoppedError):
        train(config, "epoch 1")
    before = weights(config)
    for limit in (1000, (config.output / "model.safetensors").stat().st_size + 2000):
        with files_of_at_most(limit), pytest.raises(TrainError, match=f"cannot write into {config.output}: "):
            train(config)
        assert not [path for path in config.output.iterdir() if path.name.startswith(".") or "new" in path.name]
    assert weights(config).keys() == before.keys()
    train(config)
    assert len(figures(config)["epochs"]) == 2


def test_the_command_line_trains_and_says_what_to_change(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    output = str(text.with_name("model"))
    command = [output, "--task", "decoder", "--file-path", str(text), *options]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{output}\n"
    assert main([*command, "--seed", "2"]) == 2
    [line] = capsys.readouterr().err.splitlines()[1:]
    assert line.startswith("wordbound train: ") and "seed 0 (now 2)" in line
    assert main(["--task", "decoder", "--file-path", str(text)]) == 2
    assert "required: OUT" in capsys.readouterr().err
