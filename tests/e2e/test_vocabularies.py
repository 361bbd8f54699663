"""The routes about word lists, in the process of the real application that has the lists."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx2
import pytest

from tests.e2e.service import KEY, LISTS, Service

pytestmark = pytest.mark.e2e

CHECK = "/v1/vocabularies/check"
EN = {"lang": "en", "n_words": 1000}
OF_LISTS = ("numbers", "extra_words", "exclude_words", "unit", "punctuation", "layout", "case")
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"vocab": {"new_words": {"n_words": 3000, "per_100": 5}}},
    {"vocab": {"new_words": {"n_words": 2000, "max": 1}}, "best_of": 2},
    {"vocab": {"must_use": [{"word": "Anna"}, {"word": "Zoltan", "count": 2}]}},
    {"vocab": {"must_use": [{"word": "Anna"}]}, "num_beams": 2},
    {"vocab": {"max_sentence_words": 5, "min_sentences": 2, "max_sentences": 4}},
    {"vocab": {"search": {"width": 2}, "must_use": [{"word": "Anna"}]}},
    {"vocab": {"extra_words": ["Zoltan"], "numbers": True, "layout": "lines"}},
    {"vocab": {"unit": "lemma", "punctuation": "basic"}},
    {"n": 2, "temperature": 1.5},
    {"vocab": {"rescue": True}},
    {"vocab": {"prompt_words": True, "must_use": [{"word": "Anna"}]}},
)
"""Members that say how a text is written."""

TEXT = "The cat’s elephant 😀 saw teh xyzzy; 42 of <them>."


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=service.url, headers={"X-API-Key": KEY}, timeout=60) as client:
        yield client


def test_a_report_has_the_bytes_of_the_command_line(http: httpx2.Client) -> None:
    for form in ("json", "csv", "html"):
        command = [sys.executable, "-m", "wordbound", "check", "-", "--lang", "en", "--words", "1000", f"--{form}"]
        done = subprocess.run(command, input=TEXT.encode(), capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (1, b"")
        assert http.post(CHECK, json={"text": TEXT, "vocab": EN, "format": form}).content == done.stdout


@pytest.mark.parametrize("lang", ["en", "es", pytest.param("de", marks=pytest.mark.stress), "tr"])
def test_every_word_that_the_service_writes_passes_or_is_a_declared_one(http: httpx2.Client, lang: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(partial(_write_and_check, http, lang), range(len(KINDS))))


def _write_and_check(http: httpx2.Client, lang: str, number: int) -> None:
    fields = dict(KINDS[number])
    controls = fields.pop("vocab", {})
    messages = [{"role": "user", "content": "Tell me about a garden"}]
    chat = {"messages": messages, "max_tokens": 40, "seed": number, "vocab": {"lang": lang, "n_words": 500, **controls}}
    answer = http.post("/v1/chat/completions", json={**chat, **fields})
    assert answer.status_code == 200, answer.text
    result = answer.json()["vocab"]
    new_words = [word["word"] for word in result.get("new_words", ())]
    vocab = {"lang": lang, "n_words": 500, **{name: controls[name] for name in OF_LISTS if name in controls}}
    if controls.get("prompt_words"):
        vocab["prompt_words"] = messages[0]["content"]
        assert lang != "en" or [word["word"] for word in result["prompt_words"]] == ["garden"]
    # Those that have to occur need not be listed.
    vocab["extra_words"] = [*vocab.get("extra_words", ()), *(word["word"] for word in result.get("must_use", ()))]
    for choice in answer.json()["choices"]:
        checked = {"text": choice["message"]["content"], "vocab": vocab, "new_words": new_words}
        report = _check(http, checked)
        assert report["num_words"] > 0
        assert (report["not_allowed"], report["coverage"]) == ([], 1.0)
        assert len(answer.json()["choices"]) > 1 or report["has_exactly_the_new_words"]


def _check(http: httpx2.Client, body: dict[str, Any]) -> Any:
    """Check a text, and again where the first reading of a list makes too many checks wait."""
    for _ in range(30):
        answer = http.post(CHECK, json=body)
        if answer.status_code != 503:
            break
        time.sleep(float(answer.headers["retry-after"]))
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_headwords_of_a_file_give_their_forms_for_writing_and_checking(http: httpx2.Client) -> None:
    table = b"1. go\n2. dog\n3. be (am/is/are)\n4. the\n5. to\n6. and\n7. a\n8. small\n"
    read = http.post("/v1/vocabularies/read", params={"name": "heads.txt", "lang": "en"}, content=table).json()
    vocab = {"words": [entry["word"] for entry in read["entries"]], "lang": "en", "unit": "lemma"}
    report = _check(http, {"text": "Went dogs were.", "vocab": vocab})
    assert (report["not_allowed"], report["num_words"]) == ([], 3)
    assert _check(http, {"text": "Went dogs were.", "vocab": {**vocab, "unit": "form"}})["coverage"] == 0
    messages = [{"role": "user", "content": "Tell me about dogs"}]
    answer = http.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 30, "vocab": vocab}).json()
    block = answer["vocab"]
    assert (block["n_words"], block["unit"], block["num_forms"] > 20) == (8, "lemma", True)
    text = answer["choices"][0]["message"]["content"]
    assert _check(http, {"text": text, "vocab": vocab})["coverage"] == 1


def test_lists_and_their_words_are_told(http: httpx2.Client) -> None:
    listed: dict[str, Any] = {one["id"]: one for one in http.get("/v1/vocabularies").json()["data"]}
    name = next(iter(LISTS))
    assert listed[name]["kind"] == "file"
    words = http.get(f"/v1/vocabularies/{name}/words", params={"limit": 1}).json()
    assert words["data"][0]["rank"] == 1
    missing = http.get("/v1/vocabularies/nothing/words")
    assert (missing.status_code, missing.json()["error"]["param"]) == (404, "list_id")


def test_a_level_without_its_file_says_which_to_bring(http: httpx2.Client) -> None:
    chat = {"messages": [{"role": "user", "content": "Tell me about a garden"}], "vocab": {"level": "A2"}}
    answer = http.post("/v1/chat/completions", json=chat)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "vocab.level"
    assert "en_cefr-j.csv" in answer.json()["error"]["message"]
