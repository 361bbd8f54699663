from pathlib import Path

import pytest

from tests.vocab.toys import can_spell, matcher_of, toy_tokenizer
from vocab.artefacts.store import ArtefactStore
from vocab.automaton.tokenizer import TokenizerFacts
from vocab.compiler import list_compiler
from vocab.compiler.jobs import Compiled, CompileList, CompileWithout, ExcludeWords, Job
from vocab.compiler.list_compiler import MAX_ARTEFACTS, ListCompiler
from vocab.errors import ArtefactError, CompileError, EmptyWordListError, InvalidWordListError, UnknownLanguageError
from vocab.exclusion.exclusion import Exclusion
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions


class World:
    """A compiler over a store and a folder of lists."""

    def __init__(self, folder: Path, tokenizer: TokenizerFacts | None = None) -> None:
        self.lists = folder / "lists"
        self.lists.mkdir()
        self.store = ArtefactStore(folder / "artefacts", 10**8)
        self.tokenizer = tokenizer or toy_tokenizer(["the", " cat"])
        self.compiler = ListCompiler(self.tokenizer, self.store, self.lists)

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

    def spells(self, compiled: Compiled, text: str, n_words: int = 100) -> bool:
        return can_spell(matcher_of(self.store.load(compiled.digest), n_words), self.tokenizer, text)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_list_is_compiled_once_and_then_found(world: World) -> None:
    world.write("pets", "the", "cat", "dog")
    made = world.make(CompileList("pets"))
    assert (made.num_words, made.num_ranks, made.was_stored) == (3, 3, False)
    assert made.fewest_tokens == ((1, 1),)
    assert made.seconds > 0
    found = world.make(CompileList("pets"))
    assert (found.was_stored, found.digest, found.fewest_tokens) == (True, made.digest, made.fewest_tokens)
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

    def counting(name: str, folder: Path | None) -> object:
        names.append(name)
        return load_word_list(name, folder)

    monkeypatch.setattr(list_compiler, "load_word_list", counting)
    small = toy_tokenizer([], lacking=bytes(range(128, 256)))
    compiler = ListCompiler(small, world.store, None)
    for options in (ListOptions(case="listed"), ListOptions(case="listed", layout="lines")):
        assert compiler.run(CompileList("fil", options=options)).compiled is not None
    assert names == ["fil"]


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
    base = world.make(CompileList(None, ("the", "cat", "dog")))
    shorter = world.make(CompileWithout(base.digest, ("Cat",)))
    assert shorter.digest != base.digest
    assert not world.spells(shorter, "cat")
    assert [world.spells(shorter, "dog", n) for n in (2, 3)] == [False, True]
    assert world.spells(base, "cat")


def test_words_are_left_out_without_a_compile_and_found_again(world: World) -> None:
    base = world.make(CompileList(None, ("the", "cat", "dog", "catfish")))
    made, found = (world.make(ExcludeWords(base.digest, ("CAT", "dog"))) for _ in range(2))
    assert (made.was_stored, found.was_stored) == (False, True)
    assert made.digest == found.digest != base.digest
    assert (made.num_ranks, made.fewest_tokens) == (4, ((1, 1),))
    exclusion = Exclusion.from_bytes(world.store.read_bytes(made.digest))
    shown = exclusion.apply(world.store.load(base.digest))
    for text, can in {"the catfish": True, "cat": False, "the dog": False}.items():
        assert can_spell(matcher_of(shown, 4), world.tokenizer, text) is can


def test_a_damaged_or_foreign_exclusion_is_made_again(world: World) -> None:
    base = world.make(CompileList(None, ("the", "cat", "dog")))
    made = world.make(ExcludeWords(base.digest, ("cat",)))
    other = world.make(ExcludeWords(base.digest, ("dog",)))
    good, foreign = (world.store.read_bytes(one.digest) for one in (made, other))
    for bad in (b"", b"nonsense", good[:-3], good[:-1] + bytes([good[-1] ^ 1]), foreign):
        world.store.write_bytes(made.digest, bad)
        assert not world.make(ExcludeWords(base.digest, ("cat",))).was_stored
        assert world.store.read_bytes(made.digest) == good


def test_words_that_are_parts_of_others_need_a_compile(world: World) -> None:
    base = world.make(CompileList(None, ("the", "front", "in front of")))
    reply = world.compiler.run(ExcludeWords(base.digest, ("front",)))
    assert (reply.compiled, reply.error) == (None, None)
    shorter = world.make(CompileWithout(base.digest, ("front",)))
    assert (world.spells(shorter, "in front of"), world.spells(shorter, "front")) == (True, False)


def test_an_artefact_is_compiled_with_other_options(world: World) -> None:
    base = world.make(CompileList(None, ("the", "cat")))
    lines = world.make(CompileWithout(base.digest, (), ListOptions(layout="lines")))
    assert (world.spells(lines, "the\ncat"), world.spells(base, "the\ncat")) == (True, False)
    assert world.make(CompileWithout(base.digest, ())).digest == base.digest


def test_words_that_are_not_in_the_list_leave_it_as_it_is(world: World) -> None:
    base = world.make(CompileList(None, ("the", "cat")))
    assert world.make(ExcludeWords(base.digest, ("dog",))).digest == base.digest


def test_the_case_is_that_of_the_list_that_was_asked_for(world: World) -> None:
    """The words left out may be all that have capitals."""
    base = world.make(CompileList("en", ("the", "London", "of London")))
    shorter = world.store.load(world.make(CompileWithout(base.digest, ("London", "of London"))).digest)
    assert can_spell(matcher_of(shorter, 3), world.tokenizer, "The the")
    assert not can_spell(matcher_of(shorter, 3), world.tokenizer, "the The")


def test_all_words_cannot_be_left_out(world: World) -> None:
    base = world.make(CompileList(None, ("the", "cat")))
    assert isinstance(world.fail(CompileWithout(base.digest, ("the", "cat"))), EmptyWordListError)


def test_more_artefacts_than_are_kept_mapped_can_be_shortened(world: World) -> None:
    digests = [world.make(CompileList(None, ("the", f"cat{n}"))).digest for n in range(MAX_ARTEFACTS + 2)]
    for digest in digests + digests[:1]:
        assert world.compiler.run(CompileWithout(digest, ("the",))).error is None


@pytest.mark.parametrize(
    ("job", "kind", "says"),
    [
        (CompileList("nowhere"), UnknownLanguageError, "nowhere"),
        (CompileList(None), UnknownLanguageError, "''"),
        (CompileList("bad"), InvalidWordListError, "bad.txt, line 2"),
        (CompileList("empty"), EmptyWordListError, "empty"),
        (CompileList(None, ()), EmptyWordListError, "no words"),
        (ExcludeWords("0" * 64, ("the",)), ArtefactError, "gone"),
        (CompileWithout("nonsense", ("the",)), ArtefactError, "hexadecimal"),
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

    monkeypatch.setattr(list_compiler, "compile_automaton", failing)
    error = world.fail(CompileList(None, ("the",)))
    assert type(error) is CompileError
    assert "secret" not in str(error)


def test_a_damaged_artefact_is_made_again(world: World) -> None:
    made = world.make(CompileList(None, ("the", "cat")))
    path = world.store.path_of(made.digest)
    path.write_bytes(path.read_bytes()[:-9])
    again = world.make(CompileList(None, ("the", "cat")))
    assert (again.was_stored, again.digest) == (False, made.digest)
