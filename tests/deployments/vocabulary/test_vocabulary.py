import asyncio
import os
import pickle
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from deployments.contract import ResolvedVocabulary, VocabularySpec
from deployments.settings.service import Settings
from deployments.vocabulary import deployment
from deployments.vocabulary.compile_pool import CompilePool
from deployments.vocabulary.deployment import Vocabulary
from tests.vocab.toys import can_spell, toy_speller, toy_tokenizer
from vocab.artefacts.store import ArtefactStore, SharedStore
from vocab.automaton import frame, overlay, trie_builder
from vocab.compiler import worker
from vocab.compiler.jobs import ChangeList, Compiled, CompileList, Job, MeasureTexts, Reply
from vocab.compiler.worker import ListCompiler
from vocab.errors import (
    ArtefactError,
    ChangesTooLargeError,
    CompileError,
    CompileQueueError,
    EmptyWordListError,
    InvalidWordListError,
    ListTooLargeError,
    UnknownLanguageError,
    UnknownLevelError,
    VocabularyError,
    WordListFolderError,
)
from vocab.lists.wordlists import WordList
from vocab.matching.engine_cache import EngineCache
from vocab.matching.reference import GrammarReference
from vocab.options import DEFAULT_OPTIONS

MAX_BYTES = 10**8
TOKENIZER = toy_tokenizer(["the", "cat"])
SMALL = 4
"""``FIRST_WORDS`` in tests of a long list."""


class CompilerHere(CompilePool):
    """Does jobs in a thread of this process, counts them, and waits where a test wants to look at those who wait."""

    def __init__(self, compiler: ListCompiler, store: ArtefactStore) -> None:
        self._compiler = compiler
        self._store = store
        self.jobs: list[CompileList | ChangeList] = []
        self.num_measured = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self._turn = threading.Lock()
        self.fault: VocabularyError | None = None

    async def warm_up(self) -> None: ...

    async def close(self) -> None: ...

    async def compile(self, job: CompileList | ChangeList, owner: str = "") -> Compiled:
        self.jobs.append(job)
        compiled = (await asyncio.to_thread(self._run, job)).compiled
        assert compiled is not None
        return compiled

    async def measure(self, job: MeasureTexts, owner: str = "") -> int | None:
        self.num_measured += 1
        return (await asyncio.to_thread(self._run, job)).fewest_tokens

    def _run(self, job: Job) -> Reply:
        assert self.may_go_on.wait(10)
        if self.fault is not None:
            raise self.fault
        with self._turn:
            reply = self._compiler.run(job)
        if reply.error is not None:
            raise reply.error
        self._store.share()
        return reply


class Lists:
    """List files, an artefact folder, and vocabularies over them."""

    def __init__(self, folder: Path) -> None:
        self.lists = folder / "lists"
        self.lists.mkdir()
        self.artefacts = folder / "artefacts"
        self.shared = f"file://{folder}/shared"
        self.compilers: list[CompilerHere] = []

    def write(self, name: str, *words: str) -> None:
        """Replaces a list, as an editor does that writes beside it first."""
        beside = self.lists / f"{name}.new"
        beside.write_text("\n".join(words))
        beside.replace(self.lists / f"{name}.txt")

    async def vocabulary(self, **args: object) -> Vocabulary:
        settings = Settings.load(
            {"secret_token": "k", "wordlist_dir": str(self.lists), "artefact_dir": str(self.artefacts), **args}, {}
        )
        shared = SharedStore(settings.artefact_store, MAX_BYTES) if settings.artefact_store else None
        store = ArtefactStore(settings.resolved_artefact_dir(), settings.artefact_bytes, shared)
        compiler = CompilerHere(ListCompiler(toy_speller(TOKENIZER), store, self.lists), store)
        self.compilers.append(compiler)
        return await Vocabulary.create(settings, compiler=compiler)

    @property
    def compiler(self) -> CompilerHere:
        """That of the last vocabulary."""
        return self.compilers[-1]

    @property
    def num_jobs(self) -> int:
        return sum(len(compiler.jobs) for compiler in self.compilers)

    def words(self, resolved: ResolvedVocabulary) -> tuple[str, ...]:
        return ArtefactStore(self.artefacts, MAX_BYTES).load(resolved.digest).listed.word_list.words

    def allows(self, resolved: ResolvedVocabulary, text: str, *, artefacts: str = "") -> bool:
        """Whether an engine may write a text in a vocabulary, whose artefacts lie there in the folder."""
        reference = GrammarReference(
            resolved.digest, resolved.options, resolved.n_words, changes=resolved.changes_digest
        )
        return can_spell(EngineCache(self.artefacts / artefacts, TOKENIZER).states(reference), TOKENIZER, text)


@pytest.fixture
def long_list(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The words of a built-in list, Spanish, that is longer than the small artefact."""
    words = ("the", "cat", "dog", "a", "Mouse", "bird", "fish")
    listed = WordList("es", words, "wordfreq")
    monkeypatch.setattr(worker, "load_word_list", lambda name, folder, **choice: listed)
    for module in (deployment, worker):
        monkeypatch.setattr(module, "FIRST_WORDS", SMALL)
    return words


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Lists]:
    world = Lists(tmp_path)
    yield world
    for compiler in world.compilers:
        compiler.may_go_on.set()


def spec(lang: str, n_words: int | None = 3, **fields: object) -> VocabularySpec:
    return VocabularySpec.model_validate({"lang": lang, "n_words": n_words, "end": "word"} | fields)


def own(*words: str, **fields: object) -> VocabularySpec:
    return VocabularySpec.model_validate({"words": words, "end": "word", **fields})


async def numbers(vocabulary: Vocabulary) -> tuple[int, int]:
    stats = await vocabulary.stats()
    return stats["num_compiles"], stats["num_loaded"]


async def test_resolves_a_list_to_an_artefact_that_can_be_fetched(world: Lists, tmp_path: Path) -> None:
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    resolved = await vocabulary.resolve(spec("pets", 100))
    assert resolved == ResolvedVocabulary(
        digest=resolved.digest, options=DEFAULT_OPTIONS, lang="pets", source="file", n_words=100, fewest_tokens=1
    )
    elsewhere = ArtefactStore(tmp_path / "elsewhere", MAX_BYTES)
    elsewhere.write_bytes(resolved.digest, await vocabulary.fetch(resolved.digest))
    assert elsewhere.load(resolved.digest).listed.word_list.words == ("the", "cat", "dog")
    with pytest.raises(ArtefactError):
        await vocabulary.fetch("0" * 64)


async def test_a_vocabulary_names_the_source_of_its_words(world: Lists) -> None:
    world.write("pets", "the", "cat", "dog")
    (world.lists / "en_grade.csv").write_text("word,level\nthe,1\ncat,2\n")
    vocabulary = await world.vocabulary()
    asked = [spec("pets"), spec("pl"), own("the", "cat"), VocabularySpec(lang="en", level="grade-2")]
    sources = [(await vocabulary.resolve(one)).source for one in asked]
    assert sources == ["file", "cleaned", "inline", "file"]


async def test_without_its_folder_of_lists_it_does_not_start_and_no_built_in_list_is_served(world: Lists) -> None:
    world.write("en", "the", "cat")
    vocabulary = await world.vocabulary()
    assert (await vocabulary.resolve(spec("en", 2))).source == "file"
    shutil.rmtree(world.lists)
    for name in ("en", "es"):
        with pytest.raises(WordListFolderError, match="lists'"):
            await vocabulary.resolve(spec(name, 3))
    with pytest.raises(WordListFolderError, match=r"lists' \(WORDLIST_DIR\) cannot be read: No such file or directory"):
        await world.vocabulary()


async def test_a_source_and_safety_are_asked_of_the_list_and_wordfreqs_goes_past_a_file(
    world: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("es", "perro")
    asked: list[dict[str, Any]] = []

    def noting(name: str, folder: Path | None, **choice: Any) -> WordList:
        asked.append(choice)
        return WordList("es", ("the", "cat", *map(str, choice.values())), "wordfreq")

    monkeypatch.setattr(worker, "load_word_list", noting)
    vocabulary = await world.vocabulary()
    choices: list[dict[str, Any]] = [{"source": "wordfreq", "safe": True}, {"source": "wordfreq", "safe": False}]
    digests = {(await vocabulary.resolve(spec("es", **choice))).digest for choice in choices}
    # A file may be replaced, so all of it is read at once; of wordfreq's list its beginning is enough.
    assert [job.is_whole for job in world.compiler.jobs if isinstance(job, CompileList)] == [False, False]
    assert (asked, len(digests)) == (choices, 2)


async def test_those_who_want_the_same_list_and_changes_wait_for_one_compile_of_each(world: Lists) -> None:
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    changed = spec("pets", extra_words=("Ann", "Bo"), exclude_words=("cat",))
    world.compiler.may_go_on.clear()
    waiting = [asyncio.create_task(vocabulary.resolve(spec("pets", n))) for n in range(1, 51)]
    waiting += [asyncio.create_task(vocabulary.resolve(changed)) for _ in range(50)]
    await asyncio.sleep(0.2)
    waiting[0].cancel()
    world.compiler.may_go_on.set()
    resolved = await asyncio.gather(*waiting[1:])
    assert len({one.digest for one in resolved}) == 1
    assert len(set(resolved[-50:])) == 1
    assert [type(job) for job in world.compiler.jobs] == [CompileList, ChangeList]


async def test_other_options_or_numbers_compile_nothing_and_the_rules_of_another_language_do(world: Lists) -> None:
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    asked: list[dict[str, object]] = [
        {}, {"case": "any"}, {"numbers": True}, {"end": "sentence"}, {"layout": "lines"}, {"punctuation": "basic"}
    ]  # fmt: skip
    resolved = [await vocabulary.resolve(spec("pets", 3, **fields)) for fields in asked * 2]
    assert len({one.id for one in resolved}) == len(asked)
    # Only how short a text may be is asked, once for each.
    assert world.compiler.num_measured == len(asked)
    by_words, by_sentences = resolved[0], resolved[3]
    assert (by_words.fewest_tokens, by_sentences.fewest_tokens) == (1, 2)
    assert world.allows(by_words, "the cat")
    assert not world.allows(by_sentences, "the cat")
    assert world.allows(by_sentences, "the cat.")
    numbered = [await vocabulary.resolve(spec("pets", n_words)) for n_words in (1, 2, 3, 2**62, None)]
    assert [one.n_words for one in numbered] == [1, 2, 3, 2**62, 3]
    assert [world.allows(one, "the dog") for one in numbered] == [False, False, True, True, True]
    assert len({one.digest for one in resolved + numbered}) == world.num_jobs == 1
    assert await numbers(vocabulary) == (1, 0)
    digests = {(await vocabulary.resolve(own("the", "cat", **fields))).digest for fields in [{}, {"lang": "fr"}] * 2}
    assert (len(digests), world.num_jobs) == (2, 3)


async def test_the_first_words_of_a_long_list_are_a_small_artefact(world: Lists, long_list: tuple[str, ...]) -> None:
    vocabulary = await world.vocabulary()
    small = [await vocabulary.resolve(spec("es", n_words)) for n_words in (1, SMALL)]
    assert {world.words(one) for one in small} == {long_list[:SMALL]}
    assert world.num_jobs == 1
    whole = [await vocabulary.resolve(spec("es", n_words)) for n_words in (SMALL + 1, None, 2**62)]
    assert {world.words(one) for one in whole} == {long_list}
    assert [one.n_words for one in whole] == [SMALL + 1, len(long_list), 2**62]
    assert world.num_jobs == 2
    # A capital further down the list counts for the small one, too: both read "auto" alike.
    assert [world.allows(one, "the Cat") for one in (small[1], whole[0])] == [False, False]
    # Each is changed by itself.
    changed = await vocabulary.resolve(spec("es", 3, exclude_words=["cat"], extra_words=["fish"]))
    assert changed.digest == small[0].digest
    texts = {"the dog": True, "the fish": True, "the cat": False, "the bird": False}
    assert {text: world.allows(changed, text) for text in texts} == texts
    changed = await vocabulary.resolve(spec("es", 6, exclude_words=["cat"]))
    assert [world.allows(changed, text) for text in ("the bird", "the cat")] == [True, False]
    # A file is always whole.
    world.write("pets", *long_list)
    assert world.words(await vocabulary.resolve(spec("pets", 1))) == long_list


async def test_a_restart_with_a_full_store_compiles_nothing_and_an_empty_node_loads_what_another_shared(
    world: Lists, tmp_path: Path
) -> None:
    world.write("pets", "the", "cat", "dog")
    asked = [spec("pets"), own("the", "cat"), spec("pets", extra_words=("Ann",), exclude_words=("cat",))]
    first = await world.vocabulary(artefact_store=world.shared)
    before = [await first.resolve(one) for one in asked]
    assert (await numbers(first))[0] == 3
    again = await world.vocabulary()
    elsewhere = await world.vocabulary(artefact_store=world.shared, artefact_dir=str(tmp_path / "new"))
    for vocabulary in (again, elsewhere):
        assert [await vocabulary.resolve(one) for one in asked] == before
        assert await numbers(vocabulary) == (0, 3)
        assert (await vocabulary.stats())["store_bytes"] > 1000
    third = await world.vocabulary(artefact_store=world.shared, artefact_dir=str(tmp_path / "third"))
    for digest in before[2].digests:
        assert await third.fetch(digest) == await first.fetch(digest)


async def test_a_shared_store_that_fails_stops_nothing(world: Lists, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    vocabulary = await world.vocabulary(artefact_store=f"file://{tmp_path}/file/below")
    assert (await vocabulary.resolve(own("the", "cat"))).n_words == 2


async def test_an_artefact_that_was_deleted_or_damaged_is_made_again(world: Lists) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    asked = spec("pets", exclude_words=["cat"])
    before = await vocabulary.resolve(asked)
    assert before.changes_digest is not None
    paths = [ArtefactStore(world.artefacts, MAX_BYTES).path_of(digest) for digest in before.digests]
    for path in paths:
        path.unlink()
        again = await asyncio.gather(*(vocabulary.resolve(asked) for _ in range(20)))
        assert set(again) == {before}
        assert path.exists()
    assert [type(job) for job in world.compiler.jobs] == [CompileList, ChangeList] * 2
    paths[0].write_bytes(b"nonsense")
    second = await world.vocabulary()
    assert (await second.resolve(spec("pets"))).digest == before.digest
    assert await numbers(second) == (1, 0)


async def test_changes_leave_the_list_itself_as_it_is_and_are_compiled_alone(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    words = ("the", "cat", "front", "in front of")
    plain = await vocabulary.resolve(own(*words))
    assert plain.changes_digest is None
    assert await vocabulary.resolve(own(*words, exclude_words=["bird"])) == plain
    asked: list[tuple[dict[str, object], dict[str, bool]]] = [
        ({"exclude_words": ["Cat"]}, {"the cat": False, "the front": True}),
        # A word that is a part of another.
        ({"exclude_words": ["front"]}, {"in front of the": True, "the front": False}),
        # As they are written, and with a capital where a sentence starts, whatever the case of the list.
        (
            {"extra_words": ["Ann", "bo"], "case": "any"},
            {"the Cat": True, "the Ann bo": True, "Bo the cat": True, "the Bo": False, "the ann": False},
        ),
        ({"extra_words": ["Ann", "bo"], "case": "any", "numbers": True}, {"the Ann 3": True}),
    ]
    digests = list[str]()
    for fields, texts in asked:
        resolved = await vocabulary.resolve(own(*words, **fields))
        assert (resolved.digest, resolved.n_words) == (plain.digest, 4)
        assert resolved.changes_digest is not None
        digests.append(resolved.changes_digest)
        assert {text: world.allows(resolved, text) for text in texts} == texts
    changes = ArtefactStore(world.artefacts, MAX_BYTES).load_overlay(digests[-1]).changes
    assert (changes.extra_words, changes.exclude_words) == (("Ann", "bo"), ())
    # The other options and numbers of a list have the same changes.
    assert (await vocabulary.resolve(own(*words, n_words=2, exclude_words=["front"]))).digest == plain.digest
    assert [type(job) for job in world.compiler.jobs] == [CompileList, *[ChangeList] * 4]


async def test_the_fewest_tokens_are_those_of_list_and_additions_together(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    for asked, fewest_tokens in (
        (own("mouse", "the"), 1),
        (own("mouse", "the", end="sentence"), 2),
        (own("mouse", "the", n_words=1), 5),
        (own("mouse", "the", exclude_words=["the"]), 5),
        (own("mouse", "the", n_words=1, extra_words=["Bo"]), 2),
        (own("the", "cat", exclude_words=["the", "cat"], extra_words=["Ann"]), 3),
    ):
        assert (await vocabulary.resolve(asked)).fewest_tokens == fewest_tokens, asked
    with pytest.raises(EmptyWordListError, match="no text"):
        await vocabulary.resolve(own("the", "cat", exclude_words=["the", "cat"]))


async def test_a_replaced_list_takes_effect_and_a_deleted_one_is_unknown(world: Lists) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    old = await vocabulary.resolve(spec("pets"))
    world.write("pets", "the", "dog")
    new = await vocabulary.resolve(spec("pets"))
    # The old artefact stays.
    assert (world.words(old), world.words(new)) == (("the", "cat"), ("the", "dog"))
    assert await vocabulary.resolve(spec("pets")) == new
    (world.lists / "pets.txt").unlink()
    with pytest.raises(UnknownLanguageError):
        await vocabulary.resolve(spec("pets"))


async def test_a_list_replaced_by_a_bad_one_serves_on_in_its_old_version(
    world: Lists, caplog: pytest.LogCaptureFixture
) -> None:
    for name, lines, says in (("pets", ["the", "c\0t"], ", line 2"), ("blank", [""], ""), ("none", ["# nothing"], "")):
        caplog.clear()
        world.write(name, "the", "cat")
        vocabulary = await world.vocabulary(artefact_dir=str(world.artefacts / name))
        old = await vocabulary.resolve(spec(name))
        world.write(name, *lines)
        again = [await vocabulary.resolve(spec(name)) for _ in range(5)]
        assert set(again) == {old}
        [warning] = [record.getMessage() for record in caplog.records if "serves on" in record.getMessage()]
        assert f"{name}.txt{says}" in warning
        # One job for the old list and one for the bad one, which is not read again.
        assert len(world.compiler.jobs) == 2
        for asked in (spec(name, layout="lines"), spec(name, 1), spec(name, case="any", exclude_words=["cat"])):
            other = await vocabulary.resolve(asked)
            assert (other.digest, world.allows(other, "the", artefacts=name)) == (old.digest, True)
        assert [type(job) for job in world.compiler.jobs] == [CompileList, CompileList, ChangeList]
        world.write(name, "the", "dog")
        new = await vocabulary.resolve(spec(name, 2))
        assert [world.allows(new, text, artefacts=name) for text in ("the dog", "the cat")] == [True, False]


async def test_a_last_good_version_stays_in_use_and_without_it_the_bad_one_is_refused(world: Lists) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    path = ArtefactStore(world.artefacts, MAX_BYTES).path_of((await vocabulary.resolve(spec("pets"))).digest)
    world.write("pets", "the", "c\0t")
    os.utime(path, (0, 0))
    await vocabulary.resolve(spec("pets"))
    assert path.stat().st_mtime > 0
    path.unlink()
    with pytest.raises(InvalidWordListError, match="line 2"):
        await vocabulary.resolve(spec("pets"))


async def test_a_failed_compile_is_tried_again_by_the_next_caller(world: Lists) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    world.compiler.fault = CompileError("too many readings")
    world.compiler.may_go_on.clear()
    waiting = [asyncio.create_task(vocabulary.resolve(spec("pets"))) for _ in range(5)]
    await asyncio.sleep(0.5)
    world.compiler.may_go_on.set()
    failed = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in failed} == {CompileError}
    assert world.num_jobs == 1
    assert isinstance(await vocabulary.resolve_or_refuse(own("cat")), CompileError)
    world.compiler.fault = None
    assert await vocabulary.resolve_or_refuse(spec("pets")) == await vocabulary.resolve(spec("pets"))
    assert isinstance(await vocabulary.resolve_or_refuse(spec("nowhere")), UnknownLanguageError)


HOSTILE_NAMES = ["../pets", "/etc/passwd", "a\0b", "CON", "p" * 10_240, "%2e%2e", "рets", "Pets", "pets.txt", ".", " "]


async def test_a_name_that_is_no_lists_is_refused_before_anything_is_read(world: Lists) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    for name in HOSTILE_NAMES:
        with pytest.raises(UnknownLanguageError):
            await vocabulary.resolve(spec(name))
    assert world.num_jobs == 0


async def test_a_bad_list_is_refused_with_its_line_and_read_once(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    world.write("bad", "the", "c\0t")
    for _ in range(3):
        with pytest.raises(InvalidWordListError, match=r"bad\.txt, line 2"):
            await vocabulary.resolve(spec("bad"))
    assert world.num_jobs == 1
    with pytest.raises(InvalidWordListError, match=r"words\[1\]"):
        await vocabulary.resolve(own("the", "c\nt"))
    assert (await vocabulary.resolve(own("the", "c", "t"))).n_words == 3


async def test_a_refusal_of_a_clients_list_is_remembered(world: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = await world.vocabulary()
    monkeypatch.setattr(trie_builder, "MAX_OWN_WORK", 100)
    monkeypatch.setattr(overlay, "MAX_OWN_WORK", 100)
    for _ in range(3):
        with pytest.raises(ListTooLargeError, match="fewer or shorter"):
            await vocabulary.resolve(own("the", "cat" * 30))
    assert world.num_jobs == 1
    for _ in range(3):
        with pytest.raises(ChangesTooLargeError, match="fewer or shorter"):
            await vocabulary.resolve(own("the", extra_words=["cat" * 30]))
    assert world.num_jobs == 3
    monkeypatch.setattr(frame, "MAX_STATES", 10)
    for added, kind in (([], ListTooLargeError), (["b!!"], ChangesTooLargeError)):
        num_before = world.compiler.num_measured
        for _ in range(3):
            with pytest.raises(kind, match="runs of marks"):
                await vocabulary.resolve(own("a!", "b", extra_words=added))
        assert world.compiler.num_measured == num_before + 1


async def test_a_compile_that_all_have_left_is_not_waited_for(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    world.compiler.may_go_on.clear()
    waiting = [asyncio.create_task(vocabulary.resolve(own("the", "cat"))) for _ in range(2)]
    await asyncio.sleep(0.1)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await vocabulary.stats())["num_cached"] == 0
    world.compiler.may_go_on.set()
    assert (await vocabulary.resolve(own("the", "cat"))).n_words == 2


async def test_the_lists_and_artefacts_that_are_asked_for_are_built_before_the_service_is_ready(
    world: Lists, long_list: tuple[str, ...]
) -> None:
    small = await world.vocabulary(prebuild_langs=["es"], prebuild_prefix=SMALL)
    whole = await world.vocabulary(prebuild_langs=["es"], prebuild_prefix=len(long_list))
    for vocabulary, asked in (
        (small, [spec("es", 1)]),
        # That artefact of a long list is built which its N needs.
        (whole, [spec("es", len(long_list)), spec("es", None)]),
    ):
        assert await numbers(vocabulary) == (1, 0)
        for one in asked:
            await vocabulary.resolve(one)
    assert world.num_jobs == 2


async def test_a_bad_list_to_prebuild_stops_the_start(world: Lists) -> None:
    world.write("bad", "the", "c\0t")
    world.write("empty", "# nothing")
    faults: dict[str, tuple[type[Exception], str]] = {
        "nowhere": (UnknownLanguageError, "nowhere"),
        "bad": (InvalidWordListError, "bad.txt, line 2"),
        "empty": (EmptyWordListError, "empty.txt"),
    }
    for name, (kind, says) in faults.items():
        with pytest.raises(kind, match=says):
            await world.vocabulary(prebuild_langs=[name])


async def test_what_is_remembered_is_bounded(world: Lists) -> None:
    vocabulary = await world.vocabulary(max_cached_vocabularies=2)
    for word in "abcdab":
        await vocabulary.resolve(own("the", word))
    stats = await vocabulary.stats()
    assert (stats["num_compiles"], stats["num_loaded"], stats["num_cached"]) == (4, 2, 2)


async def test_many_lists_of_clients_keep_the_store_within_its_bound(world: Lists) -> None:
    vocabulary = await world.vocabulary(artefact_bytes=2**20, max_cached_vocabularies=50)
    await asyncio.gather(*(vocabulary.resolve(own("the", f"word{number}")) for number in range(300)))
    stats = await vocabulary.stats()
    assert stats["num_compiles"] == 300
    # What was just used may stay up to twice the bound.
    assert 2**19 < stats["store_bytes"] <= 2**21
    assert stats["num_cached"] <= 50


async def test_a_key_has_so_many_new_lists_compiled_in_an_hour(world: Lists) -> None:
    world.write("pets", "the", "cat", "dog")
    keys = {"alice": {"sha256": "0" * 64, "lists_per_hour": 2}}
    vocabulary = await world.vocabulary(keys=keys)
    for _ in range(3):
        await vocabulary.resolve(own("the", "cat"), "alice")
    await vocabulary.resolve(spec("pets", 100), "alice")
    error = await vocabulary.resolve_or_refuse(own("the", "dog"), "alice")
    assert isinstance(error, CompileQueueError)
    assert 1 <= error.retry_after_s <= 3600
    error = pickle.loads(pickle.dumps(error))  # noqa: S301 - as it crosses a handle
    assert isinstance(error, CompileQueueError)
    assert error.retry_after_s > 1
    # What is there costs nothing, and others are not counted.
    await vocabulary.resolve(own("the", "cat"), "alice")
    await vocabulary.resolve(own("the", "dog"), "bob")
    await vocabulary.resolve(own("the", "dog"), "alice")


async def test_a_level_is_compiled_as_the_words_of_its_file_and_a_band_as_that_many_of_a_list(world: Lists) -> None:
    (world.lists / "en_cefr-j.csv").write_text("word,level,forms\nthe,A1,\ncat,A2,cats\ndog,B1,dogs\n")
    world.write("en", *(f"w{number}" for number in range(600)))
    vocabulary = await world.vocabulary()
    resolved = await vocabulary.resolve(VocabularySpec(level="A2", end="word"))
    assert world.words(resolved) == ("the", "cat", "cats")
    assert (resolved.lang, resolved.n_words) == ("en", 3)
    assert await vocabulary.resolve(VocabularySpec(level="A2", lang="en", end="word")) == resolved
    with pytest.raises(UnknownLevelError, match=r"en_ngsl\.csv"):
        await vocabulary.resolve(VocabularySpec(level="ngsl-1"))
    banded = await vocabulary.resolve(spec("en", None, level="top-500"))
    assert banded == await vocabulary.resolve(spec("en", 500))
