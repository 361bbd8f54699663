"""Which files a run may read, and where it may write.

Refused before anything is read: a path outside the allowed roots, a link that leads out, output and input in one
another, and Parquet with Arrow extension types. Code outside Arrow makes such a type from bytes in the file: some
types of Ray unpickle them, which runs whatever the file's author wrote. Arrow does so already when it opens a file,
so the footer is searched as plain bytes.
"""

import base64
import binascii
import posixpath
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

from deployments.storage import Location, StorageError

Format: TypeAlias = Literal["jsonl", "parquet"]

FORMATS: Final[dict[str, Format]] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}

_MAGIC: Final = b"PAR1"
_MAX_FOOTER_BYTES: Final = 64 * 2**20
"""Costs as much memory twice. A table of 1,000 columns and 1,000 row groups has 50 MB."""

_SCHEMA: Final = re.compile(rb"ARROW:schema.{1,8}?([A-Za-z0-9+/]{16,}={0,2})", re.DOTALL)
"""Arrow's own schema, in base64; the bytes between hold its length."""

_EXTENSION: Final = b"ARROW:extension"


class RefusedError(ValueError):
    """The run cannot begin, and nothing was read or written; the text says why, and what to change."""


@dataclass(frozen=True)
class SourceFile:
    """A file of the input; ``name`` is its path below the input, which identifies it in the output."""

    name: str
    location: Location
    num_bytes: int


@dataclass(frozen=True)
class Source:
    """Files of one format, in the order of their names."""

    format: Format
    files: tuple[SourceFile, ...]


def find_source(given: str, allowed_roots: Collection[str] = ()) -> Source:
    """Find the files of the input, all of one format, and check that they may be read.

    Raises:
        RefusedError: There are none, or some that must not be read.
    """
    location = _location(given)
    _check_allowed(location, given, allowed_roots)
    filesystem = location.filesystem
    if filesystem.isfile(location.path):
        names = {posixpath.basename(location.path): location}
    elif filesystem.isdir(location.path):
        names = _files_below(location, allowed_roots)
    else:
        raise RefusedError(f"{given}: there is no such file or folder")
    formats = {name: _format_of(name) for name in names}
    if unknown := [name for name, found in formats.items() if found is None]:
        known = ", ".join(FORMATS)
        raise RefusedError(f"{unknown[0]}: not a format that is read here; files end with {known}, uncompressed")
    kinds = sorted({found for found in formats.values() if found})
    if len(kinds) != 1:
        none = f"no file that ends with {', '.join(FORMATS)}"
        fault = "both JSON lines and Parquet: give one of them" if kinds else none
        raise RefusedError(f"{given}: it holds {fault}")
    files = [SourceFile(name, at, int(filesystem.size(at.path))) for name, at in sorted(names.items())]
    return Source(kinds[0], tuple(files))


def find_output(given: str, source: str, allowed_roots: Collection[str] = ()) -> Location:
    """Return the folder of the output, once it is clear that it may be written.

    Raises:
        RefusedError: It is a file, outside the roots, or it and the input are in one another.
    """
    location, read = _location(given), _location(source)
    _check_allowed(location, given, allowed_roots)
    if location.holds(read) or read.holds(location):
        raise RefusedError(f"{given}: the output must not be the input, or in it, or around it: choose another folder")
    if location.filesystem.isfile(location.path):
        raise RefusedError(f"{given}: is a file: the output is a folder")
    if location.is_local:
        for name in ("answers", "errors"):
            if not location.holds(_location(f"{location.path}/{name}")):
                raise RefusedError(f"{given}/{name}: is a link that leads out of the output")
    return location


def check_footer(stream: BinaryIO, num_bytes: int, name: str) -> None:
    """Check that a file is Parquet and that all of its types are Arrow's own.

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


def _files_below(folder: Location, allowed_roots: Collection[str]) -> dict[str, Location]:
    """Return the files below a folder by name; those that begin with a dot or an underscore are no input."""
    found: dict[str, Location] = {}
    for path in folder.filesystem.find(folder.path):
        name = posixpath.relpath(path, folder.path)
        if any(part.startswith((".", "_")) for part in name.split("/")):
            continue
        location = _location(path) if folder.is_local else Location(folder.filesystem, path)
        if not folder.holds(location):
            raise RefusedError(f"{path}: is a link that leads out of the input")
        if folder.is_local and not Path(location.path).is_file():
            raise RefusedError(f"{path}: is not a file")
        _check_allowed(location, path, allowed_roots)
        found[name] = location
    return found


def _location(given: str) -> Location:
    """Return the location of a path or URL; refuse one that cannot be read."""
    try:
        return Location.of(given)
    except StorageError as error:
        raise RefusedError(str(error)) from None


def _check_allowed(location: Location, given: str, allowed_roots: Collection[str]) -> None:
    """Refuse a location outside the allowed roots."""
    if allowed_roots and not any(_location(root).holds(location) for root in allowed_roots):
        raise RefusedError(f"{given}: outside the folders that are allowed (offline.allowed_roots)")


def _format_of(name: str) -> Format | None:
    return FORMATS.get(posixpath.splitext(name)[1].lower())


def _names_extension(encoded: bytes) -> bool:
    """Return whether an encoded Arrow schema has an extension type."""
    # Bytes of the length may look like base64 too, so each of the four possible offsets is tried.
    return any(_EXTENSION in _decode_base64(encoded[start:]) for start in range(4))


def _decode_base64(encoded: bytes) -> bytes:
    """Decode base64, cut to whole groups; empty where it is none."""
    usable = len(encoded) - len(encoded) % 4
    try:
        return base64.b64decode(encoded[:usable])
    except binascii.Error:
        return b""
