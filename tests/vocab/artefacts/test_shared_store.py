import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from vocab.artefacts.store import SharedStore, time_of

ONE, TWO, THREE, FOUR = ("1" * 64, "2" * 64, "3" * 64, "4" * 64)


@pytest.fixture
def memory() -> Iterator[str]:
    MemoryFileSystem.store.clear()
    yield "memory://lists"
    MemoryFileSystem.store.clear()


def test_what_one_writes_another_reads(memory: str) -> None:
    SharedStore(memory, 1000).write(ONE, b"words")
    assert SharedStore(memory, 1000).read(ONE) == b"words"
    assert SharedStore(memory, 1000).read(TWO) is None


def test_a_folder_is_a_store_too_and_shows_whole_files_only(tmp_path: Path) -> None:
    store = SharedStore(f"file://{tmp_path}/shared", 1000)
    store.write(ONE, b"words")
    store.write(ONE, b"other")
    assert store.read(ONE) == b"other"
    assert [path.name for path in (tmp_path / "shared").iterdir()] == [f"{ONE}.safetensors"]


def test_what_is_deleted_is_gone(memory: str) -> None:
    store = SharedStore(memory, 1000)
    store.write(ONE, b"words")
    store.delete(ONE)
    store.delete(ONE)
    assert store.read(ONE) is None


def test_the_files_written_first_make_room(memory: str) -> None:
    store = SharedStore(memory, 250)
    for digest in (ONE, TWO, THREE):
        store.write(digest, bytes(100))
        time.sleep(0.01)
    assert store.read(ONE) is None
    assert store.read(THREE) == bytes(100)


def test_a_use_of_a_local_file_keeps_it(tmp_path: Path) -> None:
    store = SharedStore(f"file://{tmp_path}", 350)
    for digest in (ONE, TWO, THREE):
        store.write(digest, bytes(100))
        time.sleep(0.02)
    assert store.read(ONE) is not None
    store.write(FOUR, bytes(100))
    assert [store.read(digest) is not None for digest in (ONE, TWO, THREE, FOUR)] == [True, False, True, True]


def test_a_file_larger_than_the_bound_is_the_only_one_left(memory: str) -> None:
    store = SharedStore(memory, 50)
    store.write(ONE, bytes(40))
    store.write(TWO, bytes(400))
    assert (store.read(ONE), store.read(TWO)) == (None, bytes(400))


def test_a_store_that_fails_is_left_alone_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "vocab")
    (tmp_path / "file").write_text("")
    store = SharedStore(f"file://{tmp_path}/file/below", 1000, retry_s=0.2)
    assert store.read(ONE) is None
    store.write(ONE, b"words")
    store.delete(ONE)
    assert len([record for record in caplog.records if "left alone" in record.message]) == 1
    (tmp_path / "file").unlink()
    time.sleep(0.2)
    store.write(ONE, b"words")
    assert store.read(ONE) == b"words"


def test_a_store_that_does_not_answer_is_given_up(memory: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "vocab")

    class Slow(MemoryFileSystem):
        protocol = "slowmemory"

        def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
            time.sleep(0.5)
            return b"late"

    fsspec.register_implementation("slowmemory", Slow, clobber=True)
    store = SharedStore("slowmemory://lists", 1000, timeout_s=0.05, retry_s=60)
    assert store.read(ONE) is None
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
