import asyncio
import gc
from dataclasses import replace
from pathlib import Path

import pytest

from deployments.contract import ResolvedVocabulary
from deployments.errors import EngineError
from deployments.replica.engine import node_lists
from deployments.replica.engine.node_lists import DICTIONARY_BYTES, MaskEngine, NodeLists
from tests.vocab.toys import toy_speller, toy_tokenizer, word_list
from vocab.artefacts.artefact import overlay_to_bytes
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.compiled_list import CompiledList
from vocab.automaton.overlay import build_overlay
from vocab.automaton.trie_builder import build_words
from vocab.errors import ArtefactError
from vocab.lists.wordlists import WordList
from vocab.matching.reference import GrammarReference
from vocab.options import DEFAULT_OPTIONS, ListOptions
from vocab.text.changes import ListChanges
from vocab.text.grammar import write_ebnf

WORDS = ("the", "cat", "sat")
SPELLER = toy_speller(toy_tokenizer([]))


def made(words: tuple[str, ...] = WORDS) -> CompiledList:
    return build_words(word_list(words), SPELLER)


class Source:
    """Where artefacts are made; counts how often one is asked for."""

    def __init__(self, folder: Path) -> None:
        self.store = ArtefactStore(folder, 2**30)
        self.num_fetched = 0

    async def fetch(self, digest: str) -> bytes:
        self.num_fetched += 1
        await asyncio.sleep(0.05)
        return self.store.read_bytes(digest)

    def make(self, *words: str) -> str:
        of_list = made(words or WORDS)
        self.store.save(of_list)
        return of_list.digest

    def change(self, digest: str, *, add: tuple[str, ...] = (), leave_out: tuple[str, ...] = ()) -> str:
        overlay = build_overlay(self.store.load(digest), ListChanges(add, leave_out), SPELLER)
        self.store.write_bytes(overlay.digest, overlay_to_bytes(overlay))
        return overlay.digest


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


def vocabulary(
    digest: str, n_words: int = 2, *, changes: str | None = None, options: ListOptions = DEFAULT_OPTIONS
) -> ResolvedVocabulary:
    return ResolvedVocabulary(
        digest=digest, changes_digest=changes, options=options, lang="es", n_words=n_words, fewest_tokens=1
    )


async def test_an_artefact_is_fetched_once_for_all_who_want_it(source: Source, here: ArtefactStore) -> None:
    digest = source.make()
    lists = node_lists_of(here, source)
    got = await asyncio.gather(*(lists.get(vocabulary(digest, n)) for n in (1, 2, 3, 1, 2, 3)))
    assert source.num_fetched == 1
    assert here.has(digest)
    assert [one.reader.is_text("the sat") for one in got] == [False, False, True] * 2


async def test_readers_of_several_n_and_options_share_the_words_and_keep_to_their_own(
    source: Source, here: ArtefactStore
) -> None:
    digest = source.make()
    lists = node_lists_of(here, source)
    asked = [ListOptions(), ListOptions(numbers=True), ListOptions(case="listed"), ListOptions(end="sentence")]
    got = [await lists.get(vocabulary(digest, 3, options=options)) for options in asked]
    first = await lists.get(vocabulary(digest, 1))
    assert source.num_fetched == 1
    assert len({id(one.listed) for one in (*got, first)}) == 1
    assert first.listed.form_ranks(DEFAULT_OPTIONS, 1) is first.listed.form_ranks(DEFAULT_OPTIONS, 2**63 - 1)
    assert [one.reader.is_text("the cat 12") for one in got] == [False, True, False, False]
    assert [one.reader.is_text("The cat") for one in got] == [True, True, False, False]
    assert [one.reader.is_text("The cat.") for one in got] == [True, True, False, True]


async def test_the_beginning_of_a_list_with_capitals_is_read_as_part_of_it(source: Source, here: ArtefactStore) -> None:
    beginning = build_words(WordList("es", WORDS, "wordfreq"), SPELLER, has_capitals=True)
    source.store.save(beginning)
    listed = await node_lists_of(here, source).get(vocabulary(beginning.digest, 3))
    assert [listed.reader.is_text(text) for text in ("The cat", "the Cat")] == [True, False]


async def test_the_engine_gets_a_reference_with_the_budget(source: Source, here: ArtefactStore) -> None:
    digest = source.make()
    lists = node_lists_of(here, source)
    listed = await lists.get(vocabulary(digest))
    for max_tokens in (9, None):
        expected = GrammarReference(digest, DEFAULT_OPTIONS, 2, max_tokens)
        assert GrammarReference.parse(listed.grammar(max_tokens)) == expected
    options = ListOptions(layout="lines", numbers=True)
    odd = await lists.get(vocabulary(digest, options=options))
    assert GrammarReference.parse(odd.grammar(9, 3)) == GrammarReference(digest, options, 2, 9, no_repeat=3)


async def test_changes_are_fetched_with_the_list_and_named_to_the_engine(source: Source, here: ArtefactStore) -> None:
    digest = source.make()
    changes = source.change(digest, add=("Ana",), leave_out=("cat",))
    lists = node_lists_of(here, source)
    listed = await lists.get(vocabulary(digest, 3, changes=changes))
    assert source.num_fetched == 2
    assert all(here.has(one) for one in (digest, changes))
    expected = GrammarReference(digest, DEFAULT_OPTIONS, 3, 9, changes=changes)
    assert GrammarReference.parse(listed.grammar(9)) == expected
    assert listed.reader.is_text("Ana sat")
    assert not listed.reader.is_text("the cat")
    assert (await lists.get(vocabulary(digest, 3))).reader.is_text("the cat")


@pytest.mark.parametrize("options", [ListOptions(), ListOptions(numbers=True, punctuation="basic", end="sentence")])
async def test_the_plain_road_gets_the_list_itself(source: Source, here: ArtefactStore, options: ListOptions) -> None:
    digest = source.make()
    changes = ListChanges(extra_words=("Ana",), exclude_words=("cat",))
    changed = source.change(digest, add=changes.extra_words, leave_out=changes.exclude_words)
    lists = node_lists_of(here, source, "xgrammar")
    listed = await lists.get(vocabulary(digest, 2, changes=changed, options=options))
    assert GrammarReference.parse(listed.grammar(9)) is None
    resolved = replace(options, case="any")
    assert listed.grammar(9) == "# wordbound\n" + write_ebnf(word_list(WORDS), resolved, 2, changes)


async def test_the_block_names_the_list_its_changes_and_what_is_not_usual(source: Source, here: ArtefactStore) -> None:
    lists = node_lists_of(here, source)
    digest = source.make()
    asked = [
        vocabulary(digest, 3),
        vocabulary(digest, 3, changes=source.change(digest, add=("Ana",))),
        vocabulary(digest, 3, options=ListOptions(layout="lines", end="sentence")),
    ]
    plain, changed, odd = [(await lists.get(one)).block for one in asked]
    assert plain == {
        "id": asked[0].id, "list_id": digest, "lang": "es", "source": "inline", "n_words": 3, "unit": "form",
        "end": "word",
    }  # fmt: skip
    assert changed["list_id"] == odd["list_id"] == digest
    assert len({plain["id"], changed["id"], odd["id"], digest}) == 4
    assert len(changed["id"]) == 64
    assert odd["layout"] == "lines"
    assert not odd.keys() & {"case", "numbers", "punctuation", "end"}


async def test_a_damaged_or_deleted_file_is_fetched_again(source: Source, here: ArtefactStore) -> None:
    digest = source.make()
    changes = source.change(digest, add=("Ana",), leave_out=("cat",))
    here.write_bytes(digest, b"nonsense")
    lists = node_lists_of(here, source)
    await lists.get(vocabulary(digest))
    here.path_of(digest).unlink()
    await lists.get(vocabulary(digest))
    assert source.num_fetched == 2
    here.write_bytes(changes, source.store.read_bytes(changes)[:-3])
    assert (await lists.get(vocabulary(digest, 3, changes=changes))).reader.is_text("the Ana")


async def test_a_failed_fetch_is_not_remembered(source: Source, here: ArtefactStore) -> None:
    lists = node_lists_of(here, source)
    digest = made().digest
    with pytest.raises(ArtefactError):
        await lists.get(vocabulary(digest))
    assert source.make() == digest
    assert (await lists.get(vocabulary(digest))).reader.is_text("cat")


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


async def test_a_grammar_cannot_say_the_longest_match(source: Source, here: ArtefactStore) -> None:
    of_list = build_words(word_list(("我们", "去"), "zh"), SPELLER)
    source.store.save(of_list)
    lists = node_lists_of(here, source, "xgrammar")
    with pytest.raises(EngineError, match="'any'") as caught:
        await lists.get(vocabulary(of_list.digest))
    assert (caught.value.status, caught.value.param) == (400, "vocab.segmentation")
    listed = await lists.get(vocabulary(of_list.digest, options=ListOptions(segmentation="any")))
    assert "root ::= " in listed.grammar(9)
    assert listed.block["segmentation"] == "any"
    assert [word.rank for word in listed.checker().check("我们去").words] == [1, 2]


async def test_the_dictionary_of_a_language_counts_once(source: Source, here: ArtefactStore) -> None:
    lists = node_lists_of(here, source)
    for number, words in enumerate((("我们", "去"), ("我们", "来"), ("我们",))):
        of_list = build_words(word_list(words, "zh"), SPELLER)
        source.store.save(of_list)
        await lists.get(vocabulary(of_list.digest))
        assert DICTIONARY_BYTES < lists.num_bytes < DICTIONARY_BYTES + 10_000 * (number + 1)
