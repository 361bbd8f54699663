"""Lists and texts are told about by threads, so many at once, and each list is read once; what they are told is tested
over HTTP."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from deployments.errors import OverloadedError
from deployments.settings.limits import Limits
from deployments.vocabulary import queries as queries_module
from deployments.vocabulary.queries import AskVocabularies, AskWords, ListQueries
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "en_school.txt").write_text("the\ncat\nsat\nconcatenate\nCatherine\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def lists(folder: Path) -> ListQueries:
    return ListQueries(folder, Limits())


async def ask_words(lists: ListQueries, name: str = "en_school", owner: str = "other") -> Any:
    return json.loads(await lists.answer(AskWords(name, 0, 1, ""), owner))


async def test_so_many_wait_and_more_of_the_key_with_the_most_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries_module, "MAX_WAITING", 3)
    lists, may_go_on = ListQueries(folder, Limits()), threading.Event()
    monkeypatch.setattr(lists, "_answer", lambda question: may_go_on.wait() and question.name.encode())

    def asked(owner: str) -> asyncio.Task[bytes]:
        return asyncio.create_task(lists.answer(AskWords(owner, 0, 1, ""), owner))

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


class Reads:
    """The names of the lists that are read, which takes until it ``may_go_on``."""

    def __init__(self) -> None:
        self.names = list[str]()
        self.may_go_on = threading.Event()

    def load_word_list(self, lang: str, *args: Any, **options: Any) -> Any:
        self.names.append(lang)
        assert self.may_go_on.wait(9)
        return load_word_list(lang, *args, **options)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    reads = Reads()
    monkeypatch.setattr(queries_module, "load_word_list", reads.load_word_list)
    return reads


async def test_a_list_is_read_once_for_all_who_ask_meanwhile(lists: ListQueries, reads: Reads) -> None:
    asked = [asyncio.create_task(ask_words(lists, owner=owner)) for owner in ("loud", "other")]
    await asyncio.sleep(0.05)
    assert lists._semaphore.num_taken == 2
    reads.may_go_on.set()
    one, other = await asyncio.gather(*asked)
    assert one == other
    assert reads.names == ["en_school"]


async def test_the_list_that_was_used_longest_ago_goes_and_one_that_is_too_long_is_read_each_time(
    folder: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads.may_go_on.set()
    names = [f"en_{number}" for number in range(4)]
    for name in names:
        (folder / f"{name}.txt").write_text("the\ncat\nsat\n", encoding="utf-8")
    size = queries_module._num_bytes(queries_module._CachedList(load_word_list(names[0], folder), ListOptions()))
    monkeypatch.setattr(queries_module, "MAX_CACHED_BYTES", 3 * size)
    lists = ListQueries(folder, Limits())
    for number in (0, 1, 2, 0, 3, 0, 1):
        await ask_words(lists, names[number])
    assert reads.names == [names[number] for number in (0, 1, 2, 3, 1)]
    monkeypatch.setattr(queries_module, "MAX_CACHED_BYTES", 100)
    lists = ListQueries(folder, Limits())
    assert (await ask_words(lists))["total"] == (await ask_words(lists))["total"] == 5
    assert reads.names[-2:] == ["en_school"] * 2
