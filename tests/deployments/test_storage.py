"""Files in a folder and behind a URL; what ``batch/test_contents.py`` says of files holds for these too."""

from pathlib import Path

import pytest

from deployments.storage import Location, PartialFile, StorageError
from tests.deployments import buffered_files as buffered_files  # registers buffered://


@pytest.fixture(params=["folder", "URL"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    return Location.of(str(tmp_path) if request.param == "folder" else f"buffered:/{tmp_path}")


def test_a_file_appears_when_it_is_whole(folder: Location) -> None:
    location = folder.child("a").child("file")
    partial = PartialFile(location)
    partial.write(b"one ")
    partial.write(b"two")
    assert not location.filesystem.exists(location.path)
    assert partial.commit() == 7
    assert location.read(4, 100) == b"two"
    partial.discard()
    assert location.size() == 7


def test_a_file_that_is_discarded_never_appears(folder: Location) -> None:
    partial = PartialFile(folder.child("file"))
    partial.write(b"one")
    partial.discard()
    partial.discard()
    assert folder.filesystem.find(folder.path) == []


@pytest.mark.parametrize("given", ["nowhere://x", "memory://a/../b"])
def test_what_is_no_location_is_an_error(given: str) -> None:
    with pytest.raises(StorageError):
        Location.of(given)


def test_a_folder_holds_what_is_below_it_and_not_what_is_named_like_it() -> None:
    folder = Location.of("/data/in")
    assert folder.holds(folder)
    assert folder.holds(Location.of("/data/in/a"))
    assert not folder.holds(Location.of("/data/input"))
    assert not folder.holds(Location.of("memory://data/in/a"))
