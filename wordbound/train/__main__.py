"""``python -m wordbound.train OUT``: train an adapter, from prompts to a folder that the service loads.

Each step leaves files in OUT, and the same command resumes after the last of them:

    config.json     the settings; a run with others needs another folder
    requests.jsonl  what is asked for
    answers/        the texts, as the offline pipeline writes them
    checkpoints/    of the training, as Ray Train writes them
    adapter/        the adapter in peft's format, with its card
    report.json     how many texts were left out and why, and the losses
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from wordbound.train.config import TrainConfig, TrainError, write_text
from wordbound.train.filters import filter_texts

REPORT: Final = "report.json"
_LOOK_S: Final = 1.0

_MIN_TEXTS: Final = 4
"""One to hold out, and some to learn from."""


def train(config: TrainConfig, folder: Path) -> dict[str, Any]:
    """Train an adapter into ``folder/adapter``; return the report.

    Raises:
        TrainError: It cannot begin or go on; what was written stays, and the same call resumes.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        config.save(folder / "config.json")
        if (folder / REPORT).exists():
            report: dict[str, Any] = json.loads((folder / REPORT).read_text(encoding="utf-8"))
            return report
        return _train(config, folder.resolve())
    except OSError as error:
        raise TrainError(
            f"{error.filename or folder}: {error.strerror or error}; what was written stays: the same command resumes"
        ) from error


def _train(config: TrainConfig, folder: Path) -> dict[str, Any]:
    import ray
    import torch
    from ray.train import TrainingFailedError
    from transformers import AutoTokenizer

    from wordbound.train.card import write_card
    from wordbound.train.training import ADAPTER_NAME, CHECKPOINTS, encode_examples, train_adapter

    try:
        tokenizer = AutoTokenizer.from_pretrained(config.model)
    except (OSError, ValueError) as error:
        raise TrainError(f"model={config.model!r}: cannot be read: {str(error).splitlines()[0]}") from error
    if tokenizer.chat_template is None:
        raise TrainError(f"{config.model}: has no chat template, so it cannot chat: take an instruction-tuned model")
    texts, num_written = _texts(config, folder, tokenizer, has_gpu=torch.cuda.is_available())
    chosen, reasons = filter_texts(texts, config.filters)
    report: dict[str, Any] = {"num_written": num_written, "num_texts": len(chosen), "left_out": dict(reasons)}
    say(f"{len(chosen)} of {num_written} texts to learn from; left out: {dict(reasons) or 'none'}")
    if len(chosen) < _MIN_TEXTS:
        raise TrainError(
            f"{len(chosen)} of {num_written} texts are left, and training needs {_MIN_TEXTS}: write more (--num-texts) "
            "or relax `filters`"
        )
    examples = encode_examples(tokenizer, _as_messages(tokenizer, chosen))
    # Anew: the logs of its workers say nothing that the evaluations do not.
    ray.shutdown()
    ray.init(include_dashboard=False, log_to_driver=False)
    say(f"training on {len(examples)} texts")
    try:
        with _showing_evaluations(folder / CHECKPOINTS):
            report |= train_adapter(config.model, examples, folder, config.training)
    except TrainingFailedError as error:
        reason = str(error).strip().splitlines()[-1]
        raise TrainError(f"training failed: {reason}; the same command resumes at the last checkpoint") from error
    write_card(config, folder / ADAPTER_NAME, report)
    write_text(folder / REPORT, json.dumps(report, indent=2))
    return report


def _texts(config: TrainConfig, folder: Path, tokenizer: Any, *, has_gpu: bool) -> tuple[list[Any], int]:
    """Return the texts, and how many were written or given."""
    from wordbound.train import texts

    if config.texts is not None:
        own = texts.read_own_texts(config, tokenizer, folder)
        num_rejected = len((folder / texts.REJECTED).read_text(encoding="utf-8").splitlines())
        say(f"{num_rejected} texts are not within the list: {folder / texts.REJECTED}")
        return own, len(own) + num_rejected
    say(f"writing {config.num_texts} texts within lists of {', '.join(map(str, config.word_counts))} words")
    written = texts.write_texts(config, folder, has_gpu=has_gpu)
    return written, len(written)


def _as_messages(tokenizer: Any, chosen: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the texts as conversations, with the line that names the size of the list, as the service writes it."""
    from deployments.replica.prompts.hint import hint_line, takes_system_messages, with_line

    takes_system = takes_system_messages(tokenizer, None)
    return [
        {
            "messages": with_line(
                [{"role": "user", "content": text.prompt}],
                hint_line(text.lang, n_words=text.n_words),
                takes_system=takes_system,
            ),
            "text": text.text,
            "has_end": text.has_end,
        }
        for text in chosen
    ]


@contextmanager
def _showing_evaluations(checkpoints: Path) -> Iterator[None]:
    """Show each evaluation as its checkpoint is written."""
    has_ended = Event()

    def show() -> None:
        num_shown = 0
        while True:
            is_last = has_ended.wait(_LOOK_S)
            evaluations: list[dict[str, Any]] = []
            for path in checkpoints.glob("checkpoint_*/figures.json"):
                # A checkpoint may be written or deleted at this moment.
                with suppress(OSError, ValueError):
                    evaluations = max(evaluations, json.loads(path.read_text())["evaluations"], key=len)
            for one in evaluations[num_shown:]:
                say(f"step {one['step']}: held-out loss {one['held_out_loss']:.4f}")
            num_shown = max(num_shown, len(evaluations))
            if is_last:
                return

    thread = Thread(target=show)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Train from the command line; return the exit status: 0 done, 2 wrong use or input, 130 interrupted."""
    from wordbound.train.training import TrainingSettings

    parser = argparse.ArgumentParser("wordbound train", description="Train an adapter for a word list, or resume it.")
    parser.add_argument("folder", type=Path, metavar="OUT", help="folder of the run; the adapter is in OUT/adapter")
    parser.add_argument("--config", type=Path, metavar="YAML", help="settings, by the names of TrainConfig")
    parser.add_argument("--model", help="the base model: a Hugging Face id or a folder")
    parser.add_argument("--name", help="the adapter's name")
    parser.add_argument("--lang", help="the list, and the language of the prompts")
    parser.add_argument("--words", dest="word_counts", type=_numbers, help="sizes of list, with commas between them")
    parser.add_argument("--num-texts", type=int, help="texts to write")
    parser.add_argument("--prompts", type=Path, metavar="FILE", help="prompts of your own, one a line")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="texts of your own to learn from")
    for field in fields(TrainingSettings):
        if field.type in (int, float):
            parser.add_argument(f"--{field.name.replace('_', '-')}", type=field.type, help=argparse.SUPPRESS)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    folder, path = given.pop("folder"), given.pop("config", None)
    training = {field.name: given.pop(field.name) for field in fields(TrainingSettings) if field.name in given}
    try:
        config = TrainConfig.load(path, given)
        if training:
            config = config.model_copy(update={"training": TrainingSettings(**{**vars(config.training), **training})})
        report = train(config, folder)
    except TrainError as error:
        print(f"wordbound train: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the same command resumes", file=sys.stderr)
        return 130
    losses = [one["held_out_loss"] for one in report["evaluations"]]
    say(f"held-out loss {losses[0]:.3f} before, {min(losses):.3f} after; {report['num_texts']} texts")
    print(folder / "adapter")
    return 0


if __name__ == "__main__":
    sys.exit(main())
