"""The promise in languages written without spaces, on the real stack: each answer is read again as a string."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx2
import pytest

from tests.e2e.service import KEY, MODEL, Service
from tests.e2e.test_batches import read, start, wait
from tests.e2e.unspaced_answers import CONTROLS, LANGUAGES, OWN_WORDS, Question, question_of, words_of

pytestmark = pytest.mark.e2e

NUM_WORDS: Final = (100, 1000, 10_000, None)
NAMES: Final = (*CONTROLS, "changed", "changed", "wanted", "json")


def post(service: Service, path: str, body: dict[str, Any]) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {KEY}"}
    answer = httpx2.post(f"{service.url}{path}", json=body, headers=headers, timeout=120)
    assert answer.status_code == 200, (body, answer.text)
    return answer


def ask(service: Service, question: Question) -> list[tuple[str, str]]:
    """The texts of an answer, each with why it ended."""
    body = {"model": MODEL, **question.body}
    answer = post(service, "/v1/chat/completions", body)
    if not body["stream"]:
        return [(choice["message"]["content"], choice["finish_reason"]) for choice in answer.json()["choices"]]
    texts, reasons = [""] * body.get("n", 1), [""] * body.get("n", 1)
    for line in answer.text.splitlines():
        if not line.startswith("data: {"):
            continue
        chunk: dict[str, Any] = json.loads(line.removeprefix("data: "))
        assert "error" not in chunk, (question, chunk)
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
            reasons[choice["index"]] = choice["finish_reason"] or reasons[choice["index"]]
    return list(zip(texts, reasons, strict=True))


@pytest.mark.fault(69)
@pytest.mark.parametrize(
    # Traditional Chinese is cut as simplified, by another list; lines of a batch have it.
    "language",
    [pytest.param(name, marks=pytest.mark.stress if name == "zh-Hant" else ()) for name in LANGUAGES],
)
def test_every_answer_is_whole_words_of_the_list(service: Service, language: str) -> None:
    asked = [
        question_of(language, NUM_WORDS[(number + len(language)) % len(NUM_WORDS)], name, number)
        for number, name in enumerate(NAMES)
    ]

    def faults(question: Question) -> list[tuple[Question, str, str]]:
        return [
            (question, text, fault)
            for text, reason in ask(service, question)
            for fault in question.faults(text, reason)
        ]

    with ThreadPoolExecutor(16) as pool:
        assert [one for found in pool.map(faults, filter(None, asked)) for one in found] == []


def test_the_lines_of_a_batch_keep_to_their_lists(service: Service) -> None:
    asked = {
        f"{language} {name}": question
        for language in LANGUAGES
        for name in ("plain", "any", "changed")
        if (question := question_of(language, 300, name, 1)) is not None
    }
    lines = [
        {
            "custom_id": name,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": MODEL, **question.body, "stream": False},
        }
        for name, question in asked.items()
    ]
    batch = wait(service, start(service, "\n".join(map(json.dumps, lines)).encode()).id)
    answers = read(service, batch.output_file_id)
    assert {answer["custom_id"] for answer in answers} == set(asked)
    for answer in answers:
        [choice] = answer["response"]["body"]["choices"]
        question = asked[answer["custom_id"]]
        assert not list(question.faults(choice["message"]["content"], choice["finish_reason"])), answer


@pytest.mark.parametrize("language", ["zh", "zh-Hant", "ja"])
def test_the_likeliest_next_words_are_listed(service: Service, language: str) -> None:
    for n_words in (300, None):
        own = {"words": list(OWN_WORDS[language])} if n_words is None else {"n_words": n_words}
        body = {"text": OWN_WORDS[language][0], "vocab": {"lang": language, **own}, "top": 5}
        found = [one["word"] for one in post(service, "/v1/vocabularies/next", body).json()["data"]]
        assert found and set(found) <= set(OWN_WORDS[language] if n_words is None else words_of(language)[:n_words])
