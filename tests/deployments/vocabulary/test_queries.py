"""Lists and texts are told about by threads, so many at once, and each list is read once."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from deployments.contract import VocabularySpec
from deployments.errors import OverloadedError
from deployments.settings.limits import Limits
from deployments.vocabulary import queries as queries_module
from deployments.vocabulary.queries import AskCheck, AskVocabularies, AskWords, ListQueries
from vocab.errors import InvalidWordListError, OptionsError, UnknownLanguageError, WordListError
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions


def spec(lang: str | None = "en_school", **members: Any) -> VocabularySpec:
    return VocabularySpec(lang=lang, **members)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "en_school.txt").write_text("the\ncat\nsat\nconcatenate\nCatherine\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def lists(folder: Path) -> ListQueries:
    return ListQueries(folder, Limits())


async def summary(lists: ListQueries, question: queries_module.Question) -> Any:
    return json.loads(await lists.answer(question))


async def words(lists: ListQueries, name: str = "en_school", offset: int = 0, limit: int = 100, query: str = "") -> Any:
    return await summary(lists, AskWords(name, offset, limit, query))


async def test_all_lists_are_named_with_where_they_come_from(lists: ListQueries) -> None:
    by_id = {one["id"]: one for one in (await summary(lists, AskVocabularies()))["data"]}
    assert "A1" not in by_id and by_id["top-500"]["languages"] == []
    assert by_id["en_school"] == {
        "id": "en_school",
        "object": "vocabulary",
        "kind": "file",
        "source": "file",
        "languages": ["en"],
        "readings": False,
    }
    assert (by_id["es"]["kind"], by_id["es"]["source"]) == ("language", "cleaned")
    assert (by_id["he"]["kind"], by_id["he"]["source"]) == ("language", "wordfreq")


async def test_words_are_told_a_page_at_a_time(lists: ListQueries) -> None:
    first = await words(lists, limit=2)
    assert [(word["rank"], word["word"]) for word in first["data"]] == [(1, "the"), (2, "cat")]
    assert (first["id"], first["total"], first["has_more"]) == ("en_school", 5, True)
    last = await words(lists, offset=3, limit=2)
    assert [(word["rank"], word["word"]) for word in last["data"]] == [(4, "concatenate"), (5, "Catherine")]
    assert last["has_more"] is False
    assert last["data"][0]["lemma"] == "concatenate"
    assert (await words(lists, offset=9))["data"] == []


async def test_words_are_looked_for_by_their_beginning_first(lists: ListQueries) -> None:
    found = await words(lists, query="CAT")
    assert [(word["rank"], word["word"]) for word in found["data"]] == [
        (2, "cat"),
        (5, "Catherine"),
        (4, "concatenate"),
    ]
    assert found["total"] == 3
    assert (await words(lists, query="xyz"))["total"] == 0


async def test_a_text_is_checked_against_a_file_that_may_be_replaced(lists: ListQueries, folder: Path) -> None:
    asked = AskCheck(spec(n_words=2), "The cat sat.", "json")
    report = await summary(lists, asked)
    assert [word["word"] for word in report["not_allowed"]] == ["sat"]
    (folder / "en_school.txt").write_text("sat\n", encoding="utf-8")
    report = await summary(lists, asked)
    assert [word["word"] for word in report["not_allowed"]] == ["The", "cat"]


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        (spec("en", n_words=1000), ["xyzzy"]),
        (spec("es", n_words=500, unit="lemma"), ["The", "xyzzy"]),
        (spec(None, words=("xyzzy",)), ["The"]),
        (spec("en", words=("the",), extra_words=("Xyzzy", "xyzzy")), []),
        (spec("en_school", exclude_words=("the",)), ["The", "xyzzy"]),
    ],
)
async def test_every_vocabulary_of_a_request_can_be_checked_against(
    lists: ListQueries, asked: VocabularySpec, missing: list[str]
) -> None:
    report = await summary(lists, AskCheck(asked, "The xyzzy", "json"))
    assert [word["word"] for word in report["not_allowed"]] == missing
    assert report == await summary(lists, AskCheck(asked, "The xyzzy", "json"))


async def test_a_level_of_a_file_is_a_list(lists: ListQueries, folder: Path) -> None:
    (folder / "en_cefr-j.csv").write_text("word,level,forms\nthe,A1,\nsit,A2,sat\n", encoding="utf-8")
    report = await summary(lists, AskCheck(spec("en", level="A1"), "The sat", "json"))
    assert [word["word"] for word in report["not_allowed"]] == ["sat"]
    report = await summary(lists, AskCheck(spec("en", level="A2"), "The sat", "json"))
    assert report["coverage"] == 1
    by_id = {one["id"]: one for one in (await summary(lists, AskVocabularies()))["data"]}
    assert by_id["A2"]["languages"] == ["en"]


async def test_new_words_are_counted_apart(lists: ListQueries) -> None:
    report = await summary(lists, AskCheck(spec(), "The zebra sat", "json", ("zebra",)))
    assert (report["num_new"], report["has_exactly_the_new_words"]) == (1, True)


async def test_what_cannot_be_told_is_an_error(lists: ListQueries, folder: Path) -> None:
    (folder / "broken.txt").write_bytes(b"\xff")
    for question, error in (
        (AskWords("nothing", 0, 1, ""), UnknownLanguageError),
        (AskWords("../en_school", 0, 1, ""), UnknownLanguageError),
        (AskWords("broken", 0, 1, ""), InvalidWordListError),
        (AskCheck(spec("km"), "a", "json"), WordListError),
        (AskCheck(spec(extra_words=("a",), exclude_words=("a",)), "a", "json"), OptionsError),
    ):
        assert isinstance(await lists.answer_or_refuse(question, "alice"), error)


async def test_so_many_wait_and_more_of_the_key_with_the_most_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries_module, "MAX_WAITING", 3)
    lists, may_go_on = ListQueries(folder, Limits()), threading.Event()
    monkeypatch.setattr(lists, "_answer", lambda question, owner: may_go_on.wait() and owner.encode())

    def asked(owner: str) -> asyncio.Task[bytes]:
        return asyncio.create_task(lists.answer(AskVocabularies(), owner))

    # One of each key has a thread, and three wait.
    louds, other = [asked("loud") for _ in range(4)], asked("other")
    await asyncio.sleep(0)
    refused = await lists.answer_or_refuse(AskVocabularies(), "loud")
    assert isinstance(refused, OverloadedError)
    third = asked("third")
    await asyncio.sleep(0.01)
    assert isinstance(louds[-1].exception(), OverloadedError)
    # Work that has begun counts until it has ended, also where nobody waits for it.
    louds[0].cancel()
    await asyncio.sleep(0.05)
    assert lists._semaphore.num_taken == queries_module.THREADS
    may_go_on.set()
    done = await asyncio.gather(*louds[1:3], other, third)
    assert done == [b"loud", b"loud", b"other", b"third"]
    assert (lists._semaphore.num_taken, lists._semaphore.num_waiting) == (0, 0)


async def test_a_list_is_read_once_for_all_who_ask_meanwhile(
    lists: ListQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = list[str](), load_word_list
    may_go_on = threading.Event()

    def slow(lang: str, *args: Any, **options: Any) -> Any:
        reads.append(lang)
        assert may_go_on.wait(9)
        return read(lang, *args, **options)

    monkeypatch.setattr(queries_module, "load_word_list", slow)
    asked = [asyncio.create_task(lists.answer(AskWords("en_school", 0, 1, ""), owner)) for owner in ("loud", "other")]
    await asyncio.sleep(0.05)
    assert lists._semaphore.num_taken == 2
    may_go_on.set()
    assert len(set(await asyncio.gather(*asked))) == 1
    assert reads == ["en_school"]


async def test_who_looks_through_many_lists_loses_its_own_and_not_anothers(
    lists: ListQueries, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"en_{number}" for number in range(4)]
    for name in names:
        (folder / f"{name}.txt").write_text("the\ncat\nsat\n", encoding="utf-8")
    size = queries_module._CachedList(load_word_list(names[0], folder), ListOptions()).num_bytes
    lists._cache = queries_module._Cache(3 * size)
    reads, read = list[str](), load_word_list

    def noted(lang: str, *args: Any, **options: Any) -> Any:
        reads.append(lang)
        return read(lang, *args, **options)

    monkeypatch.setattr(queries_module, "load_word_list", noted)
    await lists.answer(AskWords("en_school", 0, 1, ""), "other")
    for name in names * 2:
        await lists.answer(AskWords(name, 0, 1, ""), "loud")
    await lists.answer(AskWords("en_school", 0, 1, ""), "other")
    assert reads == ["en_school", *names * 2]
    assert sum(one.result().num_bytes for _, one in lists._cache._lists.values()) <= 3 * size


async def test_a_list_that_is_too_long_to_be_cached_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries_module, "MAX_CACHED_BYTES", 100)
    lists = ListQueries(folder, Limits())
    assert (await words(lists))["total"] == (await words(lists))["total"] == 5
    assert not len(lists._cache)
