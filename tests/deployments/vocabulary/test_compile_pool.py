import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployments.vocabulary import compile_pool
from deployments.vocabulary.compile_pool import CompileLimits, CompilePool
from tests.deployments.processes import is_gone, toy_command, wait_until
from vocab.artefacts.store import SharedStore
from vocab.compiler.child_process import resident_bytes
from vocab.compiler.compile_process import WorkerCommand
from vocab.compiler.jobs import ChangeList, Compiled, CompileList, MeasureTexts
from vocab.errors import (
    ArtefactError,
    CompileError,
    CompileQueueError,
    CompileTimeoutError,
    InvalidWordListError,
    ListTooLargeError,
)
from vocab.options import DEFAULT_OPTIONS, ListOptions

LIMITS = CompileLimits(deadline_s=30, max_memory_bytes=2**30)


class Faulty:
    """A compiler whose processes fail on demand, and a folder of lists."""

    def __init__(self, folder: Path, limits: CompileLimits) -> None:
        self.lists = folder / "lists"
        self.lists.mkdir(exist_ok=True)
        self.compiler = CompilePool(toy_command(folder / "artefacts", is_faulty=True, lists=self.lists), limits)
        self.seen: set[int] = set()

    def named(self, name: str, *words: str) -> CompileList:
        (self.lists / f"{name}.txt").write_text("\n".join(words))
        return CompileList(name)

    async def make(self, job: CompileList | ChangeList, owner: str = "") -> Compiled:
        try:
            return await self.compiler.compile(job, owner)
        finally:
            self.seen.update(self.compiler.pids())


@asynccontextmanager
async def faulty(folder: Path, **limits: Any) -> AsyncIterator[Faulty]:
    """A compiler with these limits, of which no process is left."""
    world = Faulty(folder, replace(LIMITS, **limits))
    try:
        yield world
    finally:
        world.seen.update(world.compiler.pids())
        await world.compiler.close()
        assert all(is_gone(pid) for pid in world.seen)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Faulty]:
    async with faulty(tmp_path) as world:
        yield world


def inline(*words: str) -> CompileList:
    return CompileList("en", words)


async def test_named_lists_have_a_process_and_clients_lists_and_changes_another_that_does_not_wait(
    world: Faulty,
) -> None:
    await world.compiler.warm_up()
    [first] = world.compiler.pids()
    named, own = await asyncio.gather(world.make(world.named("pets", "the", "cat")), world.make(inline("the", "cat")))
    assert named.num_words == own.num_words == 2
    small, large = world.compiler.pids()
    assert small == first
    os.kill(large, signal.SIGSTOP)
    waiting = asyncio.create_task(world.make(world.named("others", "the")))
    await world.make(inline("the"))
    changed = await world.make(ChangeList(named.digest, exclude_words=("the", "cat"), extra_words=("dog", "Bo")))
    assert (changed.num_words, changed.was_stored) == (2, False)
    for n_words, changes, options, expected in [
        (2, None, DEFAULT_OPTIONS, 1),
        (2, None, ListOptions(end="sentence"), 2),
        (2, changed.digest, DEFAULT_OPTIONS, 2),
    ]:
        assert await world.compiler.measure(MeasureTexts(named.digest, changes, options, n_words)) == expected
    without = await world.make(ChangeList(named.digest, exclude_words=("the", "cat")))
    assert await world.compiler.measure(MeasureTexts(named.digest, without.digest, DEFAULT_OPTIONS, 2)) is None
    assert world.compiler.pids() == [small, large]
    assert not waiting.done()
    os.kill(large, signal.SIGCONT)
    await waiting


async def test_an_error_of_the_list_is_raised_here_and_the_process_stays(world: Faulty) -> None:
    await world.make(inline("the"))
    with pytest.raises(InvalidWordListError, match=r"words\[1\]"):
        await world.make(inline("the", "c\0t"))
    with pytest.raises(ArtefactError, match="gone"):
        await world.make(ChangeList("0" * 64, exclude_words=("the",)))
    with pytest.raises(ArtefactError, match="gone"):
        await world.compiler.measure(MeasureTexts("0" * 64, None, DEFAULT_OPTIONS, 1))
    await world.make(inline("cat"))
    assert len(world.seen) == 1


@pytest.mark.fault(30)
@pytest.mark.parametrize("word", ["segfault", "memory"])
async def test_a_job_that_fails_its_process_fails_alone(world: Faulty, word: str) -> None:
    jobs = [world.make(inline(each)) for each in ("the", word, "cat")]
    before, failed, after = await asyncio.gather(*jobs, return_exceptions=True)
    assert isinstance(failed, CompileError)
    assert isinstance(before, Compiled)
    assert isinstance(after, Compiled)


@pytest.mark.fault(30)
async def test_a_job_that_hangs_is_given_up_at_its_deadline(tmp_path: Path) -> None:
    # Long enough for a process to start in.
    async with faulty(tmp_path, deadline_s=6) as world:
        await world.make(inline("the"))
        # The time in the queue counts as well.
        hanging, waiting = world.make(inline("hang")), world.make(inline("cat"))
        for outcome in await asyncio.gather(hanging, waiting, return_exceptions=True):
            assert isinstance(outcome, CompileTimeoutError)
        assert isinstance(await world.make(inline("dog")), Compiled)
        assert len(world.seen) == 2


async def test_a_list_that_takes_too_long_by_itself_is_refused(world: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.make(inline("the"))
    monkeypatch.setattr(compile_pool, "MAX_CPU_S", 0.5)
    with pytest.raises(ListTooLargeError, match="fewer or shorter"):
        await world.make(inline("hang"))
    monkeypatch.undo()
    await world.make(inline("cat"))


@pytest.mark.fault(57)
async def test_owners_take_turns(world: Faulty) -> None:
    await world.make(inline("the"))
    done: list[str] = []

    async def make(owner: str, word: str) -> None:
        await world.make(inline(word), owner)
        done.append(word)

    under_way = asyncio.create_task(make("greedy", "slow"))
    await asyncio.sleep(0.3)
    jobs = [make("greedy", word) for word in ("a1", "a2", "a3", "a4")]
    await asyncio.gather(under_way, *jobs, make("modest", "b1"), make("modest", "b2"))
    assert done == ["slow", "a1", "b1", "a2", "b2", "a3", "a4"]


async def test_a_key_has_a_bound_of_waiting_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_pool, "MAX_WAITING_SHORT", 2)
    async with faulty(tmp_path) as world:
        await world.make(inline("the"))
        slow = asyncio.create_task(world.make(inline("slow"), "greedy"))
        await asyncio.sleep(0.3)
        first, second = (asyncio.create_task(world.make(inline(word), "greedy")) for word in "ab")
        await asyncio.sleep(0)
        with pytest.raises(CompileQueueError):
            await world.make(inline("c"), "greedy")
        other = asyncio.create_task(world.make(inline("d"), "modest"))
        # Who leaves makes room.
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        await asyncio.gather(world.make(inline("e"), "greedy"), slow, first, other)


async def test_a_process_that_dies_before_a_job_begins_is_replaced_unnoticed(world: Faulty) -> None:
    await world.make(inline("the"))
    os.kill(world.compiler.pids()[0], signal.SIGKILL)
    await asyncio.sleep(0.2)
    await world.make(inline("cat"))
    assert len(world.seen) == 2
    # Also where it dies when the job was given to it.
    [pid] = world.compiler.pids()
    os.kill(pid, signal.SIGSTOP)
    job = asyncio.create_task(world.make(inline("dog")))
    await asyncio.sleep(0.3)
    os.kill(pid, signal.SIGKILL)
    assert (await job).num_words == 1


async def test_a_process_that_has_grown_is_ended_after_the_job(world: Faulty) -> None:
    await world.make(inline("the"))
    [first] = world.compiler.pids()
    await world.make(inline("grow", "grow"))
    wait_until(lambda: is_gone(first))
    await world.make(inline("cat"))
    assert first not in world.compiler.pids()


async def test_the_process_for_named_lists_ends_when_it_has_nothing_to_do(tmp_path: Path) -> None:
    async with faulty(tmp_path, idle_s=0.3) as world:
        await world.make(inline("the"))
        [small] = world.compiler.pids()
        await world.make(world.named("pets", "the"))
        async with asyncio.timeout(20):
            while world.compiler.pids() != [small]:  # noqa: ASYNC110 - a process ends
                await asyncio.sleep(0.05)
        await world.make(world.named("pets", "cat"))


async def test_a_caller_who_leaves_takes_the_job_along_if_it_has_not_begun(world: Faulty) -> None:
    await world.make(inline("the"))
    slow = asyncio.create_task(world.make(inline("slow")))
    leaving = asyncio.create_task(world.make(inline("segfault")))
    await asyncio.sleep(0.2)
    leaving.cancel()
    await slow
    await world.make(inline("cat"))
    assert len(world.seen) == 1


@pytest.mark.fault(30)
async def test_closing_fails_what_is_under_way_and_leaves_no_process(world: Faulty) -> None:
    await world.make(inline("the"))
    jobs = [asyncio.create_task(world.make(inline(word))) for word in ("hang", "cat")]
    await asyncio.sleep(0.3)
    await world.compiler.close()
    for outcome in await asyncio.gather(*jobs, return_exceptions=True):
        assert isinstance(outcome, CompileError)
    assert world.compiler.pids() == []
    assert all(is_gone(pid) for pid in world.seen)
    with pytest.raises(CompileError, match="ending"):
        await world.make(inline("the"))
    await world.compiler.close()


async def test_processes_that_do_not_start_or_never_begin_are_an_error(tmp_path: Path) -> None:
    class Dying(WorkerCommand):
        def arguments(self) -> list[str]:
            program = "from multiprocessing.connection import Connection; Connection(0).send('x')"
            return [super().arguments()[0], "-c", program]

    without_tokenizer = WorkerCommand(tmp_path, 10**6, tokenizer="0" * 64)
    for command, message in ((without_tokenizer, "does not start"), (Dying(tmp_path, 10**6), "die before they begin")):
        pool = CompilePool(command, LIMITS)
        with pytest.raises(CompileError, match=message):
            await (pool.warm_up() if command is without_tokenizer else pool.compile(inline("the")))
        await pool.close()


async def test_the_models_tokenizer_is_read_once(tmp_path: Path, smollm2_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "pets.txt").write_text("the\ncat")
    shared = f"file://{tmp_path}/shared"
    command = WorkerCommand(
        tmp_path / "here", 10**9, str(smollm2_path), wordlist_dir=tmp_path / "lists", shared_url=shared
    )
    own_tokenizer = CompilePool(command, LIMITS)
    try:
        await own_tokenizer.warm_up()
        assert resident_bytes(own_tokenizer.pids()[0]) < 400 * 2**20, "it still has what reads a tokenizer in memory"
        # What the first stored is enough for the second.
        own, named = await asyncio.gather(
            own_tokenizer.compile(inline("cat")), own_tokenizer.compile(CompileList("pets"))
        )
        assert (own.num_words, named.num_words) == (1, 2)
        wait_until(lambda: SharedStore(shared, 10**9).read(named.digest) is not None)
    finally:
        await own_tokenizer.close()
