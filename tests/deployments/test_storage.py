"""Files in a folder and behind a URL."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from deployments.storage import FileMissingError, Location, PartialFile, StorageError
from tests.deployments.batch.full_disk import no_room
from tests.deployments.buffered_files import BufferedFileSystem


@pytest.fixture(params=["folder", "file URL", "memory URL", "buffered URL"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """An empty one."""
    urls = {"memory URL": "memory://bucket/files", "file URL": f"file://{tmp_path}/files"}
    urls["buffered URL"] = f"buffered:/{tmp_path}"
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    folder = Location.of(urls.get(request.param, f"{tmp_path}/files"))
    folder.prepare_folder()
    return folder


def local(folder: Path) -> Location:
    location = Location.of(str(folder))
    location.prepare_folder()
    return location


def names_in(folder: Location) -> list[str]:
    return sorted(path.rsplit("/", 1)[-1] for path in folder.filesystem.ls(folder.path, detail=False))


def test_a_file_appears_when_it_is_whole_and_never_where_it_is_discarded(folder: Location) -> None:
    location = folder.child("a").child("file")
    discarded = PartialFile(location)
    discarded.write(b"one")
    discarded.discard()
    discarded.discard()
    assert folder.filesystem.find(folder.path) == []
    partial = PartialFile(location)
    partial.write(b"one ")
    partial.write(b"two")
    assert not location.filesystem.exists(location.path)
    assert partial.commit() == 7
    partial.discard()
    assert location.size() == 7


def test_what_is_written_is_read_whole_by_lines_and_in_parts(folder: Location) -> None:
    file = folder.child("file")
    assert file.write([b"one\ntw", b"", b"o\n"]) == 8
    with file.open() as stream:
        assert stream.readlines() == [b"one\n", b"two\n"]
    assert file.size() == 8
    assert [file.read(offset, 3) for offset in (0, 3, 6, 8, 100)] == [b"one", b"\ntw", b"o\n", b"", b""]
    assert names_in(folder) == ["file"]
    file.write([b"new"])
    assert Location.of(file.url).read(0, 100) == b"new"
    assert file.write([]) == 0
    assert (file.size(), file.read(0, 10)) == (0, b"")
    # One that is deleted is gone, and may be deleted again.
    file.delete()
    file.delete()
    for look in (file.open, file.size, lambda: file.read(0, 1)):
        with pytest.raises(FileMissingError, match="file"):
            look()


def test_of_a_source_that_fails_nothing_is_left_and_its_error_comes_through(folder: Location) -> None:
    def failing_chunks() -> Iterator[bytes]:
        yield b"half of it"
        raise FileNotFoundError("the source failed")

    file = folder.child("file")
    with pytest.raises(FileNotFoundError, match="the source failed"):
        file.write(failing_chunks())
    assert names_in(folder) == []
    file.write([b"whole"])
    with pytest.raises(FileNotFoundError):
        file.write(failing_chunks())
    assert names_in(folder) == ["file"]
    assert file.read(0, 100) == b"whole"


def test_a_name_that_leads_elsewhere_is_refused(folder: Location) -> None:
    for name in ("", ".", "..", "../file-1", "a/b", "/etc/passwd"):
        with pytest.raises(ValueError, match="the name of a file"):
            folder.child(name)


def test_many_threads_write_files_of_their_own_and_one_together(folder: Location, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda i: folder.child(f"file-{i}").write([bytes([i])] * 100), range(24))) == [100] * 24
        parts = threads.map(lambda i: folder.child(f"file-{i}").read(99, 9), range(24))
        assert list(parts) == [bytes([i]) for i in range(24)]
        one = local(tmp_path / "one").child("file")
        list(threads.map(lambda i: one.write([bytes([i]) * 1000] * 100), range(24)))
    data = one.read(0, 10**6)
    assert data == data[:1] * 100_000
    assert names_in(local(tmp_path / "one")) == ["file"]


@pytest.mark.fault(47)
def test_a_full_disk_is_an_error_and_leaves_nothing(folder: Location) -> None:
    file = folder.child("file")
    for chunks in ([bytes(2**19)] * 4, [bytes(2**16 + 1)]):
        with no_room(2**16), pytest.raises(StorageError, match=r"file cannot be written: OSError"):
            file.write(chunks)
    assert names_in(folder) == []
    assert file.write([bytes(10)]) == 10


def test_a_folder_is_for_its_owner_only_and_may_be_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = Location.of("~/files")
    folder.prepare_folder()
    folder.child("file").write([b"words"])
    assert (tmp_path / "files" / "file").read_bytes() == b"words"
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700


def test_what_a_killed_process_left_is_removed_at_the_next_start_and_what_is_being_written_is_not(
    tmp_path: Path,
) -> None:
    program = """
import sys, time
from deployments.storage import Location
def chunks():
    yield bytes(100_000)
    print("writing", flush=True)
    time.sleep(60)
Location.of(sys.argv[1]).child("file").write(chunks())
"""
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        assert local(tmp_path).old_names(3600) == []
        assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
        process.send_signal(signal.SIGKILL)
    local(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_of_a_file_that_is_replaced_reads_on_in_the_old_one(tmp_path: Path) -> None:
    file = local(tmp_path).child("file")
    file.write([b"old " * 100_000])
    with file.open() as stream:
        assert stream.read(4) == b"old "
        file.write([b"new"])
        file.delete()
        assert set(stream.read().split()) == {b"old"}


@pytest.mark.fault(47)
def test_a_folder_that_cannot_be_written_to_is_refused_at_the_start() -> None:
    for given, message in (
        # Also to root: nobody makes files there.
        ("/proc/self", "cannot be used"),
        ("/proc/files", "/proc/files"),
        ("nosuch://bucket", "nosuch"),
        ("memory://a/../b", "must not hold"),
        ("/dev/null/files", "Not a directory"),
    ):
        with pytest.raises(StorageError, match=message):
            Location.of(given).prepare_folder()


def test_a_folder_holds_what_is_below_it_and_not_what_is_named_like_it() -> None:
    folder = Location.of("/data/in")
    assert folder.holds(folder)
    assert folder.holds(Location.of("/data/in/a"))
    assert not folder.holds(Location.of("/data/input"))
    assert not folder.holds(Location.of("memory://data/in/a"))


def test_files_that_were_written_long_ago_can_be_told(folder: Location) -> None:
    assert folder.old_names(0) == []
    folder.child("file-1").write([b"words"])
    folder.child("file-2").write([b"words"])
    assert folder.old_names(3600) == []
    assert sorted(folder.old_names(-1)) == ["file-1", "file-2"]


class LossyFileSystem(BufferedFileSystem):
    """Keeps the first bytes only and reports no error; or raises one that belongs to no family."""

    protocol = "lossy"
    error: Exception | None = None

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        if self.error is not None:
            raise self.error
        self.pipe_file(rpath, Path(lpath).read_bytes()[:3])


def test_a_remote_store_that_loses_bytes_or_fails_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fsspec.register_implementation("lossy", LossyFileSystem, clobber=True)
    folder = Location.of(f"lossy:/{tmp_path}")
    folder.prepare_folder()

    def chunks() -> Iterator[bytes]:
        yield b"words"
        # Nor in the folder for temporary files.
        assert list(tmp_path.iterdir()) == []

    with pytest.raises(StorageError, match="5 bytes were sent and 3 arrived"):
        folder.child("file").write(chunks())
    assert names_in(folder) == []
    monkeypatch.setattr(LossyFileSystem, "error", Exception("AccessDenied"))
    with pytest.raises(StorageError, match="file cannot be written: Exception: AccessDenied"):
        folder.child("file").write([b"words"])
    assert names_in(folder) == []
