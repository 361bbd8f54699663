"""Named arrays and their metadata as the bytes of one safetensors file, with a checksum over all of it.

Nothing is unpickled, and bytes that differ from those written, in any bit, are refused.
"""

import json
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vocab.arrays.byte_trie import Uint8Array
from vocab.arrays.kernels import kernel
from vocab.errors import ArtefactError

Array = npt.NDArray[Any]

_METADATA_KEY: Final = "wordbound"
_CHECKSUM_KEY: Final = "checksum"
_NO_CHECKSUM: Final = "0" * 16
_MAX_HEADER_BYTES: Final = 1 << 24
_DTYPES: Final = {"I64": np.int64, "I32": np.int32, "U8": np.uint8}
_NAMES: Final = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_LANES: Final = 8
_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_ODD: Final = np.uint64(0xC2B2AE3D27D4EB4F)


def write_tensors(arrays: dict[str, Array], metadata: dict[str, Any]) -> bytes:
    """Serialize one-dimensional arrays (int64, int32, uint8) and JSON metadata as checksummed safetensors."""
    # The widest first, so that each array is aligned.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    header: dict[str, Any] = {"__metadata__": {_METADATA_KEY: json.dumps(metadata), _CHECKSUM_KEY: _NO_CHECKSUM}}
    end = 0
    for name, array in ordered:
        header[name] = {"dtype": _NAMES[array.dtype], "shape": [len(array)], "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    spelled = json.dumps(header).encode()
    spelled += b" " * (-len(spelled) % 8)
    head = len(spelled).to_bytes(8, "little") + spelled
    body = b"".join(np.ascontiguousarray(array).tobytes() for _, array in ordered)
    checksum = _checksum(np.frombuffer(head, dtype=np.uint8), np.frombuffer(body, dtype=np.uint8))
    return head.replace(_checksum_entry(_NO_CHECKSUM), _checksum_entry(checksum), 1) + body


def read_tensors(data: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read checksummed safetensors: the arrays, as read-only views of ``data`` (bytes or a mapped file), and metadata.

    Raises:
        ArtefactError: These are not the bytes that ``write_tensors`` made.
    """
    try:
        return _read(data)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ArtefactError(f"it is damaged or no file of this package: {error}") from None


def _read(data: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Parse the header, verify the checksum, and return the arrays and the metadata."""
    header_bytes = int.from_bytes(data[:8], "little")
    if not 2 <= header_bytes <= min(_MAX_HEADER_BYTES, len(data) - 8):
        raise ValueError("it has no header")
    begin = 8 + header_bytes
    spelled = bytes(data[8:begin])
    header: dict[str, Any] = json.loads(spelled)
    facts = header.pop("__metadata__")
    _check(data, begin, facts[_CHECKSUM_KEY])
    arrays = {name: _view(data, begin, entry) for name, entry in header.items()}
    return arrays, json.loads(facts[_METADATA_KEY])


def _check(data: Any, begin: int, checksum: str) -> None:
    """Verify a file's checksum, computed with its own digits as zeros."""
    head = bytes(data[:begin])
    blank = head.replace(_checksum_entry(checksum), _checksum_entry(_NO_CHECKSUM), 1)
    if len(blank) != begin:
        raise ValueError("its checksum is of another length")
    if _checksum(np.frombuffer(blank, dtype=np.uint8), np.frombuffer(data, dtype=np.uint8, offset=begin)) != checksum:
        raise ValueError("its checksum differs")


def _checksum(head: Uint8Array, body: Uint8Array) -> str:
    return f"{_hash_bytes(body, np.uint64(_hash_bytes(head, _SEED))):016x}"


def _checksum_entry(checksum: str) -> bytes:
    return f'"{_CHECKSUM_KEY}": "{checksum}"'.encode()


def _view(data: Any, begin: int, entry: dict[str, Any]) -> Array:
    """Return the array of a header's entry as a view of the file's bytes."""
    dtype = np.dtype(_DTYPES[entry["dtype"]])
    first, last = entry["data_offsets"]
    return np.frombuffer(data, dtype=dtype, count=(last - first) // dtype.itemsize, offset=begin + first)


@kernel
def _hash_bytes(data: Uint8Array, seed: np.uint64) -> np.uint64:
    """Hash to 64 bits in lanes of eight bytes, as xxHash: each step is one-to-one, so a single change always shows."""
    num_blocks = len(data) // (8 * _LANES)
    words = data[: num_blocks * 8 * _LANES].view(np.uint64)
    lanes = seed + np.arange(_LANES).astype(np.uint64)
    for block in range(num_blocks):
        for lane in range(_LANES):
            lanes[lane] = _step(lanes[lane], words[block * _LANES + lane])
    total = seed ^ np.uint64(len(data))
    for lane in range(_LANES):
        total = _step(total, lanes[lane])
    for i in range(num_blocks * 8 * _LANES, len(data)):
        total = _step(total, np.uint64(data[i]))
    return total


@kernel
def _step(value: np.uint64, word: np.uint64) -> np.uint64:
    """Mix one 64-bit word into a hash."""
    mixed = (value ^ word) * _ODD
    result: np.uint64 = mixed ^ (mixed >> np.uint64(29))
    return result
