"""The parts of the compile process that can be run in this one; the process itself is tested with its parent."""

import json
import os
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.vocab.toys import toy_speller, toy_tokenizer
from vocab.artefacts.store import ArtefactStore, SharedStore
from vocab.automaton.tokenizer import byte_speller
from vocab.compiler import worker
from vocab.compiler.child_process import resident_bytes
from vocab.compiler.jobs import ChangeList, CompileList, Job, Reply, read_reply
from vocab.compiler.worker import ListCompiler, prepare, serve


def test_each_job_is_begun_answered_and_shared(tmp_path: Path) -> None:
    MemoryFileSystem.store.clear()
    shared = SharedStore("memory://lists", 10**9)
    store = ArtefactStore(tmp_path, 10**8, shared)
    lines: list[bytes] = []
    jobs = [CompileList(None, ("the", "cat")), CompileList(None, ())]
    serve(jobs, ListCompiler(toy_speller(toy_tokenizer(["the"])), store), store, lines.append)
    assert [line for line in lines if b"started" in line] == lines[::2] == [b'{"started":true}\n'] * 2
    good, bad = (read_reply(line) for line in lines[1::2])
    assert good.compiled is not None
    assert good.resident_bytes > 10**6
    assert bad.error is not None
    assert shared.read(good.compiled.digest) == store.read_bytes(good.compiled.digest)
    MemoryFileSystem.store.clear()


@pytest.mark.parametrize(("grown", "times"), [(0, 0), (worker.SCATTERED_BYTES, 1), (worker.SCATTERED_BYTES + 1, 2)])
def test_what_large_jobs_leave_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grown: int, times: int
) -> None:
    """Two of four jobs leave so many bytes each."""
    resident, given_back = 10**8, 0

    class Growing(ListCompiler):
        def run(self, job: Job) -> Reply:
            nonlocal resident
            resident += grown if job == jobs[1] else 0
            return super().run(job)

    def give_back() -> None:
        nonlocal resident, given_back
        resident, given_back = 10**8, given_back + 1

    monkeypatch.setattr(worker, "resident_bytes", lambda: resident)
    monkeypatch.setattr(worker, "give_memory_back", give_back)
    jobs = [CompileList(None, ("the",)), CompileList(None, ("cat",))] * 2
    store = ArtefactStore(tmp_path, 10**8)
    serve(jobs, Growing(toy_speller(toy_tokenizer(["the"])), store), store, lambda _: None)
    assert given_back == times


def test_machine_code_is_made_before_a_job_is_said_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its processor time is counted from then on, and compiling takes more than a request's own list may.
    told: list[str] = []
    monkeypatch.setattr(worker, "warm_up_segmented", lambda: told.append("machine code"))
    speller, store = byte_speller(), ArtefactStore(tmp_path, 10**8)
    compiler = ListCompiler(speller, store)
    compiled = compiler.run(CompileList("zh", ("一", "二"))).compiled
    assert compiled is not None
    jobs: list[Job] = [
        CompileList(None, ("a",)),
        CompileList("zh", ("一",)),
        ChangeList(compiled.digest, extra_words=("三",)),
    ]
    serve([*jobs, ChangeList("0" * 64)], compiler, store, lambda line: told.append(next(iter(json.loads(line)))))
    starts = [index for index, one in enumerate(told) if one == "started"]
    assert [told[index - 1] == "machine code" for index in starts] == [False, True, True, False]


def test_memory_can_be_given_back_anywhere() -> None:
    worker.give_memory_back()


def test_machine_code_is_there_before_the_first_job() -> None:
    prepare()


def test_memory_is_known_of_processes_that_live() -> None:
    assert resident_bytes() == resident_bytes(os.getpid()) or resident_bytes() > 10**6
    assert resident_bytes(2**22 + 1) == 0
