"""Where a run may read and write, and which Parquet files are opened."""

import io
import pickle
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deployments.offline.config import RefusedError
from tests.deployments.offline.conftest import ASKED, OfflineWorld

ROW = {"messages": ASKED}
LINE = b'{"messages": [{"role": "user", "content": "Hello"}]}\n'


def refusal(world: OfflineWorld, **options: Any) -> str:
    """Why a run is refused; of one that is not, what it did."""
    try:
        return world.run(**options).as_text()
    except RefusedError as error:
        return str(error)


def test_a_folder_is_all_files_below_it_but_notes_and_a_url_is_read_through_fsspec(world: OfflineWorld) -> None:
    for name in ("b.jsonl", "a/c.NDJSON", "_notes/x.txt", ".hidden", "a/_SUCCESS"):
        world.write(name, [ROW])
    world.run()
    assert [row["file"] for row in world.lines("answers")] == ["a/c.NDJSON", "b.jsonl"]
    fsspec.filesystem("memory").pipe_file("/rows/in.ndjson", LINE)
    world.out = world.folder / "other"
    world.run(source="memory://rows")
    assert [row["file"] for row in world.lines("answers")] == ["in.ndjson"]


def test_other_folders_are_refused(world: OfflineWorld) -> None:
    for number, (names, message) in enumerate(
        [
            ([], "no file that ends with .jsonl, .ndjson, .parquet"),
            (["a.txt"], "not a format"),
            (["a.jsonl.gz"], "not a format"),
            (["a.jsonl", "b.parquet"], "both JSON lines and Parquet"),
        ]
    ):
        folder = world.source / str(number)
        folder.mkdir()
        for name in names:
            world.write(f"{number}/{name}", [ROW])
        assert message in refusal(world, source=folder)


def test_what_is_no_place_is_refused(world: OfflineWorld) -> None:
    assert "there is no such file" in refusal(world, source=world.source / "none.jsonl")
    for place in ("nowhere://x", "memory://a/../b"):
        assert place in refusal(world, source=place)
        assert place in refusal(world, output=place)


@pytest.mark.fault(54)
def test_a_link_that_leads_out_of_the_input_is_refused(world: OfflineWorld, tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_bytes(LINE)
    world.write("a.jsonl", [ROW])
    (world.source / "b.jsonl").symlink_to(tmp_path / "secret.jsonl")
    assert "is a link that leads out of the input" in refusal(world)


@pytest.mark.fault(54)
def test_what_lies_outside_the_allowed_roots_is_refused(world: OfflineWorld) -> None:
    inside, outside = world.write("data/in.jsonl", [ROW]), world.write("database/in.jsonl", [ROW])
    data = inside.parent
    link = data / "link.jsonl"
    link.symlink_to(outside)
    roots = [str(data)]
    assert "1 answered" in refusal(world, source=inside, output=data / "out", allowed_roots=roots)
    for given in (outside, data / ".." / "database" / "in.jsonl", link):
        found = refusal(world, source=given, output=data / "other", allowed_roots=roots)
        assert "outside the folders that are allowed" in found
    assert "outside the folders that are allowed" in refusal(world, source=inside, allowed_roots=roots)


@pytest.mark.fault(54)
def test_output_and_input_must_not_be_in_one_another(world: OfflineWorld, tmp_path: Path) -> None:
    file = world.write("a.jsonl", [ROW])
    (tmp_path / "link").symlink_to(world.source)
    for output in (world.source, world.source / "out", tmp_path, tmp_path / "link", tmp_path / "link" / "out"):
        assert "must not be the input" in refusal(world, output=output)
    assert "must not be the input" in refusal(world, source=file, output=world.source)


def test_an_output_that_is_a_file_or_leads_out_is_refused(world: OfflineWorld, tmp_path: Path) -> None:
    world.write("a.jsonl", [ROW])
    (tmp_path / "out.jsonl").touch()
    assert "is a file" in refusal(world, output=tmp_path / "out.jsonl")
    world.out.mkdir()
    (world.out / "answers").symlink_to(tmp_path)
    assert "leads out of the output" in refusal(world)


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


@pytest.mark.fault(54)
def test_an_extension_type_is_refused_and_never_made(world: OfflineWorld) -> None:
    opened = []
    for depth in range(3):
        array: Any = pa.ExtensionArray.from_storage(HostileType(), pa.array([b"x"], pa.binary()))
        for _ in range(depth):
            array = pa.StructArray.from_arrays([array], ["inner"])
        # The lengths before the schema, which may look like part of it, are of every kind.
        for num_columns in range(1, 9):
            table = pa.table({**{f"c{'o' * index}": ["x"] for index in range(num_columns)}, "odd": array})
            world.write("in.parquet", table)
            if "extension type" not in refusal(world):
                opened.append((depth, num_columns))
    assert opened == []


@pytest.mark.fault(54)
def test_a_pickled_column_of_ray_is_refused(world: OfflineWorld) -> None:
    arrow_types: Any = pytest.importorskip("ray.data._internal.object_extensions.arrow")
    array = arrow_types.ArrowPythonObjectArray.from_objects([{1, 2}])
    world.write("in.parquet", pa.table({"odd": array}))
    assert "extension type" in refusal(world)


def test_plain_types_pass_also_without_arrows_own_schema(world: OfflineWorld) -> None:
    table = pa.table({"messages": [ASKED], "n": [1], "list": [["x"]], "struct": [{"a": 1}]})
    for number, options in enumerate(({}, {"store_schema": False})):
        path = world.write(f"{number}.parquet", table, **options)
        assert "1 answered" in refusal(world, source=path, output=world.folder / str(number))


def test_what_is_no_whole_parquet_file_is_refused(world: OfflineWorld) -> None:
    whole = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), whole)
    contents = [b"", b"PAR1", b"PAR1PAR1", b"x" * 100, b"\xff\xff\xff\xffPAR1", whole.getvalue()[:-4] + b"PARE"]
    for content in contents:
        (world.source / "in.parquet").write_bytes(content)
        assert "not a Parquet file" in refusal(world), content
