"""One compile process (``vocab.compiler.worker`` or ``structure_worker``) seen from the process that started it, in
blocking calls.

A process that takes too long or too much memory, dies or answers nonsense is killed and reaped, and its job fails
with an error of the library.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from multiprocessing import Pipe
from pathlib import Path
from pickle import dumps, loads
from threading import Event, Thread
from typing import IO, Final, Self, TypeVar

from vocab.compiler.child_process import EXIT_S, cpu_seconds, resident_bytes
from vocab.compiler.jobs import CheckStructure, Job, Reply
from vocab.errors import CompileError, CompileTimeoutError, ListTooLargeError, VocabularyError

START_DEADLINE_S: Final = 300.0
"""Reading a large tokenizer takes 10 s, and on a new machine numba makes its machine code first, 100 s on one core."""

_LOOK_S: Final = 0.2
"""How often a process at work is checked."""

_MAX_REPLY_BYTES: Final = 1 << 20

T = TypeVar("T")


class NotBegunError(Exception):
    """The process died before it began the job, so another can do it."""


class _GoneError(CompileError):
    """The process has ended by itself."""


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
        """Return the command line that starts the process; ``parse`` reads its last argument."""
        return [sys.executable, "-m", "vocab.compiler.worker", json.dumps(asdict(self), default=str)]

    @classmethod
    def parse(cls, argument: str) -> Self:
        """Read the last argument of the process's command line."""
        values = json.loads(argument)
        for name in ("folder", "wordlist_dir"):
            values[name] = None if values[name] is None else Path(values[name])
        return cls(**values)


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
        """``first`` is sent before it is asked anything; ``errors`` gets what it prints, standard error otherwise."""
        self._first = first
        self._max_memory_bytes = max_memory_bytes
        self._max_cpu_s = math.inf
        packages = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        printed = 2 if errors is None else errors
        self._connection, childs = Pipe()
        with childs:
            self._process = subprocess.Popen(
                arguments,
                stdin=childs.fileno(),
                stdout=printed,
                stderr=printed,
                env={**os.environ, "PYTHONPATH": packages},
            )

    def wait_until_ready(self) -> str:
        """Wait until the process is ready, and return the name that it gives itself.

        A process for lists is named by the digest of the tokenizer that it compiles for.

        Raises:
            CompileError: It does not become ready.
        """
        try:
            with self._watched(START_DEADLINE_S):
                if self._first:
                    self._connection.send_bytes(self._first)
                return self._receive(str)
        except VocabularyError as error:
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
        has_begun = False
        try:
            with self._watched(deadline_s):
                # Not ``send``: where the pipe breaks, Python 3.12.1 crashes when it collects that buffer.
                self._connection.send_bytes(dumps(job))
                self._receive(str)
                has_begun = True
                self._max_cpu_s = cpu_seconds(self.pid) + max_cpu_s
                return self._receive(Reply)
        except VocabularyError as error:
            self.reap()
            if isinstance(error, _GoneError) and not has_begun:
                raise NotBegunError from None
            raise

    def close(self) -> None:
        """Let the process end, and kill it if it does not."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2 * EXIT_S)
        self.reap()

    def stop(self) -> None:
        """Kill the process; a thread that waits for it gets an error."""
        self._process.kill()

    def reap(self) -> None:
        """Kill the process, wait for its end and close the pipe."""
        self._process.kill()
        self._process.wait()
        self._connection.close()

    @contextmanager
    def _watched(self, deadline_s: float) -> Iterator[None]:
        """Kill the process when it exceeds the deadline, or its memory or processor time, and raise why.

        A thread looks, for what sends to or receives from a process that is stopped blocks until it is killed.
        """
        deadline, done, faults = time.monotonic() + deadline_s, Event(), list[VocabularyError]()
        # What it makes ready before it begins is no part of the job.
        self._max_cpu_s = math.inf

        def watch() -> None:
            while not done.is_set():
                if time.monotonic() > deadline:
                    faults.append(CompileTimeoutError(f"a job took longer to compile than the {deadline_s:g} s it may"))
                else:
                    faults.extend(self._excess())
                if faults:
                    self._process.kill()
                    return
                done.wait(_LOOK_S)

        watcher = Thread(target=watch, name="compile-watch", daemon=True)
        watcher.start()
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        finally:
            done.set()
            watcher.join()
        if failure is not None:
            raise (faults[0] if faults else self._meaning_of(failure)) from None

    def _meaning_of(self, failure: Exception) -> CompileError:
        """Return the error of the library that tells what went wrong with the pipe."""
        if isinstance(failure, CompileError):
            return failure
        if isinstance(failure, EOFError | ConnectionError):
            return _GoneError(self._how_it_died())
        return CompileError(f"the compile process failed: {failure}")

    def _excess(self) -> Iterator[VocabularyError]:
        """Yield what the process takes too much of."""
        if math.isfinite(self._max_cpu_s) and cpu_seconds(self.pid) > self._max_cpu_s:
            yield ListTooLargeError("The list takes too long to compile: send fewer or shorter words.")
        if (used := resident_bytes(self.pid)) > self._max_memory_bytes:
            yield CompileError(
                f"a job needs more memory to compile ({used / 1e9:.1f} GB) than compile_memory_bytes allows"
            )

    def _receive(self, kind: type[T]) -> T:
        """Receive an object that the process sends, of this kind."""
        received = loads(self._connection.recv_bytes(_MAX_REPLY_BYTES))  # noqa: S301 - of a process of this program
        if not isinstance(received, kind):
            raise CompileError(f"the compile process answered {str(received)[:80]!r}")
        return received

    def _how_it_died(self) -> str:
        """Describe how the process ended, for an error message."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.returncode
        if code is None:
            return "the compile process closed its end of the pipe"
        if code < 0:
            return f"the compile process was ended by {signal.Signals(-code).name}"
        return f"the compile process ended with status {code}"
