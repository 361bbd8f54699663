from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.vocab.toys import can_spell, states_of, toy_speller, toy_tokenizer, toy_words
from vocab.artefacts.artefact import (
    Array,
    ArtefactFolder,
    check_overlay,
    overlay_to_bytes,
    read_tensors,
    words_to_bytes,
    write_tensors,
)
from vocab.automaton.compiled_list import FORMAT_VERSION, CompiledList
from vocab.automaton.overlay import Overlay, build_overlay
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import ArtefactError
from vocab.text.changes import ListChanges


@pytest.fixture
def saved(tmp_path: Path) -> tuple[ArtefactFolder, CompiledList, TokenizerFacts]:
    words = toy_words(["niño", "sol", "in front of", "in", "Mr."], ["sol"])
    folder = ArtefactFolder(tmp_path / "lists")
    folder.save(words)
    return folder, words, toy_tokenizer(["sol"])


Saved = tuple[ArtefactFolder, CompiledList, TokenizerFacts]


def test_an_artefact_comes_back_as_it_was(saved: Saved) -> None:
    folder, words, tokenizer = saved
    loaded = folder.load(words.digest)
    assert "word_list" not in vars(loaded.listed)
    assert loaded.listed.word_list == words.listed.word_list
    assert (loaded.roots, loaded.dropped_words, loaded.has_capitals) == (words.roots, (), True)
    for name, array in arrays_of(words).items():
        np.testing.assert_array_equal(arrays_of(loaded)[name], array, err_msg=name)
    assert can_spell(states_of(loaded, tokenizer), tokenizer, "Niño, sol in front of niño. Mr. sol")


def test_an_artefact_says_whose_words_it_holds(saved: Saved) -> None:
    folder, words, _ = saved
    _, own = read_tensors(folder.read_bytes(words.digest))
    assert own["attribution"] == ""
    _, metadata = read_tensors(words_to_bytes(replace(words, listed=replace(words.listed, source="cleaned"))))
    for owed in (
        "Robyn Speer",
        "CC BY-SA 4.0",
        "Changed by wordbound",
        "SUBTLEX by Marc Brysbaert",
        "freely available",
    ):
        assert owed in metadata["attribution"]


def test_an_artefact_made_before_they_said_so_is_still_read(saved: Saved) -> None:
    folder, words, _ = saved
    older = rewritten(folder.read_bytes(words.digest), lambda _, metadata: metadata.pop("attribution"))
    folder.write_bytes(words.digest, older)
    assert folder.load(words.digest).digest == words.digest


def arrays_of(trie: CompiledList | Overlay) -> dict[str, Array]:
    return {name: value for name, value in vars(trie).items() if isinstance(value, np.ndarray)}


def test_changes_come_back_as_they_were(saved: Saved) -> None:
    folder, words, tokenizer = saved
    overlay = changed(words, tokenizer)
    folder.write_bytes(overlay.digest, overlay_to_bytes(overlay))
    loaded = folder.load_overlay(overlay.digest)
    check_overlay(loaded, words)
    assert (loaded.changes, loaded.roots, loaded.base_digest) == (overlay.changes, overlay.roots, words.digest)
    for name, array in arrays_of(overlay).items():
        np.testing.assert_array_equal(arrays_of(loaded)[name], array, err_msg=name)
    states = states_of(words, tokenizer, overlay=loaded)
    assert can_spell(states, tokenizer, "Ana in")
    assert not can_spell(states, tokenizer, "sol")


def changed(words: CompiledList, tokenizer: TokenizerFacts) -> Overlay:
    return build_overlay(words, ListChanges(("Ana", '"x"'), ("sol",)), toy_speller(tokenizer))


def test_changes_of_another_list_or_that_point_outside_are_refused(saved: Saved) -> None:
    folder, words, tokenizer = saved
    overlay = changed(words, tokenizer)
    with pytest.raises(ArtefactError, match="another list"):
        check_overlay(overlay, toy_words(["sol"], ["sol"]))
    data = overlay_to_bytes(overlay)
    for name in ("tokens", "children", "kinds", "edge_start"):

        def misdirect(arrays: dict[str, Array], metadata: dict[str, Any], name: str = name) -> None:
            arrays[name][len(arrays[name]) // 2] = 120 if name == "kinds" else 2**30

        folder.write_bytes(overlay.digest, rewritten(data, misdirect))
        with pytest.raises(ArtefactError, match=r"point outside|does not fit"):
            check_overlay(folder.load_overlay(overlay.digest), words)
    folder.write_bytes("c" * 64, data)
    with pytest.raises(ArtefactError, match="others"):
        folder.load_overlay("c" * 64)


def test_its_arrays_are_views_of_the_file(saved: Saved) -> None:
    folder, words, _ = saved
    tokens = folder.load(words.digest).tokens
    assert not tokens.flags.owndata
    assert not tokens.flags.writeable


def test_another_folder_takes_it_as_bytes(saved: Saved, tmp_path: Path) -> None:
    folder, words, _ = saved
    other = ArtefactFolder(tmp_path / "elsewhere")
    assert not other.has(words.digest)
    other.write_bytes(words.digest, folder.read_bytes(words.digest))
    assert other.has(words.digest)
    assert other.load(words.digest).digest == words.digest


def test_nothing_is_left_of_a_write_that_failed(tmp_path: Path) -> None:
    folder = ArtefactFolder(tmp_path)
    with pytest.raises(TypeError):
        folder.write_bytes("a" * 64, "no bytes")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("digest", ["../../etc/passwd", "", "A" * 64, "a" * 63])
def test_only_a_digest_names_a_file(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ArtefactError, match="64 hexadecimal digits"):
        ArtefactFolder(tmp_path).path_of(digest)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="cannot be used"):
        ArtefactFolder(tmp_path).load("a" * 64)
    with pytest.raises(ArtefactError, match="cannot be read"):
        ArtefactFolder(tmp_path).read_bytes("a" * 64)


def test_a_file_under_another_name_is_refused(saved: Saved) -> None:
    folder, words, _ = saved
    folder.write_bytes("b" * 64, folder.read_bytes(words.digest))
    with pytest.raises(ArtefactError, match="that of another list"):
        folder.load("b" * 64)


@pytest.mark.parametrize("keep", [0, 4, 8, 300, -200])
def test_a_file_cut_short_is_refused(saved: Saved, keep: int) -> None:
    folder, words, _ = saved
    folder.write_bytes(words.digest, folder.read_bytes(words.digest)[:keep])
    with pytest.raises(ArtefactError, match="delete the file"):
        folder.load(words.digest)


def rewritten(data: bytes, change: Callable[[dict[str, Array], dict[str, Any]], Any]) -> bytes:
    """The file with other contents and a checksum that fits."""
    arrays, metadata = read_tensors(data)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays, metadata)
    return write_tensors(arrays, metadata)


def test_a_file_of_another_format_is_refused(saved: Saved) -> None:
    folder, words, _ = saved
    data = rewritten(folder.read_bytes(words.digest), lambda _, metadata: metadata.update(format=8))
    folder.write_bytes(words.digest, data)
    with pytest.raises(ArtefactError, match=f"format 8, not {FORMAT_VERSION}"):
        folder.load(words.digest)


@pytest.mark.parametrize("name", ["children", "tokens", "edge_start"])
def test_arrays_that_point_outside_are_refused(saved: Saved, name: str) -> None:
    folder, words, _ = saved

    def misdirect(arrays: dict[str, Array], metadata: dict[str, Any]) -> None:
        arrays[name][len(arrays[name]) // 2] = 2**30

    folder.write_bytes(words.digest, rewritten(folder.read_bytes(words.digest), misdirect))
    with pytest.raises(ArtefactError, match="point outside"):
        folder.load(words.digest)


@pytest.mark.parametrize("name", ["children", "kinds", "edge_start"])
def test_arrays_that_do_not_fit_together_are_refused(saved: Saved, name: str) -> None:
    folder, words, _ = saved

    def lengthen(arrays: dict[str, Array], metadata: dict[str, Any]) -> None:
        arrays[name] = np.append(arrays[name], arrays[name][-1:])

    folder.write_bytes(words.digest, rewritten(folder.read_bytes(words.digest), lengthen))
    with pytest.raises(ArtefactError, match="do not fit together"):
        folder.load(words.digest)


def test_a_file_with_any_byte_changed_is_refused(saved: Saved) -> None:
    folder, words, _ = saved
    sound = folder.read_bytes(words.digest)
    for place in [*range(0, 3000, 7), *range(3000, len(sound), 997)]:
        data = bytearray(sound)
        data[place] ^= 1 << (place % 8)
        folder.write_bytes(words.digest, bytes(data))
        with pytest.raises(ArtefactError, match="cannot be used"):
            folder.load(words.digest)
    folder.write_bytes(words.digest, sound)
    assert folder.load(words.digest).listed.num_words == 5
