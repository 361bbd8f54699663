"""Training with Ray Train and peft, on a model of two layers: batches, resuming after a kill, the adapter's files."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from deployments.adapter_files import Adapter
from tests.pages import ROOT
from tests.tiny_adapters import write_model
from wordbound.lm import WordList
from wordbound.train import TrainConfig, TrainingSettings
from wordbound.train.losses import Example, Masks, encode_examples, loss_sums, split_held_out
from wordbound.train.training import batches_of, learning_rate_at

SETTINGS = TrainingSettings(rank=2, epochs=2, batch_size=4, learning_rate=3e-3, warmup_steps=2, evaluations=2)
SENTENCES = [f"The {noun} {verb} in the {place}." for noun in ("dog", "king", "rain") for verb in ("sat", "ran", "was")
             for place in ("house", "river", "city")]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Path:
    return write_model(smollm2_path, tmp_path_factory.mktemp("model") / "tiny-model")


def examples_of(model: Path) -> list[Example]:
    texts = [{"messages": [{"role": "user", "content": "Go on."}], "text": one, "has_end": True} for one in SENTENCES]
    return encode_examples(AutoTokenizer.from_pretrained(model), texts)


def test_the_settings_of_the_demos_adapter_are_a_configuration() -> None:
    config = TrainConfig.load(ROOT / "configs" / "train" / "demo.yaml", {"model": "some/model"})
    assert (config.adapter_name, config.training.rank) == ("simple-en", 8)


@torch.inference_mode()
def test_the_loss_is_that_of_the_answers_alone(model: Path) -> None:
    loaded = AutoModelForCausalLM.from_pretrained(model)
    examples = [Example([5, 6, 7], [8, 9]), Example([5], [10, 11, 12])]
    expected = -sum(float(row[token]) for example in examples for row, token in rows_of(loaded, example))
    losses = loss_sums(loaded, examples, padding=0)
    assert losses.num_tokens == 5
    assert math.isclose(float(losses.cross_entropy), expected, rel_tol=1e-4)
    assert float(losses.log_mass) == 0


def rows_of(loaded: Any, example: Example) -> list[tuple[torch.Tensor, int]]:
    """The log-probabilities before each token of an answer, and that token."""
    log_p = loaded(torch.tensor([[*example.prompt, *example.answer]])).logits[0].log_softmax(-1)
    return [(log_p[len(example.prompt) - 1 + place], token) for place, token in enumerate(example.answer)]


@torch.inference_mode()
def test_the_masks_part_of_the_loss_is_what_the_list_forbids(model: Path) -> None:
    loaded, tokenizer = AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    asked = {"messages": [{"role": "user", "content": "Go on."}], "has_end": True, "lang": "en"}
    texts = [{"text": "The dog sat in the house.", "n_words": 3000}, {"text": "A man.", "n_words": 300}]
    examples = encode_examples(tokenizer, [asked | text for text in texts])
    expected = 0.0
    for example in examples:
        words = WordList("en", example.n_words, tokenizer)
        state = words.start
        for row, token in rows_of(loaded, example):
            expected -= words.log_mass(state, row[: words.vocab_size])
            state = words.next(state, token)
    losses = loss_sums(loaded, examples, padding=0, masks=Masks(tokenizer))
    assert math.isclose(float(losses.log_mass), expected, rel_tol=1e-4)
    assert 0 < expected < float(losses.cross_entropy)


def test_nothing_is_forbidden_from_a_word_on_that_is_not_in_the_list(model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    asked = {"messages": [{"role": "user", "content": "Go on."}], "has_end": True, "lang": "en", "n_words": 300}
    [example] = encode_examples(tokenizer, [asked | {"text": "The xylophone was there."}])
    forbidden = Masks(tokenizer).forbidden([example], len(tokenizer))
    assert forbidden[0].any()
    assert not forbidden[1:].any()
    free = example._replace(lang=None)
    assert not Masks(tokenizer).forbidden([free], len(tokenizer)).any()


def test_a_text_that_was_cut_teaches_no_end(model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    asked = {"messages": [{"role": "user", "content": "Hello"}], "text": "A dog."}
    whole, cut = encode_examples(tokenizer, [{**asked, "has_end": True}, {**asked, "has_end": False}])
    assert whole.answer == [*cut.answer, tokenizer.eos_token_id]
    assert whole.prompt == cut.prompt
    assert tokenizer.decode(cut.answer) == "A dog."


def test_each_epoch_has_every_example_once_in_an_order_of_its_own() -> None:
    first, second = (list(batches_of(8, SETTINGS, epoch)) for epoch in (0, 1))
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(8))
    assert first == list(batches_of(8, SETTINGS, 0)) != second


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [learning_rate_at(step, 10, SETTINGS) for step in range(10)]
    assert max(rates) == rates[1] <= SETTINGS.learning_rate
    assert rates[1:] == sorted(rates[1:], reverse=True)


def test_some_examples_are_held_out_and_never_trained_on() -> None:
    examples = [Example([number], [number]) for number in range(20)]
    training, held_out = split_held_out(examples, 0.1, 0)
    assert len(held_out) == 2
    assert sorted(training + held_out) == examples


_PROGRAM = """
import sys, json, ray
from pathlib import Path
from tests.wordbound.train.test_training import SETTINGS, examples_of
from wordbound.train import train_adapter
from dataclasses import replace
model, out, num_workers = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
ray.init(num_cpus=2, include_dashboard=False)
settings = replace(SETTINGS, num_workers=num_workers)
print("figures", json.dumps(train_adapter(str(model), examples_of(model), out, settings)))
"""


def start(model: Path, out: Path, num_workers: int = 1) -> subprocess.Popen[str]:
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-c", _PROGRAM, str(model), str(out), str(num_workers)]
    return subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def figures_of(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    output, _ = process.communicate(timeout=180)
    [line] = [line for line in output.splitlines() if line.startswith("figures ")] or pytest.fail(output[-3000:])
    evaluations: list[dict[str, Any]] = json.loads(line.removeprefix("figures "))["evaluations"]
    return evaluations


@pytest.mark.stress
@pytest.mark.e2e
def test_a_training_that_is_killed_ends_with_the_same_figures(model: Path, tmp_path: Path) -> None:
    whole = figures_of(start(model, tmp_path / "whole"))
    killed = start(model, tmp_path / "killed")
    deadline = time.monotonic() + 120
    while not list((tmp_path / "killed").glob("checkpoints/checkpoint_*/figures.json")):
        assert killed.poll() is None, killed.communicate()[0][-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    resumed = figures_of(start(model, tmp_path / "killed"))
    assert json.dumps(resumed) == json.dumps(whole)
    losses = [one["held_out_loss"] for one in whole]
    assert losses[-1] < 0.8 * losses[0]
    assert Adapter.read("words", str(tmp_path / "whole" / "adapter")).rank == SETTINGS.rank


@pytest.mark.stress
@pytest.mark.e2e
def test_two_workers_follow_one(model: Path, tmp_path: Path) -> None:
    one, two = (figures_of(start(model, tmp_path / str(number), number)) for number in (1, 2))
    assert [figure["step"] for figure in one] == [figure["step"] for figure in two]
    for figure, other in zip(one, two, strict=True):
        assert math.isclose(figure["held_out_loss"], other["held_out_loss"], rel_tol=0.05)
