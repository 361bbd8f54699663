"""Rows 28, 31 and 32 of the faults, in the engine: lists come and go within their bytes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.vocab.toys import STOP, can_spell, toy_speller, toy_tokenizer, word_list
from vocab.artefacts.artefact import ArtefactFolder, overlay_to_bytes
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.overlay import build_overlay
from vocab.automaton.trie_builder import build_words
from vocab.errors import ArtefactError, StructureError
from vocab.matching import engine_cache
from vocab.matching.engine_cache import EngineCache
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference
from vocab.matching.structure.graph import Graph
from vocab.matching.structure.schema import PreparedSchema, prepare
from vocab.options import ListOptions
from vocab.text.changes import ListChanges

TOKENIZER = toy_tokenizer([" the", " cat", " sat", "Ana"])
SPELLER = toy_speller(TOKENIZER)
WITHOUT, WITH = ListChanges(exclude_words=("cat",)), ListChanges(extra_words=("Ana",))
BOTH = ListChanges(("Ana",), ("cat",))


@pytest.fixture(scope="module")
def listed() -> CompiledList:
    return build_words(word_list(["the", "cat", "sat"]), SPELLER)


@pytest.fixture
def folder(tmp_path: Path, listed: CompiledList) -> Iterator[ArtefactFolder]:
    made = ArtefactFolder(tmp_path)
    made.save(listed)
    yield made


def cache(folder: ArtefactFolder, max_bytes: int = 2**30) -> EngineCache:
    return EngineCache(folder.path_of("0" * 64).parent, TOKENIZER, max_bytes)


def reference(listed: CompiledList, n_words: int, changes: str | None = None, **fields: Any) -> GrammarReference:
    return GrammarReference(listed.digest, ListOptions(), n_words, changes=changes, **fields)


def changed(folder: ArtefactFolder, listed: CompiledList, changes: ListChanges) -> str:
    overlay = build_overlay(listed, changes, SPELLER)
    folder.write_bytes(overlay.digest, overlay_to_bytes(overlay))
    return overlay.digest


def texts(lists: EngineCache, asked: GrammarReference) -> dict[str, bool]:
    states = lists.states(asked)
    return {text: can_spell(states, TOKENIZER, text) for text in ("the cat", "the sat", "the Ana", "Ana the")}


def test_a_reference_gives_the_list_with_its_changes(folder: ArtefactFolder, listed: CompiledList) -> None:
    lists = cache(folder)
    without, extra, both = (changed(folder, listed, changes) for changes in (WITHOUT, WITH, BOTH))
    for one, is_cat, is_sat, is_ana in (
        (reference(listed, 3), True, True, False),
        (reference(listed, 2), True, False, False),
        (reference(listed, 3, without), False, True, False),
        (reference(listed, 1, extra), False, False, True),
        (reference(listed, 3, both), False, True, True),
    ):
        for _ in range(2):
            assert texts(lists, one) == {"the cat": is_cat, "the sat": is_sat, "the Ana": is_ana, "Ana the": is_ana}


def test_a_schema_is_read_once_and_its_strings_are_of_the_list(
    folder: ArtefactFolder, listed: CompiledList, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = list[PreparedSchema](), Graph.of

    def counted(schema: PreparedSchema) -> Graph:
        reads.append(schema)
        return read(schema)

    monkeypatch.setattr(Graph, "of", counted)
    lists = cache(folder)
    schema = prepare({"type": "array", "items": {"type": "string"}})
    for n_words, is_sat in ((3, True), (2, False), (3, True)):
        states = lists.for_text(replace(reference(listed, n_words), schema=schema))
        assert can_spell(states, TOKENIZER, '["the cat"]')
        assert can_spell(states, TOKENIZER, '["the sat"]') == is_sat
    assert len(reads) == 2
    with pytest.raises(StructureError, match="cannot be written in the word list"):
        lists.for_text(replace(reference(listed, -(2**30)), schema=prepare({"type": "string"})))


def test_options_are_those_of_the_reference(folder: ArtefactFolder, listed: CompiledList) -> None:
    lists = cache(folder)
    for options, can_break, can_end in (
        (ListOptions(), False, True),
        (ListOptions(layout="lines"), True, True),
        (ListOptions(end="sentence"), False, False),
    ):
        states = lists.states(GrammarReference(listed.digest, options, 3))
        assert can_spell(states, TOKENIZER, "the\nthe") is (can_break and can_end)
        assert can_spell(states, TOKENIZER, "the") is can_end


def test_what_is_known_needs_no_file(folder: ArtefactFolder, listed: CompiledList) -> None:
    lists = cache(folder)
    asked = reference(listed, 3, changed(folder, listed, BOTH))
    before = texts(lists, asked)
    for digest in (listed.digest, str(asked.changes)):
        folder.path_of(digest).unlink()
    assert texts(lists, asked) == before


@pytest.mark.parametrize("missing", ["list", "changes"])
def test_a_missing_or_damaged_artefact_fails_its_request_alone(
    folder: ArtefactFolder, listed: CompiledList, missing: str
) -> None:
    lists = cache(folder)
    asked = reference(listed, 3, changed(folder, listed, BOTH))
    digest = listed.digest if missing == "list" else str(asked.changes)
    data = folder.read_bytes(digest)
    for damaged in (None, data[:-5], b"", data[:200] + bytes([data[200] ^ 1]) + data[201:]):
        if damaged is None:
            folder.path_of(digest).unlink()
        else:
            folder.write_bytes(digest, damaged)
        with pytest.raises(ArtefactError):
            lists.states(asked)
    folder.write_bytes(digest, data)
    assert texts(lists, asked)["the Ana"]


def test_artefacts_that_do_not_go_together_are_refused(folder: ArtefactFolder, listed: CompiledList) -> None:
    lists, without = cache(folder), changed(folder, listed, WITHOUT)
    other = build_words(word_list(["the", "cat"]), SPELLER)
    foreign = build_words(word_list(["the"]), toy_speller(toy_tokenizer(["x"])))
    for words in (other, foreign):
        folder.save(words)
    folder.write_bytes("f" * 64, folder.read_bytes(without))
    for asked in (
        reference(other, 2, without),
        reference(listed, 2, "f" * 64),
        reference(listed, 2, other.digest),
        reference(foreign, 1),
    ):
        with pytest.raises(ArtefactError):
            lists.states(asked)


def test_lists_used_longest_ago_are_let_go_after_what_is_made_of_them(
    folder: ArtefactFolder, listed: CompiledList, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_cache, "MAX_FILES", 1)
    lists = cache(folder)
    lists.states(reference(listed, 3))
    other = build_words(word_list(["sat"]), SPELLER)
    folder.save(other)
    lists.states(reference(other, 1))
    for digest in (listed.digest, other.digest):
        folder.path_of(digest).unlink()
    assert lists.states(reference(other, 1))
    with pytest.raises(ArtefactError):
        lists.states(reference(listed, 3))


def test_a_matcher_outlives_its_list(folder: ArtefactFolder, listed: CompiledList) -> None:
    lists = cache(folder, max_bytes=1)
    states = lists.states(reference(listed, 3))
    other = build_words(word_list(["sat"]), SPELLER)
    folder.save(other)
    lists.states(reference(other, 1))
    folder.path_of(listed.digest).unlink()
    assert can_spell(states, TOKENIZER, "the cat sat")
    with pytest.raises(ArtefactError):
        lists.states(reference(listed, 3))


def test_many_threads_may_ask_at_once(folder: ArtefactFolder, listed: CompiledList) -> None:
    lists = cache(folder, max_bytes=200_000)
    made = {changes: changed(folder, listed, changes) for changes in (WITHOUT, WITH, BOTH)}

    def ask(number: int) -> dict[str, bool]:
        changes = [None, *made][number % 4]
        found = texts(lists, reference(listed, 1 + number % 3, None if changes is None else made[changes]))
        return {**found, "n": 1 + number % 3 >= 3, "extra": changes in (WITH, BOTH)}

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(ask, range(200)):
            assert found["the sat"] == found["n"]
            assert found["the Ana"] == found["Ana the"] == found["extra"]


@pytest.mark.slow
@pytest.mark.parallel
def test_ten_thousand_lists_keep_memory_and_files_within_bounds(folder: ArtefactFolder, listed: CompiledList) -> None:
    max_bytes = 8 * 2**20
    lists = cache(folder, max_bytes)
    resident = []
    for number in range(10_000):
        words = replace(listed, digest=f"{number:064x}")
        folder.save(words)
        changes = changed(folder, words, WITH) if number % 4 == 0 else None
        matcher = Matcher(lists.states(reference(words, 3, changes, max_tokens=9)), [STOP])
        assert matcher.accept_token(TOKENIZER.token_bytes.index(b" the"))
        folder.path_of(words.digest).unlink()
        if number % 500 == 499:
            assert lists.num_bytes <= max_bytes
            assert psutil.Process().num_fds() < 400
            resident.append(psutil.Process().memory_info().rss)
    assert max(resident[4:]) - resident[3] < 32 * 2**20
