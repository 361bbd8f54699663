"""What is known so far: JSON lines in one file, appended to as answers come, so that a run can go on where it ended.

It says which answers belong to the same question. How they are made and judged is elsewhere.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from benchmarks.prose.methods import Method

Record = dict[str, Any]


class Cell(NamedTuple):
    """What all answers of one row of the table share.

    Attributes:
        model: The model's name.
        lang: The language of the prompts, and the list.
        n_words: N; None for a free method.
        num_tokens: The budget of an answer.
        method: How it is made.
    """

    model: str
    lang: str
    n_words: int | None
    num_tokens: int
    method: Method

    @property
    def key(self) -> Record:
        """What a record of it has."""
        return {
            "model": self.model,
            "lang": self.lang,
            "n_words": self.n_words,
            "num_tokens": self.num_tokens,
            "method": self.method.name,
            "asked": self.method.asked,
        }


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
        """Keeps a record, in the file too."""
        with self._lock:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._missing_break + json.dumps(record, ensure_ascii=False) + "\n")
            self._missing_break = ""
            self._records.append(record)

    def of(self, kind: str, cell: Cell | None = None) -> list[Record]:
        """The records of a kind, oldest first; those of one cell, or all."""
        wanted = {"kind": kind} | (cell.key if cell else {})
        return [record for record in self._records if wanted.items() <= record.items()]


def _parse(text: str) -> Iterator[Record]:
    for line in text.split("\n"):
        with suppress(ValueError):
            yield json.loads(line)
