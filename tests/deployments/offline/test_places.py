"""Where a run may read and write."""

from pathlib import Path

import fsspec
import pytest

from deployments.offline.places import Place, RefusedError, find_output, find_source


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"{}\n")
    return path


def test_a_file_is_an_input(tmp_path: Path) -> None:
    path = touch(tmp_path / "in.jsonl")
    source = find_source(str(path))
    assert source.format == "jsonl"
    assert [(file.name, file.place.path, file.num_bytes) for file in source.files] == [("in.jsonl", str(path), 3)]


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
    assert [(file.name, file.place.url) for file in source.files] == [("in.ndjson", "memory:///rows/in.ndjson")]


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


def test_a_folder_holds_what_is_below_it_and_not_what_is_named_like_it() -> None:
    folder = Place.of("/data/in")
    assert folder.holds(folder)
    assert folder.holds(Place.of("/data/in/a"))
    assert not folder.holds(Place.of("/data/input"))
    assert not folder.holds(Place.of("memory://data/in/a"))
