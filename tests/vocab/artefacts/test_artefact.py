from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.vocab.toys import can_spell, matcher_of, toy_automaton
from vocab.arrays.tensors import Array, read_tensors, write_tensors
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.automaton import TokenAutomaton
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.errors import ArtefactError


@pytest.fixture
def saved(tmp_path: Path) -> tuple[ArtefactFolder, TokenAutomaton, TokenizerFacts]:
    automaton, tokenizer = toy_automaton(["niño", "sol", "in front of", "in"], ["sol"])
    folder = ArtefactFolder(tmp_path / "lists")
    folder.save(automaton)
    return folder, automaton, tokenizer


Saved = tuple[ArtefactFolder, TokenAutomaton, TokenizerFacts]


def test_an_artefact_comes_back_as_it_was(saved: Saved) -> None:
    folder, automaton, tokenizer = saved
    loaded = folder.load(automaton.digest)
    assert "word_list" not in vars(loaded.words)
    assert loaded.word_list == automaton.word_list
    assert loaded.options == automaton.options
    assert loaded.dropped_words == ()
    assert loaded.longest_distance == automaton.longest_distance
    for name, array in arrays_of(automaton).items():
        np.testing.assert_array_equal(arrays_of(loaded)[name], array, err_msg=name)
    assert can_spell(matcher_of(loaded, 4), tokenizer, "Niño, sol in front of niño.")


def arrays_of(automaton: TokenAutomaton) -> dict[str, Array]:
    parts = (automaton, automaton.edges, automaton.distances, automaton.words)
    return {name: value for part in parts for name, value in vars(part).items() if isinstance(value, np.ndarray)}


def test_its_arrays_are_views_of_the_file(saved: Saved) -> None:
    folder, automaton, _ = saved
    tokens = folder.load(automaton.digest).edges.tokens
    assert not tokens.flags.owndata
    assert not tokens.flags.writeable


def test_another_folder_takes_it_as_bytes(saved: Saved, tmp_path: Path) -> None:
    folder, automaton, _ = saved
    other = ArtefactFolder(tmp_path / "elsewhere")
    assert not other.has(automaton.digest)
    other.write_bytes(automaton.digest, folder.read_bytes(automaton.digest))
    assert other.has(automaton.digest)
    assert other.load(automaton.digest).digest == automaton.digest


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
    folder, automaton, _ = saved
    folder.write_bytes("b" * 64, folder.read_bytes(automaton.digest))
    with pytest.raises(ArtefactError, match="that of another list"):
        folder.load("b" * 64)


@pytest.mark.parametrize("keep", [0, 4, 8, 300, -200])
def test_a_file_cut_short_is_refused(saved: Saved, keep: int) -> None:
    folder, automaton, _ = saved
    folder.write_bytes(automaton.digest, folder.read_bytes(automaton.digest)[:keep])
    with pytest.raises(ArtefactError, match="delete the file"):
        folder.load(automaton.digest)


def rewritten(data: bytes, change: Callable[[dict[str, Array], dict[str, Any]], None]) -> bytes:
    """The file with other contents and a checksum that fits."""
    arrays, metadata = read_tensors(data)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays, metadata)
    return write_tensors(arrays, metadata)


def test_a_file_of_another_format_is_refused(saved: Saved) -> None:
    folder, automaton, _ = saved
    data = rewritten(folder.read_bytes(automaton.digest), lambda _, metadata: metadata.update(format=8))
    folder.write_bytes(automaton.digest, data)
    with pytest.raises(ArtefactError, match="format 8, not 2"):
        folder.load(automaton.digest)


@pytest.mark.parametrize("name", ["targets", "tokens", "edge_start", "links", "pair_start", "gap_states"])
def test_arrays_that_point_outside_are_refused(saved: Saved, name: str) -> None:
    folder, automaton, _ = saved

    def misdirect(arrays: dict[str, Array], metadata: dict[str, Any]) -> None:
        arrays[name][len(arrays[name]) // 2] = 2**30

    folder.write_bytes(automaton.digest, rewritten(folder.read_bytes(automaton.digest), misdirect))
    with pytest.raises(ArtefactError, match="point outside"):
        folder.load(automaton.digest)


@pytest.mark.parametrize("name", ["ranks", "links", "pair_start", "place_start", "place_ranks"])
def test_arrays_that_do_not_fit_together_are_refused(saved: Saved, name: str) -> None:
    folder, automaton, _ = saved

    def lengthen(arrays: dict[str, Array], metadata: dict[str, Any]) -> None:
        arrays[name] = np.append(arrays[name], arrays[name][-1:])

    folder.write_bytes(automaton.digest, rewritten(folder.read_bytes(automaton.digest), lengthen))
    with pytest.raises(ArtefactError, match="do not fit together"):
        folder.load(automaton.digest)


def test_a_file_with_any_byte_changed_is_refused(saved: Saved) -> None:
    folder, automaton, _ = saved
    sound = folder.read_bytes(automaton.digest)
    for place in [*range(0, 3000, 7), *range(3000, len(sound), 997)]:
        data = bytearray(sound)
        data[place] ^= 1 << (place % 8)
        folder.write_bytes(automaton.digest, bytes(data))
        with pytest.raises(ArtefactError, match="cannot be used"):
            folder.load(automaton.digest)
    folder.write_bytes(automaton.digest, sound)
    assert folder.load(automaton.digest).words.num_words == 4
