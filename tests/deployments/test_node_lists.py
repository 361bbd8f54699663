import asyncio
from pathlib import Path

import pytest

from deployments.contract import ResolvedVocabulary
from deployments.node_lists import NodeLists
from tests.vocab.toys import toy_automaton
from vocab.artefact import ArtefactFolder
from vocab.ebnf import write_ebnf
from vocab.errors import ArtefactError
from vocab.reference import GrammarReference


class Source:
    """Where artefacts are made; counts how often one is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = ArtefactFolder(folder)
        self.num_fetched = 0

    async def fetch(self, digest: str) -> bytes:
        self.num_fetched += 1
        await asyncio.sleep(0.05)
        return self.folder.read_bytes(digest)

    def make(self) -> str:
        automaton, _ = toy_automaton(["the", "cat", "sat"])
        self.folder.save(automaton)
        return automaton.digest


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "source")


def vocabulary(digest: str, n_words: int = 2) -> ResolvedVocabulary:
    return ResolvedVocabulary(digest=digest, lang="es", n_words=n_words, fewest_tokens=1)


async def test_an_artefact_is_fetched_once_for_all_who_want_it(source: Source, tmp_path: Path) -> None:
    digest = source.make()
    here = ArtefactFolder(tmp_path / "here")
    lists = NodeLists(here, source.fetch, "automaton")
    got = await asyncio.gather(*(lists.get(vocabulary(digest, n)) for n in (1, 2, 3, 1, 2, 3)))
    assert source.num_fetched == 1
    assert here.has(digest)
    assert [one.reader.is_text("the sat") for one in got] == [False, False, True] * 2


async def test_the_engine_gets_a_reference_with_the_budget(source: Source, tmp_path: Path) -> None:
    digest = source.make()
    listed = await NodeLists(ArtefactFolder(tmp_path / "here"), source.fetch, "automaton").get(vocabulary(digest))
    assert GrammarReference.parse(listed.grammar(9)) == GrammarReference(digest, 2, 9)
    assert GrammarReference.parse(listed.grammar(None)) == GrammarReference(digest, 2, None)


async def test_the_plain_road_gets_the_list_itself(source: Source, tmp_path: Path) -> None:
    digest = source.make()
    listed = await NodeLists(ArtefactFolder(tmp_path / "here"), source.fetch, "xgrammar").get(vocabulary(digest))
    assert GrammarReference.parse(listed.grammar(9)) is None
    expected = toy_automaton(["the", "cat", "sat"])[0]
    assert listed.grammar(9) == write_ebnf(expected.word_list, expected.options, 2)


async def test_a_damaged_or_deleted_file_is_fetched_again(source: Source, tmp_path: Path) -> None:
    digest = source.make()
    here = ArtefactFolder(tmp_path / "here")
    here.write_bytes(digest, b"nonsense")
    lists = NodeLists(here, source.fetch, "automaton")
    await lists.get(vocabulary(digest))
    here.path_of(digest).unlink()
    await lists.get(vocabulary(digest))
    assert source.num_fetched == 2


async def test_a_failed_fetch_is_not_remembered(source: Source, tmp_path: Path) -> None:
    lists = NodeLists(ArtefactFolder(tmp_path / "here"), source.fetch, "automaton")
    automaton, _ = toy_automaton(["the", "cat", "sat"])
    with pytest.raises(ArtefactError):
        await lists.get(vocabulary(automaton.digest))
    assert source.make() == automaton.digest
    assert (await lists.get(vocabulary(automaton.digest))).reader.is_text("cat")
