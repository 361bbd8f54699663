"""The routes about word lists, in the process of the real application that has the lists."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.service import KEY, LISTS, Service

pytestmark = pytest.mark.e2e

CHECK = "/v1/vocabularies/check"
EN = {"lang": "en", "n_words": 1000}
TEXT = "The cat’s elephant 😀 saw teh xyzzy; 42 of <them>."


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, headers={"X-API-Key": KEY}, timeout=60) as client:
        yield client


def test_a_report_has_the_bytes_of_the_command_line(http: httpx.Client) -> None:
    for form in ("json", "csv", "html"):
        command = [sys.executable, "-m", "wordbound", "check", "-", "--lang", "en", "--words", "1000", f"--{form}"]
        done = subprocess.run(command, input=TEXT.encode(), capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (1, b"")
        assert http.post(CHECK, json={"text": TEXT, "vocab": EN, "format": form}).content == done.stdout


def test_every_word_that_the_service_writes_passes(http: httpx.Client) -> None:
    chat = {"messages": [{"role": "user", "content": "Tell me about a garden"}], "max_tokens": 40}
    for vocab in (EN, {"lang": "es", "level": "top-500"}):
        answer = http.post("/v1/chat/completions", json={**chat, "vocab": vocab}).json()
        text = answer["choices"][0]["message"]["content"]
        report = http.post(CHECK, json={"text": text, "vocab": vocab}).json()
        assert report["num_words"] > 0
        assert (report["not_allowed"], report["coverage"]) == ([], 1.0)


def test_lists_and_their_words_are_told(http: httpx.Client) -> None:
    listed: dict[str, Any] = {one["id"]: one for one in http.get("/v1/vocabularies").json()["data"]}
    name = next(iter(LISTS))
    assert listed[name]["kind"] == "file"
    words = http.get(f"/v1/vocabularies/{name}/words", params={"limit": 1}).json()
    assert words["data"][0]["rank"] == 1
    missing = http.get("/v1/vocabularies/nothing/words")
    assert (missing.status_code, missing.json()["error"]["param"]) == (404, "list_id")


def test_a_level_without_its_file_says_which_to_bring(http: httpx.Client) -> None:
    chat = {"messages": [{"role": "user", "content": "Tell me about a garden"}], "vocab": {"level": "A2"}}
    answer = http.post("/v1/chat/completions", json=chat)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "vocab.level"
    assert "en_cefr-j.csv" in answer.json()["error"]["message"]
