"""What one key does at its loudest, beside another key's requests."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from tests.e2e.service import KEYS, MODEL, Service
from vocab.lists.wordlists import load_word_list

pytestmark = pytest.mark.e2e

VOCAB = {"lang": "en", "n_words": 1000}
LANGUAGES = ("ca", "da", "id", "is", "lv", "ms", "sl", "sv", "vi", "ro", "nb", "he")


def client_of(service: Service, owner: str) -> httpx2.Client:
    return httpx2.Client(base_url=service.url, headers={"X-API-Key": KEYS[owner]}, timeout=60)


@pytest.fixture
def other(service: Service) -> Iterator[httpx2.Client]:
    with client_of(service, "other") as client:
        yield client


@contextmanager
def loud(
    service: Service, num_connections: int, ask: Callable[[httpx2.Client, threading.Event], None]
) -> Iterator[None]:
    """Asks on so many connections of the loud key again and again, meanwhile."""
    may_end = threading.Event()

    def repeat() -> None:
        with client_of(service, "loud") as client:
            while not may_end.is_set():
                ask(client, may_end)

    with ThreadPoolExecutor(num_connections) as pool:
        asking = [pool.submit(repeat) for _ in range(num_connections)]
        try:
            yield
        finally:
            may_end.set()
    for one in asking:
        one.result()


def first_token(client: httpx2.Client) -> tuple[int, float]:
    """The status of a chat, and after how many seconds its first words came."""
    messages = [{"role": "user", "content": "Hello"}]
    body = {"model": MODEL, "messages": messages, "vocab": VOCAB, "max_tokens": 8, "stream": True}
    start = time.monotonic()
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith('data: {"') and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                break
        return answer.status_code, time.monotonic() - start


def test_two_long_texts_of_one_key_leave_room_for_anothers_chats(service: Service, other: httpx2.Client) -> None:
    assert first_token(other)[0] == 200
    words = itertools.cycle(load_word_list("en", None).words[1000:6000])
    # Its first sentence is listed, so that it begins at once.
    text = "The dog is good. "
    while len(text) < 19_850:
        text += " ".join(itertools.islice(words, 6)).capitalize() + ". "
    has_begun = threading.Semaphore(0)

    def rewrite(client: httpx2.Client, may_end: threading.Event) -> None:
        body = {"vocab": VOCAB, "text": text, "stream": True}
        with client.stream("POST", "/v1/vocabularies/rewrite", json=body) as answer:
            assert answer.status_code == 200, answer.read()
            next(answer.iter_lines())
            has_begun.release()
            # It goes on without a reader, until this client leaves.
            may_end.wait(60)

    with loud(service, 2, rewrite):
        for _ in range(2):
            assert has_begun.acquire(timeout=60)
        answers = [first_token(other) for _ in range(4)]
    print("chats beside two rewrites:", answers)
    assert [status for status, _ in answers] == [200] * 4


def test_a_check_waits_for_no_more_than_a_turn_of_a_key_that_looks_through_many_lists(
    service: Service, other: httpx2.Client
) -> None:
    body = {"text": "The dog is a friend.", "vocab": VOCAB}
    assert other.post("/v1/vocabularies/check", json=body).status_code == 200
    turns, num_answered, statuses = itertools.cycle(LANGUAGES), itertools.count(), set[int]()
    num_done = 0

    def look(client: httpx2.Client, _: threading.Event) -> None:
        nonlocal num_done
        statuses.add(client.get(f"/v1/vocabularies/{next(turns)}/words?q=a&limit=1000").status_code)
        num_done = next(num_answered)

    with loud(service, 6, look):
        while num_done < 6:
            time.sleep(0.05)
        meanwhile: list[tuple[int, float]] = []
        for _ in range(6):
            before, start = num_done, time.monotonic()
            assert other.post("/v1/vocabularies/check", json=body).status_code == 200
            meanwhile.append((num_done - before, time.monotonic() - start))
    print("checks beside six that look through lists:", meanwhile)
    assert statuses == {200}
    # They waited for six, two at a time.
    assert max(number for number, _ in meanwhile) <= 3


def test_eight_checks_of_a_key_at_once_wait_for_their_turn(service: Service, other: httpx2.Client) -> None:
    body: dict[str, Any] = {"text": "Der Hund ist ein Freund. " * 2000, "vocab": {"lang": "de", "n_words": 3000}}
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(other.post, "/v1/vocabularies/check", json=body) for _ in range(40)]
        assert {one.result().status_code for one in asked} == {200}
