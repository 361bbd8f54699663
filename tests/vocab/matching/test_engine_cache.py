"""Rows 28, 31 and 32 of the faults, in the engine: lists come and go within their bytes."""

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
LISTED = build_words(word_list(["the", "cat", "sat"]), SPELLER)
OTHER = build_words(word_list(["sat"]), SPELLER)
WITHOUT, WITH = ListChanges(exclude_words=("cat",)), ListChanges(extra_words=("Ana",))
BOTH = ListChanges(("Ana",), ("cat",))


class Folder(ArtefactFolder):
    """A folder of artefacts, with the list, and what an engine reads from it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path
        for words in (LISTED, OTHER):
            self.save(words)

    def cache(self, max_bytes: int = 2**30) -> EngineCache:
        return EngineCache(self.path, TOKENIZER, max_bytes)

    def change(self, changes: ListChanges, words: CompiledList = LISTED) -> str:
        overlay = build_overlay(words, changes, SPELLER)
        self.write_bytes(overlay.digest, overlay_to_bytes(overlay))
        return overlay.digest

    def delete(self, *digests: str) -> None:
        for digest in digests:
            self.path_of(digest).unlink()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def reference(
    n_words: int, changes: str | None = None, *, words: CompiledList = LISTED, **fields: Any
) -> GrammarReference:
    return GrammarReference(words.digest, ListOptions(), n_words, changes=changes, **fields)


def texts(lists: EngineCache, asked: GrammarReference) -> dict[str, bool]:
    states = lists.states(asked)
    return {text: can_spell(states, TOKENIZER, text) for text in ("the cat", "the sat", "the Ana", "Ana the")}


def test_a_reference_gives_the_list_with_its_changes(folder: Folder) -> None:
    lists = folder.cache()
    without, extra, both = map(folder.change, (WITHOUT, WITH, BOTH))
    for one, is_cat, is_sat, is_ana in (
        (reference(3), True, True, False),
        (reference(2), True, False, False),
        (reference(3, without), False, True, False),
        (reference(1, extra), False, False, True),
        (reference(3, both), False, True, True),
    ):
        for _ in range(2):
            assert texts(lists, one) == {"the cat": is_cat, "the sat": is_sat, "the Ana": is_ana, "Ana the": is_ana}
    # What is known needs no file.
    folder.delete(LISTED.digest, both)
    assert texts(lists, reference(3, both)) == {"the cat": False, "the sat": True, "the Ana": True, "Ana the": True}


def test_a_schema_is_read_once_and_its_strings_are_of_the_list(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, read = list[PreparedSchema](), Graph.of

    def counted(schema: PreparedSchema) -> Graph:
        reads.append(schema)
        return read(schema)

    monkeypatch.setattr(Graph, "of", counted)
    lists = folder.cache()
    schema = prepare({"type": "array", "items": {"type": "string"}})
    for n_words, is_sat in ((3, True), (2, False), (3, True)):
        states = lists.for_text(reference(n_words, schema=schema))
        assert can_spell(states, TOKENIZER, '["the cat"]')
        assert can_spell(states, TOKENIZER, '["the sat"]') == is_sat
    assert len(reads) == 2
    with pytest.raises(StructureError, match="cannot be written in the word list"):
        lists.for_text(reference(-(2**30), schema=prepare({"type": "string"})))


def test_options_are_those_of_the_reference(folder: Folder) -> None:
    lists = folder.cache()
    for options, can_break, can_end in (
        (ListOptions(), False, True),
        (ListOptions(layout="lines"), True, True),
        (ListOptions(end="sentence"), False, False),
    ):
        states = lists.states(GrammarReference(LISTED.digest, options, 3))
        assert can_spell(states, TOKENIZER, "the\nthe") is (can_break and can_end)
        assert can_spell(states, TOKENIZER, "the") is can_end


@pytest.mark.parametrize("missing", ["list", "changes"])
def test_a_missing_or_damaged_artefact_fails_its_request_alone(folder: Folder, missing: str) -> None:
    lists, changes = folder.cache(), folder.change(BOTH)
    asked, digest = reference(3, changes), LISTED.digest if missing == "list" else changes
    data = folder.read_bytes(digest)
    folder.delete(digest)
    for damaged in (None, data[:-5], b"", data[:200] + bytes([data[200] ^ 1]) + data[201:]):
        if damaged is not None:
            folder.write_bytes(digest, damaged)
        with pytest.raises(ArtefactError):
            lists.states(asked)
    folder.write_bytes(digest, data)
    assert texts(lists, asked)["the Ana"]


def test_artefacts_that_do_not_go_together_are_refused(folder: Folder) -> None:
    lists, without = folder.cache(), folder.change(WITHOUT)
    foreign = build_words(word_list(["the"]), toy_speller(toy_tokenizer(["x"])))
    folder.save(foreign)
    folder.write_bytes("f" * 64, folder.read_bytes(without))
    for asked in (
        reference(2, without, words=OTHER),
        reference(2, "f" * 64),
        reference(2, OTHER.digest),
        reference(1, words=foreign),
    ):
        with pytest.raises(ArtefactError):
            lists.states(asked)


@pytest.mark.parametrize(("max_files", "max_bytes"), [(1, 2**30), (256, 1)])
def test_lists_used_longest_ago_are_let_go_and_a_matcher_outlives_its_list(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, max_files: int, max_bytes: int
) -> None:
    monkeypatch.setattr(engine_cache, "MAX_FILES", max_files)
    lists = folder.cache(max_bytes)
    states = lists.states(reference(3))
    lists.states(reference(1, words=OTHER))
    folder.delete(LISTED.digest, OTHER.digest)
    assert can_spell(states, TOKENIZER, "the cat sat")
    # What is made of the last list is let go before the list.
    assert max_bytes == 1 or lists.states(reference(1, words=OTHER))
    with pytest.raises(ArtefactError):
        lists.states(reference(3))


def test_many_threads_may_ask_at_once(folder: Folder) -> None:
    lists = folder.cache(max_bytes=200_000)
    made = {changes: folder.change(changes) for changes in (WITHOUT, WITH, BOTH)}

    def ask(number: int) -> dict[str, bool]:
        changes = [None, *made][number % 4]
        found = texts(lists, reference(1 + number % 3, None if changes is None else made[changes]))
        return {**found, "n": 1 + number % 3 >= 3, "extra": changes in (WITH, BOTH)}

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(ask, range(200)):
            assert found["the sat"] == found["n"]
            assert found["the Ana"] == found["Ana the"] == found["extra"]


@pytest.mark.fault(31)
@pytest.mark.slow
@pytest.mark.parallel
def test_ten_thousand_lists_keep_memory_and_files_within_bounds(folder: Folder) -> None:
    max_bytes = 8 * 2**20
    lists = folder.cache(max_bytes)
    resident = []
    for number in range(10_000):
        words = replace(LISTED, digest=f"{number:064x}")
        folder.save(words)
        changes = folder.change(WITH, words) if number % 4 == 0 else None
        matcher = Matcher(lists.states(reference(3, changes, words=words, max_tokens=9)), [STOP])
        assert matcher.accept_token(TOKENIZER.token_bytes.index(b" the"))
        folder.delete(words.digest)
        if number % 500 == 499:
            assert lists.num_bytes <= max_bytes
            assert psutil.Process().num_fds() < 400
            resident.append(psutil.Process().memory_info().rss)
    assert max(resident[4:]) - resident[3] < 32 * 2**20
