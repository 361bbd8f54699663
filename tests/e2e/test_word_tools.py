"""The word tools of the real stack, against the model in transformers."""

import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from deployments.replica.engine.configuration import resolve_dtype
from tests.e2e.service import KEY, Service
from vocab.lists.wordlists import load_word_list
from vocab.options import ListOptions
from vocab.text.changes import ListChanges
from vocab.text.checker import TextChecker

pytestmark = pytest.mark.e2e

TEXT = "The cat sat on the"
NUM_WORDS = 1000
EN = {"lang": "en", "n_words": NUM_WORDS, "case": "listed"}

GOES_ON = re.compile(r"[^\W_]|['’-]")
"""What a token begins with that goes on with a word."""


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=service.url, headers={"X-API-Key": KEY}, timeout=120) as client:
        yield client


def result(http: httpx2.Client, tool: str, **body: Any) -> dict[str, Any]:
    answer = http.post(f"/v1/vocabularies/{tool}", json={"vocab": EN, **body})
    while answer.status_code in (429, 503):
        time.sleep(int(answer.headers["retry-after"]))
        answer = http.post(f"/v1/vocabularies/{tool}", json={"vocab": EN, **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def enumerated(path: Path, text: str, words: tuple[str, ...]) -> dict[str, float]:
    """The probability of each word after a text, one by one, in float32; those of several tokens too."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    ids = tokenizer.encode(text)
    pieces = [tokenizer.decode([token]) for token in range(model.config.vocab_size)]
    ends = torch.tensor([not GOES_ON.match(piece) for piece in pieces])
    found = {}
    spelled = {word: tokenizer.encode(" " + word) for word in words}
    with torch.no_grad():
        for length in sorted({len(tokens) for tokens in spelled.values()}):
            alike = [word for word in words if len(spelled[word]) == length]
            for start in range(0, len(alike), 128):
                part = alike[start : start + 128]
                batch = torch.tensor([ids + spelled[word] for word in part])
                rows = model(batch, logits_to_keep=length + 1).logits.log_softmax(-1)
                for row, word in zip(rows, part, strict=True):
                    log_p = sum(float(row[place, token]) for place, token in enumerate(spelled[word]))
                    found[word] = math.exp(log_p) * float(row[-1].exp()[ends].sum())
    return found


def test_the_next_words_are_those_of_a_full_enumeration(http: httpx2.Client, shallow_path: Path) -> None:
    """Within 1e-3 where the service computes in float32; in bfloat16 as well as that can."""
    words = load_word_list("en", None).words[:NUM_WORDS]
    expected = enumerated(shallow_path, TEXT, words)
    answer = result(http, "next", text=TEXT)
    within = 1e-3 if resolve_dtype("auto") == "float32" else 2e-2
    found = {entry["word"]: entry["probability"] for entry in answer["data"]}
    assert [entry["rank"] for entry in answer["data"]] == list(range(1, 21))
    assert found == pytest.approx({word: expected[word] for word in found}, abs=within)
    least = sorted(expected.values(), reverse=True)[len(found) - 1]
    assert all(expected[word] >= least - within for word in found)
    assert answer["remainder"] == pytest.approx(1 - sum(found.values()), abs=1e-6)
    assert (answer["vocab"]["lang"], answer["usage"]["prompt_tokens"]) == ("en", 5)


def test_blanks_at_the_end_belong_to_the_word_and_a_text_may_be_empty(http: httpx2.Client) -> None:
    padded, bare = (result(http, "next", text=text, top=5)["data"] for text in (TEXT + " ", TEXT))
    assert [entry["word"] for entry in padded] == [entry["word"] for entry in bare]
    # Which rows share a step changes the last bits.
    assert [entry["logprob"] for entry in padded] == pytest.approx([entry["logprob"] for entry in bare], abs=0.01)
    first = result(http, "next", text="", top=5, vocab={"lang": "en", "n_words": 1000})
    assert [entry["word"] for entry in first["data"] if entry["word"][0].isupper()]


def test_other_words_are_listed_and_ranked(http: httpx2.Client) -> None:
    text = "It was late. She ate an enormous apple. Why?"
    start = text.index("enormous")
    answer = result(http, "swap", text=text, start=start, end=start + 8, top=10)
    words = [entry["word"] for entry in answer["data"]]
    listed = {word.lower() for word in load_word_list("en", None).words[:NUM_WORDS]}
    assert len(set(words)) == 10
    assert {word.lower() for word in words} <= listed - {"enormous"}
    scores = [entry["logprob"] for entry in answer["data"]]
    assert scores == sorted(scores, reverse=True)
    assert answer["data"][0]["text"] == f"She ate an {words[0]} apple."


def test_a_rewritten_text_has_only_listed_words_and_the_names_it_had(http: httpx2.Client) -> None:
    text = "We have to go home now.\n\nThen Alice purchased it."
    body = {"vocab": EN, "text": text, "seed": 1, "stream": True}
    with http.stream("POST", "/v1/vocabularies/rewrite", json=body) as answer:
        events = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert events[-1] == "[DONE]", events
    *parts, whole = map(json.loads, events[:-1])
    assert "".join(part["text"] for part in parts) == whole["text"]
    assert parts[0]["text"] == "We have to go home now."
    assert parts[1]["text"].startswith("\n\n")
    assert (whole["names"], whole["coverage"]["after"]) == (["Alice"], 1)
    changes = ListChanges(("Alice",))
    checker = TextChecker(load_word_list("en", None).up_to(NUM_WORDS), ListOptions(), NUM_WORDS, changes)
    assert not checker.check(whole["text"]).not_allowed
    assert all(text[change["start"] : change["end"]] == change["from"] for change in whole["changes"])


UNSPACED = (
    ("zh", "今天天气很好，孩子们去学校学习中文。老师给他们讲了一个有意思的故事。"),
    ("ja", "今日は天気がいいです。子供たちは学校で日本語を勉強しています。"),
    ("th", "เด็กเรียนภาษาอังกฤษที่โรงเรียน\nแมวตัวเล็กวิ่งเร็วมาก"),
)


@pytest.mark.parametrize(("lang", "text"), UNSPACED)
def test_words_of_a_text_without_spaces_are_found_swapped_and_asked_for(
    http: httpx2.Client, lang: str, text: str
) -> None:
    vocab = {"lang": lang, "n_words": 3000}
    checker = TextChecker(load_word_list(lang, None), ListOptions(numbers=True), 3000)
    words = checker.check(text).words
    following = result(http, "next", text=text[: words[1].start], top=5, vocab=vocab)
    assert following["remainder"] >= 0
    assert all(not checker.check(one["word"]).not_allowed for one in following["data"])
    word = words[1]
    swapped = result(http, "swap", text=text, start=word.start, end=word.end, top=5, vocab=vocab)
    assert swapped["word"] == text[word.start : word.end]
    for one in swapped["data"]:
        spellings = [one["text"][each.start : each.end] for each in checker.check(one["text"]).words]
        assert one["word"] in spellings
    kinds = ["gap_fill", "true_false", "order", "dictation"]
    made = result(http, "exercises", text=text, kinds=kinds, num_items=1, seed=1, vocab=vocab)
    assert {one["kind"] for one in made["exercises"]} >= {"gap_fill", "true_false", "dictation"}
    [gap] = next(one["items"] for one in made["exercises"] if one["kind"] == "gap_fill")
    assert gap["before"] + gap["options"][gap["answer"]] + gap["after"] in text
    rewritten = result(http, "rewrite", text=text, seed=1, vocab={"lang": lang, "n_words": 1500})
    assert rewritten["coverage"]["after"] == 1
    # Thai has blanks between phrases.
    assert lang == "th" or " " not in rewritten["text"]
