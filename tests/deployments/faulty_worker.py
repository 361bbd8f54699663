"""The compile process as it is, but some words make it fail in ways that lists cannot bring about on demand."""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.tokenizer import Speller
from vocab.automaton.trie_builder import build_words
from vocab.compiler import worker
from vocab.lists.wordlists import WordList
from vocab.matching import list_kinds

_kept: list[bytes] = []


def _take_memory() -> None:
    while True:
        _kept.append(b"x" * (1 << 24))
        time.sleep(0.01)


def _hang() -> None:
    while True:
        pass


FAULTS: Final[dict[str, Callable[[], Any]]] = {
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": _hang,
    "memory": _take_memory,
    "exit": lambda: os._exit(3),
    "garbage": lambda: setattr(worker, "replace", lambda reply, **changed: "garbage"),
    "slow": lambda: time.sleep(1),
    "grow": lambda: _kept.append(b"x" * (1 << 28)),
}


def build_or_fail(word_list: WordList, speller: Speller, *, has_capitals: bool | None = None) -> CompiledList:
    for word in word_list.words:
        FAULTS.get(word, lambda: None)()
    return build_words(word_list, speller, has_capitals=has_capitals)


if __name__ == "__main__":
    vars(list_kinds)["build_words"] = build_or_fail
    worker.main(sys.argv[1])
