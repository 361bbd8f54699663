import asyncio
import pickle
from pathlib import Path

from tests.deployments.vocabulary.world import MAX_BYTES, SMALL, Lists, numbers, own, spec
from vocab.artefacts.store import ArtefactStore
from vocab.compiler.jobs import ChangeList, CompileList
from vocab.errors import (
    CompileError,
    CompileQueueError,
    UnknownLanguageError,
)


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


async def test_the_first_words_of_a_long_list_are_a_small_artefact(world: Lists, long_list: tuple[str, ...]) -> None:
    vocabulary = await world.vocabulary()
    small = [await vocabulary.resolve(spec("es", n_words)) for n_words in (1, SMALL)]
    assert {world.words(one) for one in small} == {long_list[:SMALL]}
    assert world.num_jobs == 1
    whole = [await vocabulary.resolve(spec("es", n_words)) for n_words in (SMALL + 1, None, 2**62)]
    assert {world.words(one) for one in whole} == {long_list}
    assert [one.n_words for one in whole] == [SMALL + 1, len(long_list), len(long_list)]
    assert world.num_jobs == 2
    # Each is changed by itself.
    changed = await vocabulary.resolve(spec("es", 3, exclude_words=["cat"], extra_words=["fish"]))
    assert changed.digest == small[0].digest
    texts = {"the dog": True, "the fish": True, "the cat": False, "the bird": False}
    assert {text: world.allows(changed, text) for text in texts} == texts
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
