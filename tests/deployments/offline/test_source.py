"""Where a run may read and write, and which Parquet files are opened."""

import io
import pickle
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deployments.offline.source import RefusedError, check_footer, find_output, find_source


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"{}\n")
    return path


def test_a_file_is_an_input(tmp_path: Path) -> None:
    path = touch(tmp_path / "in.jsonl")
    source = find_source(str(path))
    assert source.format == "jsonl"
    assert [(file.name, file.location.path, file.num_bytes) for file in source.files] == [("in.jsonl", str(path), 3)]


def test_a_folder_is_all_files_below_it_but_notes(tmp_path: Path) -> None:
    for name in ("b.parquet", "a/c.PARQUET", "_notes/x.txt", ".hidden", "a/_SUCCESS"):
        touch(tmp_path / name)
    source = find_source(str(tmp_path))
    assert source.format == "parquet"
    assert [file.name for file in source.files] == ["a/c.PARQUET", "b.parquet"]


def test_a_url_is_read_through_fsspec() -> None:
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe_file("/rows/in.ndjson", b"{}\n")
    source = find_source("memory://rows")
    assert [(file.name, file.location.url) for file in source.files] == [("in.ndjson", "memory:///rows/in.ndjson")]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "no file that ends with"),
        (("a.txt",), "not a format"),
        (("a.jsonl.gz",), "not a format"),
        (("a.jsonl", "b.parquet"), "both JSON lines and Parquet"),
    ],
)
def test_other_folders_are_refused(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in names:
        touch(folder / name)
    with pytest.raises(RefusedError, match=message):
        find_source(str(folder))


@pytest.mark.parametrize("given", ["none.jsonl", "nowhere://x", "memory://a/../b"])
def test_what_is_no_place_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(RefusedError):
        find_source(given if "://" in given else str(tmp_path / given))


def test_a_link_that_leads_out_of_the_input_is_refused(tmp_path: Path) -> None:
    secret = touch(tmp_path / "secret.jsonl")
    folder = tmp_path / "in"
    touch(folder / "a.jsonl")
    (folder / "b.jsonl").symlink_to(secret)
    with pytest.raises(RefusedError, match="leads out of the input"):
        find_source(str(folder))


def test_what_lies_outside_the_allowed_roots_is_refused(tmp_path: Path) -> None:
    inside, outside = touch(tmp_path / "data" / "in.jsonl"), touch(tmp_path / "database" / "in.jsonl")
    roots = [str(tmp_path / "data")]
    find_source(str(inside), roots)
    find_output(str(tmp_path / "data" / "out"), str(inside), roots)
    link = tmp_path / "data" / "link.jsonl"
    link.symlink_to(outside)
    for given in (outside, tmp_path / "data" / ".." / "database" / "in.jsonl", link):
        with pytest.raises(RefusedError, match="outside the folders that are allowed"):
            find_source(str(given), roots)
    with pytest.raises(RefusedError, match="outside the folders that are allowed"):
        find_output(str(tmp_path / "out"), str(inside), roots)


def test_output_and_input_must_not_be_in_one_another(tmp_path: Path) -> None:
    folder = touch(tmp_path / "in" / "a.jsonl").parent
    (tmp_path / "link").symlink_to(folder)
    for output in (folder, folder / "out", tmp_path, tmp_path / "link", tmp_path / "link" / "out"):
        with pytest.raises(RefusedError, match="must not be the input"):
            find_output(str(output), str(folder))
    with pytest.raises(RefusedError, match="must not be the input"):
        find_output(str(folder), str(folder / "a.jsonl"))


def test_an_output_that_is_a_file_or_leads_out_is_refused(tmp_path: Path) -> None:
    source = touch(tmp_path / "in" / "a.jsonl")
    with pytest.raises(RefusedError, match="is a file"):
        find_output(str(touch(tmp_path / "out.jsonl")), str(source))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "answers").symlink_to(tmp_path)
    with pytest.raises(RefusedError, match="leads out of the output"):
        find_output(str(tmp_path / "out"), str(source))


class Opened(Exception):  # noqa: N818
    """Somebody made the type of the file."""


class HostileType(pa.ExtensionType):
    """As Ray's own types: made from bytes that the file gives."""

    def __init__(self, storage: pa.DataType | None = None) -> None:
        super().__init__(storage or pa.binary(), "tests.hostile")

    def __arrow_ext_serialize__(self) -> bytes:
        return pickle.dumps("anything")

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        raise Opened


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def check(data: bytes) -> None:
    check_footer(io.BytesIO(data), len(data), "a.parquet")


def test_plain_types_pass() -> None:
    table = pa.table({"text": ["a", None], "n": [1, 2], "list": [["x"], []], "struct": [{"a": 1}, {"a": 2}]})
    check(parquet(table))
    check(parquet(table, store_schema=False))


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("num_columns", range(1, 9))
def test_an_extension_type_is_refused_and_never_made(depth: int, num_columns: int) -> None:
    array: Any = pa.ExtensionArray.from_storage(HostileType(), pa.array([b"x"], pa.binary()))
    for _ in range(depth):
        array = pa.StructArray.from_arrays([array], ["inner"])
    # The lengths before the schema, which may look like part of it, are of every kind.
    table = pa.table({**{f"c{'o' * index}": ["x"] for index in range(num_columns)}, "odd": array})
    data = parquet(table)
    with pytest.raises(RefusedError, match="extension type"):
        check(data)


def test_a_pickled_column_of_ray_is_refused() -> None:
    arrow_types: Any = pytest.importorskip("ray.data._internal.object_extensions.arrow")
    array = arrow_types.ArrowPythonObjectArray.from_objects([{1, 2}])
    with pytest.raises(RefusedError, match="extension type"):
        check(parquet(pa.table({"odd": array})))


@pytest.mark.parametrize(
    "data",
    [b"", b"PAR1", b"PAR1PAR1", b"x" * 100, b"\xff\xff\xff\xffPAR1", parquet(pa.table({"a": [1]}))[:-4] + b"PARE"],
)
def test_what_is_no_whole_parquet_file_is_refused(data: bytes) -> None:
    with pytest.raises(RefusedError, match="not a Parquet file"):
        check(data)
