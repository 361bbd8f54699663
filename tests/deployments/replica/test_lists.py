"""The lists of a replica's node: fetched where they are missing, named to the engine, and read in its answers."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.replica.engine import node_lists
from deployments.replica.engine.node_lists import DICTIONARY_BYTES, NodeLists
from tests.deployments.replica.toy_engine import Said
from tests.deployments.replica.world import ReplicaWorld, block, refusal
from tests.vocab.toys import toy_speller, toy_tokenizer, word_list
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.trie_builder import build_words
from vocab.errors import ArtefactError
from vocab.matching.reference import GrammarReference, parse_compiled_grammar, write_compiled_grammar
from vocab.options import DEFAULT_OPTIONS, ListOptions
from vocab.text.changes import PromptWord

WORDS = ("the", "cat", "sat")
CHANGED = VocabularySpec(lang="es", n_words=3, extra_words=("Ana",), exclude_words=("cat",))


async def answered(world: ReplicaWorld, vocabulary: ResolvedVocabulary, *texts: str) -> list[bool]:
    """Say of each text whether it is an answer in a vocabulary."""
    found = []
    for text in texts:
        world.engine.said = [Said((text,))]
        found.append(all(isinstance(item, dict) for item in await world.ask(vocabulary)))
    return found


async def test_an_artefact_is_fetched_once_for_all_who_want_it(world: ReplicaWorld) -> None:
    listed = world.add_list(WORDS, "es")
    world.store.discard(listed.digest)
    world.engine.said = [Said(("the sat",))]
    asked = [listed.model_copy(update={"n_words": n_words}) for n_words in (1, 2, 3, 1, 2, 3)]
    answers = await asyncio.gather(*map(world.ask, asked))
    assert world.lists.fetched == [listed.digest]
    assert world.store.has(listed.digest)
    assert [isinstance(item, dict) for [item] in answers] == [False, False, True] * 2


async def test_the_table_of_a_list_comes_with_it_and_is_made_where_it_cannot_be_had(world: ReplicaWorld) -> None:
    for word in ("table", "chair"):
        known = set(world.artefacts)
        listed = world.add_list((*WORDS, word), "es")
        [table] = world.artefacts.keys() - known - {listed.digest}
        world.lists.fetched.clear()
        world.store.discard(listed.digest)
        world.store.discard(table)
        if word == "chair":
            del world.artefacts[table]
        assert await answered(world, listed, f"the {word}", f"the {word[:-1]}") == [True, False]
        assert world.lists.fetched == [listed.digest, table]
        assert world.store.has(table)


async def test_answers_are_read_by_the_options_of_their_request(world: ReplicaWorld) -> None:
    capitals = world.add_list(WORDS, "es", has_capitals=True)
    assert await answered(world, capitals, "The cat", "the Cat") == [True, False]
    world.add_list(WORDS, "es")
    faults = []
    for options, expected in (
        (ListOptions(), [False, True, True]),
        (ListOptions(numbers=True), [True, True, True]),
        (ListOptions(case="listed"), [False, False, False]),
        (ListOptions(end="sentence"), [False, False, True]),
    ):
        listed = world.resolve(VocabularySpec(lang="es"), options)
        found = await answered(world, listed, "the cat 12", "The cat", "The cat.")
        if (found, world.reference.options) != (expected, options):
            faults.append((options, found))
    assert not faults


async def test_changes_are_fetched_with_the_list_and_named_to_the_engine(world: ReplicaWorld) -> None:
    listed = world.add_list(WORDS, "es")
    changed = world.resolve(CHANGED)
    for digest in changed.digests:
        world.store.discard(digest)
    assert await answered(world, changed, "Ana sat", "the cat") == [True, False]
    assert sorted(world.lists.fetched) == sorted(changed.digests)
    expected = GrammarReference(listed.digest, DEFAULT_OPTIONS, 3, 9, changes=changed.changes_digest)
    assert world.reference == expected
    assert await answered(world, listed, "the cat") == [True]


async def test_the_block_names_the_list_its_changes_and_what_is_not_usual(world: ReplicaWorld) -> None:
    listed = world.add_list(WORDS, "es", ListOptions(layout="lines"))
    world.engine.said = [Said(("the sat.",))]
    asked = (listed, world.resolve(CHANGED), world.resolve(CHANGED, ListOptions(layout="lines", end="sentence")))
    plain, changed, odd = [block(await world.ask(one)) for one in asked]
    assert plain["list_id"] == changed["list_id"] == odd["list_id"] == listed.digest
    assert len({plain["id"], changed["id"], odd["id"], listed.digest}) == 4
    assert len(changed["id"]) == 64
    assert (plain["layout"], plain["end"], odd["layout"]) == ("lines", "word", "lines")
    assert not odd.keys() & {"case", "numbers", "punctuation", "end"}


async def test_the_block_names_what_a_prompt_allowed(world: ReplicaWorld) -> None:
    found = (PromptWord("map", 1755, ("maps",)), PromptWord("wolf", 3934))
    for prompt_words in (None, (), found):
        items = await world.ask(world.vocabulary.model_copy(update={"prompt_words": prompt_words}), stream=True)
        named = None if prompt_words is None else [one.as_json() for one in prompt_words]
        assert block(items).get("prompt_words") == named


async def test_a_damaged_or_deleted_file_is_fetched_again(world: ReplicaWorld) -> None:
    listed = world.add_list((*WORDS, "damaged"), "es")
    world.store.write_bytes(listed.digest, b"nonsense")
    assert await answered(world, listed, "the cat") == [True]
    world.store.path_of(listed.digest).unlink()
    assert await answered(world, listed, "the cat") == [True]
    assert world.lists.fetched == [listed.digest] * 2
    changed = world.resolve(CHANGED)
    assert changed.changes_digest is not None
    world.store.write_bytes(changed.changes_digest, world.artefacts[changed.changes_digest][:-3])
    assert await answered(world, changed, "the Ana") == [True]


async def test_a_failed_fetch_is_our_fault_and_not_remembered(world: ReplicaWorld) -> None:
    listed = world.add_list((*WORDS, "missing"), "es")
    world.store.discard(listed.digest)
    world.lists.failure = ArtefactError("it is not there")
    assert refusal(await world.ask(listed)).code == "engine_error"
    world.lists.failure = None
    assert await answered(world, listed, "cat") == [True]


async def test_a_caller_who_leaves_takes_nothing_from_the_others(world: ReplicaWorld) -> None:
    listed = world.add_list((*WORDS, "left"), "es")
    world.store.discard(listed.digest)
    world.engine.said = [Said(("the cat",))]
    first, second = (asyncio.create_task(world.ask(listed)) for _ in range(2))
    while not world.lists.fetched:  # noqa: ASYNC110 - until it is asked for
        await asyncio.sleep(0)
    first.cancel()
    assert block(await second)["num_words"] == 2
    assert world.lists.fetched == [listed.digest]


async def test_a_grammar_is_fetched_and_named_to_the_engine(xgrammar: ReplicaWorld) -> None:
    xgrammar.add_list(WORDS, "es")
    changed = xgrammar.resolve(CHANGED.model_copy(update={"n_words": 2}))
    assert await answered(xgrammar, changed, "the Ana.") == [True]
    assert changed.grammar_digest is not None
    assert xgrammar.params.structured_outputs.grammar == write_compiled_grammar(changed.grammar_digest)
    assert xgrammar.lists.fetched == [changed.grammar_digest]
    # The engine could not say that it is damaged.
    xgrammar.store.write_bytes(changed.grammar_digest, b"nonsense")
    other = changed.model_copy(update={"fewest_tokens": 1})
    assert await answered(xgrammar, other, "the Ana.") == [True]
    assert xgrammar.lists.fetched.count(changed.grammar_digest) == 2


async def test_the_list_of_the_start_up_proof_is_no_replicas_to_compile(xgrammar: ReplicaWorld) -> None:
    asked = [params.structured_outputs.grammar for params in xgrammar.start_requests]
    assert asked
    assert all(parse_compiled_grammar(grammar) in xgrammar.artefacts for grammar in asked)


class Node:
    """The lists of a node that has all of them."""

    def __init__(self, folder: Path) -> None:
        self._store = ArtefactStore(folder, 2**30)
        self._speller = toy_speller(toy_tokenizer([]))

    def lists(self, **bounds: int) -> NodeLists:
        async def fetch(digest: str) -> bytes:
            raise AssertionError(digest)

        return NodeLists(self._store, fetch, **bounds)

    def add(self, *words: str, lang: str = "es", n_words: int = 2) -> ResolvedVocabulary:
        made = build_words(word_list(words, lang), self._speller)
        self._store.save(made)
        self._store.table_of(made.listed.word_list)
        return ResolvedVocabulary(digest=made.digest, lang=lang, n_words=n_words, fewest_tokens=1)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_lists_used_longest_ago_are_let_go(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_lists, "MAX_LISTS", 3)
    lists, asked = node.lists(), [node.add(*WORDS, n_words=number) for number in range(1, 6)]
    made: list[Any] = [await lists.get(one) for one in asked]
    assert await lists.get(asked[0]) is not made[0]
    assert await lists.get(asked[-1]) is made[-1]


async def test_many_lists_stay_within_their_bytes(node: Node) -> None:
    lists = node.lists(max_bytes=100_000)
    for length in range(1, 40):
        await lists.get(node.add(*WORDS, "x" * length))
        assert lists.num_bytes <= 100_000
    gc.collect()
    assert 5 < len(lists._words) < 39


async def test_readers_of_one_list_share_its_words_and_the_dictionary_of_a_language_counts_once(node: Node) -> None:
    lists = node.lists()
    first, second = [await lists.get(node.add(*WORDS, n_words=number)) for number in (1, 3)]
    assert first.listed is second.listed
    assert first.listed.table is second.listed.table
    lists = node.lists()
    for number, words in enumerate((("我们", "去"), ("我们", "来"), ("我们",)), start=1):
        await lists.get(node.add(*words, lang="zh"))
        assert DICTIONARY_BYTES < lists.num_bytes < DICTIONARY_BYTES + 10_000 * number
