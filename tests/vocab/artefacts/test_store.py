import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.vocab.toys import toy_words
from vocab.artefacts.artefact import ArtefactFolder
from vocab.artefacts.store import GRACE_S, STALE_PART_S, ArtefactStore, SharedStore
from vocab.automaton.compiled_list import CompiledList
from vocab.errors import ArtefactError

SHARED = "memory://lists"


@pytest.fixture
def shared() -> Iterator[SharedStore]:
    MemoryFileSystem.store.clear()
    yield SharedStore(SHARED, 10**9)
    MemoryFileSystem.store.clear()


@pytest.fixture(scope="module")
def words() -> CompiledList:
    return toy_words(["the", "cat"])


def digest_of(number: int) -> str:
    return f"{number:064x}"


def age(store: ArtefactStore, digest: str, seconds: float) -> None:
    then = time.time() - seconds
    with suppress(FileNotFoundError):
        os.utime(store.path_of(digest), (then, then))


def fill(store: ArtefactStore, numbers: range, num_bytes: int, age_s: float = 2 * GRACE_S) -> None:
    """Writes files, the first the oldest."""
    for number in numbers:
        store.write_bytes(digest_of(number), bytes(num_bytes))
        age(store, digest_of(number), age_s + numbers.stop - number)


def cached(store: ArtefactStore, numbers: range) -> list[int]:
    return [number for number in numbers if store.path_of(digest_of(number)).is_file()]


def test_a_list_is_found_where_it_was_saved(tmp_path: Path, words: CompiledList) -> None:
    store = ArtefactStore(tmp_path / "a", 10**6)
    store.save(words)
    store.share()
    store = ArtefactStore(tmp_path / "a", 10**6)
    found = store.find(words.digest, store.load)
    assert found is not None
    assert found.listed.word_list.words == ("the", "cat")
    assert store.find(digest_of(1), store.load) is None
    assert store.num_bytes() == len(store.read_bytes(words.digest))


def test_the_folder_stays_within_its_bound(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path, 1000)
    for number in range(100):
        fill(store, range(number, number + 1), 90)
        assert store.num_bytes() <= 1000
    assert 99 in cached(store, range(100))


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


def test_several_stores_of_one_folder_keep_its_bound_together(tmp_path: Path) -> None:
    stores = [ArtefactStore(tmp_path, 10_000) for _ in range(4)]
    for number in range(400):
        fill(stores[number % 4], range(number, number + 1), 100)
        assert stores[0].num_bytes() <= 10_000


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


def test_a_mapped_artefact_outlives_its_file(tmp_path: Path, words: CompiledList) -> None:
    store = ArtefactStore(tmp_path, 10**6)
    store.save(words)
    loaded = store.load(words.digest)
    store.discard(words.digest)
    assert not store.has(words.digest)
    assert loaded.tokens.tolist() == words.tokens.tolist()


def test_what_a_dead_writer_left_is_removed_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "old.part").write_bytes(b"half")
    (tmp_path / "new.part").write_bytes(b"half")
    (tmp_path / "notes.txt").write_bytes(b"somebody's")
    then = time.time() - STALE_PART_S - 1
    os.utime(tmp_path / "old.part", (then, then))
    assert ArtefactStore(tmp_path, 1000).num_bytes() == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.part", "notes.txt"]


def test_a_damaged_file_is_deleted_and_not_used(
    tmp_path: Path, words: CompiledList, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "vocab")
    store = ArtefactStore(tmp_path, 10**6)
    path = store.save(words)
    path.write_bytes(path.read_bytes()[:-7])
    assert store.find(words.digest, store.load) is None
    assert not path.exists()
    assert words.digest in caplog.text


def test_another_lists_file_is_not_used(tmp_path: Path, words: CompiledList) -> None:
    store = ArtefactStore(tmp_path, 10**6)
    store.write_bytes(digest_of(7), store.save(words).read_bytes())
    assert store.find(digest_of(7), store.load) is None
    assert store.has(words.digest)


def test_a_new_node_finds_what_another_made(tmp_path: Path, words: CompiledList, shared: SharedStore) -> None:
    first = ArtefactStore(tmp_path / "first", 10**6, shared)
    first.save(words)
    assert shared.read(words.digest) is None
    first.share()
    second = ArtefactStore(tmp_path / "second", 10**6, shared)
    assert second.read_bytes(words.digest) == first.read_bytes(words.digest)
    assert not second.has(words.digest)
    assert second.find(words.digest, second.load) is not None
    assert second.has(words.digest)


def test_what_was_deleted_before_it_was_shared_is_left_out(
    tmp_path: Path, words: CompiledList, shared: SharedStore
) -> None:
    store = ArtefactStore(tmp_path, 10**6, shared)
    store.save(words)
    store.discard(words.digest)
    store.share()
    assert shared.read(words.digest) is None


def test_a_damaged_file_of_the_shared_store_is_deleted_there(
    tmp_path: Path, words: CompiledList, shared: SharedStore
) -> None:
    shared.write(words.digest, b"nonsense")
    store = ArtefactStore(tmp_path, 10**6, shared)
    assert store.find(words.digest, store.load) is None
    assert shared.read(words.digest) is None
    assert not store.has(words.digest)


def test_what_is_nowhere_cannot_be_read(tmp_path: Path, shared: SharedStore) -> None:
    for store in (ArtefactStore(tmp_path, 10**6), ArtefactStore(tmp_path, 10**6, shared)):
        with pytest.raises(ArtefactError):
            store.read_bytes(digest_of(1))
        with pytest.raises(ArtefactError):
            store.load(digest_of(1))
    assert ArtefactStore(tmp_path, 10**6).num_bytes() == 0


def test_only_a_digest_names_a_file(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError):
        ArtefactStore(tmp_path, 10**6).has("../../etc/passwd")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, words: CompiledList) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtefactError, match=r"cannot be written to .*file"):
        ArtefactStore(tmp_path / "file", 10**6).save(words)


def test_a_folder_is_read_by_stores_and_by_plain_folders_alike(tmp_path: Path, words: CompiledList) -> None:
    ArtefactStore(tmp_path, 10**6).save(words)
    assert ArtefactFolder(tmp_path).load(words.digest).digest == words.digest
