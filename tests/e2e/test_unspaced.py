"""The promise in languages written without spaces, on the real stack: each answer is read again as a string."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pytest

from tests.e2e.service import KEY, MODEL, Service
from tests.e2e.unspaced_answers import CONTROLS, LANGUAGES, Question, question_of

pytestmark = pytest.mark.e2e

NUM_WORDS: Final = (100, 1000, 10_000, None)


def ask(service: Service, question: Question) -> list[tuple[str, str]]:
    """The texts of an answer, each with why it ended."""
    headers = {"Authorization": f"Bearer {KEY}"}
    body = {"model": MODEL, **question.body}
    answer = httpx.post(f"{service.url}/v1/chat/completions", json=body, headers=headers, timeout=120)
    assert answer.status_code == 200, (question, answer.text)
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


def faults_of(service: Service, questions: list[Question]) -> list[tuple[Question, str, str, list[str]]]:
    def judge(question: Question) -> list[tuple[Question, str, str, list[str]]]:
        return [
            (question, text, reason, faults)
            for text, reason in ask(service, question)
            if (faults := list(question.faults(text, reason)))
        ]

    with ThreadPoolExecutor(16) as pool:
        return [fault for faults in pool.map(judge, questions) for fault in faults]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_answer_is_whole_words_of_the_list(service: Service, language: str) -> None:
    names = (*CONTROLS, "changed", "changed", "wanted", "json")
    asked = [
        question_of(language, NUM_WORDS[number % len(NUM_WORDS)], name, number) for number, name in enumerate(names)
    ]
    assert not faults_of(service, [question for question in asked if question is not None])
