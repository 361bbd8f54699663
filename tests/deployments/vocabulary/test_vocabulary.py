"""What a vocabulary is resolved to, and which lists are refused."""

import os
import shutil
from pathlib import Path

import pytest

from deployments.contract import ResolvedVocabulary, VocabularySpec
from tests.deployments.vocabulary.world import MAX_BYTES, Lists, numbers, own, spec
from vocab.artefacts.store import ArtefactStore
from vocab.automaton import frame, trie_builder
from vocab.compiler.jobs import ChangeList, CompileList
from vocab.errors import (
    ArtefactError,
    ChangesTooLargeError,
    EmptyWordListError,
    InvalidWordListError,
    ListTooLargeError,
    UnknownLanguageError,
    UnknownLevelError,
    WordListFolderError,
)
from vocab.options import DEFAULT_OPTIONS


async def test_resolves_a_list_to_an_artefact_that_can_be_fetched(world: Lists, tmp_path: Path) -> None:
    world.write("pets", "the", "cat", "dog")
    vocabulary = await world.vocabulary()
    resolved = await vocabulary.resolve(spec("pets", 100))
    assert resolved == ResolvedVocabulary(
        digest=resolved.digest, options=DEFAULT_OPTIONS, lang="pets", source="file", n_words=3, fewest_tokens=1
    )
    elsewhere = ArtefactStore(tmp_path / "elsewhere", MAX_BYTES)
    elsewhere.write_bytes(resolved.digest, await vocabulary.fetch(resolved.digest))
    assert elsewhere.load(resolved.digest).listed.word_list.words == ("the", "cat", "dog")
    with pytest.raises(ArtefactError):
        await vocabulary.fetch("0" * 64)


async def test_a_vocabulary_names_the_source_of_its_words(world: Lists) -> None:
    (world.lists / "en_grade.csv").write_text("word,level\nthe,1\ncat,2\n")
    vocabulary = await world.vocabulary()
    asked = [spec("pl"), own("the", "cat"), VocabularySpec(lang="en", level="grade-2")]
    assert [(await vocabulary.resolve(one)).source for one in asked] == ["cleaned", "inline", "file"]


async def test_a_language_tag_is_resolved_to_its_list_which_the_answer_names(world: Lists) -> None:
    world.write("nb", "the", "cat")
    world.write("en-US", "the", "dog")
    world.write("sh", "the", "bird")
    vocabulary = await world.vocabulary(prebuild_langs="no-NO,EN-us")
    num_built = world.num_jobs
    for tags, lang in (("nb NO no-NO nb-Latn", "nb"), ("en-US en-us", "en-US"), ("sh sr-Latn hr-HR", "sh")):
        found = [await vocabulary.resolve(spec(tag)) for tag in tags.split()]
        assert {(one.lang, one.source) for one in found} == {(lang, "file")}
        assert len(set(found)) == 1
    band = await vocabulary.resolve(VocabularySpec(lang="SR", level="top-500", end="word"))
    assert (band.lang, band.n_words) == ("sh", 2)
    # One more list, Serbo-Croatian; the words of a request keep the language that it names.
    assert world.num_jobs == num_built + 1
    assert (await vocabulary.resolve(own("the", "cat", lang="hr"))).lang == "hr"
    for tag, says in (("sr-Cyrl", "write 'sr'"), ("en_US", "write 'en-US'"), ("nb-terms", "bring nb-terms.txt")):
        refusal = await vocabulary.resolve_or_refuse(spec(tag))
        assert isinstance(refusal, UnknownLanguageError) and says in str(refusal)


@pytest.mark.fault(76)
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


async def test_safety_is_asked_of_the_list(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    safe, whole = [world.words(await vocabulary.resolve(spec("es", safe=is_safe))) for is_safe in (True, False)]
    # A file may be replaced, so all of it is read at once; of a built-in list its beginning is enough.
    assert [job.is_whole for job in world.compiler.jobs if isinstance(job, CompileList)] == [False, False]
    assert {*whole} - {*safe}


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
    assert [one.n_words for one in numbered] == [1, 2, 3, 3, 3]
    assert [world.allows(one, "the dog") for one in numbered] == [False, False, True, True, True]
    assert len({one.digest for one in resolved + numbered}) == world.num_jobs == 1
    assert await numbers(vocabulary) == (1, 0)
    digests = {(await vocabulary.resolve(own("the", "cat", **fields))).digest for fields in [{}, {"lang": "fr"}] * 2}
    assert (len(digests), world.num_jobs) == (2, 3)


async def test_changes_leave_the_list_itself_as_it_is_and_are_compiled_alone(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    plain = await vocabulary.resolve(own("the", "cat"))
    assert plain.changes_digest is None
    assert await vocabulary.resolve(own("the", "cat", exclude_words=["bird"])) == plain
    less = await vocabulary.resolve(own("the", "cat", exclude_words=["Cat"]))
    more = await vocabulary.resolve(own("the", "cat", extra_words=["Ann", "bo"], case="any", numbers=True))
    for changed, texts in (
        (less, {"the": True, "the cat": False}),
        (more, {"the Cat": True, "the Ann 3": True, "Bo the cat": True, "the Bo": False, "the ann": False}),
    ):
        assert (changed.digest, changed.n_words) == (plain.digest, 2)
        assert {text: world.allows(changed, text) for text in texts} == texts
    assert more.changes_digest is not None
    changes = ArtefactStore(world.artefacts, MAX_BYTES).load_overlay(more.changes_digest).changes
    assert (changes.extra_words, changes.exclude_words) == (("Ann", "bo"), ())
    # Other options and numbers of the list have the same changes.
    again = await vocabulary.resolve(own("the", "cat", n_words=1, numbers=True, exclude_words=["Cat"]))
    assert again.digests == less.digests
    assert [type(job) for job in world.compiler.jobs] == [CompileList, *[ChangeList] * 3]


async def test_the_fewest_tokens_are_those_of_list_and_additions_together(world: Lists) -> None:
    vocabulary = await world.vocabulary()
    for asked, fewest_tokens in (
        (own("mouse", "the", end="sentence"), 2),
        (own("mouse", "the", n_words=1), 5),
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


@pytest.mark.fault(26)
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


HOSTILE_NAMES = ["../pets", "/etc/passwd", "a\0b", "CON", "p" * 10_240, "%2e%2e", "рets", "Pets", "pets.txt", ".", " "]


@pytest.mark.fault(25)
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


@pytest.mark.fault(57)
async def test_a_refusal_of_a_clients_list_is_remembered(world: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = await world.vocabulary()
    monkeypatch.setattr(trie_builder, "MAX_OWN_WORK", 100)
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


@pytest.mark.fault(26)
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
