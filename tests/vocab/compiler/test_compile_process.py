import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path

import psutil
import pytest

from tests.deployments.processes import is_gone, toy_command, wait_until
from vocab.compiler import compile_process
from vocab.compiler.child_process import EXIT_S
from vocab.compiler.compile_process import CompileProcess, NotBegunError, WorkerCommand
from vocab.compiler.jobs import CompileList, Job
from vocab.errors import CompileError, CompileTimeoutError, EmptyWordListError, WordListError

MEMORY = 2**30
GOOD = CompileList("en", ("the", "cat"))


def with_word(word: str) -> Job:
    return CompileList("en", (word,))


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
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
    start = time.monotonic()
    process.close()
    assert time.monotonic() - start < 5
    assert is_gone(process.pid)


def test_a_job_larger_than_a_pipe_arrives(faulty: CompileProcess) -> None:
    reply = faulty.ask(CompileList("en", tuple(f"word{number}" for number in range(20_000))), 60)
    assert reply.compiled is not None
    assert reply.compiled.num_words == 20_000


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("segfault", "ended by SIGSEGV"),
        ("exit", "ended with status 3"),
        ("memory", "needs more memory to compile"),
        ("garbage", "answered 'garbage'"),
    ],
)
def test_a_process_that_fails_is_gone_and_says_why(faulty: CompileProcess, word: str, says: str) -> None:
    with pytest.raises(CompileError, match=says):
        faulty.ask(with_word(word), 120)
    assert is_gone(faulty.pid)


def test_a_compile_that_does_not_end_is_killed_at_its_deadline(faulty: CompileProcess) -> None:
    start = time.monotonic()
    with pytest.raises(CompileTimeoutError, match=r"longer to compile than the 0\.5 s"):
        faulty.ask(with_word("hang"), 0.5)
    assert time.monotonic() - start < 5
    assert is_gone(faulty.pid)


def test_a_stopped_process_is_killed_at_the_deadline(faulty: CompileProcess) -> None:
    os.kill(faulty.pid, signal.SIGSTOP)
    with pytest.raises(CompileTimeoutError):
        faulty.ask(GOOD, 0.5)
    assert is_gone(faulty.pid)


def test_a_process_that_reads_nothing_does_not_hold_the_one_who_asks(faulty: CompileProcess) -> None:
    os.kill(faulty.pid, signal.SIGSTOP)
    with pytest.raises(CompileTimeoutError):
        faulty.ask(CompileList("en", tuple("word" * 9 + str(number) for number in range(50_000))), 0.5)
    assert is_gone(faulty.pid)


def test_a_process_killed_while_it_waits_has_not_begun(faulty: CompileProcess) -> None:
    os.kill(faulty.pid, signal.SIGKILL)
    wait_until(lambda: not faulty.is_alive())
    with pytest.raises(NotBegunError):
        faulty.ask(GOOD, 30)


def test_another_thread_can_stop_a_job(faulty: CompileProcess) -> None:
    threading.Timer(0.3, faulty.stop).start()
    with pytest.raises(CompileError, match="SIGKILL"):
        faulty.ask(with_word("hang"), 30)


def test_a_process_that_does_not_end_when_told_is_killed(
    faulty: CompileProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_process, "EXIT_S", 0.1)
    os.kill(faulty.pid, signal.SIGSTOP)
    faulty.close()
    assert is_gone(faulty.pid)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("word", ["the", "hang"])
def test_no_process_outlives_its_parent(folder: Path, how: signal.Signals, word: str) -> None:
    program = (
        "import sys\n"
        "from vocab.compiler.compile_process import CompileProcess\n"
        "from vocab.compiler.jobs import CompileList\n"
        "process = CompileProcess(sys.argv[2:], 2**30)\n"
        "process.wait_until_ready()\n"
        "print(process.pid, flush=True)\n"
        "process.ask(CompileList('en', (sys.argv[1],)), 60)\n"
        "import time; time.sleep(60)\n"
    )
    arguments = toy_command(folder, is_faulty=True).arguments()
    with subprocess.Popen([sys.executable, "-c", program, word, *arguments], stdout=subprocess.PIPE) as parent:
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
        ours.send(with_word("hang"))
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


def test_a_command_arrives_as_it_was(tmp_path: Path) -> None:
    for command in (
        WorkerCommand(tmp_path, 5),
        WorkerCommand(tmp_path, 5, "some/model", True, "1" * 64, tmp_path / "lists", "memory://", 7),
    ):
        assert WorkerCommand.parse(command.arguments()[-1]) == command
