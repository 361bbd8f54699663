"""The parts of the compile process that can be run in this one; the process itself is tested with its parent."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.small_tokenizer import small_speller
from tests.vocab.toys import can_spell, states_of, toy_speller, toy_tokenizer
from vocab.artefacts.store import ArtefactStore, SharedStore, load_stored_tokenizer, store_tokenizer
from vocab.automaton.tokenizer import TokenizerFacts, byte_speller
from vocab.compiler import worker
from vocab.compiler.child_process import resident_bytes
from vocab.compiler.jobs import ChangeList, Compiled, CompileList, Job, MeasureTexts, Reply
from vocab.compiler.worker import (
    MAX_ARTEFACTS,
    SCATTERED_BYTES,
    ListCompiler,
    group_list_by_lemma,
    serve,
)
from vocab.errors import (
    ArtefactError,
    CompileError,
    NoLemmasError,
)
from vocab.lists.lemmas import group_by_lemma
from vocab.lists.wordlists import WordList
from vocab.options import ListOptions

LACKING = toy_tokenizer([], lacking="é".encode())


class World:
    """A compiler over a store and a folder of lists."""

    def __init__(self, folder: Path, tokenizer: TokenizerFacts | None = None) -> None:
        self.lists = folder / "lists"
        self.lists.mkdir()
        self.store = ArtefactStore(folder / "artefacts", 10**8)
        self.tokenizer = tokenizer or toy_tokenizer(["the", " cat"])
        self.compiler = ListCompiler(toy_speller(self.tokenizer), self.store, self.lists)

    def write(self, name: str, *words: str) -> None:
        (self.lists / f"{name}.txt").write_text("\n".join(words))

    def make(self, job: Job) -> Compiled:
        reply = self.compiler.run(job)
        assert reply.error is None
        assert reply.compiled is not None
        return reply.compiled

    def spells(self, compiled: Compiled, text: str, n_words: int = 100, changes: Compiled | None = None) -> bool:
        overlay = None if changes is None else self.store.load_overlay(changes.digest)
        options = ListOptions(punctuation="full", possessive=True)
        words = self.store.load(compiled.digest)
        states = states_of(words, self.tokenizer, n_words, overlay=overlay, options=options)
        return can_spell(states, self.tokenizer, text)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def damages(sound: bytes, foreign: bytes) -> list[bytes]:
    return [b"", b"nonsense", sound[:-3], sound[:-1] + bytes([sound[-1] ^ 1]), foreign]


@pytest.mark.parametrize("kind", ["list", "changes"])
def test_what_is_made_once_is_found_and_made_again_where_it_is_damaged(world: World, kind: str) -> None:
    base = world.make(CompileList(None, ("the", "cat", "dog")))

    def job(word: str) -> Job:
        return CompileList(None, ("the", word)) if kind == "list" else ChangeList(base.digest, exclude_words=(word,))

    made, other, found = (world.make(job(word)) for word in ("cat", "dog", "cat"))
    assert made.seconds > 0
    assert (made.was_stored, found.was_stored) == (False, True)
    assert replace(made, was_stored=True, seconds=found.seconds) == found
    sound = world.store.read_bytes(made.digest)
    for damaged in damages(sound, world.store.read_bytes(other.digest)):
        world.store.write_bytes(made.digest, damaged)
        again = world.make(job("cat"))
        assert (again.was_stored, again.digest) == (False, made.digest)
        assert world.store.read_bytes(made.digest) == sound


def test_the_first_words_of_a_long_list_have_an_artefact_of_their_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "FIRST_WORDS", 2)
    world.write("pets", "the", "cat", "dog", "London")
    part, whole = (world.make(CompileList("pets", is_whole=is_whole)) for is_whole in (False, True))
    assert (part.num_words, part.num_ranks, whole.num_words, whole.num_ranks) == (2, 4, 4, 4)
    assert part.digest != whole.digest
    assert [world.spells(one, "dog") for one in (part, whole)] == [False, True]
    # The list has capitals, though its beginning has none.
    assert not any(world.spells(one, "the Cat") for one in (part, whole))
    world.write("few", "the", "cat")
    assert world.make(CompileList("few", is_whole=False)).digest == world.make(CompileList("few")).digest


def test_of_a_list_whose_words_share_ranks_the_first_artefact_has_fewer_ranks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "FIRST_FORMS", 2)
    part = world.make(CompileList("ko", is_whole=False))
    assert (part.num_ranks_here, part.num_ranks > 9_000, part.num_words > 100) == (1, True, True)


def test_words_that_cannot_be_spelled_are_counted_and_shown(tmp_path: Path) -> None:
    world = World(tmp_path, LACKING)
    made = world.make(CompileList(None, ("the", "é", *(f"é{letter}" for letter in "abcdefghijkl"))))
    assert (made.num_words, made.num_dropped) == (1, 13)
    assert made.dropped_words == ("é", *(f"é{letter}" for letter in "abcdefghi"))
    changes = world.make(ChangeList(made.digest, ("Ana", "José")))
    assert (changes.num_words, changes.num_dropped, changes.dropped_words) == (1, 1, ("José",))


def test_words_are_left_out_and_added_and_the_others_keep_their_rank(world: World) -> None:
    base = world.make(CompileList("en", ("the", "cat", "dog", "catfish", "front", "in front of")))
    changed = world.make(ChangeList(base.digest, ("Ana", "Mr. Fox"), ("Cat", "front")))
    for text, can in {"cat": False, "the catfish": True, "front": False, "in front of": True, "Ana's": True}.items():
        assert world.spells(base, text, changes=changed) is can, text
    assert [world.spells(base, "Mr. Fox dog", n, changes=changed) for n in (2, 3)] == [False, True]
    assert world.spells(base, "cat")
    assert world.make(ChangeList(base.digest, exclude_words=("mouse",))).digest == ""


def test_more_artefacts_than_are_kept_mapped_can_be_changed_and_others_are_gone(world: World) -> None:
    digests = [world.make(CompileList(None, ("the", f"cat{n}"))).digest for n in range(MAX_ARTEFACTS + 2)]
    for digest in digests + digests[:1]:
        assert world.compiler.run(ChangeList(digest, exclude_words=("the",))).error is None
    for job in (ChangeList("0" * 64, ("the",)), MeasureTexts("nonsense", None, ListOptions(), 1)):
        assert isinstance(world.compiler.run(job).error, ArtefactError)


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("secret"), AttributeError("secret")])
def test_a_fault_of_ours_tells_nothing_of_itself(
    world: World, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: object, **named: object) -> object:
        raise fault

    monkeypatch.setattr(worker, "list_builder", failing)
    error = world.compiler.run(CompileList(None, ("the",))).error
    assert type(error) is CompileError
    assert "secret" not in str(error)


SPANISH = WordList("es", ("casa", "come", "casas", "comer", "perro"), "file")
OTHER = WordList("es", ("casas", "perros", "come", "perro", "comer"), "file")


def test_a_list_is_grouped_by_lemma_once_and_again_where_its_file_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ArtefactStore(tmp_path, 10**6)
    with pytest.raises(NoLemmasError):
        group_list_by_lemma(WordList("ko", ("집",), "file"), store)
    assert not list(tmp_path.iterdir())
    asked: list[WordList] = []

    def counting(word_list: WordList) -> WordList:
        asked.append(word_list)
        return group_by_lemma(word_list)

    monkeypatch.setattr(worker, "group_by_lemma", counting)
    grouped = group_list_by_lemma(SPANISH, store)
    assert grouped == group_by_lemma(SPANISH)
    assert grouped.ranks == (1, 1, 2, 2, 3)
    (path,) = tmp_path.iterdir()
    assert group_list_by_lemma(SPANISH, store) == grouped
    group_list_by_lemma(OTHER, store)
    assert asked == [SPANISH, OTHER]
    (foreign,) = set(tmp_path.iterdir()) - {path}
    sound = path.read_bytes()
    for damaged in damages(sound, foreign.read_bytes()):
        path.write_bytes(damaged)
        assert group_list_by_lemma(SPANISH, store) == grouped
        assert path.read_bytes() == sound


def test_a_tokenizer_comes_back_as_it_was_and_is_refused_where_it_is_damaged(tmp_path: Path) -> None:
    store, speller = ArtefactStore(tmp_path, 10**6), small_speller(["the", "niño"])
    path = store_tokenizer(speller, store)
    loaded = load_stored_tokenizer(speller.digest, store)
    assert loaded.facts == speller.facts
    assert loaded.spell([" the niño"]) == speller.spell([" the niño"])
    assert store_tokenizer(speller, store) == path
    foreign = store_tokenizer(small_speller(["cat"]), store).read_bytes()
    for damaged in damages(path.read_bytes(), foreign):
        store.write_bytes(speller.digest, damaged)
        with pytest.raises(ArtefactError):
            load_stored_tokenizer(speller.digest, store)
    with pytest.raises(ArtefactError):
        load_stored_tokenizer("0" * 64, store)


def test_each_job_is_begun_answered_and_shared(tmp_path: Path) -> None:
    MemoryFileSystem.store.clear()
    shared = SharedStore("memory://lists", 10**9)
    store = ArtefactStore(tmp_path, 10**8, shared)
    sent: list[str | Reply] = []
    jobs = [CompileList(None, ("the", "cat")), CompileList(None, ())]
    serve(jobs, ListCompiler(byte_speller(), store), store, sent.append)
    started, good, started_too, bad = sent
    assert started == started_too == "started"
    assert isinstance(good, Reply)
    assert isinstance(bad, Reply)
    assert good.compiled is not None
    assert good.resident_bytes > 10**6
    assert bad.error is not None
    assert shared.read(good.compiled.digest) == store.read_bytes(good.compiled.digest)
    MemoryFileSystem.store.clear()


@pytest.mark.parametrize(("grown", "times"), [(0, 0), (SCATTERED_BYTES, 1), (SCATTERED_BYTES + 1, 2)])
def test_what_large_jobs_leave_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grown: int, times: int
) -> None:
    """Two of four jobs leave so many bytes each."""
    resident, given_back = 10**8, 0
    give_memory_back: Callable[[], None] = worker.give_memory_back

    class Growing(ListCompiler):
        def run(self, job: Job) -> Reply:
            nonlocal resident
            resident += grown if job == jobs[1] else 0
            return super().run(job)

    def give_back() -> None:
        nonlocal resident, given_back
        give_memory_back()
        resident, given_back = 10**8, given_back + 1

    monkeypatch.setattr(worker, "resident_bytes", lambda: resident)
    monkeypatch.setattr(worker, "give_memory_back", give_back)
    jobs = [CompileList(None, ("the",)), CompileList(None, ("cat",))] * 2
    store = ArtefactStore(tmp_path, 10**8)
    serve(jobs, Growing(byte_speller(), store), store, lambda _: None)
    assert given_back == times


def test_the_memory_of_a_process_that_is_not_there_is_0() -> None:
    assert resident_bytes() > 10**6
    assert resident_bytes(2**22 + 1) == 0
