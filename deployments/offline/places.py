"""Where a run may read and write: a folder of this machine, or a URL that fsspec opens, seen as one kind of thing.

Says which files a path stands for, and refuses before anything is read: a path outside the allowed roots, a link that
leads out, output and input in one another. It knows formats by their endings, and nothing of what is in a file.
"""

import os
import posixpath
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias

import fsspec
from fsspec.implementations.local import LocalFileSystem

Format: TypeAlias = Literal["jsonl", "parquet"]

FORMATS: Final[dict[str, Format]] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


class RefusedError(ValueError):
    """The run cannot begin; the text says why, and what to change. Nothing was read or written."""


@dataclass(frozen=True)
class Place:
    """A file, or a folder and all below it.

    Attributes:
        filesystem: As fsspec has it.
        path: Within it; on this machine absolute and without links.
    """

    filesystem: fsspec.AbstractFileSystem
    path: str

    @classmethod
    def of(cls, given: str) -> Self:
        """The place of a path or URL.

        Raises:
            RefusedError: It is no place.
        """
        try:
            filesystem, path = fsspec.core.url_to_fs(given)
        except (ImportError, ValueError, OSError) as error:
            raise RefusedError(f"{given}: cannot be opened: {error}") from None
        if isinstance(filesystem, LocalFileSystem):
            return cls(filesystem, os.path.realpath(path))
        if ".." in path.split("/"):
            raise RefusedError(f"{given}: a URL must not hold '..'")
        return cls(filesystem, posixpath.normpath(path))

    @property
    def is_local(self) -> bool:
        return isinstance(self.filesystem, LocalFileSystem)

    @property
    def url(self) -> str:
        return self.path if self.is_local else str(self.filesystem.unstrip_protocol(self.path))

    def child(self, name: str) -> Self:
        return type(self)(self.filesystem, f"{self.path}/{name}")

    def holds(self, other: "Place") -> bool:
        """Whether ``other`` is here or below."""
        same = self.is_local == other.is_local and self.filesystem == other.filesystem
        return same and f"{other.path}/".startswith(f"{self.path.rstrip('/')}/")


@dataclass(frozen=True)
class SourceFile:
    """A file of the input; ``name`` is its path below the input, by which it is known in the output."""

    name: str
    place: Place
    num_bytes: int


@dataclass(frozen=True)
class Source:
    """The input: files of one format, in the order of their names."""

    format: Format
    files: tuple[SourceFile, ...]


def find_source(given: str, allowed_roots: Collection[str] = ()) -> Source:
    """The files of the input.

    Raises:
        RefusedError: There are none, or some that must not be read.
    """
    place = Place.of(given)
    _check_allowed(place, given, allowed_roots)
    filesystem = place.filesystem
    if filesystem.isfile(place.path):
        names = {posixpath.basename(place.path): place}
    elif filesystem.isdir(place.path):
        names = _files_below(place, allowed_roots)
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


def find_output(given: str, source: str, allowed_roots: Collection[str] = ()) -> Place:
    """The folder of the output.

    Raises:
        RefusedError: It is a file, outside the roots, or it and the input are in one another.
    """
    place, read = Place.of(given), Place.of(source)
    _check_allowed(place, given, allowed_roots)
    if place.holds(read) or read.holds(place):
        raise RefusedError(f"{given}: the output must not be the input, or in it, or around it: choose another folder")
    if place.filesystem.isfile(place.path):
        raise RefusedError(f"{given}: is a file: the output is a folder")
    if place.is_local:
        for name in ("answers", "errors"):
            if not place.holds(Place.of(f"{place.path}/{name}")):
                raise RefusedError(f"{given}/{name}: is a link that leads out of the output")
    return place


def _files_below(folder: Place, allowed_roots: Collection[str]) -> dict[str, Place]:
    """Files by name; what begins with a dot or an underscore is somebody's note, and no input."""
    found: dict[str, Place] = {}
    for path in folder.filesystem.find(folder.path):
        name = posixpath.relpath(path, folder.path)
        if any(part.startswith((".", "_")) for part in name.split("/")):
            continue
        place = Place.of(path) if folder.is_local else Place(folder.filesystem, path)
        if not folder.holds(place):
            raise RefusedError(f"{path}: is a link that leads out of the input")
        if folder.is_local and not Path(place.path).is_file():
            raise RefusedError(f"{path}: is not a file")
        _check_allowed(place, path, allowed_roots)
        found[name] = place
    return found


def _check_allowed(place: Place, given: str, allowed_roots: Collection[str]) -> None:
    if allowed_roots and not any(Place.of(root).holds(place) for root in allowed_roots):
        raise RefusedError(f"{given}: outside the folders that are allowed (offline.allowed_roots)")


def _format_of(name: str) -> Format | None:
    return FORMATS.get(posixpath.splitext(name)[1].lower())
