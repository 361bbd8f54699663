import numpy as np
import pytest
from safetensors.numpy import load

from vocab.artefacts.artefact import Array, read_tensors, write_tensors
from vocab.errors import ArtefactError

ARRAYS: dict[str, Array] = {
    "bytes": np.arange(300, dtype=np.uint8),
    "none": np.empty(0, dtype=np.int32),
    "ints": np.arange(-5, 500, dtype=np.int32),
    "longs": np.asarray([2**40, -1], dtype=np.int64),
}
DATA = write_tensors(ARRAYS, {"name": "niño", "sizes": [1, 2]})


def test_arrays_and_metadata_come_back() -> None:
    arrays, metadata = read_tensors(DATA)
    assert metadata == {"name": "niño", "sizes": [1, 2]}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
        assert not arrays[name].flags.writeable


def test_the_file_is_one_that_others_can_read_and_always_the_same() -> None:
    np.testing.assert_array_equal(load(DATA)["ints"], ARRAYS["ints"])
    assert write_tensors(dict(reversed(ARRAYS.items())), {"name": "niño", "sizes": [1, 2]}) != b""
    assert write_tensors(ARRAYS, {"name": "niño", "sizes": [1, 2]}) == DATA


def test_no_bit_may_differ() -> None:
    for place in range(len(DATA)):
        for bit in range(8) if place < 1000 else (place % 8,):
            damaged = bytearray(DATA)
            damaged[place] ^= 1 << bit
            with pytest.raises(ArtefactError, match="damaged or no file of this package"):
                read_tensors(bytes(damaged))


@pytest.mark.parametrize("length", [0, 1, 8, 9, 100, len(DATA) - 1])
def test_nothing_may_be_missing(length: int) -> None:
    with pytest.raises(ArtefactError):
        read_tensors(DATA[:length])


def test_nothing_may_be_added() -> None:
    with pytest.raises(ArtefactError):
        read_tensors(DATA + b"\0")


@pytest.mark.parametrize("header", [b"[]", b"{}", b'{"__metadata__": 3}', b"[" * 100_000, b"\xff\xff"])
def test_files_of_others_are_refused(header: bytes) -> None:
    with pytest.raises(ArtefactError):
        read_tensors(len(header).to_bytes(8, "little") + header)
