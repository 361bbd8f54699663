"""The artefacts of a node, within their bound, and the store that nodes share."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.vocab.toys import toy_words
from vocab.artefacts.artefact import ArtefactFolder
from vocab.artefacts.store import GRACE_S, STALE_PART_S, ArtefactStore, SharedStore, time_of
from vocab.automaton.compiled_list import CompiledList
from vocab.errors import ArtefactError


@pytest.fixture
def memory() -> Iterator[str]:
    MemoryFileSystem.store.clear()
    yield "memory://lists"
    MemoryFileSystem.store.clear()


@pytest.fixture
def shared(memory: str) -> SharedStore:
    return SharedStore(memory, 10**9)


@pytest.fixture(scope="module")
def words() -> CompiledList:
    return toy_words(["the", "cat"])


def digest_of(number: int) -> str:
    return f"{number:064x}"


def fill(store: ArtefactStore, numbers: range, num_bytes: int, age_s: float = 2 * GRACE_S) -> None:
    """Write files, the first the oldest."""
    for number in numbers:
        path = store.write_bytes(digest_of(number), bytes(num_bytes))
        then = time.time() - age_s - numbers.stop + number
        with suppress(FileNotFoundError):
            os.utime(path, (then, then))


def cached(store: ArtefactStore, numbers: range) -> list[int]:
    return [number for number in numbers if store.path_of(digest_of(number)).is_file()]


def test_a_list_is_found_where_it_was_saved_and_outlives_its_file(tmp_path: Path, words: CompiledList) -> None:
    store = ArtefactStore(tmp_path / "a", 10**6)
    store.save(words)
    store.share()
    store = ArtefactStore(tmp_path / "a", 10**6)
    found = store.find(words.digest, store.load)
    assert found is not None
    assert found.listed.word_list.words == ("the", "cat")
    assert ArtefactFolder(tmp_path / "a").load(words.digest).digest == words.digest
    assert store.find(digest_of(1), store.load) is None
    assert store.num_bytes() == len(store.read_bytes(words.digest))
    store.discard(words.digest)
    assert not store.has(words.digest)
    assert found.tokens.tolist() == words.tokens.tolist()


@pytest.mark.parametrize("num_stores", [1, 4])
def test_the_stores_of_a_folder_keep_its_bound_together(tmp_path: Path, num_stores: int) -> None:
    stores = [ArtefactStore(tmp_path, 10_000) for _ in range(num_stores)]
    for number in range(400):
        fill(stores[number % num_stores], range(number, number + 1), 90)
        assert stores[0].num_bytes() <= 10_000
    assert 399 in cached(stores[0], range(400))


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path, 1000)
    fill(store, range(10), 100)
    assert store.has(digest_of(0))
    store.write_bytes(digest_of(10), bytes(100))
    assert cached(store, range(11)) == [0, 3, 4, 5, 6, 7, 8, 9, 10]


def test_what_was_just_used_stays_until_twice_the_bound(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path, 1000)
    fill(store, range(20), 100, age_s=1)
    assert store.num_bytes() == 2000
    store.write_bytes(digest_of(20), bytes(100))
    assert store.num_bytes() == 2000
    assert cached(store, range(21)) == list(range(1, 21))


def test_a_file_larger_than_the_bound_is_kept_while_it_is_the_newest(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path, 1000)
    fill(store, range(1), 5000)
    assert cached(store, range(1)) == [0]
    fill(store, range(1, 2), 100)
    assert cached(store, range(2)) == [1]


def test_a_file_that_another_process_deletes_meanwhile_is_no_fault(tmp_path: Path) -> None:
    context = get_context("spawn")
    writers = [context.Process(target=write_many, args=(tmp_path, first)) for first in (0, 1000, 2000)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert ArtefactStore(tmp_path, 1000).num_bytes() <= 2000


def write_many(path: Path, first: int) -> None:
    store = ArtefactStore(path, 1000)
    for number in range(first, first + 100):
        fill(store, range(number, number + 1), 100)
        store.has(digest_of(number))
        store.num_bytes()


def test_what_a_dead_writer_left_is_removed_at_the_start(tmp_path: Path) -> None:
    for name in ("old.part", "new.part", "notes.txt"):
        (tmp_path / name).write_bytes(b"half")
    then = time.time() - STALE_PART_S - 1
    os.utime(tmp_path / "old.part", (then, then))
    assert ArtefactStore(tmp_path, 1000).num_bytes() == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.part", "notes.txt"]


def test_a_damaged_file_or_another_lists_is_deleted_and_not_used(
    tmp_path: Path, words: CompiledList, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "vocab")
    store = ArtefactStore(tmp_path, 10**6)
    path = store.save(words)
    foreign = store.write_bytes(digest_of(7), path.read_bytes())
    assert store.find(digest_of(7), store.load) is None
    assert not foreign.exists()
    path.write_bytes(path.read_bytes()[:-7])
    assert store.find(words.digest, store.load) is None
    assert not path.exists()
    assert words.digest in caplog.text


def test_what_is_damaged_or_deleted_is_not_shared(tmp_path: Path, words: CompiledList, shared: SharedStore) -> None:
    store = ArtefactStore(tmp_path, 10**6, shared)
    shared.write(words.digest, b"nonsense")
    assert store.find(words.digest, store.load) is None
    assert shared.read(words.digest) is None
    assert not store.has(words.digest)
    store.save(words)
    store.discard(words.digest)
    store.share()
    assert shared.read(words.digest) is None


def test_what_is_nowhere_cannot_be_read(tmp_path: Path, shared: SharedStore) -> None:
    for store in (ArtefactStore(tmp_path, 10**6), ArtefactStore(tmp_path, 10**6, shared)):
        for read in (store.read_bytes, store.load):
            with pytest.raises(ArtefactError):
                read(digest_of(1))
        assert store.num_bytes() == 0


@pytest.mark.fault(47)
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, words: CompiledList) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtefactError, match=r"cannot be written to .*file"):
        ArtefactStore(tmp_path / "file", 10**6).save(words)


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_shared_store_keeps_what_was_written_until_it_is_deleted(memory: str, tmp_path: Path, kind: str) -> None:
    url = memory if kind == "memory" else f"file://{tmp_path}/shared"
    store = SharedStore(url, 1000)
    for data in (b"words", b"other"):
        store.write(digest_of(1), data)
        assert SharedStore(url, 1000).read(digest_of(1)) == data
    assert store.read(digest_of(2)) is None
    if kind == "file":
        assert [path.name for path in (tmp_path / "shared").iterdir()] == [f"{digest_of(1)}.safetensors"]
    for _ in range(2):
        store.delete(digest_of(1))
    assert store.read(digest_of(1)) is None


def test_a_shared_store_deletes_what_was_written_or_used_longest_ago(memory: str, tmp_path: Path) -> None:
    def kept_of(store: SharedStore, *sizes: int, use: Callable[[], object] | None = None) -> list[int]:
        for number, size in enumerate(sizes):
            if use is not None and number == len(sizes) - 1:
                use()
            store.write(digest_of(number), bytes(size))
            time.sleep(0.02)
        return [number for number in range(len(sizes)) if store.read(digest_of(number)) is not None]

    assert kept_of(SharedStore(memory, 250), 100, 100, 100) == [1, 2]
    assert kept_of(SharedStore(f"{memory}/of-one", 50), 40, 400) == [1]
    # A local file system records a use.
    local = SharedStore(f"file://{tmp_path}", 350)
    assert kept_of(local, 100, 100, 100, 100, use=lambda: local.read(digest_of(0))) == [0, 2, 3]


def test_a_store_that_fails_is_left_alone_for_a_while(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "vocab")
    (tmp_path / "file").write_text("")
    store = SharedStore(f"file://{tmp_path}/file/below", 1000, retry_s=0.2)
    assert store.read(digest_of(1)) is None
    store.write(digest_of(1), b"words")
    store.delete(digest_of(1))
    assert len([record for record in caplog.records if "left alone" in record.message]) == 1
    (tmp_path / "file").unlink()
    time.sleep(0.2)
    store.write(digest_of(1), b"words")
    assert store.read(digest_of(1)) == b"words"


def test_a_store_that_does_not_answer_is_given_up(memory: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "vocab")

    class Slow(MemoryFileSystem):
        protocol = "slowmemory"

        def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
            time.sleep(0.5)
            return b"late"

    fsspec.register_implementation("slowmemory", Slow, clobber=True)
    assert SharedStore("slowmemory://lists", 1000, timeout_s=0.05, retry_s=60).read(digest_of(1)) is None
    assert "no answer within 0.05 s" in caplog.text


@pytest.mark.parametrize(
    ("entry", "seconds"),
    [
        ({"mtime": 3.0, "created": 9.0}, 3.0),
        ({"LastModified": datetime(2026, 11, 21, 9, tzinfo=UTC)}, 1795251600.0),
        ({"updated": "2026-11-21T09:00:00+00:00"}, 1795251600.0),
        ({"updated": "yesterday"}, 0.0),
        ({"size": 1}, 0.0),
    ],
)
def test_files_are_ordered_by_whatever_time_the_file_system_gives(entry: dict[str, object], seconds: float) -> None:
    assert time_of(entry) == seconds
