"""``wordbound train OUT``: train a small decoder, or an adapter, from prompts to a folder that the service loads.

Each step of an adapter leaves files in OUT, and the same command resumes after the last of them:

    config.json             the settings; a run with others needs another folder
    round-N/requests.jsonl  what is asked for in round N
    round-N/answers/        the texts, as the offline pipeline writes them
    round-N/checkpoints/    of the training, as Ray Train writes them
    round-N/adapter/        the adapter in peft's format, with its card
    round-N/report.json     how many texts were left out and why, and the losses
    adapter/, report.json   those of the last round
"""

import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from tqdm import tqdm

from wordbound.train.config import TrainConfig
from wordbound.train.filters import Text, choose_texts
from wordbound.train.options import DecoderConfig, TrainError, parse
from wordbound.train.writing import write_text

_INTERVAL_S: Final = 1.0
_LOG_INTERVAL_S: Final = 60.0
"""Between two lines where the output is a file and not a terminal."""


@contextmanager
def progress_bar(label: str, poll: Callable[[], tuple[int, int, str]]) -> Iterator[None]:
    """Show a bar while the body runs; ``poll``, from a thread, says how many are done, of how many, and a remark."""
    has_ended = Event()
    interval = _INTERVAL_S if sys.stderr.isatty() else _LOG_INTERVAL_S

    def show() -> None:
        with tqdm(desc=label, mininterval=interval, initial=poll()[0], dynamic_ncols=True) as bar:
            while True:
                is_last = has_ended.wait(_INTERVAL_S)
                done, bar.total, beside = poll()
                bar.set_postfix_str(beside, refresh=False)
                bar.update(done - bar.n)
                if is_last:
                    return

    thread = Thread(target=show)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


REPORT: Final = "report.json"
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
        if not (folder / REPORT).exists():
            _train(config, folder.resolve())
        report: dict[str, Any] = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        return report
    except OSError as error:
        raise TrainError(
            f"{error.filename or folder}: {error.strerror or error}; what was written stays: the same command resumes"
        ) from error


def _train(config: TrainConfig, folder: Path) -> None:
    """Run all rounds and copy the last one's adapter and report to the run's folder."""
    from transformers import AutoTokenizer

    from deployments.offline.run import start_ray
    from wordbound.train.training import ADAPTER_NAME

    try:
        tokenizer = AutoTokenizer.from_pretrained(config.model)
    except (OSError, ValueError) as error:
        raise TrainError(f"model={config.model!r}: cannot be read: {str(error).splitlines()[0]}") from error
    if tokenizer.chat_template is None:
        raise TrainError(f"{config.model}: has no chat template, so it cannot chat: take an instruction-tuned model")
    # Once for all rounds. Its workers' logs say nothing that the bars do not.
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    start_ray(log_to_driver=False)
    chosen: list[Text] = []
    for number in range(1, config.rounds + 1):
        chosen = _run_round(config, folder, number, tokenizer, chosen)
    last = folder / f"round-{config.rounds}"
    shutil.copytree(last / ADAPTER_NAME, folder / ADAPTER_NAME, dirs_exist_ok=True)
    shutil.copy(last / REPORT, folder / REPORT)


def _run_round(config: TrainConfig, folder: Path, number: int, tokenizer: Any, before: Sequence[Text]) -> list[Text]:
    """Write the texts of a round, and train on them and those of the rounds before; return the texts to learn from."""
    from ray.train import TrainingFailedError

    from wordbound.train.card import write_card
    from wordbound.train.losses import encode_examples, score_texts
    from wordbound.train.training import ADAPTER_NAME, train_adapter

    adapter = None if number == 1 else folder / f"round-{number - 1}" / ADAPTER_NAME
    part = folder / f"round-{number}"
    part.mkdir(exist_ok=True)
    texts, num_written = _texts(config, part, tokenizer, number, adapter)
    if adapter is not None:
        # The engine counted the bits of the model with the adapter.
        texts = score_texts(config.model, tokenizer, texts, part)
    passed, reasons = choose_texts(texts, config.filters)
    chosen = [*before, *passed]
    say(f"round {number}: {len(passed)} of {num_written} texts to learn from; left out: {dict(reasons) or 'none'}")
    if len(chosen) < _MIN_TEXTS:
        raise TrainError(
            f"{len(chosen)} of {num_written} texts are left, and training needs {_MIN_TEXTS}: write more (--num-texts) "
            "or relax `filters`"
        )
    if (part / REPORT).exists():
        return chosen
    examples = encode_examples(tokenizer, _as_messages(tokenizer, chosen))
    report: dict[str, Any] = {"num_written": num_written, "num_texts": len(chosen), "left_out": dict(reasons)}
    try:
        with progress_bar("training", partial(_poll_training, part)):
            report |= train_adapter(config.model, examples, part, config.training)
    except TrainingFailedError as error:
        reason = str(error).strip().splitlines()[-1]
        raise TrainError(f"training failed: {reason}; the same command resumes at the last checkpoint") from error
    write_card(config, part / ADAPTER_NAME, report)
    write_text(part / REPORT, json.dumps(report, indent=2))
    return chosen


def _texts(
    config: TrainConfig, folder: Path, tokenizer: Any, number: int, adapter: Path | None
) -> tuple[list[Text], int]:
    """Write the texts of a round, or read the user's own; return them, and how many were written or given."""
    import torch

    from wordbound.train import texts

    if config.texts is not None:
        own = texts.read_own_texts(config, tokenizer, folder)
        num_rejected = len((folder / texts.REJECTED).read_text(encoding="utf-8").splitlines())
        say(f"{num_rejected} texts are not within the list: {folder / texts.REJECTED}")
        return own, len(own) + num_rejected
    has_gpu = torch.cuda.is_available()
    with progress_bar("texts", lambda: (texts.count_texts(folder), config.num_texts, "")):
        written = texts.generate_texts(config, folder, has_gpu=has_gpu, round_number=number, adapter=adapter)
    return written, len(written)


def _poll_training(folder: Path) -> tuple[int, int, str]:
    from wordbound.train.training import PROGRESS

    try:
        progress = json.loads((folder / PROGRESS).read_text())
    except FileNotFoundError:
        return 0, 0, ""
    return progress["step"], progress["num_steps"], f"held-out loss {progress['held_out_loss']:.4f}"


def _as_messages(tokenizer: Any, chosen: Sequence[Any]) -> list[dict[str, Any]]:
    """Convert texts to conversations, with the hint line that names the size of the list, as the service writes it."""
    from deployments.replica.prompt import hint_line, takes_system_messages, with_line

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
            "lang": text.lang,
            "n_words": text.n_words,
        }
        for text in chosen
    ]


def say(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train from the command line; return the exit status: 0 done, 2 wrong use or input, 130 interrupted."""
    try:
        asked = parse(sys.argv[1:] if arguments is None else arguments)
        if asked.task == "decoder":
            from wordbound.train.decoder import train_decoder

            print(train_decoder(DecoderConfig(output=asked.out, **asked.options), say))
            return 0
        report = train(TrainConfig.load(asked.options.pop("config", None), asked.options), asked.out)
    except TrainError as error:
        print(f"wordbound train: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the same command resumes", file=sys.stderr)
        return 130
    losses = [one["held_out_loss"] for one in report["evaluations"]]
    say(f"held-out loss {losses[0]:.3f} before, {min(losses):.3f} after; {report['num_texts']} texts")
    print(asked.out / "adapter")
    return 0


if __name__ == "__main__":
    sys.exit(main())
