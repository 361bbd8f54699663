"""Train a LoRA adapter on texts written within word lists: Ray Train, transformers and peft.

``train_adapter`` runs ``_train_worker`` on each worker of a Ray cluster. The loss is the cross entropy of the answers'
tokens and, times ``mass_weight``, -log of the probability that their lists' masks leave, which is what a text pays for
being written within a list. Every evaluation writes a checkpoint, from which the same call resumes; the adapter is that
of the lowest held-out loss.
"""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from wordbound.train.losses import Example, Masks, loss_sums, split_held_out
from wordbound.train.options import TrainingSettings
from wordbound.train.writing import write_text

ADAPTER_NAME: Final = "adapter"
CHECKPOINTS: Final = "checkpoints"
PROGRESS: Final = "progress.json"
"""Of the trained adapter, of the checkpoints and of the steps made so far, within the folder of the run."""

_STATE: Final = "state.pt"


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
            name=CHECKPOINTS, storage_path=str(folder), checkpoint_config=CheckpointConfig(num_to_keep=2)
        ),
    )
    result = trainer.fit()
    with result.checkpoint.as_directory() as checkpoint:
        adapter = Path(folder) / ADAPTER_NAME
        shutil.rmtree(adapter, ignore_errors=True)
        shutil.copytree(Path(checkpoint) / ADAPTER_NAME, adapter)
        figures: dict[str, Any] = json.loads((Path(checkpoint) / "figures.json").read_text())
    return figures


class _Run:
    def __init__(self, model: str, settings: TrainingSettings) -> None:
        import torch
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.manual_seed(settings.seed)
        tokenizer = AutoTokenizer.from_pretrained(model)
        self.masks = Masks(tokenizer)
        self.padding = int(tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id)
        automatic = "bfloat16" if settings.use_gpu else "float32"
        dtype = getattr(torch, automatic if settings.dtype == "auto" else settings.dtype)
        base = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
        lora = LoraConfig(
            r=settings.rank, lora_alpha=settings.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        # peft makes the adapter's weights float32 beside a base of lower precision.
        self.adapted = get_peft_model(base, lora)
        # Of a folder its name: a path means nothing on another machine.
        self.adapted.peft_config["default"].base_model_name_or_path = (
            Path(model).name if Path(model).is_dir() else model
        )
        self.weights = [weight for weight in self.adapted.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(self.weights, lr=settings.learning_rate, weight_decay=0.0)
        self.settings = settings
        self.step = 0
        self.figures: list[dict[str, Any]] = []
        self.best: dict[str, Any] = {}
        """The adapter's weights at the lowest held-out loss."""

    def load(self, checkpoint: Path) -> None:
        """Restore weights, optimizer, step and figures from a checkpoint."""
        import torch
        from peft import set_peft_model_state_dict

        state = torch.load(checkpoint / _STATE, weights_only=True)
        set_peft_model_state_dict(self.adapted, state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.figures, self.best = state["step"], state["figures"], state["best"]

    def save(self, folder: Path) -> None:
        """Write a checkpoint: the state, and the best adapter in peft's own format and bfloat16."""
        import torch
        from peft import get_peft_model_state_dict

        weights = get_peft_model_state_dict(self.adapted)
        state = {"weights": weights, "optimizer": self.optimizer.state_dict(), "step": self.step}
        torch.save(state | {"figures": self.figures, "best": self.best}, folder / _STATE)
        # ``state_dict`` is written as it is, in place of the model's own.
        rounded = {name: weight.to(torch.bfloat16) for name, weight in self.best.items()}
        self.adapted.save_pretrained(folder / ADAPTER_NAME, state_dict=rounded)
        (folder / "figures.json").write_text(json.dumps({"evaluations": self.figures}, indent=2))

    def record(self, cross_entropy: float, log_mass: float, training_loss: float | None) -> None:
        """Record an evaluation; save the adapter's weights where its held-out loss is the lowest so far."""
        from peft import get_peft_model_state_dict

        held_out_loss = cross_entropy + self.settings.mass_weight * log_mass
        if all(held_out_loss < figure["held_out_loss"] for figure in self.figures):
            self.best = {name: weight.clone() for name, weight in get_peft_model_state_dict(self.adapted).items()}
        self.figures.append({"step": self.step, "held_out_loss": held_out_loss, "held_out_cross_entropy": cross_entropy,
                             "held_out_log_mass": log_mass, "training_loss": training_loss})  # fmt: skip

    @property
    def is_stuck(self) -> bool:
        """Whether the last ``patience`` evaluations brought no lower held-out loss."""
        losses = [figure["held_out_loss"] for figure in self.figures]
        return len(losses) - 1 - losses.index(min(losses)) >= self.settings.patience if losses else False


def batches_of(num_examples: int, settings: TrainingSettings, epoch: int) -> Iterator[list[int]]:
    """Yield the indices of each batch's examples, shuffled by epoch; the last ones, too few, are left out."""
    order = list(range(num_examples))
    random.Random(f"{settings.seed} {epoch}").shuffle(order)  # noqa: S311
    size = min(settings.batch_size, num_examples)
    for first in range(0, num_examples - size + 1, size):
        yield order[first : first + size]


def learning_rate_at(step: int, num_steps: int, settings: TrainingSettings) -> float:
    """Return the learning rate of a step: a linear warm-up, then linearly down to 0."""
    warm = min(1.0, (step + 1) / max(settings.warmup_steps, 1))
    return settings.learning_rate * warm * (1 - step / num_steps)


def _train_worker(config: dict[str, Any]) -> None:
    """Train on one worker of Ray Train: resume, make steps, evaluate and report checkpoints."""
    import ray
    import ray.train
    from ray.train.torch import prepare_model

    settings = TrainingSettings(**config["settings"])
    training: list[Example] = ray.get(config["training"])
    held_out: list[Example] = ray.get(config["held_out"])
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    run = _Run(config["model"], settings)
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            run.load(Path(folder))
    model = prepare_model(run.adapted)
    steps = [batch for epoch in range(settings.epochs) for batch in batches_of(len(training), settings, epoch)]
    interval = max(len(steps) // (settings.epochs * settings.evaluations), 1)
    if not run.figures:
        run.record(*_mean_losses(model, held_out, run), None)
        _report(run, len(steps), rank)
    total, num_tokens = 0.0, 0
    for batch in steps[run.step :]:
        if rank == 0:
            progress = {"step": run.step, "num_steps": len(steps), "held_out_loss": run.figures[-1]["held_out_loss"]}
            write_text(Path(config["progress"]), json.dumps(progress))
        if run.is_stuck:
            break
        for group in run.optimizer.param_groups:
            group["lr"] = learning_rate_at(run.step, len(steps), settings)
        mine = [training[place] for place in batch[rank::world]]
        loss, tokens = _optimize(model, run, mine)
        total, num_tokens = total + loss, num_tokens + tokens
        run.step += 1
        if run.step % interval == 0 or run.step == len(steps):
            run.record(*_mean_losses(model, held_out, run), total / max(num_tokens, 1))
            _report(run, len(steps), rank)
            total, num_tokens = 0.0, 0


def _optimize(model: Any, run: _Run, examples: Sequence[Example]) -> tuple[float, int]:
    """Make one optimizer step; return the sum of its loss and the number of its tokens on this worker."""
    import torch

    settings = run.settings
    masks = run.masks if settings.mass_weight else None
    num_tokens = sum(len(example.answer) for example in examples)
    total = 0.0
    for part in filter(None, (examples[part :: settings.accumulation] for part in range(settings.accumulation))):
        losses = loss_sums(model, part, run.padding, masks)
        loss = losses.cross_entropy + settings.mass_weight * losses.log_mass
        (loss / num_tokens).backward()
        total += float(loss.detach())
    torch.nn.utils.clip_grad_norm_(run.weights, 1.0)
    run.optimizer.step()
    run.optimizer.zero_grad()
    return total, num_tokens


def _mean_losses(model: Any, examples: Sequence[Example], run: _Run, batch_size: int = 8) -> tuple[float, float]:
    """Return the mean cross entropy and log-mass a token over all examples; every worker computes the same."""
    import torch

    model.eval()
    cross_entropy, log_mass, num_tokens = 0.0, 0.0, 0
    ordered = sorted(examples, key=lambda example: len(example.prompt) + len(example.answer))
    with torch.inference_mode():
        for first in range(0, len(ordered), batch_size):
            losses = loss_sums(model, ordered[first : first + batch_size], run.padding, run.masks)
            cross_entropy += float(losses.cross_entropy)
            log_mass += float(losses.log_mass)
            num_tokens += losses.num_tokens
    model.train()
    return cross_entropy / num_tokens, log_mass / num_tokens


def _report(run: _Run, num_steps: int, rank: int) -> None:
    """Report an evaluation to Ray Train, with a checkpoint from the first worker."""
    import ray.train

    metrics = {**run.figures[-1], "num_steps": num_steps}
    if rank:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as temporary:
        run.save(Path(temporary))
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(temporary))
