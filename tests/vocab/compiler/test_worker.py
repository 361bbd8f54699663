"""The parts of the compile process that can be run in this one; the process itself is tested with its parent."""

import os
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.vocab.toys import toy_speller, toy_tokenizer
from vocab.artefacts.store import ArtefactStore, SharedStore
from vocab.compiler import worker
from vocab.compiler.child_process import resident_bytes
from vocab.compiler.jobs import CompileList, Job, Reply
from vocab.compiler.worker import ListCompiler, serve


def test_each_job_is_begun_answered_and_shared(tmp_path: Path) -> None:
    MemoryFileSystem.store.clear()
    shared = SharedStore("memory://lists", 10**9)
    store = ArtefactStore(tmp_path, 10**8, shared)
    sent: list[str | Reply] = []
    jobs = [CompileList(None, ("the", "cat")), CompileList(None, ())]
    serve(jobs, ListCompiler(toy_speller(toy_tokenizer(["the"])), store), store, sent.append)
    started, good, started_too, bad = sent
    assert started == started_too == "started"
    assert isinstance(good, Reply)
    assert isinstance(bad, Reply)
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


def test_memory_can_be_given_back_anywhere() -> None:
    worker.give_memory_back()


def test_memory_is_known_of_processes_that_live() -> None:
    assert resident_bytes() == resident_bytes(os.getpid()) or resident_bytes() > 10**6
    assert resident_bytes(2**22 + 1) == 0
