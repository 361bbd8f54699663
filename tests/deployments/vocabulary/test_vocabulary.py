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

    def allows(self, resolved: ResolvedVocabulary, text: str) -> bool:
        """Whether an engine may write a text in a vocabulary."""
        reference = GrammarReference(
            resolved.digest, resolved.options, resolved.n_words, changes=resolved.changes_digest
        )
        return can_spell(EngineCache(self.artefacts, TOKENIZER).states(reference), TOKENIZER, text)


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


async def test_without_a_number_the_whole_list_counts(world: Lists) -> None:
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    assert (await vocabulary.resolve(spec("pets", None))).n_words == 3
    assert (await vocabulary.resolve(own("the", "cat"))).n_words == 2


async def test_those_who_want_the_same_list_wait_for_one_compile(world: Lists) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    world.compiler.may_go_on.clear()
    waiting = [asyncio.create_task(vocabulary.resolve(spec("pets", n))) for n in range(1, 101)]
    await asyncio.sleep(0.2)
    waiting[0].cancel()
    world.compiler.may_go_on.set()
    resolved = await asyncio.gather(*waiting[1:])
    assert len({one.digest for one in resolved}) == 1
    assert world.num_jobs == 1
    assert await numbers(vocabulary) == (1, 0)


async def test_those_who_want_the_same_changes_wait_for_one_compile_of_each(world: Lists) -> None:
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    changed = spec("pets", extra_words=("Ann", "Bo"), exclude_words=("cat",))
    resolved = await asyncio.gather(*(vocabulary.resolve(changed) for _ in range(100)))
    assert len(set(resolved)) == world.compiler.num_measured == 1
    assert [type(job) for job in world.compiler.jobs] == [CompileList, ChangeList]


async def test_the_event_loop_is_free_while_a_list_is_compiled(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    world.compiler.may_go_on.clear()
    waiting = asyncio.create_task(vocabulary.resolve(own("the", "cat")))
    for _ in range(1000):
        await asyncio.sleep(0.01)
        if world.num_jobs:
            break
    assert world.num_jobs == 1
    assert not waiting.done()
    world.compiler.may_go_on.set()
    await waiting


async def test_the_rules_of_a_language_make_a_list_of_its_own(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    digests = {(await vocabulary.resolve(own("the", "cat", **fields))).digest for fields in [{}, {"lang": "fr"}] * 2}
    assert len(digests) == world.num_jobs == 2


async def test_another_set_of_options_compiles_nothing(world: Lists) -> None:
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    asked: list[dict[str, object]] = [
        {}, {"case": "any"}, {"numbers": True}, {"end": "sentence"}, {"layout": "lines"}, {"punctuation": "basic"}
    ]  # fmt: skip
    resolved = [await vocabulary.resolve(spec("pets", 3, **fields)) for fields in asked * 2]
    assert len({one.digest for one in resolved}) == 1
    assert len({one.id for one in resolved}) == len(asked)
    assert await numbers(vocabulary) == (1, 0)
    assert world.num_jobs == 1
    # Only how short a text may be is asked, once for each.
    assert world.compiler.num_measured == len(asked)
    by_words, by_sentences = resolved[0], resolved[3]
    assert (by_words.fewest_tokens, by_sentences.fewest_tokens) == (1, 2)
    assert world.allows(by_words, "the cat")
    assert not world.allows(by_sentences, "the cat")
    assert world.allows(by_sentences, "the cat.")


async def test_another_number_of_words_compiles_nothing(world: Lists) -> None:
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    resolved = [await vocabulary.resolve(spec("pets", n_words)) for n_words in (1, 2, 3, 2**62, None)]
    assert len({one.digest for one in resolved}) == 1
    assert [one.n_words for one in resolved] == [1, 2, 3, 2**62, 3]
    assert [world.allows(one, "the dog") for one in resolved] == [False, False, True, True, True]
    assert await numbers(vocabulary) == (1, 0)


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


@pytest.mark.usefixtures("long_list")
async def test_a_small_artefact_is_changed_by_itself(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    small = await vocabulary.resolve(spec("es", 3, exclude_words=["cat"], extra_words=["fish"]))
    assert small.digest == (await vocabulary.resolve(spec("es", 3))).digest
    assert [world.allows(small, text) for text in ("the dog", "the fish", "the cat", "the bird")] == [
        True, True, False, False
    ]  # fmt: skip
    whole = await vocabulary.resolve(spec("es", 6, exclude_words=["cat"]))
    assert world.allows(whole, "the bird")
    assert not world.allows(whole, "the cat")


async def test_a_list_file_is_always_whole(world: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "FIRST_WORDS", 1)
    monkeypatch.setattr(worker, "FIRST_WORDS", 1)
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    assert world.words(await vocabulary.resolve(spec("pets", 1))) == ("the", "cat", "dog")
    await vocabulary.resolve(spec("pets", 3))
    assert world.num_jobs == 1


async def test_a_restart_with_a_full_store_compiles_nothing(world: Lists) -> None:
    world.write("pets", "the", "cat", "dog")
    asked = [spec("pets"), own("the", "cat"), spec("pets", extra_words=("Ann",), exclude_words=("cat",))]
    first = await world.vocabulary()
    before = [await first.resolve(one) for one in asked]
    assert (await numbers(first))[0] == 3
    second = await world.vocabulary()
    assert [await second.resolve(one) for one in asked] == before
    assert await numbers(second) == (0, 3)
    assert (await second.stats())["store_bytes"] > 1000


async def test_an_empty_node_loads_what_another_shared(world: Lists, tmp_path: Path) -> None:
    first = await world.vocabulary(artefact_store=world.shared)
    before = await first.resolve(own("the", "cat", exclude_words=["cat"]))
    second = await world.vocabulary(artefact_store=world.shared, artefact_dir=str(tmp_path / "new"))
    assert await second.resolve(own("the", "cat", exclude_words=["cat"])) == before
    assert await numbers(second) == (0, 2)
    third = await world.vocabulary(artefact_store=world.shared, artefact_dir=str(tmp_path / "third"))
    for digest in before.digests:
        assert await third.fetch(digest) == await first.fetch(digest)


async def test_a_shared_store_that_fails_stops_nothing(world: Lists, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    vocabulary = await world.vocabulary(artefact_store=f"file://{tmp_path}/file/below")
    assert (await vocabulary.resolve(own("the", "cat"))).n_words == 2


async def test_an_artefact_that_was_deleted_or_damaged_is_made_again(world: Lists) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    digest = (await vocabulary.resolve(spec("pets"))).digest
    path = ArtefactStore(world.artefacts, MAX_BYTES).path_of(digest)
    path.unlink()
    again = await asyncio.gather(*(vocabulary.resolve(spec("pets")) for _ in range(20)))
    assert {one.digest for one in again} == {digest}
    assert world.num_jobs == 2
    path.write_bytes(b"nonsense")
    second = await world.vocabulary()
    assert (await second.resolve(spec("pets"))).digest == digest
    assert await numbers(second) == (1, 0)


async def test_deleted_changes_are_made_again(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    asked = own("the", "cat", "dog", exclude_words=["cat"])
    before = await vocabulary.resolve(asked)
    assert before.changes_digest is not None
    path = ArtefactStore(world.artefacts, MAX_BYTES).path_of(before.changes_digest)
    path.unlink()
    assert await vocabulary.resolve(asked) == before
    assert path.exists()
    assert [type(job) for job in world.compiler.jobs] == [CompileList, ChangeList, ChangeList]


async def test_words_left_out_leave_the_list_itself_as_it_is(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    whole = await vocabulary.resolve(own("the", "cat", "dog"))
    without = await vocabulary.resolve(own("the", "cat", "dog", exclude_words=["Cat"]))
    assert (without.digest, without.n_words) == (whole.digest, 3)
    assert without.changes_digest is not None
    assert [world.allows(one, "the cat") for one in (whole, without)] == [True, False]
    nothing = await vocabulary.resolve(own("the", "cat", "dog", exclude_words=["bird"]))
    assert nothing == whole


async def test_words_that_are_parts_of_others_are_left_out_alone(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    resolved = await vocabulary.resolve(own("the", "front", "in front of", exclude_words=["front"]))
    assert resolved.n_words == 3
    assert world.allows(resolved, "in front of the")
    assert not world.allows(resolved, "the front")


async def test_words_added_are_changes_to_the_same_list(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    plain = await vocabulary.resolve(own("the", "cat"))
    resolved = await vocabulary.resolve(own("the", "cat", extra_words=["Ann", "bo"], case="any"))
    assert plain.changes_digest is None
    assert resolved.changes_digest is not None
    assert (resolved.digest, resolved.n_words) == (plain.digest, 2)
    changes = ArtefactStore(world.artefacts, MAX_BYTES).load_overlay(resolved.changes_digest).changes
    assert (changes.extra_words, changes.exclude_words) == (("Ann", "bo"), ())
    # As they are written, and with a capital where a sentence starts, whatever the case of the list.
    allowed = [world.allows(resolved, text) for text in ("the Cat", "the Ann bo", "Bo the cat", "the Bo", "the ann")]
    assert allowed == [True, True, True, False, False]


async def test_changes_to_a_list_compile_only_the_changes(world: Lists) -> None:
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    plain = await vocabulary.resolve(spec("pets"))
    asked: list[dict[str, object]] = [{"extra_words": ["Ann"]}, {"exclude_words": ["cat"]}]
    for fields in [*asked, *asked]:
        for asked_for in (
            spec("pets", 3, **fields),
            spec("pets", 3, numbers=True, **fields),
            spec("pets", 2, **fields),
        ):
            assert (await vocabulary.resolve(asked_for)).digest == plain.digest
    assert [type(job) for job in world.compiler.jobs] == [CompileList, ChangeList, ChangeList]


async def test_the_fewest_tokens_are_those_of_list_and_additions_together(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    assert (await vocabulary.resolve(own("mouse", "the"))).fewest_tokens == 1
    assert (await vocabulary.resolve(own("mouse", "the", end="sentence"))).fewest_tokens == 2
    assert (await vocabulary.resolve(own("mouse", "the", n_words=1))).fewest_tokens == 5
    assert (await vocabulary.resolve(own("mouse", "the", exclude_words=["the"]))).fewest_tokens == 5
    added = own("mouse", "the", n_words=1, extra_words=["Bo"])
    assert (await vocabulary.resolve(added)).fewest_tokens == 2


async def test_a_list_of_which_nothing_is_left_is_refused_unless_words_are_added(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    with pytest.raises(EmptyWordListError, match="no text"):
        await vocabulary.resolve(own("the", "cat", exclude_words=["the", "cat"]))
    added = own("the", "cat", exclude_words=["the", "cat"], extra_words=["Ann"])
    assert (await vocabulary.resolve(added)).fewest_tokens == 3


async def test_a_replaced_list_takes_effect_and_the_old_artefact_stays(world: Lists) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    old = await vocabulary.resolve(spec("pets"))
    world.write("pets", "the", "dog")
    new = await vocabulary.resolve(spec("pets"))
    assert (world.words(old), world.words(new)) == (("the", "cat"), ("the", "dog"))
    assert await vocabulary.resolve(spec("pets")) == new


@pytest.mark.parametrize(
    ("lines", "says"), [(["the", "c\0t"], "pets.txt, line 2"), ([""], "pets.txt"), (["# nothing"], "pets.txt")]
)
async def test_a_list_replaced_by_a_bad_one_serves_on_in_its_old_version(
    world: Lists, lines: list[str], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    old = await vocabulary.resolve(spec("pets"))
    world.write("pets", *lines)
    again = [await vocabulary.resolve(spec("pets")) for _ in range(5)]
    assert set(again) == {old}
    [warning] = [record.getMessage() for record in caplog.records if "serves on" in record.getMessage()]
    assert says in warning
    # One job for the old list and one for the bad one, which is not read again.
    assert world.num_jobs == 2
    for asked in (spec("pets", layout="lines"), spec("pets", 1), spec("pets", case="any", exclude_words=["cat"])):
        other = await vocabulary.resolve(asked)
        assert (other.digest, world.allows(other, "the")) == (old.digest, True)
    assert [type(job) for job in world.compiler.jobs] == [CompileList, CompileList, ChangeList]
    world.write("pets", "the", "dog")
    assert world.words(await vocabulary.resolve(spec("pets"))) == ("the", "dog")


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


async def test_a_list_that_was_deleted_is_unknown(world: Lists) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    await vocabulary.resolve(spec("pets"))
    (world.lists / "pets.txt").unlink()
    with pytest.raises(UnknownLanguageError):
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
    world.compiler.fault = None
    assert (await vocabulary.resolve(spec("pets"))).lang == "pets"


HOSTILE_NAMES = ["../pets", "/etc/passwd", "a\0b", "CON", "p" * 10_240, "%2e%2e", "рets", "Pets", "pets.txt", ".", " "]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=lambda name: ascii(name)[:20])
async def test_a_name_that_is_no_lists_is_refused_before_anything_is_read(world: Lists, name: str) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
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


async def test_a_refusal_can_be_had_as_a_value(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    assert isinstance(await vocabulary.resolve_or_refuse(spec("nowhere")), UnknownLanguageError)
    world.write("pets", "the", "cat")
    assert (await vocabulary.resolve_or_refuse(spec("pets"))) == await vocabulary.resolve(spec("pets"))
    world.compiler.fault = CompileError("too many readings")
    assert isinstance(await vocabulary.resolve_or_refuse(own("cat")), CompileError)


async def test_lists_are_built_before_the_service_is_ready(world: Lists) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary(prebuild_langs=["pets"])
    assert await numbers(vocabulary) == (1, 0)
    await vocabulary.resolve(spec("pets"))
    assert world.num_jobs == 1


async def test_of_a_long_list_that_artefact_is_built_before_the_service_is_ready_which_its_n_needs(
    world: Lists, long_list: tuple[str, ...]
) -> None:
    vocabulary = await world.vocabulary(prebuild_langs=["es"], prebuild_prefix=SMALL)
    assert await numbers(vocabulary) == (1, 0)
    await vocabulary.resolve(spec("es", 1))
    assert world.num_jobs == 1
    whole = await world.vocabulary(prebuild_langs=["es"], prebuild_prefix=len(long_list))
    assert await numbers(whole) == (1, 0)
    for n_words in (len(long_list), None):
        await whole.resolve(spec("es", n_words))
    assert world.num_jobs == 2


@pytest.mark.parametrize(
    ("name", "lines", "kind", "says"),
    [
        ("nowhere", None, UnknownLanguageError, "nowhere"),
        ("bad", ["the", "c\0t"], InvalidWordListError, "bad.txt, line 2"),
        ("bad", ["# nothing"], EmptyWordListError, "bad.txt"),
    ],
)
async def test_a_bad_list_to_prebuild_stops_the_start(
    world: Lists, name: str, lines: list[str] | None, kind: type[Exception], says: str
) -> None:
    if lines is not None:
        world.write(name, *lines)
    with pytest.raises(kind, match=says):
        await world.vocabulary(prebuild_langs=[name])


async def test_what_is_remembered_is_bounded(world: Lists) -> None:
    vocabulary = await world.vocabulary(max_cached_vocabularies=2)
    for word in "abcdab":
        await vocabulary.resolve(own("the", word))
    stats = await vocabulary.stats()
    assert (stats["num_compiles"], stats["num_loaded"], stats["num_cached"]) == (4, 2, 2)


async def test_an_artefact_that_never_was_cannot_be_fetched(world: Lists) -> None:
    with pytest.raises(ArtefactError):
        await (await world.vocabulary()).fetch("0" * 64)


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


async def test_a_level_is_compiled_as_the_words_of_its_file(world: Lists) -> None:
    (world.lists / "en_cefr-j.csv").write_text("word,level,forms\nthe,A1,\ncat,A2,cats\ndog,B1,dogs\n")
    vocabulary = await world.vocabulary()
    resolved = await vocabulary.resolve(VocabularySpec(level="A2", end="word"))
    assert world.words(resolved) == ("the", "cat", "cats")
    assert (resolved.lang, resolved.n_words) == ("en", 3)
    assert await vocabulary.resolve(VocabularySpec(level="A2", lang="en", end="word")) == resolved
    with pytest.raises(UnknownLevelError, match=r"en_ngsl\.csv"):
        await vocabulary.resolve(VocabularySpec(level="ngsl-1"))


async def test_a_band_is_that_many_words_of_a_list(world: Lists) -> None:
    world.write("en", *(f"w{number}" for number in range(600)))
    vocabulary = await world.vocabulary()
    banded = await vocabulary.resolve(spec("en", None, level="top-500"))
    assert banded == await vocabulary.resolve(spec("en", 500))
