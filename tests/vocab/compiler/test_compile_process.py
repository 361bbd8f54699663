import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path

import psutil
import pytest

from tests.deployments.processes import is_gone, toy_command, wait_until
from vocab.compiler import compile_process
from vocab.compiler.child_process import EXIT_S
from vocab.compiler.compile_process import CompileProcess, NotBegunError
from vocab.compiler.jobs import CompileList
from vocab.errors import CompileError, CompileTimeoutError, EmptyWordListError, WordListError

MEMORY = 2**30
GOOD = CompileList("en", ("the", "cat"))
FULL_PIPE = tuple("word" * 9 + str(number) for number in range(50_000))
"""More than is taken from one who sends, where nobody reads."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("artefacts")


@pytest.fixture
def faulty(folder: Path) -> Iterator[CompileProcess]:
    process = CompileProcess(toy_command(folder, is_faulty=True).arguments(), MEMORY)
    process.wait_until_ready()
    yield process
    process.reap()
    assert is_gone(process.pid)


def test_a_process_does_one_job_after_the_other_and_ends_when_told(folder: Path) -> None:
    command = toy_command(folder)
    process = CompileProcess(command.arguments(), MEMORY)
    assert process.wait_until_ready() == command.tokenizer
    first, second = process.ask(GOOD, 30), process.ask(GOOD, 30)
    assert first.compiled is not None
    assert second.compiled is not None
    assert second.compiled.was_stored
    assert 0 < second.resident_bytes < MEMORY
    assert isinstance(process.ask(CompileList(None, ()), 30).error, EmptyWordListError)
    # What a request may hold and no word may.
    assert isinstance(process.ask(CompileList(None, ("niño", 'say "so"', "a\nb", "\ud800")), 30).error, WordListError)
    # Larger than a pipe.
    large = process.ask(CompileList("en", tuple(f"word{number}" for number in range(20_000))), 60)
    assert large.compiled is not None
    assert large.compiled.num_words == 20_000
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
    start = time.monotonic()
    process.close()
    assert time.monotonic() - start < 5
    assert is_gone(process.pid)


@pytest.mark.parametrize(
    ("words", "sent", "deadline_s", "kind", "says"),
    [
        (("segfault",), None, 120, CompileError, "ended by SIGSEGV"),
        (("exit",), None, 120, CompileError, "ended with status 3"),
        (("memory",), None, 120, CompileError, "needs more memory to compile"),
        (("garbage",), None, 120, CompileError, "answered 'garbage'"),
        (("hang",), None, 0.5, CompileTimeoutError, r"longer to compile than the 0\.5 s"),
        (("the",), signal.SIGSTOP, 0.5, CompileTimeoutError, "longer to compile"),
        (FULL_PIPE, signal.SIGSTOP, 0.5, CompileTimeoutError, "longer to compile"),
        (("the",), signal.SIGKILL, 30, NotBegunError, None),
    ],
    ids=["segfault", "exit", "memory", "garbage", "hang", "stopped", "stopped with a full pipe", "has not begun"],
)
def test_a_process_that_fails_is_gone_and_says_why(
    faulty: CompileProcess,
    words: tuple[str, ...],
    sent: signal.Signals | None,
    deadline_s: float,
    kind: type[Exception],
    says: str | None,
) -> None:
    if sent is not None:
        os.kill(faulty.pid, sent)
    if sent == signal.SIGKILL:
        wait_until(lambda: not faulty.is_alive())
    start = time.monotonic()
    with pytest.raises(kind, match=says):
        faulty.ask(CompileList("en", words), deadline_s)
    assert words != ("hang",) or time.monotonic() - start < 5
    assert is_gone(faulty.pid)


def test_a_process_that_does_not_end_when_told_is_killed(
    faulty: CompileProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_process, "EXIT_S", 0.1)
    os.kill(faulty.pid, signal.SIGSTOP)
    faulty.close()
    assert is_gone(faulty.pid)


PARENT = """
import sys, time
from vocab.compiler.compile_process import CompileProcess
from vocab.compiler.jobs import CompileList
process = CompileProcess(sys.argv[2:], 2**30)
process.wait_until_ready()
print(process.pid, flush=True)
process.ask(CompileList('en', (sys.argv[1],)), 60)
time.sleep(60)
"""


@pytest.mark.parametrize(("how", "word"), [(signal.SIGKILL, "hang"), (signal.SIGTERM, "the")])
def test_no_process_outlives_its_parent(folder: Path, how: signal.Signals, word: str) -> None:
    arguments = toy_command(folder, is_faulty=True).arguments()
    with subprocess.Popen([sys.executable, "-c", PARENT, word, *arguments], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.3)
        parent.send_signal(how)
    # Whoever adopts it may take a moment to wait for it.
    wait_until(lambda: is_gone(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_a_job_does_not_outlive_the_end_of_its_pipe(folder: Path) -> None:
    ours, childs = Pipe()
    with childs:
        process = subprocess.Popen(toy_command(folder, is_faulty=True).arguments(), stdin=childs.fileno())
    with process:
        assert ours.recv() == toy_command(folder).tokenizer
        ours.send(CompileList("en", ("hang",)))
        assert ours.recv() == "started"
        ours.close()
        assert process.wait(EXIT_S + 10) == 0


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("os.write(0, (8).to_bytes(4, 'big') + b'nonsense')", "failed: "),
        ("Connection(0).send(7)", "answered '7'"),
        ("", "ended with status 0"),
        ("os.close(0); time.sleep(60)", "closed its end"),
        ("os.write(0, (2_000_000).to_bytes(4, 'big'))", "failed: "),
    ],
)
def test_what_does_not_become_ready_is_refused(program: str, says: str) -> None:
    imports = "import os, time; from multiprocessing.connection import Connection; "
    process = CompileProcess([sys.executable, "-c", imports + program], MEMORY)
    with pytest.raises(CompileError, match=f"does not start: .*{says}"):
        process.wait_until_ready()
    assert is_gone(process.pid)
