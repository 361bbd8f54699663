"""Exercises from a text on the real stack: every string is in the list, and every key follows from the text."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.checker import unlisted_words
from tests.e2e.service import KEY, Service

pytestmark = pytest.mark.e2e

EN = {"lang": "en", "n_words": 1000}
STORY = (
    "Anna had a small house in the country. Every day she went to work with her dog. One day the dog found some "
    "money on the road. They took the money to the police. His walrus was euphoric. In the summer they went to a big "
    "city. There they met an old friend from school. He told them a story about a war. At night they read "
    "a book."
)
ALL = {"text": STORY, "vocab": EN, "num_items": 3, "seed": 4}


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=service.url, headers={"X-API-Key": KEY}, timeout=300) as client:
        yield client


@pytest.fixture(scope="module")
def made(http: httpx2.Client) -> dict[str, Any]:
    """One answer for all tests: it takes some seconds."""
    answer = http.post("/v1/vocabularies/exercises", json=ALL)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def strings(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, str) and name != "kind":
        yield value
    elif isinstance(value, dict):
        for member, part in value.items():
            yield from strings(part, member)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part, name)


def test_every_string_is_in_the_list(made: dict[str, Any]) -> None:
    assert made["names"] == ["Anna"]
    assert (made["num_sentences"], made["num_unlisted_sentences"]) == (9, 1)
    found = list(strings(made["exercises"]))
    assert len(found) > 30
    for one in found:
        assert unlisted_words(one, "en", 1000, extra_words=["Anna"]) == [], one


def test_every_key_follows_from_the_text(made: dict[str, Any]) -> None:
    exercises = {exercise["kind"]: exercise for exercise in made["exercises"]}
    # What the model writes may be too little; what the text has is there.
    assert exercises.keys() >= {"true_false", "gap_fill", "order", "dictation"}
    for exercise in exercises.values():
        assert 1 <= len(exercise["items"]) <= 3
        starts = [item["source"]["start"] for item in exercise["items"]]
        assert starts == sorted(starts)
        for item in exercise["items"]:
            source = STORY[item["source"]["start"] : item["source"]["end"]]
            if "options" in item:
                assert item["options"][item["answer"]] == source
                assert len({*item["options"]}) == len(item["options"])
            if "before" in item:
                assert f"{item['before']}{source}{item['after']}" in STORY
            if "statement" in item:
                assert (item["statement"] in STORY) == item["answer"]
            if "question" in item:
                assert item["question"].endswith("?") and source not in item["question"]
            if "gloss" in item:
                assert item["word"] == source and source not in item["gloss"].split()
            if "sentence" in item:
                assert item["sentence"] == source
    assert exercises["order"]["shown"] != sorted(exercises["order"]["shown"])
    for fewer in made["left_out"]:
        assert fewer["num_items"] < 3 and fewer["reason"]


def test_a_stream_has_the_exercises_one_by_one(http: httpx2.Client, made: dict[str, Any]) -> None:
    kinds = ["dictation", "gap_fill"]
    body = {**ALL, "kinds": kinds, "stream": True}
    with http.stream("POST", "/v1/vocabularies/exercises", json=body) as answer:
        *events, done = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    *parts, whole = map(json.loads, events)
    assert done == "[DONE]"
    assert [part["exercise"]["kind"] for part in parts] == kinds
    assert [part["exercise"] for part in parts] == whole["exercises"]
    assert whole["object"] == "vocabulary.exercises" and whole["usage"]["total_tokens"] > 0


def test_what_was_made_is_printed(http: httpx2.Client, made: dict[str, Any]) -> None:
    for form in ("txt", "docx", "gift", "qti", "tsv"):
        body = {"format": form, "exercises": made["exercises"], "lang": made["lang"], "text": STORY, "title": "Anna"}
        answer = http.post("/v1/documents/worksheet", json=body)
        assert answer.status_code == 200, answer.text
        assert len(answer.content) > 100


def test_a_text_without_a_listed_sentence_is_refused(http: httpx2.Client) -> None:
    answer = http.post("/v1/vocabularies/exercises", json={**ALL, "text": "The walrus was euphoric. Oh no!"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "text" and "rewrite it" in error["message"]
