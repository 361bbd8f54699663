"""One compile process (``vocab.compiler.worker`` or ``structure_worker``) seen from the process that started it, in
blocking calls.

A process that takes too long or too much memory, dies or answers nonsense is killed and reaped, and its job fails
with an error of the library.
"""

import json
import logging
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from vocab.compiler.child_process import EXIT_S, cpu_seconds, resident_bytes
from vocab.compiler.jobs import CheckStructure, Job, Reply, read_reply, write_job
from vocab.errors import CompileError, CompileTimeoutError, ListTooLargeError

START_DEADLINE_S: Final = 300.0
"""Reading a large tokenizer takes 10 s, and on a new machine numba makes its machine code first, 60 s on one core."""

_LOOK_S: Final = 0.2
"""How often a process at work is checked."""

_MAX_REPLY_BYTES: Final = 1 << 20

logger = logging.getLogger("ray.serve")


class NotBegunError(Exception):
    """The process died before it began the job, so another can do it."""


@dataclass(frozen=True)
class WorkerCommand:
    """How a compile process is started.

    ``tokenizer`` is the digest of one in ``folder``, which is then read instead of that of ``model``.
    """

    folder: Path
    max_bytes: int
    model: str | None = None
    trust_remote_code: bool = False
    tokenizer: str | None = None
    wordlist_dir: Path | None = None
    shared_url: str | None = None
    shared_bytes: int = 2**36

    def arguments(self) -> list[str]:
        """Return the command line that starts the process."""
        values = {
            "--folder": self.folder,
            "--max-bytes": self.max_bytes,
            "--model": self.model,
            "--tokenizer": self.tokenizer,
            "--wordlist-dir": self.wordlist_dir,
            "--shared-url": self.shared_url,
            "--shared-bytes": self.shared_bytes,
        }
        given = [str(part) for name, value in values.items() if value is not None for part in (name, value)]
        flag = ["--trust-remote-code"] if self.trust_remote_code else []
        return [sys.executable, "-m", "vocab.compiler.worker", *given, *flag]


class CompileProcess:
    """A handle of one compile process, a child of this one.

    Used by the thread that made it, with which it ends; only ``stop`` may be called by any.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        max_memory_bytes: float = math.inf,
        first: bytes = b"",
        *,
        errors: IO[bytes] | None = None,
    ) -> None:
        """``first`` is written to its input before it is asked anything; ``errors`` gets its standard error."""
        self._first = first
        self._max_memory_bytes = max_memory_bytes
        self._max_cpu_s = math.inf
        self._unread = b""
        packages = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": packages},
        )
        self._input: Any = self._process.stdin
        self._output: Any = self._process.stdout

    def wait_until_ready(self) -> str:
        """Wait until the process is ready, and return the name that it gives itself.

        A process for lists is named by the digest of the tokenizer that it compiles for.

        Raises:
            CompileError: It does not become ready.
        """
        try:
            deadline = time.monotonic() + START_DEADLINE_S
            self._send(self._first, deadline, START_DEADLINE_S)
            return str(_field(self._read_line(deadline, START_DEADLINE_S), "ready"))
        except (CompileError, OSError) as error:
            self.reap()
            raise CompileError(f"the compile process does not start: {error}") from None

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, job: Job | CheckStructure, deadline_s: float = math.inf, max_cpu_s: float = math.inf) -> Reply:
        """Send the child process a job and wait for its reply; kill it on a failure.

        Raises:
            NotBegunError: It was gone before it began.
            ListTooLargeError: It took more processor time than ``max_cpu_s``, in which other processes do not count.
            CompileTimeoutError: It took longer than the deadline allows.
            CompileError: It died, took too much memory, or answered nonsense.
        """
        deadline = time.monotonic() + deadline_s
        # What it makes ready before it begins is no part of the job.
        self._max_cpu_s = math.inf
        has_begun = False
        try:
            self._send(write_job(job), deadline, deadline_s)
            _field(self._read_line(deadline, deadline_s), "started")
            has_begun = True
            self._max_cpu_s = cpu_seconds(self.pid) + max_cpu_s
            return read_reply(self._read_line(deadline, deadline_s))
        except (CompileError, ListTooLargeError, OSError, ValueError) as error:
            was_alive = self.is_alive()
            self.reap()
            if not has_begun and not was_alive:
                raise NotBegunError from None
            if isinstance(error, CompileError | ListTooLargeError):
                raise
            raise CompileError(f"the compile process failed: {error}") from None

    def close(self) -> None:
        """Let the process end, and kill it if it does not."""
        with suppress(OSError):
            self._input.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2 * EXIT_S)
        self.reap()

    def stop(self) -> None:
        """Kill the process; a thread that waits for it gets an error."""
        self._process.kill()

    def reap(self) -> None:
        """Kill the process, wait for its end and close its pipes."""
        self._process.kill()
        self._process.wait()
        for stream in (self._input, self._output):
            with suppress(OSError):
                stream.close()

    def _send(self, data: bytes, deadline: float, deadline_s: float) -> None:
        """Write data to the process in parts, within the deadline.

        A process that does not read would block the writer forever.
        """
        while data:
            self._check(deadline, deadline_s)
            _, writable, _ = select.select([], [self._input], [], _LOOK_S)
            if writable:
                # A pipe that is writable takes this much at once.
                data = data[self._input.write(data[: select.PIPE_BUF]) :]

    def _read_line(self, deadline: float, deadline_s: float) -> bytes:
        """Read one line of the process's output, within its deadline and limits."""
        while b"\n" not in self._unread:
            self._check(deadline, deadline_s)
            readable, _, _ = select.select([self._output], [], [], _LOOK_S)
            if not readable:
                continue
            read = self._output.read(1 << 16)
            if not read:
                raise CompileError(self._how_it_died())
            self._unread += read
            if len(self._unread) > _MAX_REPLY_BYTES:
                raise CompileError("the compile process answers without end")
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _check(self, deadline: float, deadline_s: float) -> None:
        """Raise where the process is over its deadline, processor time or memory."""
        if time.monotonic() > deadline:
            raise CompileTimeoutError(f"a job took longer to compile than the {deadline_s:g} s it may")
        if math.isfinite(self._max_cpu_s) and cpu_seconds(self.pid) > self._max_cpu_s:
            raise ListTooLargeError("The list takes too long to compile: send fewer or shorter words.")
        if (used := resident_bytes(self.pid)) > self._max_memory_bytes:
            raise CompileError(
                f"a job needs more memory to compile ({used / 1e9:.1f} GB) than compile_memory_bytes allows"
            )

    def _how_it_died(self) -> str:
        """Describe how the process ended, for an error message."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.returncode
        if code is None:
            return "the compile process closed its output"
        if code < 0:
            return f"the compile process was ended by {signal.Signals(-code).name}"
        return f"the compile process ended with status {code}"


def _field(line: bytes, name: str) -> object:
    """Return a member of a JSON line that the process wrote; raise where it has none."""
    try:
        return json.loads(line)[name]
    except (ValueError, KeyError, TypeError):
        raise CompileError(f"the compile process answered {line[:80]!r}") from None
