"""Train a LoRA adapter on texts written within word lists: transformers' Trainer and peft, on workers of Ray Train.

The loss is the cross entropy of the answers' tokens and, times ``mass_weight``, -log of the probability that their
lists' masks leave, which is what a text pays for being written within a list. Every evaluation writes a checkpoint,
from which the same call resumes; the adapter is that of the lowest held-out loss.
"""

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final

import torch
from transformers import Trainer, TrainerCallback, TrainerControl
from typing_extensions import override

from wordbound.train.losses import Example, Masks, collate, loss_sums, split_held_out
from wordbound.train.options import TrainingSettings
from wordbound.train.writing import write_text

ADAPTER_NAME: Final = "adapter"
CHECKPOINTS: Final = "checkpoints"
PROGRESS: Final = "progress.json"
"""Of the trained adapter, of the checkpoints and of the steps made so far, within the folder of the run."""


def train_adapter(model: str, examples: Sequence[Example], folder: Path, settings: TrainingSettings) -> dict[str, Any]:
    """Train an adapter and return the figures of the run: held-out losses by step, in nats a token.

    Args:
        model: Hugging Face id or folder of the base model, readable on every node.
        folder: Of the run, on storage that all nodes share. A run that was ended resumes there. The adapter is in
            ``folder/adapter``.

    Raises:
        ray.train.TrainingFailedError: A worker failed.
    """
    import ray
    from ray.train import CheckpointConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    training, held_out = split_held_out(examples, settings.held_out, settings.seed)
    num_cpus = os.cpu_count() or 1
    trainer = TorchTrainer(
        _train_worker,
        train_loop_config={
            "model": model,
            "training": ray.put(training),
            "held_out": ray.put(held_out),
            "settings": asdict(settings),
            "progress": str(folder / PROGRESS),
        },
        scaling_config=ScalingConfig(
            num_workers=settings.num_workers,
            use_gpu=settings.use_gpu,
            # Ray lets each worker compute with as many threads.
            resources_per_worker=None if settings.use_gpu else {"CPU": max(num_cpus // settings.num_workers, 1)},
        ),
        run_config=RunConfig(
            name=CHECKPOINTS,
            storage_path=str(folder),
            checkpoint_config=CheckpointConfig(
                num_to_keep=2, checkpoint_score_attribute="eval_loss", checkpoint_score_order="min"
            ),
        ),
    )
    result = trainer.fit()
    with result.checkpoint.as_directory() as last:
        state = json.loads((Path(last) / "checkpoint" / "trainer_state.json").read_text())
    best = min(result.best_checkpoints, key=lambda one: one[1]["eval_loss"])[0]
    with best.as_directory() as checkpoint:
        _write_adapter(Path(checkpoint) / "checkpoint", folder / ADAPTER_NAME)
    return {"evaluations": _figures(state["log_history"])}


def _write_adapter(checkpoint: Path, folder: Path) -> None:
    """Write the adapter of a checkpoint in bfloat16."""
    from safetensors.torch import load_file, save_file

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(checkpoint / "adapter_config.json", folder)
    weights = load_file(checkpoint / "adapter_model.safetensors")
    rounded = {name: weight.to(torch.bfloat16) for name, weight in weights.items()}
    save_file(rounded, folder / "adapter_model.safetensors", metadata={"format": "pt"})


def _figures(log_history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the evaluations of a run, each with the training loss since the one before."""
    training_losses = {log["step"]: log["loss"] for log in log_history if "loss" in log}
    return [
        {
            "step": log["step"],
            "held_out_loss": log["eval_loss"],
            "held_out_cross_entropy": log["eval_cross_entropy"],
            "held_out_log_mass": log["eval_log_mass"],
            "training_loss": training_losses.get(log["step"]),
        }
        for log in log_history
        if "eval_loss" in log
    ]


class _AdapterTrainer(Trainer):
    """transformers' Trainer with the loss of texts within word lists."""

    control: TrainerControl

    def __init__(self, model: Any, settings: TrainingSettings, tokenizer: Any, **options: Any) -> None:
        super().__init__(model, data_collator=self._collate, **options)
        self._settings = settings
        self._masks = Masks(tokenizer)
        self._padding = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.loss_is_scaled_for_ga = True

    def _collate(self, examples: list[Example]) -> dict[str, Any]:
        # The labels are there to be counted; what is no tensor, list or tuple is handed on as it is.
        labels = collate(examples, self._padding).labels
        return {"batch": SimpleNamespace(examples=examples), "labels": labels, "shift_labels": labels}

    @override
    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        masks = self._masks if self._settings.mass_weight else None
        losses = loss_sums(model, inputs["batch"].examples, self._padding, masks)
        loss = losses.cross_entropy + self._settings.mass_weight * losses.log_mass
        # Gradients are averaged over the workers.
        return loss / num_items_in_batch * self.accelerator.num_processes

    @override
    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Compute the mean losses of a token over the held-out texts; every worker computes the same."""
        self.model.eval()
        cross_entropy, log_mass, num_tokens = 0.0, 0.0, 0
        ordered = sorted(self.eval_dataset, key=lambda example: len(example.prompt) + len(example.answer))
        with torch.inference_mode():
            for first in range(0, len(ordered), 8):
                losses = loss_sums(self.model, ordered[first : first + 8], self._padding, self._masks)
                cross_entropy += float(losses.cross_entropy)
                log_mass += float(losses.log_mass)
                num_tokens += losses.num_tokens
        cross_entropy, log_mass = cross_entropy / num_tokens, log_mass / num_tokens
        loss = cross_entropy + self._settings.mass_weight * log_mass
        metrics = {"eval_loss": loss, "eval_cross_entropy": cross_entropy, "eval_log_mass": log_mass}
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


class _Progress(TrainerCallback):
    """Writes how many steps were made."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @override
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        losses = [log["eval_loss"] for log in state.log_history if "eval_loss" in log]
        if state.is_world_process_zero and losses:
            progress = {"step": state.global_step, "num_steps": state.max_steps, "held_out_loss": losses[-1]}
            write_text(self._path, json.dumps(progress))


def _train_worker(config: dict[str, Any]) -> None:
    """Train on one worker of Ray Train, or resume."""
    import ray
    import ray.train
    from peft import LoraConfig, get_peft_model
    from ray.train.huggingface.transformers import RayTrainReportCallback
    from transformers import AutoModelForCausalLM, AutoTokenizer, EarlyStoppingCallback, TrainingArguments

    settings = TrainingSettings(**config["settings"])
    training, held_out = ray.get(config["training"]), ray.get(config["held_out"])
    torch.manual_seed(settings.seed)
    tokenizer = AutoTokenizer.from_pretrained(config["model"])
    automatic = "bfloat16" if settings.use_gpu else "float32"
    dtype = automatic if settings.dtype == "auto" else settings.dtype
    base = AutoModelForCausalLM.from_pretrained(config["model"], dtype=dtype)
    lora = LoraConfig(r=settings.rank, lora_alpha=settings.alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    # peft makes the adapter's weights float32 beside a base of lower precision.
    adapted = get_peft_model(base, lora)
    # Of a folder its name: a path means nothing on another machine.
    name = Path(config["model"]).name if Path(config["model"]).is_dir() else config["model"]
    adapted.peft_config["default"].base_model_name_or_path = name
    num_steps = settings.num_steps(len(training) + len(held_out))
    interval = max(num_steps // (settings.epochs * settings.evaluations), 1)
    num_parts = ray.train.get_context().get_world_size() * settings.accumulation
    checkpoint = ray.train.get_checkpoint()
    with ExitStack() as stack:
        begun = None if checkpoint is None else Path(stack.enter_context(checkpoint.as_directory())) / "checkpoint"
        # AdamW, gradients of at most 1.0 and a learning rate that falls linearly are what it has by default.
        arguments = TrainingArguments(
            output_dir=stack.enter_context(TemporaryDirectory()),
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=max(min(settings.batch_size, len(training)) // num_parts, 1),
            gradient_accumulation_steps=settings.accumulation,
            learning_rate=settings.learning_rate,
            warmup_steps=settings.warmup_steps,
            eval_strategy="steps",
            eval_steps=interval,
            eval_on_start=begun is None,
            logging_steps=interval,
            save_steps=interval,
            save_total_limit=1,
            metric_for_best_model="eval_loss",
            greater_is_better=False,
            dataloader_drop_last=True,
            remove_unused_columns=False,
            seed=settings.seed,
            use_cpu=not settings.use_gpu,
            disable_tqdm=True,
            report_to=[],
        )
        trainer = _AdapterTrainer(
            adapted,
            settings,
            tokenizer,
            args=arguments,
            train_dataset=training,
            eval_dataset=held_out,
            callbacks=[
                EarlyStoppingCallback(settings.patience),
                _Progress(Path(config["progress"])),
                RayTrainReportCallback(),
            ],
        )
        trainer.train(resume_from_checkpoint=begun and str(begun))
