"""What is known so far: JSON lines in one file, appended to as answers come, so that a run can go on where it ended.

It has which answers belong to the same question, and asks a service for those that are missing.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

import openai

from benchmarks.quality.methods import Method

NUM_LIKELIEST: Final = 20
"""Tokens that a stream reports for each step."""

Record = dict[str, Any]
Question = tuple[str, int]
"""A prompt and a seed."""


class Cell(NamedTuple):
    """What all answers of one row of a table share.

    Attributes:
        model: The model's name.
        lang: The language of the prompts, and the list.
        n_words: N; None for a free method.
        num_tokens: The budget of an answer.
        method: How it is made.
        adapter: The adapter's name; empty without one.
    """

    model: str
    lang: str
    n_words: int | None
    num_tokens: int
    method: Method
    adapter: str = ""

    @property
    def key(self) -> Record:
        """What a record of it has."""
        return {**self._asdict(), "method": self.method.name, "asked": self.method.asked}


class Records:
    """The file and all that is in it. Safe for threads.

    Args:
        path: The file; made with its folder if it is not there. A line that was cut is left out.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = Lock()
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self._records = list(_parse(text))
        # What comes next begins a line of its own, also after one that was cut.
        self._missing_break = "" if text.endswith("\n") or not text else "\n"

    def add(self, record: Record) -> None:
        """Add a record, to the file too."""
        with self._lock:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._missing_break + json.dumps(record, ensure_ascii=False) + "\n")
            self._missing_break = ""
            self._records.append(record)

    def of(self, kind: str, cell: Cell | None = None) -> list[Record]:
        """The records of a kind, oldest first; those of one cell, or all."""
        wanted = {"kind": kind} | (cell.key if cell else {})
        return [record for record in self._records if wanted.items() <= record.items()]

    def missing(self, kind: str, cell: Cell, questions: Sequence[Question]) -> list[Question]:
        """The questions to a cell of which there is no record yet."""
        known = {(record["prompt"], record["seed"]) for record in self.of(kind, cell)}
        return [question for question in questions if question not in known]


def _parse(text: str) -> Iterator[Record]:
    for line in text.split("\n"):
        with suppress(ValueError):
            yield json.loads(line)


def ask(client: openai.OpenAI, model: str, cell: Cell, question: Question, *, with_steps: bool = False) -> Record:
    """Return the record of a service's answer; ``with_steps`` with the details of its tokens, if it is no search's.

    Raises:
        openai.APIError: There is no answer.
    """
    prompt, seed = question
    extra: dict[str, Any] = dict(cell.method.fields)
    if cell.method.vocab is not None:
        extra["vocab"] = {"lang": cell.lang, "n_words": cell.n_words, **cell.method.vocab}
    is_stream = with_steps and "num_beams" not in extra
    if is_stream:
        extra["stream_options"] = {"token_details": True, "top_k": NUM_LIKELIEST, "include_usage": True}
    create: Any = client.chat.completions.create
    started, chat = time.monotonic(), [{"role": "user", "content": prompt}]
    made = create(model=model, messages=chat, max_tokens=cell.num_tokens, seed=seed, extra_body=extra, stream=is_stream)
    parts = [part.model_dump() for part in (made if is_stream else [made])]
    choices = [choice for part in parts for choice in part["choices"]]
    vocab: Record = next((part["vocab"] for part in reversed(parts) if part.get("vocab")), {})
    num_tokens = next(part["usage"]["completion_tokens"] for part in reversed(parts) if part.get("usage"))
    num_generated = vocab.get("generated_tokens", num_tokens + vocab.get("rescue", {}).get("num_tokens", 0))
    return {
        **cell.key, "prompt": prompt, "seed": seed,
        "text": "".join((choice.get("delta") or choice["message"]).get("content") or "" for choice in choices),
        "is_ended": any(choice["finish_reason"] == "stop" for choice in choices),
        "num_answer_tokens": num_tokens, "num_generated_tokens": num_generated,
        "steps": [one for choice in choices for one in choice.get("token_details") or ()],
        "block": vocab, "started": started, "ended": time.monotonic(),
    }  # fmt: skip
