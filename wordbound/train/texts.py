"""Texts to learn from: requests for prompts, answered within word lists by the offline pipeline, or a user's own."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ray.exceptions import RayError

from deployments.offline.config import OfflineConfig, RefusedError
from deployments.offline.run import run
from deployments.settings.service import SettingsError
from vocab.errors import VocabularyError
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions
from vocab.text.checker import TextChecker
from wordbound.train.config import TrainConfig
from wordbound.train.filters import Text
from wordbound.train.options import TrainError
from wordbound.train.prompts import built_in_prompts, languages, shuffle
from wordbound.train.writing import write_text

REQUESTS: Final = "requests.jsonl"
ANSWERS: Final = "answers"
REJECTED: Final = "rejected.jsonl"

_PLAIN_PROMPT: Final = "Write a text."
"""Of a user's plain text, which says nothing of what it was asked for."""
_SHOWN_ERRORS: Final = 3
_MAX_BYTES: Final = 256 << 20
"""Of a file of prompts or texts: more than an adapter can learn from, and what is read at once."""


def read_prompts(config: TrainConfig) -> list[str]:
    """Return the prompts of a run, from the user's file or built in, each once and shuffled; TrainError for none."""
    if config.prompts is None:
        try:
            return built_in_prompts(config.lang, config.seed)
        except FileNotFoundError:
            raise TrainError(
                f"lang={config.lang!r}: there are built-in prompts in {', '.join(languages())}; give a file of your "
                "own, one a line (--prompts FILE)"
            ) from None
    lines = list(dict.fromkeys(line.strip() for line in _read_lines(config.prompts) if line.strip()))
    if not lines:
        raise TrainError(f"{config.prompts}: there is no prompt in it; write one a line")
    return shuffle(lines, config.seed)


def write_requests(config: TrainConfig, folder: Path, round_number: int = 1) -> Path:
    """Write the requests of a round, where they are not there yet; return their file.

    Each round takes the prompts after those of the round before.
    """
    path = folder / REQUESTS
    if not path.exists():
        prompts, draw = read_prompts(config), random.Random(config.seed + round_number - 1)  # noqa: S311
        first = config.num_texts * (round_number - 1)
        teacher = dict(config.teacher)
        members = teacher.pop("vocab", {})
        lines = []
        for number in range(config.num_texts):
            n_words = config.word_counts[number % len(config.word_counts)]
            body = {
                "messages": [{"role": "user", "content": prompts[(first + number) % len(prompts)]}],
                "max_tokens": draw.choice(config.max_tokens),
                "vocab": {"lang": config.lang, "n_words": n_words, **members},
                **teacher,
            }
            lines.append(json.dumps({"custom_id": str(number), "body": body}, ensure_ascii=False))
        write_text(path, "\n".join(lines) + "\n")
    return path


def generate_texts(
    config: TrainConfig, folder: Path, *, has_gpu: bool, round_number: int = 1, adapter: Path | None = None
) -> list[Text]:
    """Generate the texts of a round with the offline pipeline, or resume that; return the texts.

    Raises:
        TrainError: The engine cannot start, or answers nothing.
    """
    requests = write_requests(config, folder, round_number)
    try:
        offline = OfflineConfig.load(config.service_settings(has_gpu=has_gpu, adapter=adapter))
        run(str(requests), str(folder / ANSWERS), offline)
    except (SettingsError, RefusedError) as error:
        raise TrainError(f"the texts cannot be written: {error}") from None
    except RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise TrainError(f"the engine that writes the texts ended: {reason}; the same command resumes") from error
    asked = {
        line["custom_id"]: line["body"] for line in map(json.loads, requests.read_text(encoding="utf-8").splitlines())
    }
    texts = [
        _text_of(asked[line["custom_id"]], line["response"]["body"])
        for part in sorted((folder / ANSWERS / "answers").glob("*.jsonl"))
        for line in map(json.loads, part.read_text(encoding="utf-8").splitlines())
    ]
    if not texts:
        raise TrainError(f"no text was written; the first reasons: {'; '.join(_errors(folder)) or 'unknown'}")
    # Parts have random names, and an order of their own would give other batches to each run.
    return sorted(texts, key=lambda text: (text.prompt, text.n_words or 0, text.text))


def count_texts(folder: Path) -> int:
    """Count the texts written so far in the folder of a round."""
    parts = (folder / ANSWERS / "answers").glob("*.jsonl")
    return sum(part.read_bytes().count(b"\n") for part in parts)


def _text_of(body: dict[str, Any], answer: dict[str, Any]) -> Text:
    choice, vocab = answer["choices"][0], answer["vocab"]
    return Text(
        prompt=body["messages"][-1]["content"],
        text=choice["message"]["content"].strip(),
        lang=vocab["lang"],
        n_words=vocab["n_words"],
        has_end=choice["finish_reason"] == "stop",
        num_tokens=answer["usage"]["completion_tokens"],
        bits_per_char=vocab.get("bits_per_char"),
    )


def _errors(folder: Path) -> Iterator[str]:
    """Yield the messages of the first failed requests of each part."""
    for part in sorted((folder / ANSWERS / "errors").glob("*.jsonl")):
        for line in part.read_text(encoding="utf-8").splitlines()[:_SHOWN_ERRORS]:
            yield json.loads(line)["error"]["message"]


def read_own_texts(config: TrainConfig, tokenizer: Any, folder: Path) -> list[Text]:
    """Read a user's own texts; return those within the list, each for the smallest size that allows it.

    The others go into ``rejected.jsonl`` with their unlisted words.

    Raises:
        TrainError: The file cannot be read, or nothing of it is in the list.
    """
    path = config.texts
    if path is None:
        raise TrainError("texts: name a file")
    sizes = sorted(config.word_counts)
    try:
        checker = TextChecker(load_word_list(config.lang, None), ListOptions(numbers=True), sizes[-1])
    except VocabularyError as error:
        raise TrainError(f"lang={config.lang!r}: {error}") from None
    texts, rejected = [], []
    for prompt, text in _own_texts(path):
        report = checker.check(text)
        if report.not_allowed or not report.num_words:
            unlisted = sorted({text[word.start : word.end] for word in report.not_allowed})
            rejected.append({"prompt": prompt, "text": text, "unlisted": unlisted})
            continue
        rank = max((word.rank or 0 for word in report.words), default=0)
        n_words = next(size for size in sizes if size >= rank)
        num_tokens = len(tokenizer(text, add_special_tokens=False)["input_ids"])
        texts.append(Text(prompt, text, config.lang, n_words, has_end=True, num_tokens=num_tokens))
    write_text(folder / REJECTED, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in rejected))
    if not texts:
        raise TrainError(
            f"{path}: none of its {len(rejected)} texts keeps to the {sizes[-1]} words; "
            f"{folder / REJECTED} names the words that are not in the list: use a longer list (--words)"
        )
    return texts


def _own_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield prompt and text of each line of JSON, or of each paragraph of plain text."""
    lines = _read_lines(path)
    if path.suffix in (".jsonl", ".ndjson"):
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                made = json.loads(line)
                yield str(made["prompt"]), str(made["text"]).strip()
            except (ValueError, KeyError, TypeError):
                raise TrainError(f'{path}, line {number}: expected {{"prompt": "…", "text": "…"}}') from None
        return
    for paragraph in "\n".join(lines).split("\n\n"):
        if paragraph.strip():
            yield _PLAIN_PROMPT, " ".join(paragraph.split())


def _read_lines(path: Path) -> list[str]:
    """Read the lines of a text file; TrainError where it is too large, unreadable or no UTF-8."""
    try:
        if (size := path.stat().st_size) > _MAX_BYTES:
            raise TrainError(
                f"{path}: has {size >> 20:,} MB, and an adapter learns from {_MAX_BYTES >> 20} MB at most: take "
                "a part of it"
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TrainError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TrainError(f"{path}: is no text in UTF-8 (byte {error.start}); save it as plain UTF-8") from None
    if "\0" in text:
        raise TrainError(f"{path}: is binary data (a NUL at character {text.index(chr(0))}), not text")
    return text.splitlines()
