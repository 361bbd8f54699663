import asyncio
import os
import threading
from pathlib import Path

import pytest

from deployments.contract import VocabularySpec
from deployments.settings import Settings
from deployments.vocabulary import Vocabulary
from tests.vocab.toys import toy_tokenizer
from vocab.artefact import ArtefactFolder
from vocab.automaton import TokenAutomaton, compile_automaton
from vocab.errors import ArtefactError, CompileError, EmptyWordListError, InvalidWordListError, UnknownLanguageError
from vocab.options import ListOptions
from vocab.tokenizer import TokenizerFacts
from vocab.wordlists import WordList


class Compiler:
    """Compiles, counts, and waits where a test wants to look at those who wait with it."""

    def __init__(self) -> None:
        self.langs: list[str] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.fault: Exception | None = None

    def __call__(self, word_list: WordList, options: ListOptions, tokenizer: TokenizerFacts) -> TokenAutomaton:
        self.langs.append(word_list.lang)
        assert self.may_go_on.wait(10)
        if self.fault is not None:
            raise self.fault
        return compile_automaton(word_list, options, tokenizer)


class World:
    """List files, an artefact folder, and vocabularies over them."""

    def __init__(self, folder: Path) -> None:
        self.lists = folder / "lists"
        self.lists.mkdir()
        self.artefacts = folder / "artefacts"
        self.compiler = Compiler()

    def write(self, name: str, *words: str, age_s: int = 0) -> None:
        path = self.lists / f"{name}.txt"
        path.write_text("\n".join(words))
        os.utime(path, ns=(10**18 - age_s * 10**9,) * 2)

    async def vocabulary(self, **args: object) -> Vocabulary:
        settings = Settings.load(
            {"secret_token": "k", "wordlist_dir": str(self.lists), "artefact_dir": str(self.artefacts), **args}, {}
        )
        made = Vocabulary.__new__(Vocabulary)
        await made.__init__(settings, facts=toy_tokenizer(["the", "cat"]), compiler=self.compiler)  # type: ignore[misc]
        return made


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def spec(lang: str, n_words: int = 3) -> VocabularySpec:
    return VocabularySpec(lang=lang, n_words=n_words)


async def test_resolves_a_list_to_an_artefact_that_can_be_fetched(world: World, tmp_path: Path) -> None:
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    resolved = await vocabulary.resolve(spec("pets", 100))
    assert (resolved.lang, resolved.n_words, resolved.fewest_tokens) == ("pets", 100, 1)
    elsewhere = ArtefactFolder(tmp_path / "elsewhere")
    elsewhere.write_bytes(resolved.digest, await vocabulary.fetch(resolved.digest))
    assert elsewhere.load(resolved.digest).word_list.words == ("the", "cat", "dog")


async def test_those_who_want_the_same_list_wait_for_one_compile(world: World) -> None:
    world.write("pets", "the", "cat")
    world.compiler.may_go_on.clear()
    vocabulary = await world.vocabulary()
    waiting = [asyncio.create_task(vocabulary.resolve(spec("pets", n))) for n in range(1, 9)]
    await asyncio.sleep(0.2)
    waiting[0].cancel()
    world.compiler.may_go_on.set()
    resolved = await asyncio.gather(*waiting[1:])
    assert len({one.digest for one in resolved}) == 1
    assert world.compiler.langs == ["pets"]
    assert await vocabulary.stats() == {"num_compiles": 1, "num_cached": 1}


async def test_an_artefact_on_disk_is_not_compiled_again(world: World) -> None:
    world.write("pets", "the", "cat")
    first = await (await world.vocabulary()).resolve(spec("pets"))
    again = await (await world.vocabulary()).resolve(spec("pets"))
    assert first == again
    assert world.compiler.langs == ["pets"]


async def test_an_artefact_that_was_deleted_or_damaged_is_made_again(world: World) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    digest = (await vocabulary.resolve(spec("pets"))).digest
    path = ArtefactFolder(world.artefacts).path_of(digest)
    path.unlink()
    assert (await vocabulary.resolve(spec("pets"))).digest == digest
    path.write_bytes(b"nonsense")
    assert (await (await world.vocabulary()).resolve(spec("pets"))).digest == digest
    assert len(world.compiler.langs) == 3


async def test_a_changed_list_file_is_read_again(world: World) -> None:
    world.write("pets", "the", "cat", age_s=60)
    vocabulary = await world.vocabulary()
    old = await vocabulary.resolve(spec("pets"))
    world.write("pets", "the", "dog")
    new = await vocabulary.resolve(spec("pets"))
    assert new.digest != old.digest
    assert (await vocabulary.stats())["num_cached"] == 1


async def test_a_failed_compile_fails_its_callers_alone_and_is_not_remembered(world: World) -> None:
    world.write("pets", "the", "cat")
    vocabulary = await world.vocabulary()
    world.compiler.fault = CompileError("too many readings")
    with pytest.raises(CompileError):
        await vocabulary.resolve(spec("pets"))
    world.compiler.fault = None
    assert (await vocabulary.resolve(spec("pets"))).lang == "pets"


async def test_a_list_that_cannot_be_used_is_refused(world: World) -> None:
    vocabulary = await world.vocabulary()
    with pytest.raises(UnknownLanguageError):
        await vocabulary.resolve(spec("../pets"))
    world.write("empty", "# nothing")
    with pytest.raises(EmptyWordListError):
        await vocabulary.resolve(spec("empty"))
    world.write("bad", "the", "c\0t")
    with pytest.raises(InvalidWordListError, match="line 2"):
        await vocabulary.resolve(spec("bad"))


async def test_a_refusal_can_be_had_as_a_value(world: World) -> None:
    vocabulary = await world.vocabulary()
    assert isinstance(await vocabulary.resolve_or_refuse(spec("nowhere")), UnknownLanguageError)
    world.write("pets", "the", "cat")
    assert (await vocabulary.resolve_or_refuse(spec("pets"))) == await vocabulary.resolve(spec("pets"))


async def test_lists_are_built_before_the_service_is_ready(world: World) -> None:
    world.write("pets", "the", "cat")
    await world.vocabulary(prebuild_langs=["pets"])
    assert world.compiler.langs == ["pets"]


async def test_an_unknown_list_to_prebuild_stops_the_start(world: World) -> None:
    with pytest.raises(UnknownLanguageError, match="nowhere"):
        await world.vocabulary(prebuild_langs=["nowhere"])


async def test_the_cache_is_bounded(world: World) -> None:
    for name in "abcd":
        world.write(name, "the", f"{name}x")
    vocabulary = await world.vocabulary(max_cached_vocabularies=2)
    for name in "abcdab":
        await vocabulary.resolve(spec(name))
    assert (await vocabulary.stats()) == {"num_compiles": 4, "num_cached": 2}


async def test_an_artefact_that_never_was_cannot_be_fetched(world: World) -> None:
    with pytest.raises(ArtefactError):
        await (await world.vocabulary()).fetch("0" * 64)
