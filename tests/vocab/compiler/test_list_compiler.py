from pathlib import Path
from typing import Any

import pytest

from tests.vocab.toys import can_spell, states_of, toy_speller, toy_tokenizer
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import TokenizerFacts, byte_speller
from vocab.compiler import worker
from vocab.compiler.jobs import ChangeList, Compiled, CompileList, Job, MeasureTexts
from vocab.compiler.worker import MAX_ARTEFACTS, ListCompiler
from vocab.errors import ArtefactError, CompileError, EmptyWordListError, InvalidWordListError, UnknownLanguageError
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions


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

    def fail(self, job: Job) -> Exception:
        error = self.compiler.run(job).error
        assert error is not None
        return error

    def spells(self, compiled: Compiled, text: str, n_words: int = 100, changes: Compiled | None = None) -> bool:
        overlay = None if changes is None else self.store.load_overlay(changes.digest)
        states = states_of(self.store.load(compiled.digest), self.tokenizer, n_words, overlay=overlay)
        return can_spell(states, self.tokenizer, text)

    def fewest(
        self, compiled: Compiled, n_words: int = 100, changes: Compiled | None = None, **options: Any
    ) -> int | None:
        job = MeasureTexts(
            compiled.digest, None if changes is None else changes.digest, ListOptions(**options), n_words
        )
        reply = self.compiler.run(job)
        assert reply.error is None
        return reply.fewest_tokens


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_list_is_compiled_once_and_then_found(world: World) -> None:
    world.write("pets", "the", "cat", "dog")
    made = world.make(CompileList("pets"))
    assert (made.num_words, made.num_ranks, made.was_stored) == (3, 3, False)
    assert made.seconds > 0
    found = world.make(CompileList("pets"))
    assert (found.was_stored, found.digest, found.num_ranks) == (True, made.digest, made.num_ranks)
    assert world.spells(made, "The cat.")


def test_a_file_is_read_again_each_time(world: World) -> None:
    world.write("pets", "the", "cat")
    first = world.make(CompileList("pets"))
    world.write("pets", "the", "dog")
    second = world.make(CompileList("pets"))
    assert world.spells(second, "the dog")
    assert world.spells(first, "the cat")
    assert not world.spells(second, "the cat")


def test_a_built_in_list_is_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    names = []

    def counting(name: str, folder: Path | None, **choice: Any) -> object:
        names.append(name)
        return load_word_list(name, folder, **choice)

    monkeypatch.setattr(worker, "load_word_list", counting)
    compiler = ListCompiler(byte_speller(), world.store, None)
    for is_whole in (False, True):
        assert compiler.run(CompileList("fil", is_whole=is_whole)).compiled is not None
    assert names == ["fil"]


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


def test_a_clients_own_list_has_the_rules_of_the_language_named_beside_it(world: World) -> None:
    plain = world.make(CompileList(None, ("the", "l'", "un")))
    french = world.make(CompileList("fr", ("the", "l'", "un")))
    assert (world.spells(plain, "l'un"), world.spells(french, "l'un")) == (False, True)


def test_words_that_cannot_be_spelled_are_counted_and_shown(tmp_path: Path) -> None:
    world = World(tmp_path, toy_tokenizer([], lacking="é".encode()))
    made = world.make(CompileList(None, ("the", "é", *(f"é{letter}" for letter in "abcdefghijkl"))))
    assert (made.num_words, made.num_dropped) == (1, 13)
    assert made.dropped_words == ("é", *(f"é{letter}" for letter in "abcdefghi"))


def test_words_are_left_out_and_the_others_keep_their_rank(world: World) -> None:
    base = world.make(CompileList(None, ("the", "cat", "dog", "catfish", "front", "in front of")))
    shorter = world.make(ChangeList(base.digest, exclude_words=("Cat", "front")))
    assert shorter.digest != base.digest
    for text, can in {"cat": False, "the catfish": True, "front": False, "in front of": True}.items():
        assert world.spells(base, text, changes=shorter) is can, text
    assert [world.spells(base, "dog", n, changes=shorter) for n in (2, 3)] == [False, True]
    assert world.spells(base, "cat")


def test_words_are_added_whatever_n(world: World) -> None:
    base = world.make(CompileList("en", ("the", "cat")))
    longer = world.make(ChangeList(base.digest, ("Ana", "Mr. Fox"), ("the",)))
    for text, can in {"Ana": True, "Ana's": True, "ana": False, "Mr. Fox": True, "cat": False, "the": False}.items():
        assert world.spells(base, text, 1, changes=longer) is can, text


def test_changes_are_made_once_and_then_found(world: World) -> None:
    base = world.make(CompileList(None, ("the", "cat", "dog")))
    made, found = (world.make(ChangeList(base.digest, ("Ana",), ("dog",))) for _ in range(2))
    assert (made.was_stored, found.was_stored) == (False, True)
    assert made.digest == found.digest


def test_damaged_or_foreign_changes_are_made_again(world: World) -> None:
    base = world.make(CompileList(None, ("the", "cat", "dog")))
    made = world.make(ChangeList(base.digest, exclude_words=("cat",)))
    other = world.make(ChangeList(base.digest, exclude_words=("dog",)))
    good, foreign = (world.store.read_bytes(one.digest) for one in (made, other))
    for bad in (b"", b"nonsense", good[:-3], good[:-1] + bytes([good[-1] ^ 1]), foreign):
        world.store.write_bytes(made.digest, bad)
        assert not world.make(ChangeList(base.digest, exclude_words=("cat",))).was_stored
        assert world.store.read_bytes(made.digest) == good


def test_words_that_are_not_in_the_list_leave_it_as_it_is(world: World) -> None:
    base = world.make(CompileList(None, ("the", "cat")))
    assert world.make(ChangeList(base.digest, exclude_words=("dog",))).digest == ""


def test_added_words_that_cannot_be_spelled_are_counted_and_shown(tmp_path: Path) -> None:
    world = World(tmp_path, toy_tokenizer([], lacking="é".encode()))
    base = world.make(CompileList(None, ("the",)))
    changes = world.make(ChangeList(base.digest, ("Ana", "José")))
    assert (changes.num_words, changes.num_dropped, changes.dropped_words) == (1, 1, ("José",))


def test_the_shortest_text_depends_on_n_options_and_changes(world: World) -> None:
    base = world.make(CompileList(None, ("mouse", "the")))
    assert [world.fewest(base, n) for n in (1, 2, 99)] == [5, 1, 1]
    assert world.fewest(base, end="sentence") == 2
    changes = world.make(ChangeList(base.digest, exclude_words=("the",)))
    assert world.fewest(base, changes=changes) == 5
    nothing = world.make(ChangeList(base.digest, exclude_words=("the", "mouse")))
    assert world.fewest(base, changes=nothing) is None
    assert world.fewest(base, changes=nothing, numbers=True) == 1


def test_more_artefacts_than_are_kept_mapped_can_be_changed(world: World) -> None:
    digests = [world.make(CompileList(None, ("the", f"cat{n}"))).digest for n in range(MAX_ARTEFACTS + 2)]
    for digest in digests + digests[:1]:
        assert world.compiler.run(ChangeList(digest, exclude_words=("the",))).error is None


@pytest.mark.parametrize(
    ("job", "kind", "says"),
    [
        (CompileList("nowhere"), UnknownLanguageError, "nowhere"),
        (CompileList(None), UnknownLanguageError, "''"),
        (CompileList("bad"), InvalidWordListError, "bad.txt, line 2"),
        (CompileList("empty"), EmptyWordListError, "empty"),
        (CompileList(None, ()), EmptyWordListError, "no words"),
        (ChangeList("0" * 64, ("the",)), ArtefactError, "gone"),
        (MeasureTexts("nonsense", None, ListOptions(), 1), ArtefactError, "hexadecimal"),
    ],
)
def test_what_cannot_be_done_is_said(world: World, job: Job, kind: type[Exception], says: str) -> None:
    world.write("bad", "the", "c\0t")
    world.write("empty", "# nothing")
    error = world.fail(job)
    assert type(error) is kind
    assert says in str(error)


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("secret"), AttributeError("secret")])
def test_a_fault_of_ours_tells_nothing_of_itself(
    world: World, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: object) -> object:
        raise fault

    monkeypatch.setattr(worker, "list_builder", failing)
    error = world.fail(CompileList(None, ("the",)))
    assert type(error) is CompileError
    assert "secret" not in str(error)


def test_a_damaged_artefact_is_made_again(world: World) -> None:
    made = world.make(CompileList(None, ("the", "cat")))
    path = world.store.path_of(made.digest)
    path.write_bytes(path.read_bytes()[:-9])
    again = world.make(CompileList(None, ("the", "cat")))
    assert (again.was_stored, again.digest) == (False, made.digest)
