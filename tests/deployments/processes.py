"""Compile processes for tests: the real one over a small tokenizer, and one that fails on demand."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from tests.small_tokenizer import small_speller
from vocab.artefacts.store import ArtefactStore, store_tokenizer
from vocab.compiler.compile_process import WorkerCommand

MAX_BYTES = 10**8


@dataclass(frozen=True)
class FaultyCommand(WorkerCommand):
    def arguments(self) -> list[str]:
        assert super().arguments()[:3] == [sys.executable, "-m", "vocab.compiler.worker"]
        return [sys.executable, "-m", "tests.deployments.faulty_worker", *super().arguments()[3:]]


@cache
def make_kernels() -> None:
    """Compile the machine code once, in a fresh clone, which takes longer than a process may take here."""
    subprocess.run([sys.executable, "-c", "from vocab.compiler.warm_up import warm_up; warm_up()"], check=True)


def toy_command(folder: Path, *, is_faulty: bool = False, lists: Path | None = None) -> WorkerCommand:
    """A command whose tokenizer is a small one that lies in the store already."""
    make_kernels()
    speller = small_speller(["the", "cat"])
    store_tokenizer(speller, ArtefactStore(folder, MAX_BYTES))
    kind = FaultyCommand if is_faulty else WorkerCommand
    return kind(folder, MAX_BYTES, tokenizer=speller.digest, wordlist_dir=lists)


def is_gone(pid: int) -> bool:
    """Whether there is no such process, not even a dead one that nobody waited for."""
    return not psutil.pid_exists(pid)


def wait_until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
