"""Artefacts come back as they were made; a file that differs from what was written is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from safetensors.numpy import load

from tests.vocab.toys import FULL, can_spell, states_of, toy_speller, toy_tokenizer, toy_words, word_list
from vocab.artefacts.artefact import (
    Array,
    ArtefactFolder,
    check_overlay,
    overlay_to_bytes,
    read_tensors,
    words_to_bytes,
    write_tensors,
)
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.compiled_list import FORMAT_VERSION, CompiledList
from vocab.automaton.overlay import Overlay, build_overlay
from vocab.errors import ArtefactError
from vocab.text.changes import ListChanges
from vocab.text.reader import TextReader

TOKENIZER = toy_tokenizer(["sol"])
ARRAYS: dict[str, Array] = {
    "bytes": np.arange(300, dtype=np.uint8),
    "none": np.empty(0, dtype=np.int32),
    "ints": np.arange(-5, 500, dtype=np.int32),
    "longs": np.asarray([2**40, -1], dtype=np.int64),
}
DATA = write_tensors(ARRAYS, {"name": "niño", "sizes": [1, 2]})
Change: TypeAlias = Callable[[dict[str, Array], dict[str, Any]], object]


@pytest.fixture(scope="module")
def words() -> CompiledList:
    return toy_words(["niño", "sol", "in front of", "in", "Mr."], ["sol"])


@pytest.fixture(scope="module")
def overlay(words: CompiledList) -> Overlay:
    return build_overlay(words, ListChanges(("Ana", '"x"'), ("sol",)), toy_speller(TOKENIZER))


@pytest.fixture
def folder(tmp_path: Path, words: CompiledList) -> ArtefactFolder:
    folder = ArtefactFolder(tmp_path / "lists")
    folder.save(words)
    return folder


def assert_same_arrays(found: CompiledList | Overlay, made: CompiledList | Overlay) -> None:
    for name, array in vars(made).items():
        if isinstance(array, np.ndarray):
            np.testing.assert_array_equal(vars(found)[name], array, err_msg=name)


def test_named_arrays_come_back_and_others_can_read_the_file() -> None:
    arrays, metadata = read_tensors(DATA)
    assert metadata == {"name": "niño", "sizes": [1, 2]}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    np.testing.assert_array_equal(load(DATA)["ints"], ARRAYS["ints"])
    assert write_tensors(ARRAYS, metadata) == DATA


def test_no_bit_may_differ() -> None:
    for place in range(len(DATA)):
        for bit in range(8) if place < 1000 else (place % 8,):
            damaged = bytearray(DATA)
            damaged[place] ^= 1 << bit
            with pytest.raises(ArtefactError, match="damaged or no file of this package"):
                read_tensors(bytes(damaged))


def test_an_artefact_comes_back_as_it_was(folder: ArtefactFolder, words: CompiledList, tmp_path: Path) -> None:
    other = ArtefactFolder(tmp_path / "elsewhere")
    assert not other.has(words.digest)
    other.write_bytes(words.digest, folder.read_bytes(words.digest))
    assert other.has(words.digest)
    for loaded in (folder.load(words.digest), other.load(words.digest)):
        assert "word_list" not in vars(loaded.listed)
        assert loaded.listed.word_list == words.listed.word_list
        assert loaded.listed.num_words == 5
        assert (loaded.roots, loaded.dropped_words, loaded.has_capitals) == (words.roots, (), True)
        assert_same_arrays(loaded, words)
        assert can_spell(states_of(loaded, TOKENIZER), TOKENIZER, "Niño, sol in front of niño. Mr. sol")
        assert not loaded.tokens.flags.owndata
        assert not loaded.tokens.flags.writeable
        assert words_to_bytes(loaded) == folder.read_bytes(words.digest)


def test_changes_come_back_as_they_were(folder: ArtefactFolder, words: CompiledList, overlay: Overlay) -> None:
    folder.write_bytes(overlay.digest, overlay_to_bytes(overlay))
    loaded = folder.load_overlay(overlay.digest)
    check_overlay(loaded, words)
    assert (loaded.changes, loaded.roots, loaded.base_digest) == (overlay.changes, overlay.roots, words.digest)
    assert_same_arrays(loaded, overlay)
    states = states_of(words, TOKENIZER, overlay=loaded)
    assert can_spell(states, TOKENIZER, "Ana in")
    assert not can_spell(states, TOKENIZER, "sol")


def test_an_artefact_says_whose_words_it_holds(folder: ArtefactFolder, words: CompiledList) -> None:
    assert read_tensors(folder.read_bytes(words.digest))[1]["attribution"] == ""
    cleaned = words_to_bytes(replace(words, listed=replace(words.listed, source="cleaned")))
    for owed in ("Robyn Speer", "CC BY-SA 4.0", "Changed by wordbound", "SUBTLEX by Marc", "freely available"):
        assert owed in read_tensors(cleaned)[1]["attribution"]
    # One that was made before they said so.
    older = refit(lambda _, metadata: metadata.pop("attribution"))(folder.read_bytes(words.digest))
    folder.write_bytes(words.digest, older)
    assert folder.load(words.digest).digest == words.digest


def refit(change: Change) -> Callable[[bytes], bytes]:
    """What makes a file with other contents and a checksum that fits."""

    def rewrite(data: bytes) -> bytes:
        arrays, metadata = read_tensors(data)
        arrays = {name: array.copy() for name, array in arrays.items()}
        change(arrays, metadata)
        return write_tensors(arrays, metadata)

    return rewrite


def misdirect(name: str) -> Callable[[bytes], bytes]:
    def change(arrays: dict[str, Array], _: object) -> None:
        arrays[name][len(arrays[name]) // 2] = 120 if name == "kinds" else 2**30

    return refit(change)


def lengthen(name: str) -> Callable[[bytes], bytes]:
    return refit(lambda arrays, _: arrays.update({name: np.append(arrays[name], arrays[name][-1:])}))


def first(size: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:size]


def of_header(header: bytes) -> Callable[[bytes], bytes]:
    return lambda _: len(header).to_bytes(8, "little") + header


HEADERS = [b"[]", b"{}", b'{"__metadata__": 3}', b"[" * 100_000, b"\xff\xff"]
DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    **{f"the first {size} bytes": (first(size), "") for size in (0, 1, 4, 8, 9, 300, -200, -1)},
    "a byte more": (lambda data: data + b"\0", "damaged"),
    **{f"the header {header[:9]!r}": (of_header(header), "damaged") for header in HEADERS},
    "another format": (refit(lambda _, metadata: metadata.update(format=8)), f"format 8, not {FORMAT_VERSION}"),
    **{f"{name} point outside": (misdirect(name), "point outside") for name in ("children", "tokens", "edge_start")},
    **{f"{name} too long": (lengthen(name), "do not fit") for name in ("children", "kinds", "edge_start")},
}


@pytest.mark.parametrize(("damage", "says"), DAMAGES.values(), ids=DAMAGES)
def test_a_file_that_differs_from_what_was_written_is_refused(
    folder: ArtefactFolder, words: CompiledList, damage: Callable[[bytes], bytes], says: str
) -> None:
    folder.write_bytes(words.digest, damage(folder.read_bytes(words.digest)))
    with pytest.raises(ArtefactError, match=f"cannot be used: .*{says}.*; delete the file"):
        folder.load(words.digest)


def test_changes_of_another_list_or_that_point_outside_are_refused(
    folder: ArtefactFolder, words: CompiledList, overlay: Overlay
) -> None:
    with pytest.raises(ArtefactError, match="another list"):
        check_overlay(overlay, toy_words(["sol"], ["sol"]))
    for name in ("tokens", "children", "kinds", "edge_start"):
        folder.write_bytes(overlay.digest, misdirect(name)(overlay_to_bytes(overlay)))
        with pytest.raises(ArtefactError, match=r"point outside|does not fit"):
            check_overlay(folder.load_overlay(overlay.digest), words)


def test_a_file_under_another_name_or_that_is_missing_is_refused(
    folder: ArtefactFolder, words: CompiledList, overlay: Overlay
) -> None:
    folder.write_bytes("b" * 64, folder.read_bytes(words.digest))
    folder.write_bytes("c" * 64, overlay_to_bytes(overlay))
    for use, says in (
        (lambda: folder.load("b" * 64), "that of another list"),
        (lambda: folder.load_overlay("c" * 64), "others"),
        (lambda: folder.load("a" * 64), "cannot be used"),
        (lambda: folder.read_bytes("a" * 64), "cannot be read"),
    ):
        with pytest.raises(ArtefactError, match=says):
            use()


@pytest.mark.parametrize("digest", ["../../etc/passwd", "", "A" * 64, "a" * 63])
def test_only_a_digest_names_a_file(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ArtefactError, match="64 hexadecimal digits"):
        ArtefactFolder(tmp_path).has(digest)


def test_nothing_is_left_of_a_write_that_failed(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        ArtefactFolder(tmp_path).write_bytes("a" * 64, "no bytes")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_table_is_not_read_but_made_again(folder: ArtefactFolder, tmp_path: Path) -> None:
    listed, other = word_list(("niño", "sol", "in front of"), "en"), word_list(("sol",), "en")
    store = ArtefactStore(tmp_path / "tables", 10**8)
    table = store.table_of(listed)
    [digest] = [path.stem for path in (tmp_path / "tables").iterdir()]
    data = store.read_bytes(digest)
    assert (store.table_of(other).num_nodes, table.num_nodes) == (5, 2 + len("niño" + "sol" + "in front of"))
    for damage, says in (
        (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "checksum differs"),
        (refit(lambda _, metadata: metadata.update(digest="a" * 64)), "the forms of another list"),
        (lambda _: folder.read_bytes(next(folder._path.iterdir()).stem), "cannot be used"),
        (refit(lambda arrays, _: arrays["first_child"].__setitem__(3, 2**30)), "point outside"),
        (refit(lambda arrays, _: arrays["first_child"].__setitem__(0, 0)), "point outside"),
        (lengthen("ranks"), "do not fit"),
        (refit(lambda arrays, _: arrays.update(labels=arrays["labels"].astype(np.int64))), "do not fit"),
    ):
        store.write_bytes(digest, damage(data))
        with pytest.raises(ArtefactError, match=says):
            store.load_table(digest)
        np.testing.assert_array_equal(store.table_of(listed).ranks, table.ranks)
        assert store.read_bytes(digest) == data


def test_the_reader_refuses_the_word_that_a_damaged_trie_lets_in(words: CompiledList, tmp_path: Path) -> None:
    """They are two programs with files of their own: what is wrong in one is seen by the other."""
    reader = TextReader(
        words.listed.word_list, FULL, 2, ArtefactStore(tmp_path, 10**8).table_of(words.listed.word_list)
    )
    assert can_spell(states_of(words, TOKENIZER, 2), TOKENIZER, "niño sol") and reader.is_text("niño sol")
    ranks = np.where(words.ranks == 3, 1, words.ranks)
    below = np.where(words.ranks_below == 3, 1, words.ranks_below)
    damaged = states_of(replace(words, ranks=ranks, ranks_below=below), TOKENIZER, 2)
    assert can_spell(damaged, TOKENIZER, "niño in front of")
    followed = reader.follow()
    assert followed.add("niño ")
    assert not followed.add("in ")
    assert (followed.num_whole, followed.num_complete, reader.is_text("niño in front of")) == (5, 4, False)
