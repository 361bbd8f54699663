"""What files hold, in a folder and behind a URL."""

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

from deployments.batch.state.contents import Contents
from deployments.storage import FileMissingError, StorageError
from tests.deployments.batch.full_disk import no_room


@pytest.fixture(params=["folder", "file URL", "other URL"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "other URL":
        MemoryFileSystem.store.clear()
        yield "memory://bucket/files"
        MemoryFileSystem.store.clear()
    else:
        yield f"{'file://' if request.param == 'file URL' else ''}{tmp_path}/state/files"


def names_in(folder: str) -> list[str]:
    files, root = fsspec.core.url_to_fs(folder)
    return sorted(path.rsplit("/", 1)[-1] for path in files.ls(root, detail=False))


def test_what_is_written_is_read_whole_by_lines_and_in_parts(folder: str) -> None:
    contents = Contents(folder)
    assert contents.write("file-1", [b"one\ntw", b"", b"o\n"]) == 8
    with contents.open("file-1") as file:
        assert file.readlines() == [b"one\n", b"two\n"]
    assert contents.size("file-1") == 8
    parts = [contents.read("file-1", offset, 3) for offset in (0, 3, 6, 8, 100)]
    assert parts == [b"one", b"\ntw", b"o\n", b"", b""]
    assert names_in(folder) == ["file-1"]


def test_an_empty_file_is_a_file(folder: str) -> None:
    contents = Contents(folder)
    assert contents.write("file-1", []) == 0
    assert (contents.size("file-1"), contents.read("file-1", 0, 10)) == (0, b"")


def test_another_one_opened_later_finds_what_was_written(folder: str) -> None:
    Contents(folder).write("file-1", [b"words"])
    assert Contents(folder).read("file-1", 0, 10) == b"words"


def test_a_file_written_again_is_replaced(folder: str) -> None:
    contents = Contents(folder)
    contents.write("file-1", [b"the old one"])
    contents.write("file-1", [b"new"])
    assert contents.read("file-1", 0, 100) == b"new"


def test_a_deleted_file_is_gone_and_may_be_deleted_again(folder: str) -> None:
    contents = Contents(folder)
    contents.write("file-1", [b"words"])
    contents.delete("file-1")
    contents.delete("file-1")
    for look in (contents.open, contents.size, lambda name: contents.read(name, 0, 1)):
        with pytest.raises(FileMissingError, match="file-1"):
            look("file-1")


def failing_chunks() -> Iterator[bytes]:
    yield b"half of it"
    raise FileNotFoundError("the source failed")


def test_of_a_source_that_fails_nothing_is_left_and_its_error_comes_through(folder: str) -> None:
    contents = Contents(folder)
    with pytest.raises(FileNotFoundError, match="the source failed"):
        contents.write("file-1", failing_chunks())
    assert names_in(folder) == []
    contents.write("file-1", [b"whole"])
    with pytest.raises(FileNotFoundError):
        contents.write("file-1", failing_chunks())
    assert names_in(folder) == ["file-1"]
    assert contents.read("file-1", 0, 100) == b"whole"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../file-1", "a/b", "a\\b", "/etc/passwd", "File-1", "file-1\n", "file-\0", "ü", "a.part"]
)
def test_a_name_that_is_not_ours_is_refused(folder: str, name: str) -> None:
    contents = Contents(folder)
    for use in (lambda: contents.write(name, [b"x"]), lambda: contents.open(name), lambda: contents.read(name, 0, 1)):
        with pytest.raises(ValueError, match="the name of a file"):
            use()
    for use_too in (contents.size, contents.delete):
        with pytest.raises(ValueError, match="the name of a file"):
            use_too(name)
    assert names_in(folder) == []


def test_many_threads_write_one_name_and_one_of_them_is_there_whole(tmp_path: Path) -> None:
    contents = Contents(str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: contents.write("file-1", [bytes([i]) * 1000] * 100), range(24)))
    data = contents.read("file-1", 0, 10**6)
    assert data == data[:1] * 100_000
    assert names_in(str(tmp_path)) == ["file-1"]


def test_many_threads_write_files_of_their_own(folder: str) -> None:
    contents = Contents(folder)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda i: contents.write(f"file-{i}", [bytes([i])] * 100), range(24))) == [100] * 24
        assert list(threads.map(lambda i: contents.read(f"file-{i}", 99, 9), range(24))) == [
            bytes([i]) for i in range(24)
        ]


def test_a_full_disk_is_an_error_and_leaves_nothing(folder: str) -> None:
    contents = Contents(folder)
    for chunks in ([bytes(2**19)] * 4, [bytes(2**16 + 1)]):
        with no_room(2**16), pytest.raises(StorageError, match=r"file-1 cannot be written: OSError"):
            contents.write("file-1", chunks)
    assert names_in(folder) == []
    assert contents.write("file-1", [bytes(10)]) == 10


def test_a_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    contents = Contents(str(tmp_path / "files"))
    contents.write("file-1", [b"words"])
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700


def test_the_folder_of_the_user_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    Contents("~/files").write("file-1", [b"words"])
    assert (tmp_path / "files" / "file-1").read_bytes() == b"words"


def test_what_a_killed_process_left_is_removed_at_the_next_start_and_what_is_being_written_is_not(
    tmp_path: Path,
) -> None:
    program = """
import sys, time
from deployments.batch.state.contents import Contents
def chunks():
    yield bytes(100_000)
    print("writing", flush=True)
    time.sleep(60)
Contents(sys.argv[1]).write("file-1", chunks())
"""
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        Contents(str(tmp_path))
        assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
        process.send_signal(signal.SIGKILL)
    Contents(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_reader_of_a_file_that_is_replaced_reads_on_in_the_old_one(tmp_path: Path) -> None:
    contents = Contents(str(tmp_path))
    contents.write("file-1", [b"old " * 100_000])
    with contents.open("file-1") as file:
        assert file.read(4) == b"old "
        contents.write("file-1", [b"new"])
        contents.delete("file-1")
        assert set(file.read().split()) == {b"old"}


@pytest.mark.parametrize(
    ("folder", "message"),
    [("/proc/files", "/proc/files"), ("nosuch://bucket", "nosuch"), ("/dev/null/files", "Not a directory")],
)
def test_a_folder_that_cannot_be_used_is_refused_at_the_start(folder: str, message: str) -> None:
    with pytest.raises(StorageError, match=message):
        Contents(folder)


def test_a_folder_that_cannot_be_written_to_is_refused_at_the_start() -> None:
    # Also to root: nobody makes files there.
    with pytest.raises(StorageError, match="cannot be used"):
        Contents("/proc/self")


def test_files_that_were_written_long_ago_can_be_told(folder: str) -> None:
    contents = Contents(folder)
    assert contents.old_names(0) == []
    contents.write("file-1", [b"words"])
    contents.write("file-2", [b"words"])
    assert contents.old_names(3600) == []
    assert sorted(contents.old_names(-1)) == ["file-1", "file-2"]


def test_what_is_being_written_is_no_old_file(tmp_path: Path) -> None:
    contents = Contents(str(tmp_path))
    seen = []

    def chunks() -> Iterator[bytes]:
        yield b"words"
        seen.append(contents.old_names(-1))

    contents.write("file-1", chunks())
    assert seen == [[]]


class LossyFileSystem(MemoryFileSystem):
    """Keeps the first bytes only and reports no error; or raises one that belongs to no family."""

    protocol = "lossy"
    store: dict[str, Any] = {}  # noqa: RUF012 - that is how the memory file system keeps it
    pseudo_dirs: list[str] = [""]  # noqa: RUF012
    error: Exception | None = None

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("lossy://", "memory://")))

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        if self.error is not None:
            raise self.error
        self.pipe_file(rpath, Path(lpath).read_bytes()[:3])


def test_a_remote_store_that_loses_bytes_or_fails_is_an_error_and_leaves_nothing() -> None:
    fsspec.register_implementation("lossy", LossyFileSystem, clobber=True)
    contents = Contents("lossy://bucket")
    with pytest.raises(StorageError, match="5 bytes were sent and 3 arrived"):
        contents.write("file-1", [b"words"])
    assert names_in("lossy://bucket") == []
    LossyFileSystem.error = Exception("AccessDenied")
    with pytest.raises(StorageError, match="file-1 cannot be written: Exception: AccessDenied"):
        contents.write("file-1", [b"words"])
    LossyFileSystem.error = None
    assert names_in("lossy://bucket") == []


def test_nothing_is_left_in_the_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    MemoryFileSystem.store.clear()
    seen: list[list[Path]] = []

    def chunks() -> Iterator[bytes]:
        yield b"words"
        seen.append(list(tmp_path.iterdir()))

    Contents("memory://bucket").write("file-1", chunks())
    MemoryFileSystem.store.clear()
    assert seen == [[]]
