"""The footer of a Parquet file, looked at as bytes."""

import io
import pickle
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deployments.offline.footers import check_footer
from deployments.offline.places import RefusedError


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
