"""Rows 28, 31 and 32 of the faults, in the engine: lists come and go within their bytes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.vocab.toys import STOP, can_spell, toy_tokenizer, word_list
from vocab.artefacts.artefact import ArtefactFolder
from vocab.automaton.automaton import TokenAutomaton, compile_automaton
from vocab.automaton.token_trie import TokenTrie
from vocab.errors import ArtefactError
from vocab.exclusion.exclusion import exclude
from vocab.matching import engine_cache
from vocab.matching.engine_cache import EngineCache
from vocab.matching.matcher import Matcher
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions

TOKENIZER = toy_tokenizer([" the", " cat", " sat", "Ana"])


@pytest.fixture(scope="module")
def listed() -> TokenAutomaton:
    return compile_automaton(word_list(["the", "cat", "sat"]), ListOptions(), TOKENIZER)


@pytest.fixture(scope="module")
def extra() -> TokenAutomaton:
    return compile_automaton(word_list(["Ana"]), ListOptions(case="sentence"), TOKENIZER)


@pytest.fixture
def folder(tmp_path: Path, listed: TokenAutomaton, extra: TokenAutomaton) -> Iterator[ArtefactFolder]:
    made = ArtefactFolder(tmp_path)
    made.save(listed)
    made.save(extra)
    yield made


def cache(folder: ArtefactFolder, max_bytes: int = 2**30) -> EngineCache:
    return EngineCache(folder.path_of("0" * 64).parent, TOKENIZER.digest, max_bytes)


def without_cat(folder: ArtefactFolder, listed: TokenAutomaton) -> str:
    exclusion = exclude(listed, ("cat",), TOKENIZER, TokenTrie.of(TOKENIZER))
    assert exclusion is not None
    folder.write_bytes(exclusion.digest, exclusion.to_bytes())
    return exclusion.digest


def texts(lists: EngineCache, reference: GrammarReference) -> dict[str, bool]:
    matcher = Matcher(lists.states(reference), [STOP])
    return {text: can_spell(matcher, TOKENIZER, text) for text in ("the cat", "the sat", "the Ana", "Ana the")}


def test_a_reference_gives_the_list_with_its_changes(
    folder: ArtefactFolder, listed: TokenAutomaton, extra: TokenAutomaton
) -> None:
    lists, without = cache(folder), without_cat(folder, listed)
    for one, is_cat, is_sat, is_ana in (
        (GrammarReference(listed.digest, 3), True, True, False),
        (GrammarReference(listed.digest, 2), True, False, False),
        (GrammarReference(listed.digest, 3, without=without), False, True, False),
        (GrammarReference(listed.digest, 1, extra=extra.digest), False, False, True),
        (GrammarReference(listed.digest, 3, without=without, extra=extra.digest), False, True, True),
    ):
        for _ in range(2):
            assert texts(lists, one) == {"the cat": is_cat, "the sat": is_sat, "the Ana": is_ana, "Ana the": is_ana}


def test_what_is_known_needs_no_file(folder: ArtefactFolder, listed: TokenAutomaton, extra: TokenAutomaton) -> None:
    lists = cache(folder)
    reference = GrammarReference(listed.digest, 3, without=without_cat(folder, listed), extra=extra.digest)
    before = texts(lists, reference)
    for digest in (listed.digest, extra.digest, str(reference.without)):
        folder.path_of(digest).unlink()
    assert texts(lists, reference) == before


@pytest.mark.parametrize("missing", ["list", "without", "extra"])
def test_a_missing_or_damaged_artefact_fails_its_request_alone(
    folder: ArtefactFolder, listed: TokenAutomaton, extra: TokenAutomaton, missing: str
) -> None:
    lists = cache(folder)
    reference = GrammarReference(listed.digest, 3, without=without_cat(folder, listed), extra=extra.digest)
    digest = {"list": listed.digest, "without": str(reference.without), "extra": extra.digest}[missing]
    data = folder.read_bytes(digest)
    for damaged in (None, data[:-5], b"", data[:200] + bytes([data[200] ^ 1]) + data[201:]):
        if damaged is None:
            folder.path_of(digest).unlink()
        else:
            folder.write_bytes(digest, damaged)
        with pytest.raises(ArtefactError):
            lists.states(reference)
    folder.write_bytes(digest, data)
    assert texts(lists, reference)["the Ana"]


def test_artefacts_that_do_not_go_together_are_refused(folder: ArtefactFolder, listed: TokenAutomaton) -> None:
    lists, without = cache(folder), without_cat(folder, listed)
    other = compile_automaton(word_list(["the", "cat"]), ListOptions(), TOKENIZER)
    lines = compile_automaton(word_list(["Ana"]), ListOptions(case="sentence", numbers=True), TOKENIZER)
    foreign = compile_automaton(word_list(["the"]), ListOptions(), toy_tokenizer(["x"]))
    for automaton in (other, lines, foreign):
        folder.save(automaton)
    folder.write_bytes("f" * 64, folder.read_bytes(without))
    for reference in (
        GrammarReference(other.digest, 2, without=without),
        GrammarReference(listed.digest, 2, without="f" * 64),
        GrammarReference(listed.digest, 2, extra=lines.digest),
        GrammarReference(listed.digest, 2, extra=foreign.digest),
        GrammarReference(foreign.digest, 1),
    ):
        with pytest.raises(ArtefactError):
            lists.states(reference)


def test_lists_used_longest_ago_are_let_go_after_what_is_made_of_them(
    folder: ArtefactFolder, listed: TokenAutomaton, extra: TokenAutomaton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_cache, "MAX_FILES", 2)
    lists = cache(folder)
    changed = GrammarReference(listed.digest, 3, extra=extra.digest)
    lists.states(changed)
    other = compile_automaton(word_list(["sat"]), ListOptions(), TOKENIZER)
    folder.save(other)
    lists.states(GrammarReference(other.digest, 1))
    # The extra words are gone, and with them what was made of them; the list itself was used later.
    for digest in (listed.digest, extra.digest, other.digest):
        folder.path_of(digest).unlink()
    assert lists.states(GrammarReference(listed.digest, 3))
    with pytest.raises(ArtefactError):
        lists.states(changed)


def test_a_matcher_outlives_its_list(folder: ArtefactFolder, listed: TokenAutomaton, extra: TokenAutomaton) -> None:
    lists = cache(folder, max_bytes=1)
    matcher = Matcher(lists.states(GrammarReference(listed.digest, 3)), [STOP])
    lists.states(GrammarReference(extra.digest, 1))
    folder.path_of(listed.digest).unlink()
    assert can_spell(matcher, TOKENIZER, "the cat sat")
    with pytest.raises(ArtefactError):
        lists.states(GrammarReference(listed.digest, 3))


def test_many_threads_may_ask_at_once(folder: ArtefactFolder, listed: TokenAutomaton, extra: TokenAutomaton) -> None:
    lists, without = cache(folder, max_bytes=200_000), without_cat(folder, listed)

    def ask(number: int) -> dict[str, bool]:
        reference = GrammarReference(
            listed.digest,
            1 + number % 3,
            without=without if number % 2 else None,
            extra=extra.digest if number % 5 else None,
        )
        return {**texts(lists, reference), "n": reference.n_words >= 3, "extra": reference.extra is not None}

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(ask, range(200)):
            assert found["the sat"] == found["n"]
            assert found["the Ana"] == found["Ana the"] == found["extra"]


@pytest.mark.slow
def test_ten_thousand_lists_keep_memory_and_files_within_bounds(
    folder: ArtefactFolder, listed: TokenAutomaton, extra: TokenAutomaton
) -> None:
    max_bytes = 8 * 2**20
    lists = cache(folder, max_bytes)
    resident = []
    for number in range(10_000):
        digest = f"{number:064x}"
        folder.save(replace(listed, digest=digest))
        changes = extra.digest if number % 4 == 0 else None
        matcher = Matcher(lists.states(GrammarReference(digest, 3, 9, extra=changes)), [STOP])
        assert matcher.accept_token(TOKENIZER.token_bytes.index(b" the"))
        folder.path_of(digest).unlink()
        if number % 500 == 499:
            assert lists.num_bytes <= max_bytes
            assert psutil.Process().num_fds() < 400
            resident.append(psutil.Process().memory_info().rss)
    assert max(resident[4:]) - resident[3] < 32 * 2**20
