import asyncio
import gc
from pathlib import Path

import pytest

from deployments.contract import ResolvedVocabulary
from deployments.replica import node_lists
from deployments.replica.node_lists import MaskEngine, NodeLists
from tests.vocab.toys import toy_automaton, toy_tokenizer, word_list
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.automaton import compile_automaton
from vocab.automaton.token_trie import TokenTrie
from vocab.errors import ArtefactError
from vocab.exclusion.exclusion import exclude
from vocab.matching.reference import GrammarReference
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.ebnf import write_ebnf

WORDS = ("the", "cat", "sat")


class Source:
    """Where artefacts are made; counts how often one is asked for."""

    def __init__(self, folder: Path) -> None:
        self.store = ArtefactStore(folder, 2**30)
        self.num_fetched = 0

    async def fetch(self, digest: str) -> bytes:
        self.num_fetched += 1
        await asyncio.sleep(0.05)
        return self.store.read_bytes(digest)

    def make(self, *words: str, options: ListOptions | None = None) -> str:
        automaton, _ = toy_automaton(words or WORDS, options=options)
        self.store.save(automaton)
        return automaton.digest

    def make_without(self, digest: str, *words: str) -> str:
        tokenizer = toy_tokenizer([])
        made = exclude(self.store.load(digest), words, tokenizer, TokenTrie.of(tokenizer))
        assert made is not None
        self.store.write_bytes(made.digest, made.to_bytes())
        return made.digest

    def make_extra(self, *words: str) -> str:
        made = compile_automaton(word_list(words), ListOptions(case="sentence"), toy_tokenizer([]))
        self.store.save(made)
        return made.digest


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "source")


@pytest.fixture
def here(tmp_path: Path) -> ArtefactStore:
    return ArtefactStore(tmp_path / "here", 2**30)


def node_lists_of(
    here: ArtefactStore, source: Source, mask_engine: MaskEngine = "automaton", max_bytes: int = 2**30
) -> NodeLists:
    return NodeLists(here, source.fetch, mask_engine, max_bytes)


def vocabulary(digest: str, n_words: int = 2, **fields: str) -> ResolvedVocabulary:
    return ResolvedVocabulary(digest=digest, lang="es", n_words=n_words, fewest_tokens=1, **fields)


async def test_an_artefact_is_fetched_once_for_all_who_want_it(source: Source, here: ArtefactStore) -> None:
    digest = source.make()
    lists = node_lists_of(here, source)
    got = await asyncio.gather(*(lists.get(vocabulary(digest, n)) for n in (1, 2, 3, 1, 2, 3)))
    assert source.num_fetched == 1
    assert here.has(digest)
    assert [one.reader.is_text("the sat") for one in got] == [False, False, True] * 2


async def test_readers_of_several_n_share_the_words(source: Source, here: ArtefactStore) -> None:
    digest = source.make()
    lists = node_lists_of(here, source)
    first, second = [await lists.get(vocabulary(digest, n)) for n in (1, 3)]
    assert first.listed is second.listed
    assert first.listed.form_ranks(1) is second.listed.form_ranks(2**63 - 1)


async def test_the_engine_gets_a_reference_with_the_budget(source: Source, here: ArtefactStore) -> None:
    digest = source.make()
    listed = await node_lists_of(here, source).get(vocabulary(digest))
    assert GrammarReference.parse(listed.grammar(9)) == GrammarReference(digest, 2, 9)
    assert GrammarReference.parse(listed.grammar(None)) == GrammarReference(digest, 2, None)


async def test_changes_are_fetched_with_the_list_and_named_to_the_engine(source: Source, here: ArtefactStore) -> None:
    digest, extra = source.make(), source.make_extra("Ana")
    without = source.make_without(digest, "cat")
    lists = node_lists_of(here, source)
    listed = await lists.get(vocabulary(digest, 3, exclusion_digest=without, extra_digest=extra))
    assert source.num_fetched == 3
    assert all(here.has(one) for one in (digest, without, extra))
    assert GrammarReference.parse(listed.grammar(9)) == GrammarReference(digest, 3, 9, without, extra)
    assert listed.reader.is_text("Ana sat")
    assert not listed.reader.is_text("the cat")
    assert (await lists.get(vocabulary(digest, 3))).reader.is_text("the cat")


@pytest.mark.parametrize("options", [ListOptions(), ListOptions(numbers=True, punctuation="basic", end="sentence")])
async def test_the_plain_road_gets_the_list_itself(source: Source, here: ArtefactStore, options: ListOptions) -> None:
    digest, extra = source.make(options=options), source.make_extra("Ana")
    without = source.make_without(digest, "cat")
    listed = await node_lists_of(here, source, "xgrammar").get(
        vocabulary(digest, 2, exclusion_digest=without, extra_digest=extra)
    )
    assert GrammarReference.parse(listed.grammar(9)) is None
    expected = toy_automaton(WORDS, options=options)[0]
    changes = ListChanges(extra_words=("Ana",), exclude_words=("cat",))
    assert listed.grammar(9) == "# wordbound\n" + write_ebnf(expected.word_list, options, 2, changes)


async def test_the_block_names_the_list_its_changes_and_what_is_not_usual(source: Source, here: ArtefactStore) -> None:
    lists = node_lists_of(here, source)
    usual, odd = source.make(), source.make(options=ListOptions(layout="lines", end="sentence"))
    extra = source.make_extra("Ana")
    plain = await lists.get(vocabulary(usual, 3))
    assert plain.block == {"id": usual, "list_id": usual, "lang": "es", "n_words": 3, "unit": "form"}
    changed = await lists.get(vocabulary(usual, 3, extra_digest=extra))
    assert changed.block["list_id"] == usual
    assert len(changed.block["id"]) == 64
    assert changed.block["id"] not in (usual, extra)
    options = (await lists.get(vocabulary(odd, 3))).block
    assert (options["layout"], options["end"]) == ("lines", "sentence")
    assert not options.keys() & {"case", "numbers", "punctuation"}


async def test_a_damaged_or_deleted_file_is_fetched_again(source: Source, here: ArtefactStore) -> None:
    digest = source.make()
    here.write_bytes(digest, b"nonsense")
    lists = node_lists_of(here, source)
    await lists.get(vocabulary(digest))
    here.path_of(digest).unlink()
    await lists.get(vocabulary(digest))
    assert source.num_fetched == 2


async def test_damaged_changes_are_fetched_again(source: Source, here: ArtefactStore) -> None:
    digest = source.make()
    without, extra = source.make_without(digest, "cat"), source.make_extra("Ana")
    for damaged in (without, extra):
        here.write_bytes(damaged, source.store.read_bytes(damaged)[:-3])
    listed = await node_lists_of(here, source).get(vocabulary(digest, 3, exclusion_digest=without, extra_digest=extra))
    assert listed.reader.is_text("the Ana")


async def test_a_failed_fetch_is_not_remembered(source: Source, here: ArtefactStore) -> None:
    lists = node_lists_of(here, source)
    automaton, _ = toy_automaton(WORDS)
    with pytest.raises(ArtefactError):
        await lists.get(vocabulary(automaton.digest))
    assert source.make() == automaton.digest
    assert (await lists.get(vocabulary(automaton.digest))).reader.is_text("cat")


async def test_a_caller_who_leaves_takes_nothing_from_the_others(source: Source, here: ArtefactStore) -> None:
    digest = source.make()
    lists = node_lists_of(here, source)
    first, second = (asyncio.create_task(lists.get(vocabulary(digest))) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    assert (await second).reader.is_text("cat")
    assert source.num_fetched == 1


async def test_lists_used_longest_ago_are_let_go(
    source: Source, here: ArtefactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_lists, "MAX_LISTS", 3)
    digest = source.make()
    lists = node_lists_of(here, source)
    first = await lists.get(vocabulary(digest, 1))
    for n_words in (2, 3, 4, 5):
        await lists.get(vocabulary(digest, n_words))
    assert await lists.get(vocabulary(digest, 1)) is not first
    assert await lists.get(vocabulary(digest, 5)) is await lists.get(vocabulary(digest, 5))


async def test_many_lists_stay_within_their_bytes(source: Source, here: ArtefactStore) -> None:
    max_bytes = 100_000
    lists = node_lists_of(here, source, max_bytes=max_bytes)
    digests = [source.make(*WORDS, "x" * length) for length in range(1, 40)]
    for digest in digests:
        await lists.get(vocabulary(digest))
        assert lists.num_bytes <= max_bytes
    gc.collect()
    assert 5 < len(lists._words) < len(digests)
