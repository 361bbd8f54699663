"""Looks at the end of a Parquet file, where its types stand, before any library reads it.

Arrow lets a file name a type of its own ("extension type"), which code outside Arrow then makes from the bytes that
the file gives: some types of Ray unpickle them, which runs whatever the file's author wrote. Arrow makes these types
already when it opens the file. So the footer is searched here as plain bytes, and such a file is never opened.
"""

import base64
import binascii
import re
from typing import BinaryIO, Final

from deployments.offline.places import RefusedError

_MAGIC: Final = b"PAR1"
_MAX_FOOTER_BYTES: Final = 64 * 2**20
"""Costs as much memory twice. A table of 1,000 columns and 1,000 row groups has 50 MB."""

_SCHEMA: Final = re.compile(rb"ARROW:schema.{1,8}?([A-Za-z0-9+/]{16,}={0,2})", re.DOTALL)
"""Arrow's own schema, in base64; the bytes between say its length."""

_EXTENSION: Final = b"ARROW:extension"


def check_footer(stream: BinaryIO, num_bytes: int, name: str) -> None:
    """Returns if the file is Parquet and all of its types are Arrow's own.

    Raises:
        RefusedError: They are not, or this cannot be known.
    """
    stream.seek(max(num_bytes - 8, 0))
    end = stream.read(8)
    size = int.from_bytes(end[:4], "little")
    if len(end) < 8 or end[4:] != _MAGIC or size + 12 > num_bytes:
        raise RefusedError(f"{name}: not a Parquet file, or not a whole one, or an encrypted one")
    if size > _MAX_FOOTER_BYTES:
        raise RefusedError(f"{name}: its footer is larger than {_MAX_FOOTER_BYTES // 2**20} MiB: split the file")
    stream.seek(num_bytes - 8 - size)
    footer = stream.read(size)
    if _EXTENSION in footer or any(map(_names_extension, _SCHEMA.findall(footer))):
        raise RefusedError(
            f"{name}: it has a column of an extension type, such as pickled Python objects, and is not opened. "
            "Write it with columns of plain types: strings, numbers, lists, structs"
        )


def _names_extension(encoded: bytes) -> bool:
    # Bytes of the length may look like base64, too: so at each of four places one may have begun to read.
    return any(_EXTENSION in _decoded(encoded[start:]) for start in range(4))


def _decoded(encoded: bytes) -> bytes:
    usable = len(encoded) - len(encoded) % 4
    try:
        return base64.b64decode(encoded[:usable])
    except binascii.Error:
        return b""
